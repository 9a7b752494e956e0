"""What the terminal and the page show of a fix, computed once from its report."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from class_uncertainty.data import Dataset
from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.posthoc.diagnosis import KINDS, UNJUDGED, spoken
from class_uncertainty.posthoc.error_changes import HANDFUL, ErrorChange, Price, change_of_mean
from class_uncertainty.posthoc.evaluation import FIGURES
from class_uncertainty.posthoc.fix_report import ENSEMBLE, NAIVE, STUDENT, FixReport, Step
from class_uncertainty.posthoc.goal import value_digits
from class_uncertainty.reporting import label_issue_view, ladder_view
from class_uncertainty.reporting.section import describe_data
from class_uncertainty.reporting.terminal import (
    MISSING,
    Verbosity,
    cells_in_order,
    figure,
    labelled_lines,
    span,
    table_lines,
    table_rows,
)
from class_uncertainty.text import amount, amount_of, decimal
from class_uncertainty.training.candidate import Candidate

if TYPE_CHECKING:
    from class_uncertainty.workflows.fix import Fix

MOST_ROWS = 8  # classes that are listed
MANY_CLASSES = 20  # from so many on, classes are also grouped by their counts, and the worst tenth is named
PRECISE = 100  # test examples of each listed class, from which errors have a decimal
LEARNT = 0.15  # of the way from guessing to no error: who has come less far has learnt little
HEADING = "Before: naive training. After: what is kept."
WHY = "why worse"
WORDS = ("", WHY)  # columns of the verdict, and of its reason
GOAL_ROWS = {"cost": "mean cost", "overall": "at training prior", "prior": "at given prior"}


@dataclass(frozen=True)
class ClassChange:
    """What is measured of a class, or of several together, before and after: its error in percent, or a mean cost."""

    name: str
    train: int | None  # training examples; None of several classes
    examples: int  # test examples
    before: float
    after: float
    interval: ErrorChange | None  # of the change, at 95 %, with the correction of the verdict; None where there is none
    is_clear: bool
    why: str = ""  # why it was worse than the others before, from out-of-fold predictions
    unit: str = " %"

    @property
    def change(self) -> float:
        """Below 0 where the error falls. Rounding hides differences from summing in another order."""
        return round(self.after - self.before, 9) + 0.0

    @property
    def is_judged(self) -> bool:
        """Whether there are test examples enough to call a change clear or noise."""
        return self.examples >= HANDFUL

    @property
    def verdict(self) -> str:
        """'clear' or 'noise'; '' where that cannot be told."""
        if self.interval is None or not self.is_judged:
            return ""
        return "clear" if self.is_clear else "noise"

    @property
    def clearly_rises(self) -> bool:
        return self.is_clear and self.change > 0

    @property
    def clearly_falls(self) -> bool:
        return self.is_clear and self.change < 0


@dataclass(frozen=True)
class FixView:
    """What the terminal and the page say of a fix."""

    report: FixReport  # ladder, rungs and label issues are shown folded, or with --verbose
    data: str  # 'photos: 2,022 training and 505 test images, 6 classes of 110 to 475'
    judged_on: str  # '505 test images' or '5 folds'
    shown: Sequence[ClassChange]  # clear losses, clear gains, and the worst class before
    others: Sequence[ClassChange]
    not_judged: Sequence[ClassChange]  # with fewer than HANDFUL test examples
    totals: Sequence[ClassChange]  # 'class mean', 'overall', and what else the goal measures
    sizes: Sequence[ClassChange]  # classes with many, medium and few training examples, where there are many classes
    kept: str  # what was kept, and on which evidence
    spent: str  # '19 trainings, 9.6 s'
    cost: str  # what clearly gets worse, and which goal avoids that; "" where nothing does
    warnings: Sequence[str]  # what makes the gain doubtful

    @property
    def keeps_naive(self) -> bool:
        """Whether what is kept decides as naive training does, so that no class changes."""
        return self.report.step == NAIVE or self.report.keeps_naive

    @property
    def classes(self) -> list[ClassChange]:
        """All of them, those that cannot be judged last."""
        return [*self.shown, *self.others, *self.not_judged]


def view_fix(report: FixReport, dataset: Dataset | None = None) -> FixView:
    """Read a report; of one that was stored, the data set may be gone."""
    rows = class_changes(report)
    judged = [row for row in rows if row.is_judged]
    worst = sorted(judged, key=lambda row: -row.before)
    losses = sorted((row for row in judged if row.clearly_rises), key=lambda row: -row.change)
    gains = sorted((row for row in judged if row.clearly_falls), key=lambda row: row.change)
    shown = list(dict.fromkeys([*losses[: MOST_ROWS - 1], *gains]))[: MOST_ROWS - 1]
    shown = list(dict.fromkeys([*shown, *worst[:1]]))
    examples = sum(row.examples for row in rows)
    if dataset is None:
        data = f"{report.data}: {sum(report.counts):,} training examples, {len(rows):,} classes"
    else:
        data = describe_data(dataset)
    return FixView(
        report=report,
        data=data,
        judged_on=f"{report.folds} folds" if report.folds else f"{examples:,} test examples",
        shown=shown,
        others=[row for row in worst if row not in shown],
        not_judged=[row for row in rows if not row.is_judged],
        totals=total_changes(report),
        sizes=size_changes(report),
        kept=why_kept(report),
        spent=spent(report),
        cost=clear_cost(report),
        warnings=_warnings(report),
    )


def class_changes(report: FixReport) -> list[ClassChange]:
    """The classes in the order of the data."""
    reasons = class_reasons(report)
    prices = report.price
    rows = []
    for c, name in enumerate(report.classes):
        row = ClassChange(
            name=name,
            train=report.counts[c],
            examples=prices.examples[c],
            before=float(report.before.means[c]),
            after=float(report.after.means[c]),
            interval=prices.together[c],
            is_clear=bool(prices.is_clear[c]),
            why=reasons.get(name, ""),
        )
        rows.append(row)
    return rows


def class_reasons(report: FixReport) -> dict[str, str]:
    """Why classes were worse than the others before, in a word or two."""
    reasons = {}
    for verdict in report.findings:
        if verdict.kind and verdict.kind not in UNJUDGED:
            reasons[verdict.label] = KINDS[verdict.kind]
    return reasons


def total_changes(report: FixReport) -> list[ClassChange]:
    """The class mean, the overall error, and what else the goal measures."""
    prices = report.price
    examples = sum(prices.examples)
    before, after = report.before, report.after

    def total(name: str, sides: tuple[Sequence[float], Sequence[float]], interval: ErrorChange | None) -> ClassChange:
        is_clear = interval is not None and interval.is_clear
        unit = " %" if name != "mean cost" else ""
        return ClassChange(name, None, examples, fmean(sides[0]), fmean(sides[1]), interval, is_clear, unit=unit)

    overall = total("overall", (before.overall, after.overall), prices.overall)
    rows = [total("class mean", (before.errors, after.errors), prices.mean), overall]
    if len(report.classes) >= MANY_CLASSES:
        rows.append(total("worst tenth", (before.worst, after.worst), None))
    kind = report.goal.partition(":")[0]
    if kind in GOAL_ROWS:
        by_goal = total(GOAL_ROWS[kind], ladder_view.aim_values(report), report.change)
        if kind == "overall" and np.allclose([by_goal.before, by_goal.after], [overall.before, overall.after]):
            rows = [overall, *(row for row in rows if row is not overall)]
        else:
            rows.insert(0, by_goal)
    return rows


def size_changes(report: FixReport) -> list[ClassChange]:
    """Classes with many, medium and few training examples, where there are MANY_CLASSES; class means."""
    prices = report.price
    if len(report.classes) < MANY_CLASSES:
        return []
    counts = np.array(report.counts)
    is_judged = np.array(prices.examples) > 0
    groups = {
        f"many (over {MANY})": counts > MANY,
        f"medium ({FEW} to {MANY})": (counts >= FEW) & (counts <= MANY),
        f"few (under {FEW})": counts < FEW,
    }
    rows = []
    for name, is_member in groups.items():
        members = np.flatnonzero(is_member & is_judged)
        if sum(prices.examples[c] for c in members) >= HANDFUL:
            rows.append(_group_change(name, members, report, prices))
    return rows if len(rows) > 1 else []


def _group_change(name: str, members: np.ndarray, report: FixReport, prices: Price) -> ClassChange:
    weights = np.zeros(len(report.classes))
    weights[members] = 1 / len(members)
    interval = None if prices.has_groups else change_of_mean(prices.classes, weights)  # classes may share groups
    examples = sum(prices.examples[c] for c in members)
    before, after = float(report.before.means[members].mean()), float(report.after.means[members].mean())
    is_clear = interval is not None and interval.is_clear
    return ClassChange(name, None, examples, before, after, interval, is_clear)


def why_kept(report: FixReport) -> str:
    """What was kept, and the out-of-fold evidence for that."""
    kept = report.kept_step
    naive = report.ladder[0]
    if kept.name == NAIVE:
        return report.why.rstrip(".")
    if report.keeps_naive:
        return f"one {_noun(kept)} trained by {kept.candidate}: adjusting for the counts changes none of its decisions"
    if kept.name == ENSEMBLE and report.taus and kept.candidate != report.method:
        models = f"the mean of {kept.networks} models, {kept.candidate}"
        best = ""
        if naive.gain is not None:
            best = f", and the best is {_compared(-naive.gain, naive.gain_error, report)} naive training"
        return f"{models}: out-of-fold none of them is clearly better{best}"
    if kept.name == ENSEMBLE:
        size = f"{kept.networks} networks trained by {kept.candidate}, averaged ({amount(kept.parameters)} parameters, "
        size += f"{kept.networks} passes a prediction)"
        return f"{size}: out-of-fold it is {_compared(kept.gain, kept.gain_error, report)} one network"
    if kept.name == STUDENT:
        taught = f"one network trained by {kept.candidate}, taught by an ensemble of {report.method}"
        return f"{taught}: out-of-fold it is {_compared(kept.gain, kept.gain_error, report)} one network"
    one = f"one {_noun(kept)} trained by {kept.candidate}"
    if report.tau:
        one += ", adjusted for the counts"
    if naive.gain is None:
        return one
    return f"{one}: out-of-fold it is {_compared(-naive.gain, naive.gain_error, report)} naive training"


def _noun(step: Step) -> str:
    return "model" if Candidate(step.candidate).kind else "network"


def spent(report: FixReport) -> str:
    """'19 trainings, 9.6 s': all that led to what was kept; the time is a sum over trainings."""
    return f"{report.cost:.3g} trainings, {ladder_view.duration(report.kept_step.seconds)}"


def _compared(gain: float | None, error: float | None, report: FixReport) -> str:
    """'2.9 ± 0.8 points better than'."""
    assert gain is not None
    assert error is not None
    digits = 1 if report.unit else value_digits(report.unit)
    unit = " points" if report.unit else ""
    direction = "better" if gain >= 0 else "worse"
    return f"{decimal(abs(gain), digits)} ± {decimal(error, digits)}{unit} {direction} than"


def clear_cost(report: FixReport) -> str:
    """What clearly gets worse, and which goal to give if that matters more."""
    prices = report.price
    if prices.overall.is_clear_rise and report.goal != "overall":
        rise = decimal(prices.overall.change, 1, "+")
        return f"overall error {rise}, clear; --goal overall avoids it"
    if prices.mean.is_clear_rise and report.goal != "mean":
        rise = decimal(prices.mean.change, 1, "+")
        return f"class-mean error {rise}, clear; --goal mean avoids it"
    return ""


def _warnings(report: FixReport) -> list[str]:
    warnings = []
    guessing = 100 * (1 - 1 / len(report.classes))
    error = fmean(report.after.errors)
    if report.goal in ("mean", "worst") and error > (1 - LEARNT) * guessing:
        warnings.append(f"Little was learnt: the class-mean error is {error:.0f} %, that of guessing {guessing:.0f} %.")
    if few := report.price.handful:
        verb = amount_of(few.classes, "class", "classes")
        gain = f"{few.points:.1f} points to a gain of {-report.price.mean.change:.1f}"
        warnings.append(f"{verb} with fewer than {HANDFUL} test examples give {gain}.")
    return warnings


def fixed_lines(fixed: "Fix", verbosity: Verbosity, width: int) -> list[str]:
    """The lines of what `cu.fix` returned."""
    return fix_lines(view_fix(fixed.report, fixed.dataset), verbosity, width)


def fix_lines(
    view: FixView, verbosity: Verbosity, width: int, files: Sequence[object] = (), trained: int | None = None
) -> list[str]:
    """The terminal's lines: classes, totals, what was kept and written; with VERBOSE how it was found before that.

    `trained` is how many trainings this call needed, where that is known.
    """
    ending = ending_lines(view, width, files, trained)
    if verbosity is Verbosity.QUIET:
        return ending
    everything = verbosity is Verbosity.VERBOSE
    how = _how_lines(view, width) if everything else []
    return [*how, *change_lines(view, width, everything), "", *ending]


def change_lines(view: FixView, width: int, everything: bool = False) -> list[str]:
    """Before and after: of two classes how well the rarer one is found, of more the classes that tell most."""
    two = _two_class_lines(view, width)
    rows: Sequence[ClassChange] = ()
    if everything:
        rows = view.classes
    elif not (two or view.keeps_naive):
        rows = view.shown
    top = [*view.sizes, *rows] if rows else []
    digits = 1 if rows and min(row.examples for row in rows) >= PRECISE else 0
    cells = [_cells(row, digits if row.train is not None else 1) for row in (*top, *view.totals)]
    lines = table_rows(*cells_in_order(cells), width, WORDS)
    headings, listed, totals = lines[:1], lines[1 : 1 + len(top)], lines[1 + len(top) :]
    blocks = [["", HEADING], two]
    if top:
        blocks += [_flat([*headings, *listed]) + ([] if everything else _rest_lines(view)), _flat(totals)]
    else:
        blocks.append(_flat([*headings, *totals]))
    first, *others = filter(None, blocks)
    return first + [line for block in others for line in ["", *block]][1:]


def _flat(rows: Sequence[Sequence[str]]) -> list[str]:
    return [line for lines in rows for line in lines]


def _cells(row: ClassChange, digits: int) -> dict[str, str]:
    """A row of the table; dashes where it was not judged, or no interval is known."""
    digits = 3 if not row.unit else digits
    before = figure(row.before, digits)
    after = figure(row.after, digits)
    cells = {"error of": row.name, "before": before, "after": after, "change": MISSING, "95 % interval": MISSING}
    if not np.isnan(row.before):
        cells["before"] += row.unit
        cells["after"] += row.unit
        cells["change"] = decimal(float(after) - float(before), digits, "+")  # of the numbers that stand beside it
    if row.interval is not None:
        cells["95 % interval"] = span(row.interval.low, row.interval.high, digits, "+")
    return cells | {"": row.verdict, WHY: row.why}


def _rest_lines(view: FixView) -> list[str]:
    """How many classes are not listed, and how they changed."""
    falls = sum(row.clearly_falls for row in view.others)
    rises = sum(row.clearly_rises for row in view.others)
    noise = len(view.others) - falls - rises
    parts = [(falls, "clearly better"), (rises, "clearly worse"), (noise, "within noise")]
    named = [f"{number} {what}" for number, what in parts if number]
    lines = []
    if view.others and noise == len(view.others):
        lines.append(f"  {amount_of(noise, 'more class changes', 'more classes change')} within noise (--verbose)")
    elif view.others:
        lines.append(f"  {amount_of(len(view.others), 'more class', 'more classes')}: {', '.join(named)} (--verbose)")
    if number := len(view.not_judged):
        verb = "has" if number == 1 else "have"
        them = amount_of(number, "class", "classes")
        lines.append(f"  {them} {verb} fewer than {HANDFUL} test examples: not judged")
    return lines


def _two_class_lines(view: FixView, width: int) -> list[str]:
    """Precision, recall and the like of the rarer of two classes; none of more classes."""
    report = view.report
    before, after = report.before.two, report.after.two
    if before is None or after is None:
        return []
    positive = view.report.classes[after.positive]
    rows = []
    for field, word in FIGURES.items():
        one, other = getattr(before, field), getattr(after, field)
        rows.append([word, f"{one:.1f} %", f"{other:.1f} %", decimal(other - one, 1, "+")])
    lines = table_lines([positive, "before", "after", "change"], rows, width)
    if after.threshold not in (None, 0.5):
        lines.append(f"  {positive} is predicted at a probability of {after.threshold:.2g} or more")
    return lines


def ending_lines(view: FixView, width: int, files: Sequence[object] = (), trained: int | None = None) -> list[str]:
    """What was kept, what it costs, what to doubt, and the files."""
    report = view.report
    lines = [line for warning in view.warnings for line in labelled_lines("!", warning, width)]
    now = ", 0 trained now" if trained == 0 else ""
    lines += labelled_lines("Kept", f"{view.kept} ({view.spent}{now})", width)
    if view.cost:
        lines += labelled_lines("Price", view.cost, width)
    if number := len(report.label_issues):
        found = f"{number:,} of {sum(report.counts):,} training labels look wrong: the page lists them"
        lines += labelled_lines("Labels", found, width)
    if files:
        lines += labelled_lines("Wrote", ", ".join(map(str, files)), width)
    models = [file for file in map(Path, map(str, files)) if file.suffix == ".safetensors"]
    if models:
        lines += labelled_lines("Next", f"cu predict {shlex.quote(str(models[0].with_suffix('')))} NEW", width)
    elif files:
        lines += labelled_lines("Next", "add --save MODEL: nothing is trained again", width)
    return lines


def _how_lines(view: FixView, width: int) -> list[str]:
    """The rungs, the ladder, and the verdicts on classes."""
    report = view.report
    lines = []
    for rung in report.rungs:
        lines += ["", f"{ladder_view.rung_caption(report, rung)}:", *ladder_view.rung_lines(report, rung, width)]
    if report.ladder:
        columns = ("step", report.aim.partition(" at ")[0], "out-of-fold gain", "trainings", "time")
        rows = [_step_cells(step, report) for step in report.ladder]
        lines += ["", "The steps:", *table_lines(columns, rows, width), ladder_view.trained_by(report)]
    if verdicts := spoken(report.findings):
        examples = sum(verdict.evidence.examples for verdict in report.findings if verdict.evidence)
        lines += ["", f"Naive training, judged on {examples:,} out-of-fold examples:"]
        lines += [f"{verdict.text}." for verdict in verdicts]
    if labels := label_issue_view.summary(report):
        lines += ["", labels]
    return [*lines, "", report.note]


def _step_cells(step: Step, report: FixReport) -> list[str]:
    digits = value_digits(report.unit)
    gain = figure(step.gain, digits, "+")
    if step.gain_error is not None:
        gain += f" ± {step.gain_error:.{digits}f}"
    name = f"{step.name} (kept)" if step.kept else step.name
    return [
        name,
        ladder_view.mean_text(step.values, digits),
        gain,
        f"{step.trainings:.3g}",
        ladder_view.duration(step.seconds),
    ]
