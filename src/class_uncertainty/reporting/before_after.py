"""Before and after a fix, for the page and for a terminal: rows, key figures and sentences."""

from dataclasses import dataclass

import numpy as np

from class_uncertainty.posthoc.diagnosis import KINDS
from class_uncertainty.posthoc.error_changes import HANDFUL, ErrorChange
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.ladder_view import aim_digits, aim_label, aim_values, mean_text
from class_uncertainty.reporting.two_class_view import named_figures
from class_uncertainty.text import amount_of, decimal

NAME_ALL = 20  # classes: with more, a chart names only the worst tenth before and the worst tenth after
WORSE_ECE = 0.5  # percentage points: a rise beyond that is spoken of
CORRECTED = "(by 95 % intervals, corrected for the number of classes)"
FINDING_KINDS = KINDS | {"few": "few examples"}  # which reports of earlier versions say


@dataclass(frozen=True)
class Change:
    """A class's error before and after, or its confusion with another class; in percent, mean over the seeds.

    Errors are NaN for a class without test examples. Intervals are at 95 %; reports of earlier versions have none.
    """

    name: str
    count: int  # training examples
    before: float
    after: float
    predicted_as: str = ""  # the other class of a confusion
    examples: int | None = None  # test examples
    interval: str = ""  # of the error before
    change_interval: str = ""
    verdict: str = ""  # in a word or two

    @property
    def change(self) -> float:
        """Below 0 where the class improved. Rounding hides differences from summing in another order."""
        return round(self.after - self.before, 9) + 0.0


def changes(report: FixReport) -> list[Change]:
    """One for each class, the worst before first, and those without test examples last."""
    verdicts, cost = {verdict.label: verdict for verdict in report.findings}, report.price
    rows = []
    for c, name in enumerate(report.classes):
        verdict = verdicts.get(name)
        before = float(report.before.means[c])
        is_judged = not np.isnan(before)
        row = Change(
            name,
            report.counts[c],
            before,
            float(report.after.means[c]),
            examples=cost.examples[c] if cost else None,
            interval="{:.0f} to {:.0f}".format(*cost.before[c]) if cost and cost.before and is_judged else "",
            change_interval=interval_text(cost.classes[c]) if cost and is_judged else "",
            verdict=FINDING_KINDS.get(verdict.kind, "") if verdict else "",
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (np.isnan(row.before), -row.before))


def interval_text(change: ErrorChange, digits: int = 1) -> str:
    """'-7.1 to +2.0'."""
    return f"{decimal(change.low, digits, '+')} to {decimal(change.high, digits, '+')}"


def key_figures(report: FixReport) -> list[tuple[str, str, str]]:
    """(what, before, after), first of all what the goal measures."""
    before, after = report.before, report.after
    equal = report.goal in ("mean", "worst")  # classes are equally frequent, and the goal has a row of its own
    balanced = "balanced " if equal else ""
    figures = [
        ("class-mean error, %", mean_text(before.errors), mean_text(after.errors)),
        ("overall error, %", mean_text(before.overall), mean_text(after.overall)),
        ("worst tenth, %", mean_text(before.worst), mean_text(after.worst)),
        (f"{balanced}ECE, %", f"{before.ece:.1f}", f"{after.ece:.1f}"),
        (f"{balanced}NLL, nats", f"{before.nll:.3f}", f"{after.nll:.3f}"),
    ]
    hidden = {"worst tenth, %"} if len(report.classes) == 2 else set()
    hidden |= set() if before.overall else {"overall error, %"}
    figures = [figure for figure in figures if figure[0] not in hidden] + _two_class_figures(report)
    if equal:
        return figures
    before_text, after_text = (mean_text(side, aim_digits(report)) for side in aim_values(report))
    return [(aim_label(report), before_text, after_text), *figures]


def _two_class_figures(report: FixReport) -> list[tuple[str, str, str]]:
    """How well the rarer of two classes is found."""
    before, after = report.before.two, report.after.two
    if before is None or after is None:
        return []
    sides = (named_figures(two, report.classes[two.positive]) for two in (before, after))
    return [(f"{words}, %", one, other) for (words, one), (_, other) in zip(*sides, strict=True)]


def price_sentences(report: FixReport) -> list[str]:
    """What the fix costs: overall error, classes that got worse, calibration, and whether a few examples carry it."""
    cost, before, after = report.price, report.before, report.after
    if cost is None:
        return []
    mean, overall = map(change_text, (cost.mean, cost.overall))
    sentences = [
        *_goal_change(report),
        f"Change of the class-mean error: {mean}, of the overall error: {overall}; 95 % intervals, paired.",
        f"The error clearly falls for {_classes(cost.fallen)} and clearly rises for {_classes(cost.risen)} {CORRECTED}."
        if cost.fallen or cost.risen
        else f"No class changes clearly {CORRECTED}.",
    ]
    if risen := [row for row in changes(report) if row.change > 0]:
        worst = max(risen, key=lambda row: row.change)
        unclear = "" if cost.is_clear[report.classes.index(worst.name)] else ", which may be chance"
        rise = f"from {worst.before:.1f} to {worst.after:.1f} %{unclear}"
        sentences.append(f"The error rises most for {worst.name}: {rise}.")
    if after.ece > before.ece + WORSE_ECE:
        sentences.append(f"Calibration gets worse: ECE rises from {before.ece:.1f} to {after.ece:.1f} %.")
    if few := cost.handful:
        examples = f"{few.examples} test example{'' if few.examples == 1 else 's'} in all"
        which = f"{_classes(few.classes)} with fewer than {HANDFUL} test examples ({examples})"
        share = f"{few.points:.1f} of the {-cost.mean.change:.1f} points of class-mean gain hang on"
        sentences.append(f"{share} {which}: a few other examples could undo that.")
    return sentences


def _goal_change(report: FixReport) -> list[str]:
    """The interval of the goal, where it is not the class-mean error, or why there is none."""
    if report.goal == "worst":
        return [f"Change of the {report.aim}: no interval is given, as other classes may be the worst after."]
    if report.goal == "mean" or report.change is None:
        return []
    text = change_text(report.change) if report.unit else change_text(report.change, "", aim_digits(report))
    return [f"Change of the {report.aim}: {text}; 95 % interval, paired."]


def change_text(change: ErrorChange, unit: str = " points", digits: int = 1) -> str:
    """'-2.6 points (-7.1 to +2.0: not clear)'."""
    unclear = "" if change.is_clear else ": not clear"
    return f"{decimal(change.change, digits, '+')}{unit} ({interval_text(change, digits)}{unclear})"


def _classes(number: int) -> str:
    return amount_of(number, "class", "classes") if number else "no class"
