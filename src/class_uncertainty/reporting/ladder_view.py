"""The ladder and the rungs of a fix as rows of text, for a terminal and for the page."""

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from class_uncertainty.posthoc.fix_report import FixReport, Rung, RungRow
from class_uncertainty.posthoc.goal import value_digits
from class_uncertainty.text import amount, decimal

MISSING = "–"
NARROW, WIDE = 12, 24  # characters of a heading's line: as few as make two lines of it, and the most
STEP, HOW, WORST, ECE = "step", "how it trains", "worst\n10th %", "ECE %"
GAIN, TRAININGS, TIME, PARAMETERS, PASSES = "unseen gain vs\nbest single", "trainings", "time", "parameters", "passes"
DROPPED_FIRST = (HOW, PARAMETERS, PASSES, TIME, ECE, WORST, GAIN, TRAININGS)  # on a narrow terminal
RULE = (
    "The lowest value wins, unless a cheaper candidate is within a standard error of it. "
    "Of equals the simpler wins: the earlier in 'cu list candidates'."
)
TAU = "(τ; 0 leaves them, 1 is full)"
NOTES: dict[tuple[str, ...], str] = {  # on columns
    (STEP,): "Adjusted: with a fitted τ; in verdicts, 'adjusting for the counts alone' is with τ = 1.",
    (GAIN,): "Unseen gain: how much better the candidate of a step is than the best single one, ± a paired standard "
    "error, on training examples that neither was trained on. The error beside it is of other networks and examples, "
    "so the two may disagree.",
    (TRAININGS,): "Trainings: all that led to the step, in units of one naive training. Steps of one network leave out "
    "the trial of an ensemble and a student. Naive networks leave out the search, unless it chose them.",
    (TIME,): "Time: of these trainings, added up, so longer than it took where several trained at once.",
    (PASSES,): "Passes: networks that run for each prediction.",
}


class Search(Protocol):
    """Rungs, and what they judge by: a FixReport, or what is known before there is one."""

    @property
    def aim(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def rungs(self) -> tuple[Rung, ...]: ...


@dataclass(frozen=True)
class Cell:
    """A cell of a table, and the number or word that the page sorts it by; None for a missing value."""

    text: str
    order: float | str | None = None


@dataclass(frozen=True)
class CellTable:
    """Headings, which may have several lines, and rows of as many cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def texts(self) -> list[list[str]]:
        return [[cell.text for cell in row] for row in self.rows]


def ladder_table(report: FixReport) -> CellTable:
    """One row a step, from naive to student; values are means over the seeds.

    Two classes have no worst tenth, and where naive training is kept in place of the best single network, no step is
    compared with that.
    """
    numbers = (WORST, ECE, GAIN, TRAININGS, TIME, PARAMETERS, PASSES)
    columns = (STEP, HOW, aim_heading(report), *numbers)
    empty = {WORST: len(report.classes) <= 2, GAIN: all(step.gain is None for step in report.ladder)}
    shown = [i for i, column in enumerate(columns) if not empty.get(column)]
    rows = [_step_row(report, place) for place in range(len(report.ladder))]
    return CellTable(tuple(columns[i] for i in shown), tuple(tuple(row[i] for i in shown) for row in rows))


def ladder_notes(report: FixReport, dropped: Collection[str] = ()) -> str:
    """On the columns of the ladder without those that were dropped."""
    shown = {*ladder_table(report).columns} - {*dropped}
    return " ".join(note for columns, note in NOTES.items() if shown & {*columns})


def rung_table(report: Search, rung: Rung) -> CellTable:
    """One row a candidate, in the order of the list."""
    columns = ("candidate", f"{aim_heading(report)}, unseen", "behind the preferred", TRAININGS, "outcome")
    return CellTable(columns, tuple(_rung_row(report, row) for row in rung.rows))


def rung_caption(report: Search, rung: Rung) -> str:
    """'All 8 candidates, 1 fold (2,522 examples)'."""
    number, first = len(rung.rows), rung is report.rungs[0]
    if number == 1:
        who = "The only candidate" if first else "The best of them"
    else:
        who = f"All {number} candidates" if first else f"The best {number} of them"
    return f"{who}, {_count(rung.folds, 'fold')} ({_count(rung.examples, 'example')})"


def judged_sentence(report: FixReport) -> str:
    """How many candidates there were, and where to see how they did; "" where none was judged."""
    if not report.rungs:
        return ""
    rows = report.rungs[0].rows
    failed = [
        f"{row.candidate} ({row.reason.removesuffix('.')})" for rung in report.rungs for row in rung.rows if row.reason
    ]
    unable = f" {_count(len(failed), 'candidate')} could not be trained: {', '.join(failed)}." if failed else ""
    rungs = _count(len(report.rungs), "rung")
    return f"Candidates judged: {len(rows)}, on {rungs}. The report and --json show how each did.{unable}"


def trained_by(report: FixReport) -> str:
    """'Candidates of the steps: naive?rate=4 (naive, adjusted); cb-rs (best single).'"""
    steps: dict[str, list[str]] = {}
    for step in report.ladder:
        steps.setdefault(step.candidate, []).append(step.name)
    by_candidate = (f"{candidate} ({', '.join(names)})" for candidate, names in steps.items())
    return f"{'Candidate' if len(steps) == 1 else 'Candidates'} of the steps: {'; '.join(by_candidate)}."


def kept_sentence(report: FixReport) -> str:
    """What was kept, and how it came to be."""
    step = report.kept_step
    strength = f"with the strength {report.tau:g} {TAU}"
    settings = f"adjusted for the counts {strength}" if report.tau else "not adjusted for the counts"
    temperature = f"{report.temperature:.2f}"
    divided = f"logits are divided by the temperature {temperature}"
    if temperature == "1.00":
        divided = "confidence is left as it is"
    if step and step.name == "student":
        kept = f"one network, trained by {step.candidate} and taught by an ensemble of {report.method}"
        return f"Kept: {kept}. The ensemble is {settings}; the student's {divided}."
    if step and step.networks > 1 and step.candidate != report.method:
        models = f"{step.networks} models, {step.candidate}"
        strengths = f": {', '.join(f'{tau:g}' for tau in report.taus)}, in this order" if report.taus else ""
        adjusted = f"They are adjusted for the counts, each with its own strength{strengths} {TAU}"
        return f"Kept: the mean of {models}. {adjusted}."
    if step and step.networks > 1:
        return f"Kept: {step.networks} networks, trained by {report.method}. Their mean is {settings}; its {divided}."
    noun = "model" if "recipe=" in report.method else "network"  # of tables, which trees are for too
    return f"Kept: one {noun}, trained by {report.method}. It is {settings}; its {divided}."


def aim_values(report: FixReport) -> tuple[Sequence[float], Sequence[float]]:
    """What the goal measures before and after, one value a seed."""
    before = next((one.values for one in report.ladder if one.name == "naive"), ())
    after = kept.values if (kept := report.kept_step) else ()
    return (before, after) if before and after else (report.before.errors, report.after.errors)


def aim_heading(report: Search) -> str:
    """The goal's value and unit as the heading of a column, of two lines or more."""
    heading = with_unit(report, report.aim)
    for width in range(NARROW, WIDE + 1):
        lines = textwrap.wrap(heading, width)
        if len(lines) <= 2:
            break
    return "\n".join(lines)


def aim_digits(report: Search) -> int:
    """Decimals of the goal's values."""
    return value_digits(report.unit)


def aim_label(report: FixReport) -> str:
    """The goal's value and unit on one line: 'class-mean error, %'."""
    return f"{report.aim}, {report.unit}" if report.unit else report.aim


def with_unit(report: Search, text: str) -> str:
    return f"{text} {report.unit}" if report.unit else text


def mean_text(values: Sequence[float], digits: int = 2) -> str:
    """'8.13 ± 2.28', with the sample standard deviation; '8.13' for one value, a dash for none."""
    if not values:
        return MISSING
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def duration(seconds: float) -> str:
    """'0.4 s', '38 s', '4.2 min' or '1.3 h'."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"


def _step_row(report: FixReport, place: int) -> tuple[Cell, ...]:
    step, digits = report.ladder[place], aim_digits(report)
    judged = step.judged
    return (
        Cell(f"{step.name} (kept)" if step.kept else step.name, place),
        Cell(step.candidate, step.candidate),
        Cell(mean_text(step.values, digits), float(np.mean(step.values)) if step.values else None),
        _number_cell(float(np.mean(judged.worst)) if judged else None, digits=1),
        _number_cell(judged.ece if judged else None, digits=1),
        _number_cell(step.gain, step.gain_error, digits, sign="+"),
        Cell(f"{step.trainings:.3g}", step.trainings),
        Cell(duration(step.seconds), step.seconds),
        Cell(amount(step.parameters), step.parameters),
        Cell(str(step.networks), step.networks),
    )


def _rung_row(report: Search, row: RungRow) -> tuple[Cell, ...]:
    digits = aim_digits(report)
    is_preferred = row.behind == 0 and row.behind_error == 0
    behind = Cell(MISSING, 0.0) if is_preferred else _number_cell(row.behind, row.behind_error, digits)
    outcome = "kept" if row.kept else f"dropped: {row.reason.removesuffix('.')}" if row.reason else "dropped"
    return (
        Cell(row.candidate, row.candidate),
        _number_cell(row.value, row.standard_error, digits),
        behind,
        Cell(f"{row.trainings:.3g}", row.trainings),
        Cell(outcome, outcome),
    )


def _number_cell(value: float | None, error: float | None = None, digits: int = 2, sign: str = "") -> Cell:
    """A number with its standard error, where it has one."""
    if value is None:
        return Cell(MISSING)
    spread = f" ± {error:.{digits}f}" if error is not None else ""
    return Cell(f"{decimal(value, digits, sign)}{spread}", value)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
