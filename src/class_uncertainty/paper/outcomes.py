"""What a ledger says about the paper: every printed cell beside ours, every gain over a baseline, every test."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from class_uncertainty.paper.needs import Lookup, need_of
from class_uncertainty.paper.paper_table import Cell, PaperTable, judge_of, on_data
from class_uncertainty.paper.printed_tables import SIGNIFICANCE, TABLE_1
from class_uncertainty.runs.rows import result_marks
from class_uncertainty.runs.significance import Epsilon, aso, corrected_confidence

POINT = 1.0  # a cell agrees within one point; beyond it,
DEVIATIONS = 2.0  # it may still lie within two standard deviations of the difference
COLLAPSED = "collapsed"  # of a row with a run that predicts one class only: its deviation is too large to judge by


@dataclass(frozen=True)
class Outcome:
    """A cell of a table under one protocol."""

    cell: Cell
    protocol: str
    lr: float | None  # None where it is not chosen yet
    errors: tuple[float, ...]  # in percent, one a seed
    diverged: int
    cost: float | None  # trainings for this row: its own, those that measured, and those that chose its rate
    devices: tuple[str, ...]
    collapsed: int = 0  # runs that predict one class only
    marks: tuple[str, ...] = ()  # as of a MethodRow
    tried: tuple[tuple[float, float | None], ...] = ()  # rates, and the errors that chose among them; None: it diverged

    @property
    def mean(self) -> float | None:
        return fmean(self.errors) if self.errors else None

    @property
    def deviation(self) -> float | None:
        return stdev(self.errors) if len(self.errors) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours less the printed error, in points."""
        return None if self.mean is None or not (printed := self.cell.printed) else self.mean - printed.mean

    @property
    def gap(self) -> float | None:
        """The difference in standard deviations of it."""
        ours, theirs = self.deviation, self.cell.printed.deviation if self.cell.printed else None
        if self.difference is None or ours is None or theirs is None:
            return None
        return self.difference / math.hypot(ours, theirs) if ours or theirs else None

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
        row, printed = self.cell.row, self.cell.printed
        about = {"row": row.label, "note": row.note, "method": self.cell.method, "data": self.cell.data}
        print_of = {"printed": printed.mean if printed else None, "printed_sd": printed.deviation if printed else None}
        ours = {"error": self.mean, "error_sd": self.deviation, "runs": len(self.errors), "diverged": self.diverged}
        ours |= {"collapsed": self.collapsed}
        judged = {"difference": self.difference, "gap": self.gap, "verdict": self.verdict}
        trained = {"lr": self.lr, "cost": self.cost, "devices": list(self.devices), "errors": list(self.errors)}
        told = {**about, "protocol": self.protocol, **print_of, **ours, **judged, **trained}
        return told | {"tried": dict(self.tried), "marks": list(self.marks)}


def outcome(cell: Cell, protocol: str, lookup: Lookup) -> Outcome:
    need = need_of(cell, protocol, cell.table.seeds, lookup.recipe.lr)
    choice, cost = lookup.choice(need), None
    results = lookup.results(need, choice)
    if results:
        tried = len(need.rates) if len(need.rates) > 1 else 0
        places = [cell.data, judge_of(cell.data)][: 2 if tried else 1]
        measured = [lookup.ledger.measurement(place, lookup.recipe, need.request) for place in places]
        measuring = sum(one.cost for one in measured if one) if need.uses_uncertainty else 0.0
        cost = (1 + tried) * results[0].cost + measuring
    errors = tuple(result.error for result in results if result.error is not None)
    diverged, devices = sum(result.diverged is not None for result in results), {result.device for result in results}
    about = (errors, diverged, cost, tuple(sorted(devices)), sum(result.collapsed for result in results))
    lr, errors_by_rate = (choice.lr, tuple(choice.errors.items())) if choice else (None, ())
    return Outcome(cell, protocol, lr, *about, tried=errors_by_rate, marks=result_marks(results))


def outcomes(table: PaperTable, protocols: Iterable[str], lookup: Lookup, only: str | None = None) -> list[Outcome]:
    """Protocol after protocol, row after row."""
    cells = [cell for cell in table.cells() if only in (None, cell.data)]
    return [outcome(cell, protocol, lookup) for protocol in protocols for cell in cells]


def without_repeats(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Without "equal" on data sets where all that has been run under it is tuned by "paper" too, and stands there."""
    shown_before = {one.cell.data for one in outcomes if one.protocol == "paper"}
    differing = {
        one.cell.data for one in outcomes if one.devices and one.protocol != "paper" and not one.cell.is_tuned("paper")
    }
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
        sides = [(one.deviation, len(one.errors)) for one in (self.ours, self.baseline)]
        parts = [deviation / math.sqrt(runs) for deviation, runs in sides if deviation is not None]
        return math.hypot(*parts) if len(parts) == len(sides) else None

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


def gains(listed: Sequence[Outcome]) -> list[Gain]:
    """Each row that has a baseline among these outcomes, under the same protocol."""
    baselines = {(one.cell.method, one.cell.data, one.protocol): one for one in listed if not one.cell.row.ours}
    keys = {one: (one.cell.row.baseline_on(one.cell.data), one.cell.data, one.protocol) for one in listed}
    return [Gain(one, baselines[key]) for one, key in keys.items() if key in baselines]


@dataclass(frozen=True)
class Test:
    """One row of the significance table on one data set: is `ours` stochastically better than `baseline`?"""

    ours: Outcome
    baseline: Outcome
    printed: float
    epsilon: Epsilon
    confidence: float  # corrected for the tests under the same protocol


def significance(protocol: str, lookup: Lookup, only: str | None = None) -> list[Test]:
    """The significance table, as far as both rows have run; the confidence is corrected for the tests it holds then."""
    cells = {(cell.method, cell.data): cell for cell in TABLE_1.cells()}
    pairs = []
    for method, baseline, printed in SIGNIFICANCE:
        for data, value in zip(TABLE_1.columns, printed.split(), strict=True):
            names = (on_data(method, data), on_data(baseline, data))
            ours, other = (outcome(cells[name, data], protocol, lookup) for name in names)
            if ours.errors and other.errors and only in (None, data):
                pairs.append((ours, other, float(value)))
    confidence = corrected_confidence(len(pairs))
    return [
        Test(ours, other, value, aso(ours.errors, other.errors, confidence), confidence) for ours, other, value in pairs
    ]
