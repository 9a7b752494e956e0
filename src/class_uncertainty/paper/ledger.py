"""Ledger: what has been trained of the paper, on any device. Keys of a store differ from device to device."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.measures import Stats, digest
from class_uncertainty.paper.experiments import SIX_NAIVE, Measuring, Need, SixNaive, Wanted, judge_of
from class_uncertainty.runs.comparison import RateChoice
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import check_same_data
from class_uncertainty.runs.store import Store, StoredDataset
from class_uncertainty.training import Lane, Recipe, Result, describe

SIX = 6  # networks of SIX_NAIVE
Identity = tuple[Any, ...]


@dataclass(frozen=True)
class Missing:
    """What is to be made on a data set: a lane, an estimate, or what six naive networks give."""

    data: str
    item: Lane | EstimateRequest | SixNaive
    request: EstimateRequest | None = None  # what measures the class uncertainties of a lane that uses some,
    score: str = ""  # and by which score they are read
    stats: Stats | None = field(default=None, compare=False)  # these, once they are measured

    def lanes(self, recipe: Recipe) -> list[Lane]:
        """What is to be trained for it. Rates are explicit: a lane that is missing twice is trained once."""
        match self.item:
            case Lane():
                lanes = [self.item]
            case EstimateRequest():
                lanes = self.item.lanes
            case SixNaive():
                lanes = [Lane("naive", seed) for seed in range(SIX)]
        return [replace(lane, lr=lane.rate(recipe)) for lane in lanes]


@dataclass(frozen=True)
class Remaining:
    """What is left to train on one data set."""

    data: str
    lanes: int
    images: float  # image passes
    minutes: float  # on this device


@dataclass(frozen=True, eq=False)
class Ledger:
    """What was trained by one recipe, by what it is. Data sets are known by their names."""

    recipe: Recipe
    data: dict[str, StoredDataset] = field(default_factory=dict)  # by name
    _results: dict[Identity, dict[int, Result]] = field(default_factory=dict)  # by seed
    _six_naive: dict[str, Result] = field(default_factory=dict)  # by data set
    _measurements: dict[Identity, Measurement] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, recipe: Recipe, names: Collection[str], without_older: bool = False) -> "Ledger":
        """What a store has of the data sets of these names; two data sets of one name are refused."""
        store.check_engine()
        ledger = cls(recipe)
        for stored in store.data():
            if stored.name in names:
                check_same_data(ledger.data.get(stored.name), stored, str(store.path))
                results = store.results(stored.fingerprint)
                if without_older:
                    results = [result for result in results if not result.is_older]
                ledger.add(stored, results, store.measurements(stored.fingerprint))
        return ledger

    def add(self, data: StoredDataset, results: Iterable[Result], measurements: Iterable[Measurement] = ()) -> None:
        """Of results that differ in their device alone, the first one of the newest revision counts."""
        self.data[data.name] = data
        for result in sorted(results, key=lambda result: -result.revision):
            if result.recipe != self.recipe:
                continue
            key = (data.name, result.method, result.lr, result.fold, result.uncertainty, _text(result.plan))
            self._results.setdefault(key, {}).setdefault(result.seed, result)
            is_by_tau_1 = result.plan.get("tau", 1) == 1
            if result.method == SIX_NAIVE and result.lr == self.recipe.lr and is_by_tau_1:
                self._six_naive.setdefault(data.name, result)
        for measured in measurements:
            if measured.recipe == self.recipe:
                request = (data.name, measured.estimator, measured.members, measured.seed, measured.lr)
                self._measurements.setdefault(request, measured)

    def results(self, data: str, lane: Lane, stats: Stats | None = None) -> dict[int, Result]:
        """The results of a lane, of whatever seed, by seed; `stats` has the uncertainties that it may use."""
        measured_by = ""
        if lane.value.uses_uncertainty and stats and stats.uncertainty is not None:
            measured_by = digest(stats.uncertainty)
        key = (data, lane.name, lane.rate(self.recipe), lane.fold, measured_by, _text(describe(lane.value)))
        return self._results.get(key, {})

    def six_naive(self, data: str) -> Result | None:
        """Six naive networks on a data set, averaged and adjusted by tau 1."""
        return self._six_naive.get(data)

    def measurement(self, data: str, request: EstimateRequest) -> Measurement | None:
        """The class vectors that were measured on a data set."""
        members, lr = request.counted(self.recipe), request.lr or self.recipe.lr
        return self._measurements.get((data, request.estimator, members, request.seed, lr))

    def stats(self, need: Need, data: str) -> Stats | None:
        """The class uncertainties that a need uses on a data set; None where it uses none, or none were measured."""
        measured = self.measurement(data, need.request) if need.uses_uncertainty else None
        return measured.stats(self.data[data].counts, need.score) if measured else None

    def choice(self, need: Need) -> RateChoice | None:
        """The learning rate of a need, once it is known."""
        lanes = need.choosing_lanes
        if not lanes:
            return RateChoice(need.method, need.rates[0], {})
        judge = judge_of(need.data)
        stats = self.stats(need, judge)
        errors: dict[float, float | None] = {}
        for lane in lanes:
            result = self.results(judge, lane, stats).get(lane.seed)
            if result is None:
                return None
            errors[result.lr] = result.error
        return RateChoice.of(need.method, errors)

    def runs(self, need: Need, choice: RateChoice | None) -> list[Result]:
        """The results at the chosen rate, of whatever seed; none where no rate is chosen yet."""
        if choice is None:
            return []
        results = self.results(need.data, Lane(need.method, lr=choice.lr), self.stats(need, need.data))
        return [results[seed] for seed in sorted(results)]

    def missing(self, wanted: Sequence[Wanted], assume: bool = False) -> list[Missing]:
        """What can be made now, listed once; with `assume`, also what waits for a rate or for class uncertainties."""
        missing: list[Missing] = []
        for one in wanted:
            match one:
                case Need():
                    missing += self._missing_of(one, assume)
                case Measuring():
                    missing += self._unmeasured(one.data, one.request)
                case SixNaive():
                    if one.data not in self._six_naive:
                        missing.append(Missing(one.data, one))
        return list(dict.fromkeys(missing))

    def _missing_of(self, need: Need, assume: bool) -> list[Missing]:
        """Runs wait for their rate."""
        missing: list[Missing] = []
        if need.choosing_lanes:
            missing = self._missing_lanes(need, judge_of(need.data), need.choosing_lanes, assume)
        if missing and not assume:
            if need.uses_uncertainty:  # the networks that measure wait for nothing
                missing += self._unmeasured(need.data, need.request)
            return missing
        choice = self.choice(need)
        lr = choice.lr if choice else need.rates[-1]  # no rate that baselines have
        lanes = [Lane(need.method, seed, lr) for seed in range(need.seeds)]
        return missing + self._missing_lanes(need, need.data, lanes, assume)

    def _missing_lanes(self, need: Need, data: str, lanes: Sequence[Lane], assume: bool) -> list[Missing]:
        """Lanes wait for the class uncertainties that they use."""
        stats = self.stats(need, data)
        absent = [lane for lane in lanes if lane.seed not in self.results(data, lane, stats)]
        if not need.uses_uncertainty:
            return [Missing(data, lane) for lane in absent]
        unmeasured = self._unmeasured(data, need.request)
        if unmeasured and not assume:
            return unmeasured
        return unmeasured + [Missing(data, lane, need.request, need.score, stats) for lane in absent]

    def _unmeasured(self, data: str, request: EstimateRequest) -> list[Missing]:
        return [] if self.measurement(data, request) else [Missing(data, request)]


def data_of(wanted: Iterable[Wanted]) -> set[str]:
    """The names of the data sets that are needed, and of those that rates are chosen on."""
    return {name for one in wanted for name in (one.data, judge_of(one.data))}


def _text(plan: dict[str, Any]) -> str:
    """A plan of whatever revision: results of all of them count."""
    return json.dumps(plan | {"revision": 0}, sort_keys=True)
