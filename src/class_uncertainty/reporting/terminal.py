"""Tables and progress bars for a terminal."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.reporting.comparison import EstimatorRow
from class_uncertainty.reporting.tables import ClassRow, MethodRow, judged, spearman
from class_uncertainty.text import printable, shown

FEW_RANKS = 10  # classes under which a rank correlation says little
PIPE_WIDTH = 160  # of a table that goes to a file or another program


def console() -> Console:
    """stdout; wide where it is no terminal, so that nothing is cut off in a file."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, soft_wrap=False, highlight=False)


def say(*lines: str) -> None:
    """Lines for people, on stdout: what a file's or a class's name has of control characters is shown as their escapes."""
    console().print("\n".join(map(printable, lines)), markup=False)


@contextmanager
def progress_bars(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing that is told of: what, how much is done, how much there is."""
    with _progress(unit) as progress:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(printable(what), total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield tell


def _progress(unit: str) -> Progress:
    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TextColumn("" if unit == "bytes" else unit))
    quiet = not sys.stderr.isatty()
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=quiet, transient=True)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """The first `left` columns to the left, the rest to the right as numbers are."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(shown(column), justify="left" if i < left else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(shown(printable(cell))) for cell in row))  # Text: a class may be called [red]
    return table


def fitting(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], drops: Sequence[Sequence[str]]) -> tuple[Table, list[str]]:
    """The table without as many of the groups of columns `drops` as `out` has no room for, and the columns that are left out."""
    for count in range(len(drops) + 1):
        gone = [column for group in drops[:count] for column in group]
        kept = [i for i, column in enumerate(columns) if column not in gone]
        table = plain_table([columns[i] for i in kept], [[row[i] for i in kept] for row in rows])
        if out.measure(table, options=out.options.update(width=1000)).maximum <= out.width:
            break
    return table, gone


def print_fitting(columns: Sequence[str], rows: Sequence[Sequence[str]], drop: Sequence[str]) -> None:
    """The table that fits, and a line that names the columns it is without."""
    out = console()
    table, gone = fitting(out, columns, rows, [[column] for column in drop])
    out.print(table)
    if gone:
        say(no_room(gone))


def no_room(gone: Sequence[str]) -> str:
    return f"No room for {', '.join(gone)}: widen the terminal, or use --json."


def print_classes(rows: Sequence[ClassRow], judged: str = "naive ") -> None:
    error = f"{judged}error %"
    columns = ("class", "examples", "μ^C", "effective", "μ^U", "epistemic share", "rank C", "rank eff.", "rank U", error)
    lines = [
        (
            row.name,
            str(row.count),
            f"{row.cardinality:.4f}",
            f"{row.effective:.4f}",
            f"{row.uncertainty:.4f}",
            "–" if row.epistemic_share is None else f"{row.epistemic_share:.0%}",
            f"{row.rank_cardinality:g}",
            f"{row.rank_effective:g}",
            f"{row.rank_uncertainty:g}",
            _number(row.error, 1),
        )
        for row in rows
    ]
    print_fitting(columns, lines, drop=("rank eff.", "effective", "epistemic share", "rank C", "μ^C", error, "rank U"))


def disagreements(rows: Sequence[ClassRow], most: int = 5) -> list[str]:
    """In words, the classes that cardinality and uncertainty rank most differently."""
    if len({row.count for row in rows}) == 1:  # counts say nothing to disagree with
        return []
    apart = sorted((row for row in rows if row.disagreement), key=lambda row: -abs(row.disagreement))[:most]
    return [
        f"{row.name}: {'harder' if row.disagreement > 0 else 'easier'} than its {row.count} examples say "
        f"(rank {row.rank_cardinality:g} by cardinality, {row.rank_uncertainty:g} by uncertainty)"
        for row in apart
    ]


def correlations(rows: Sequence[ClassRow], judged: str = "naive ") -> str:
    """Spearman's rho of each measure with the class errors, in words."""
    found = {measure: spearman(rows, measure) for measure in ("cardinality", "effective", "uncertainty")}
    known = ", ".join(f"{measure} {rho:.2f}" for measure, rho in found.items() if rho is not None)
    few = f" ({len(rows)} classes are few for it)" if len(rows) < FEW_RANKS else ""
    return f"Spearman's ρ with the {judged}class errors: {known}{few}" if known else ""


def print_estimators(rows: Sequence[EstimatorRow]) -> None:
    columns = ("estimator", "score", "lr", "cost", "ρ ensemble", "ens. beyond N", "ρ error", "err. beyond N")
    lines = [
        (
            row.estimator,
            row.score,
            "–" if row.lr is None else f"{row.lr:g}",
            f"{row.cost:g}",
            *(_number(value, 3) for value in (row.ensemble, row.ensemble_beyond, row.error, row.error_beyond)),
        )
        for row in rows
    ]
    print_fitting(columns, lines, drop=("ens. beyond N", "lr", "score", "ρ ensemble", "err. beyond N", "cost"))


def print_methods(rows: Sequence[MethodRow]) -> None:
    columns = ("method", "lr", "runs", "error %", "gain", "top-1", "many", "medium", "few", "worst 10th", "NLL", "ECE", "cost", "ASO")
    lines = []
    for row in rows:
        spread = "" if row.error_sd is None else f" ± {row.error_sd:.2f}"
        gone = f" ({row.diverged} diverged)" if row.diverged else ""
        order = "" if row.aso is None else f"{row.aso:.2f} vs {row.counterpart}"
        numbers = (row.top1, row.many, row.medium, row.few, row.worst)
        lines.append(
            (
                row.method,
                f"{row.lr:g}",
                f"{row.runs}{gone}",
                _number(row.error, 2) + spread,
                "" if row.gain is None else f"{row.gain:+.2f}",
                *(_number(value, 1) for value in numbers),
                _number(row.nll, 3),
                _number(row.ece, 1),
                f"{row.cost:.3g}",
                order,
            )
        )
    print_fitting(columns, lines, drop=("NLL", "ECE", "medium", "many", "top-1", "worst 10th", "few", "lr", "runs", "ASO", "gain", "cost"))


def footnotes(rows: Sequence[MethodRow], folds: int) -> list[str]:
    spread = ", ± standard deviation over the seeds" if any(row.error_sd is not None for row in rows) else ""
    gain = "; gain: naive's error less the method's, at the same learning rate" if any(row.gain is not None for row in rows) else ""
    notes = [
        f"Error: mean of the class errors in percent{spread}{gain}.",
        "Cost: of one network that is used, in naive trainings, with all that were trained to measure, to choose or to teach.",
        f"Many, medium, few: classes with over {MANY}, {FEW} to {MANY} and under {FEW} training examples; worst 10th: of the classes.",
    ]
    if folds:
        notes.append(judged(folds))
    if any(row.aso is not None for row in rows):
        notes.append("ASO: ε_min against the method with cardinality in uncertainty's place; under 0.5 the uncertainty is better.")
    warnings = {row.aso_warning for row in rows if row.aso_warning}
    return notes + [f"ASO: {warning}." for warning in sorted(warnings)]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def print_json(document: Any) -> None:
    """One JSON document; numbers that JSON has no word for become null, and what no terminal should see is escaped."""
    text = json.dumps(_finite(document), indent=2, ensure_ascii=False)
    print(re.sub(r"[^\n -~]", lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and value - value != 0 else value
