"""Before and after a fix, for the page and for a terminal: rows, key figures and sentences."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from class_uncertainty.posthoc.diagnosis import costly
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting import label_issue_view, ladder_view
from class_uncertainty.reporting.ladder_view import aim_digits, aim_label, aim_values, mean_text, with_unit
from class_uncertainty.reporting.page_columns import cell_columns

NAME_ALL = 20  # classes: with more, a chart names only the worst tenth before and the worst tenth after
FINDING_KINDS = {"few": "few examples", "hard": "hard", "confused": "confused"}


@dataclass(frozen=True)
class Change:
    """A class's error before and after, or its confusion with another class; in percent, mean over the seeds."""

    name: str
    count: int  # training examples
    before: float
    after: float
    predicted_as: str = ""  # the other class of a confusion

    @property
    def change(self) -> float:
        """Below 0 where the class improved. Rounding hides differences from summing in another order."""
        return round(self.after - self.before, 9) + 0.0


def changes(report: FixReport) -> list[Change]:
    """One for each class, the worst before first."""
    columns = (report.counts, report.before.means.tolist(), report.after.means.tolist())
    rows = [Change(name, *numbers) for name, *numbers in zip(report.classes, *columns, strict=True)]
    return sorted(rows, key=lambda row: -row.before)


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
        ("worst tenth, %", mean_text(before.worst), mean_text(after.worst)),
        (f"{balanced}ECE, %", f"{before.ece:.1f}", f"{after.ece:.1f}"),
        (f"{balanced}NLL, nats", f"{before.nll:.3f}", f"{after.nll:.3f}"),
    ]
    if equal:
        return figures
    before_text, after_text = (mean_text(side, aim_digits(report)) for side in aim_values(report))
    return [(aim_label(report), before_text, after_text), *figures]


def view(report: FixReport) -> dict[str, Any]:
    """What the template shows."""
    ladder = ladder_view.ladder_table(report)
    rungs = [(ladder_view.rung_caption(report, rung), ladder_view.rung_table(report, rung)) for rung in report.rungs]
    return {
        "lead": _lead(report),
        "how": ladder_view.kept_sentence(report),
        "figures": key_figures(report),
        "cost": (f"{report.cost:.3g}", f"of {report.allowed:.3g} trainings of one naive network"),
        "ladder": ladder,
        "ladder_columns": cell_columns(ladder.columns),
        "ladder_note": ladder_view.NOTE,
        "rungs": [(caption, cell_columns(table.columns), table.rows) for caption, table in rungs],
        "rule": ladder_view.RULE,
        "findings": [(FINDING_KINDS.get(finding.kind, ""), finding.text) for finding in report.findings],
        "changes": changes(report),
        "names_some": len(report.classes) > NAME_ALL,
        "confusions": confusions(report),
        "label_issues": label_issue_view.view(report),
    }


def improved(report: FixReport) -> bool:
    """Whether what the goal measures is lower after than before, on average over the seeds."""
    before, after = map(np.mean, aim_values(report))
    return bool(after < before)


def _lead(report: FixReport) -> str:
    """Whether the goal was approached, over how many seeds and for how many classes; no claim of significance."""
    sides = aim_values(report)
    before, after = map(np.mean, sides)
    verb = "falls" if after < before else "rises" if after > before else "stays"
    texts = [with_unit(report, mean_text(side, aim_digits(report))) for side in sides]
    values = f"from {texts[0]} to {texts[1]}" if after != before else f"at {texts[1]}"
    fell, rose = (sum(sign * row.change > 0 for row in changes(report)) for sign in (-1, 1))
    seeds = f"{report.seeds} seed{'' if report.seeds == 1 else 's'}"
    classes = f"the error falls for {fell} of {len(report.classes)} classes and rises for {rose}"
    return f"The {report.aim} {verb} {values} over {seeds}: {classes}."
