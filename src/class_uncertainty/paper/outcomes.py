"""Outcomes: what has become of every error, gain and test that is printed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from class_uncertainty.paper.experiments import Need, judge_of, need_of
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.printed_tables import BAG_OF_TRICKS, SIGNIFICANCE, TABLE_1, Cell, PaperTable
from class_uncertainty.runs.rows import result_marks
from class_uncertainty.runs.significance import Epsilon, aso, corrected_confidence
from class_uncertainty.training import Result

POINT = 1.0  # a cell agrees within one point; beyond it,
DEVIATIONS = 2.0  # it may still lie within two standard deviations of the difference
COLLAPSED = "collapsed"  # of a row with a run that predicts one class only: its deviation is too large to judge by


@dataclass(frozen=True)
class Outcome:
    """What has become of a cell under one protocol."""

    cell: Cell
    protocol: str
    lr: float | None = None  # None where it is not chosen yet
    errors: tuple[float, ...] = ()  # in percent, one a seed
    diverged: int = 0
    collapsed: int = 0  # runs that predict one class only
    cost: float | None = None  # trainings for this row: its own, those that measured, and those that chose its rate
    devices: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()  # as of a MethodRow
    tried: dict[float, float | None] = field(default_factory=dict)  # rate -> error that chose among them

    @property
    def mean(self) -> float | None:
        return fmean(self.errors) if self.errors else None

    @property
    def deviation(self) -> float | None:
        return stdev(self.errors) if len(self.errors) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours less the printed error, in points."""
        if self.mean is None or self.cell.printed is None:
            return None
        return self.mean - self.cell.printed.mean

    @property
    def gap(self) -> float | None:
        """The difference in standard deviations of it; None where one of them is not known."""
        if self.difference is None or self.cell.printed is None:
            return None
        if self.deviation is None or self.cell.printed.deviation is None:
            return None
        deviation = math.hypot(self.deviation, self.cell.printed.deviation)
        return self.difference / deviation if deviation else None

    @property
    def verdict(self) -> str:
        """'agrees' within POINT, 'within 2 sd', 'lower', 'higher' or COLLAPSED; '' where nothing is printed."""
        if self.mean is None:
            return "diverged" if self.diverged else "not run"
        if self.difference is None:
            return ""
        if self.collapsed:
            return COLLAPSED
        if abs(self.difference) <= POINT:
            return "agrees"
        if self.gap is not None and abs(self.gap) <= DEVIATIONS:
            return f"within {DEVIATIONS:g} sd"
        return "lower" if self.difference < 0 else "higher"

    def document(self) -> dict[str, Any]:
        """The outcome as `cu reproduce --json` prints it."""
        printed = self.cell.printed
        return {
            "row": self.cell.row.label,
            "note": self.cell.row.note,
            "method": self.cell.method,
            "data": self.cell.data,
            "protocol": self.protocol,
            "printed": printed.mean if printed else None,
            "printed_sd": printed.deviation if printed else None,
            "error": self.mean,
            "error_sd": self.deviation,
            "runs": len(self.errors),
            "diverged": self.diverged,
            "collapsed": self.collapsed,
            "difference": self.difference,
            "gap": self.gap,
            "verdict": self.verdict,
            "lr": self.lr,
            "cost": self.cost,
            "devices": list(self.devices),
            "errors": list(self.errors),
            "tried": self.tried,
            "marks": list(self.marks),
        }


def outcome(cell: Cell, protocol: str, ledger: Ledger) -> Outcome:
    """What a ledger says about a cell."""
    need = need_of(cell, protocol, ledger.recipe.lr)
    choice = ledger.choice(need)
    if choice is None:
        return Outcome(cell, protocol)
    results = ledger.runs(need, choice)
    return Outcome(
        cell,
        protocol,
        lr=choice.lr,
        errors=tuple(result.error for result in results if result.error is not None),
        diverged=sum(result.diverged is not None for result in results),
        collapsed=sum(result.collapsed for result in results),
        cost=_cost(need, results[0], ledger) if results else None,
        devices=tuple(sorted({result.device for result in results})),
        marks=result_marks(results),
        tried=choice.errors,
    )


def _cost(need: Need, result: Result, ledger: Ledger) -> float:
    """Trainings for one run: its own, those that chose its rate, and those that measured on both data sets."""
    trainings = (1 + len(need.choosing_lanes)) * result.cost
    if not need.uses_uncertainty:
        return trainings
    measurements = [ledger.measurement(data, need.request) for data in (need.data, judge_of(need.data))]
    return trainings + sum(measurement.cost for measurement in measurements if measurement)


def outcomes(table: PaperTable, protocols: Iterable[str], ledger: Ledger, only: str | None = None) -> list[Outcome]:
    """Protocol after protocol, row after row."""
    cells = [cell for cell in table.cells() if only in (None, cell.data)]
    return [outcome(cell, protocol, ledger) for protocol in protocols for cell in cells]


def without_repeats(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Without "equal" on data sets where all that has been run under it is tuned by "paper" too, and stands there."""
    shown_before = {one.cell.data for one in outcomes if one.protocol == "paper"}
    equal = [one for one in outcomes if one.protocol == "equal"]
    differing = {one.cell.data for one in equal if one.devices and not one.cell.is_tuned("paper")}
    repeated = shown_before - differing
    return [one for one in outcomes if one.protocol == "paper" or one.cell.data not in repeated]


@dataclass(frozen=True)
class Gain:
    """A row of the paper's own against the baseline that it is to beat."""

    ours: Outcome
    baseline: Outcome

    @property
    def printed(self) -> float | None:
        """The printed error of the baseline less that of the row."""
        ours, baseline = self.ours.cell.printed, self.baseline.cell.printed
        return baseline.mean - ours.mean if ours and baseline else None

    @property
    def gain(self) -> float | None:
        """The baseline's mean error less ours, in points."""
        ours, baseline = self.ours.mean, self.baseline.mean
        return None if ours is None or baseline is None else baseline - ours

    @property
    def standard_error(self) -> float | None:
        """Of the gain; None where a side has one run."""
        if self.ours.deviation is None or self.baseline.deviation is None:
            return None
        ours = self.ours.deviation / math.sqrt(len(self.ours.errors))
        baseline = self.baseline.deviation / math.sqrt(len(self.baseline.errors))
        return math.hypot(ours, baseline)

    @property
    def verdict(self) -> str:
        """'better' or 'worse' by more than two standard errors, else 'even'; 'one run' without one; or COLLAPSED."""
        if self.gain is None:
            return "not run"
        if self.ours.collapsed or self.baseline.collapsed:
            return COLLAPSED
        if self.standard_error is None:
            return "one run"
        if abs(self.gain) <= DEVIATIONS * self.standard_error:
            return "even"
        return "better" if self.gain > 0 else "worse"

    def document(self) -> dict[str, Any]:
        """The gain as `cu reproduce --json` prints it."""
        return {
            "row": self.ours.cell.row.label,
            "note": self.ours.cell.row.note,
            "data": self.ours.cell.data,
            "baseline": self.baseline.cell.method,
            "protocol": self.ours.protocol,
            "printed": self.printed,
            "gain": self.gain,
            "standard_error": self.standard_error,
            "verdict": self.verdict,
        }


def gains(outcomes: Sequence[Outcome]) -> list[Gain]:
    """Each row that has a baseline among these outcomes, under the same protocol."""
    baselines = {(one.cell.method, one.cell.data, one.protocol): one for one in outcomes if not one.cell.is_ours}
    gains = []
    for one in outcomes:
        baseline = baselines.get((one.cell.baseline, one.cell.data, one.protocol))
        if baseline:
            gains.append(Gain(one, baseline))
    return gains


@dataclass(frozen=True)
class AsoTest:
    """One row of the significance table on one data set: is `ours` stochastically better than `baseline`?"""

    ours: Outcome
    baseline: Outcome
    printed: float
    epsilon: Epsilon
    confidence: float  # corrected for the tests under the same protocol

    def document(self) -> dict[str, Any]:
        """The test as `cu reproduce --json` prints it."""
        return {
            "ours": self.ours.cell.method,
            "baseline": self.baseline.cell.method,
            "data": self.ours.cell.data,
            "protocol": self.ours.protocol,
            "printed": self.printed,
            "epsilon": self.epsilon,
            "confidence": self.confidence,
            "warning": self.epsilon.warning,
        }


def significance(protocol: str, ledger: Ledger, only: str | None = None) -> list[AsoTest]:
    """The significance table, as far as both rows have run; the confidence is corrected for the tests it holds then."""
    cells = {(cell.row.method, cell.data): cell for cell in TABLE_1.cells()}
    pairs = []
    for method, baseline, printed in SIGNIFICANCE:
        for data, value in TABLE_1.by_column(printed).items():
            if only not in (None, data):
                continue
            ours = outcome(cells[method, data], protocol, ledger)
            other = outcome(cells[baseline, data], protocol, ledger)
            if ours.errors and other.errors:
                pairs.append((ours, other, float(value)))
    confidence = corrected_confidence(len(pairs))
    return [
        AsoTest(ours, other, value, aso(ours.errors, other.errors, confidence), confidence)
        for ours, other, value in pairs
    ]


@dataclass(frozen=True)
class Published:
    """A baseline at Bag-of-Tricks' learning rate, and what has been published for it."""

    ours: Outcome
    error: float  # ours
    older: float
    present: float

    @property
    def nearest(self) -> float:
        """Our error less the nearest published one, the paper's among them, in points."""
        differences = [self.error - self.older, self.error - self.present]
        if self.ours.difference is not None:
            differences.append(self.ours.difference)
        return min(differences, key=abs)


def published(outcomes: Iterable[Outcome]) -> list[Published]:
    """The baselines of Table I among these outcomes that have been run under "paper"."""
    rows = []
    for one in outcomes:
        data, method = one.cell.data, one.cell.row.method
        if method not in BAG_OF_TRICKS or data not in TABLE_1.columns or one.protocol != "paper" or one.mean is None:
            continue
        older, present = [float(TABLE_1.by_column(errors)[data]) for errors in BAG_OF_TRICKS[method]]
        rows.append(Published(one, one.mean, older, present))
    return rows
