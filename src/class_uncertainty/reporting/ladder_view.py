"""The rungs and the ladder of a fix in words, for a terminal and for the page."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from class_uncertainty.posthoc.fix_report import NAIVE, FixReport, Rung, RungRow
from class_uncertainty.posthoc.goal import value_digits
from class_uncertainty.reporting.terminal import MISSING, figure, table_lines
from class_uncertainty.text import amount_of

RULE = (
    "The lowest value wins, unless a cheaper candidate is within a standard error of it. "
    "Ties go to the simpler candidate: the earlier in 'cu list candidates'."
)


class Search(Protocol):
    """Rungs, and what they judge by: a FixReport, or what is known before there is one."""

    @property
    def aim(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def rungs(self) -> tuple[Rung, ...]: ...


def rung_caption(report: Search, rung: Rung) -> str:
    """'All 8 candidates, 1 fold (2,522 examples)'."""
    number = len(rung.rows)
    is_first = rung is report.rungs[0]
    if number == 1:
        who = "The only candidate" if is_first else "The best of them"
    else:
        who = f"All {number} candidates" if is_first else f"The best {number} of them"
    return f"{who}, {amount_of(rung.folds, 'fold', 'folds')} ({amount_of(rung.examples, 'example', 'examples')})"


def rung_lines(report: Search, rung: Rung, width: int) -> list[str]:
    """The candidates of a rung: the goal's value on unseen examples, trainings, and whether each went on."""
    digits = aim_digits(report)
    rows = []
    for row in rung.rows:
        value = figure(row.value, digits)
        if row.standard_error is not None:
            value += f" ± {row.standard_error:.{digits}f}"
        rows.append([row.candidate, value, f"{row.trainings:.3g}", rung_outcome(row)])
    aim = report.aim.partition(" at ")[0]
    return table_lines(["candidate", aim, "trainings", "outcome"], rows, width, words=["outcome"])


def rung_outcome(row: RungRow) -> str:
    """'kept', 'dropped', or 'dropped: it diverged in epoch 3'."""
    if row.kept:
        return "kept"
    return f"dropped: {row.reason.removesuffix('.')}" if row.reason else "dropped"


def trained_by(report: FixReport) -> str:
    """'Candidates of the steps: naive?rate=4 (naive, adjusted); cb-rs (best single).'"""
    steps: dict[str, list[str]] = {}
    for step in report.ladder:
        steps.setdefault(step.candidate, []).append(step.name)
    by_candidate = (f"{candidate} ({', '.join(names)})" for candidate, names in steps.items())
    return f"{'Candidate' if len(steps) == 1 else 'Candidates'} of the steps: {'; '.join(by_candidate)}."


def aim_values(report: FixReport) -> tuple[Sequence[float], Sequence[float]]:
    """What the goal measures before and after, one value a seed."""
    naive = next(step for step in report.ladder if step.name == NAIVE)
    return naive.values, report.kept_step.values


def aim_digits(report: Search) -> int:
    """Decimals of the goal's values."""
    return value_digits(report.unit)


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
