"""Before and after a fix, for the page and for a terminal: rows, key figures and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np

from class_uncertainty.posthoc.diagnosis import KINDS, UNJUDGED, Verdict, costly, spoken, verdict_summary
from class_uncertainty.posthoc.error_changes import HANDFUL, ErrorChange
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting import label_issue_view, ladder_view
from class_uncertainty.reporting.fix_advice import fix_advice
from class_uncertainty.reporting.ladder_view import aim_digits, aim_label, aim_values, mean_text, with_unit
from class_uncertainty.reporting.page_columns import cell_columns
from class_uncertainty.reporting.page_examples import PageExamples, opening
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


def confusions(report: FixReport) -> list[Change]:
    """The pairs that cost most before or after."""
    classes, before, after = report.classes, report.before.confusion, report.after.confusion
    costliest = [*costly(before, classes), *costly(after, classes)]
    pairs = dict.fromkeys((label, prediction) for label, prediction, _ in costliest)
    places = [(classes.index(label), classes.index(prediction)) for label, prediction in pairs]
    rows = [Change(classes[c], report.counts[c], before[c][k], after[c][k], classes[k]) for c, k in places]
    return sorted(rows, key=lambda row: -row.before)


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


def goal_sentence(report: FixReport) -> str:
    """'Goal of the fix: mean (class-mean error).'"""
    return f"Goal of the fix: {report.goal} ({report.aim})."


def verdict(report: FixReport) -> str:
    """Which classes were clearly worse before, and why; "" where that was not looked for."""
    worse = [finding for finding in spoken(report.findings) if finding.kind not in UNJUDGED]
    words = [(finding.label, FINDING_KINDS.get(finding.kind, finding.kind)) for finding in worse]
    summary = verdict_summary(words, len(report.classes), fmean(report.before.errors))
    return f"Before the fix{report.without_costs}: {summary[0].lower()}{summary[1:]}" if report.findings else ""


def _kind(report: FixReport, finding: Verdict) -> str:
    kind = FINDING_KINDS.get(finding.kind, "")
    return f"{kind}{report.without_costs}" if kind else ""


def view(report: FixReport, examples: PageExamples | None = None) -> dict[str, Any]:
    """What the template shows; with examples, rows open them."""
    places = {name: str(c) for c, name in enumerate(report.classes if examples else ())}
    ladder = ladder_view.ladder_table(report)
    rungs = [(ladder_view.rung_caption(report, rung), ladder_view.rung_table(report, rung)) for rung in report.rungs]
    return {
        "lead": _lead(report),
        "how": ladder_view.kept_sentence(report),
        "advice": fix_advice(report),
        "figures": key_figures(report),
        "positive": report.classes[report.after.two.positive] if report.after.two else "",
        "price": price_sentences(report),
        "cost": (f"{report.cost:.3g}", f"of {report.allowed:.3g} that were allowed"),
        "ladder": ladder,
        "ladder_columns": cell_columns(ladder),
        "ladder_note": ladder_view.ladder_notes(report),
        "rungs": [(caption, cell_columns(table), table.rows) for caption, table in rungs],
        "rule": ladder_view.RULE,
        "findings": [
            (_kind(report, finding), finding.text, places.get(finding.label, ""), finding.label)
            for finding in spoken(report.findings)
        ],
        "changes": [opening(row, places.get(row.name, ""), change=row.change) for row in changes(report)],
        "names_some": len(report.classes) > NAME_ALL,
        "confusions": [_confusion_row(row, examples, report.classes) for row in confusions(report)],
        "label_issues": label_issue_view.view(report),
    }


def _confusion_row(row: Change, examples: PageExamples | None, classes: Sequence[str]) -> SimpleNamespace:
    label, guess = classes.index(row.name), classes.index(row.predicted_as)
    number = examples.confused(label, guess) if examples else 0
    return opening(row, f"{label}-{guess}" if number else "", number=number, change=row.change)


def _lead(report: FixReport) -> str:
    """Whether the goal was clearly approached, if that is known, over how many seeds and for how many classes."""
    sides = aim_values(report)
    before, after = map(np.mean, sides)
    verb = "falls" if after < before else "rises" if after > before else "stays"
    texts = [with_unit(report, mean_text(side, aim_digits(report))) for side in sides]
    values = f"from {texts[0]} to {texts[1]}" if after != before else f"at {texts[1]}"
    if after != before and report.change and not report.change.is_clear:
        verb, values = "does not clearly change", f"({texts[0]} before, {texts[1]} after)"
    fell, rose = (sum(sign * row.change > 0 for row in changes(report)) for sign in (-1, 1))
    seeds = f"{report.seeds} seed{'' if report.seeds == 1 else 's'}"
    classes = f"the error falls for {fell} of {len(report.classes)} classes and rises for {rose}"
    return f"The {report.aim} {verb} {values} over {seeds}: {classes}."
