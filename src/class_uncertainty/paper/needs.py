"""Need: what a cell or a figure wants trained. What of it is missing is a function of the ledger alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.measures import Stats
from class_uncertainty.methods import named
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.paper_table import Cell, judge_of, rates_from
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.rate_choice import CHOOSING_SEED, RateChoice
from class_uncertainty.training import Lane, Recipe, Result

PROTOCOLS = ("paper", "equal")
REQUESTS = {
    "ensemble": EstimateRequest(),
    "duq": EstimateRequest("duq", members=1),
    "out-of-fold": EstimateRequest("out-of-fold"),
}
ENSEMBLE = REQUESTS["ensemble"]  # five naive members
SIX_NAIVE = "adjusted*6"  # six naive trainings cost as much as five that measure and one that uses it


@dataclass(frozen=True)
class Need:
    """A method on a data set: at one learning rate, or at the best of several."""

    data: str
    method: str
    rates: tuple[float, ...]
    seeds: int
    request: EstimateRequest = ENSEMBLE
    score: str = ""  # by default the estimator's own
    uses_uncertainty: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses_uncertainty", named(self.method).uses_uncertainty)


@dataclass(frozen=True)
class Measuring:
    """The class uncertainties of a data set."""

    data: str
    request: EstimateRequest = ENSEMBLE


@dataclass(frozen=True)
class SixNaive:
    """What as many naive trainings as an uncertainty row costs give: an ensemble, adjusted for the counts."""

    data: str


Wanted = Need | Measuring | SixNaive


@dataclass(frozen=True)
class Missing:
    """What is to be made on a data set: a lane with these class uncertainties, an estimate, or the six naive ones."""

    data: str
    item: Lane | EstimateRequest | SixNaive
    measured: Measurement | None = field(default=None, compare=False)
    request: EstimateRequest | None = None  # what measures the uncertainties of a lane that uses some,
    score: str = ""  # and by which score they are read


def need_of(cell: Cell, protocol: str, seeds: int, lr: float) -> Need:
    rates = rates_from(lr) if cell.is_tuned(protocol) else (lr,)
    return Need(cell.data, cell.method, rates, seeds, REQUESTS[cell.row.estimator], cell.row.score)


@dataclass(frozen=True)
class Lookup:
    """What a ledger has of needs, under one recipe."""

    ledger: Ledger
    recipe: Recipe

    def stats(self, need: Need, data: str) -> Stats | None:
        """The class uncertainties that a need uses on a data set; None where it uses none, or none were measured."""
        if not need.uses_uncertainty or not (measured := self.ledger.measurement(data, self.recipe, need.request)):
            return None
        return measured.stats(self.ledger.data[data].counts, need.score)

    def choice(self, need: Need) -> RateChoice | None:
        """The learning rate of a need, if it is known."""
        if len(need.rates) == 1:
            return RateChoice(need.method, need.rates[0], {})
        judge = judge_of(need.data)
        stats, errors = self.stats(need, judge), dict[float, float | None]()
        for lane in choosing_lanes(need):
            if trained := self.ledger.results(judge, lane, self.recipe, stats).get(lane.seed):
                errors[trained.lr] = trained.error
        return RateChoice.of(need.method, errors) if len(errors) == len(need.rates) else None

    def results(self, need: Need, choice: RateChoice | None) -> list[Result]:
        """Those at the chosen rate, of whatever seed; none where no rate is chosen yet."""
        if choice is None:
            return []
        lane = Lane(need.method, 0, choice.lr)
        results = self.ledger.results(need.data, lane, self.recipe, self.stats(need, need.data))
        return [results[seed] for seed in sorted(results)]

    def missing(self, wanted: Sequence[Wanted], assume: bool = False) -> list[Missing]:
        """What can be made now, listed once; with `assume`, also what waits for a rate or for class uncertainties."""
        missing: list[Missing] = []
        for one in wanted:
            match one:
                case Need():
                    missing += self._missing_lanes(one, assume)
                case Measuring():
                    if self.ledger.measurement(one.data, self.recipe, one.request) is None:
                        missing.append(Missing(one.data, one.request))
                case SixNaive():
                    if self.ledger.remedy(one.data, SIX_NAIVE, self.recipe) is None:
                        missing.append(Missing(one.data, one))
        return list(dict.fromkeys(missing))

    def _missing_lanes(self, need: Need, assume: bool) -> list[Missing]:
        choosing = self._missing_on(need, judge_of(need.data), choosing_lanes(need), assume)
        if choosing and not assume:  # rows wait for their rate, the networks that measure for nothing
            return choosing + self._unmeasured(need, need.data)
        lr = choice.lr if (choice := self.choice(need)) else need.rates[-1]  # no rate that baselines have
        lanes = [Lane(need.method, seed, lr) for seed in range(need.seeds)]
        return choosing + self._missing_on(need, need.data, lanes, assume)

    def _missing_on(self, need: Need, data: str, lanes: Sequence[Lane], assume: bool) -> list[Missing]:
        if not need.uses_uncertainty:
            return [Missing(data, lane) for lane in self._absent(need, data, lanes)]
        measured = self.ledger.measurement(data, self.recipe, need.request)
        unmeasured = self._unmeasured(need, data) if lanes else []
        absent = self._absent(need, data, lanes) if measured or assume else []
        return unmeasured + [Missing(data, lane, measured, need.request, need.score) for lane in absent]

    def _unmeasured(self, need: Need, data: str) -> list[Missing]:
        """The class uncertainties that a need uses on a data set, where they are missing."""
        known = not need.uses_uncertainty or self.ledger.measurement(data, self.recipe, need.request)
        return [] if known else [Missing(data, need.request)]

    def _absent(self, need: Need, data: str, lanes: Sequence[Lane]) -> list[Lane]:
        stats = self.stats(need, data)
        return [lane for lane in lanes if lane.seed not in self.ledger.results(data, lane, self.recipe, stats)]


def choosing_lanes(need: Need) -> list[Lane]:
    """One for each learning rate; none where there is nothing to choose."""
    return [Lane(need.method, CHOOSING_SEED, lr) for lr in need.rates if len(need.rates) > 1]
