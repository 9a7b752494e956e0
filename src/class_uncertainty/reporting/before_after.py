"""Before and after a fix, for the page and for a terminal: rows, key figures and sentences."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from class_uncertainty.posthoc.diagnosis import costly
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import LabelIssue

NAME_ALL = 20  # classes: with more, a chart names only the worst tenth before and the worst tenth after
TINY_WIDTH = 84  # pixels: a narrower image is enlarged without smoothing
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


def witnesses(report: FixReport) -> str:
    """Which networks take examples for another class, as a clause: there may be only one."""
    if report.witnesses == 1:
        return "a network which never saw them assigns to another class"
    number = f"{report.witnesses} " if report.witnesses else ""
    return f"{number}networks which never saw them assign to the same other class"


def key_figures(report: FixReport) -> list[tuple[str, str, str]]:
    """(what, before, after)."""
    before, after = report.before, report.after
    return [
        ("class-mean error, %", _mean(before.errors), _mean(after.errors)),
        ("worst tenth, %", _mean(before.worst), _mean(after.worst)),
        ("balanced ECE, %", f"{before.ece:.1f}", f"{after.ece:.1f}"),
        ("balanced NLL, nats", f"{before.nll:.3f}", f"{after.nll:.3f}"),
    ]


def view(report: FixReport) -> dict[str, Any]:
    """What the template shows."""
    cooling = "" if report.cooling is None else f", logits divided by {report.cooling:.2f}"
    settings = f"τ = {report.tau:g}, T = {report.temperature:g}{cooling}"
    return {
        "lead": _lead(report),
        "how": f"{report.method}, with {report.teachers}; {settings}.",
        "figures": key_figures(report),
        "cost": (f"{report.cost:.3g}", f"training{'' if report.cost == 1 else 's'} of one network"),
        "findings": [(FINDING_KINDS.get(finding.kind, ""), finding.text) for finding in report.findings],
        "changes": changes(report),
        "names_some": len(report.classes) > NAME_ALL,
        "confusions": confusions(report),
        "witnesses": witnesses(report),
        "images": [(issue, _width(issue) < TINY_WIDTH) for issue in report.label_issues if issue.picture],
    }


def _lead(report: FixReport) -> str:
    """Whether the class-mean error fell, over how many seeds and for how many classes; no claim of significance."""
    before, after = np.mean(report.before.errors), np.mean(report.after.errors)
    verb = "falls" if after < before else "rises" if after > before else "stays"
    start = f"from {_mean(report.before.errors)} % to" if after != before else "at"
    fell, rose = (sum(sign * row.change > 0 for row in changes(report)) for sign in (-1, 1))
    seeds = f"{report.seeds} seed{'' if report.seeds == 1 else 's'}"
    means = f"The class-mean error {verb} {start} {_mean(report.after.errors)} % over {seeds}"
    return f"{means}: it falls for {fell} of {len(report.classes)} classes and rises for {rose}."


def _mean(values: Sequence[float]) -> str:
    """'8.13 ± 2.28', with the sample standard deviation; '8.13' for one value."""
    deviation = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{deviation}"


def _width(issue: LabelIssue) -> int:
    """The width of its image in pixels, from the header of the PNG."""
    return int.from_bytes(base64.b64decode(issue.picture.partition(",")[2][:32])[16:20], "big")
