"""Ledger: what has been trained on any device, by what it is. Keys of the store differ from device to device."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.measures import Stats, digest
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import check_same_data
from class_uncertainty.runs.store import Store, StoredDataset
from class_uncertainty.training import Lane, Recipe, Result, describe

Identity = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Ledger:
    """Results and measurements of data sets, which are known by their names."""

    data: dict[str, StoredDataset] = field(default_factory=dict)  # by name
    _results: dict[Identity, dict[int, Result]] = field(default_factory=dict)  # by seed
    _measurements: dict[Identity, Measurement] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, names: Collection[str], without_older: bool = False) -> "Ledger":
        """What a store has of the data sets of these names; two data sets of one name are refused."""
        store.check_engine()
        ledger = cls()
        for stored in (data for data in store.data() if data.name in names):
            check_same_data(ledger.data.get(stored.name), stored, str(store.path))
            ledger.data[stored.name] = stored
            results = [one for one in store.results(stored.fingerprint) if not (without_older and one.is_older)]
            ledger.add(stored.fingerprint, results, store.measurements(stored.fingerprint))
        return ledger

    def add(self, data: str, results: Iterable[Result], measurements: Iterable[Measurement] = ()) -> None:
        """Of two results of one revision that differ in their device alone, the first one stays."""
        for result in sorted(results, key=lambda result: -result.revision):
            self._results.setdefault(_result_identity(data, result), {}).setdefault(result.seed, result)
        for measured in measurements:
            identity = (data, measured.estimator, measured.members, measured.seed, measured.lr, measured.recipe)
            self._measurements.setdefault(identity, measured)

    def results(self, data: str, lane: Lane, recipe: Recipe, stats: Stats | None = None) -> dict[int, Result]:
        """The results of a lane, of whatever seed, by seed; `stats` has the uncertainties that it uses."""
        stored = self.data.get(data)
        return self._results.get(_lane_identity(stored.fingerprint, lane, recipe, stats), {}) if stored else {}

    def of_data(self, data: str) -> Iterator[Result]:
        """Every result on a data set; those of remedies have no lane."""
        fingerprint = self.data[data].fingerprint if data in self.data else None
        for (result_data, *_), results in self._results.items():
            if result_data == fingerprint:
                yield from results.values()

    def remedy(self, data: str, name: str, recipe: Recipe) -> Result | None:
        """A remedy of networks at the recipe's learning rate, adjusted, if at all, by tau 1: it has no lane."""
        wanted = (name, recipe.lr, recipe)
        results = (one for one in self.of_data(data) if (one.method, one.lr, one.recipe) == wanted)
        return next((one for one in results if one.plan.get("tau", 1) == 1), None)

    def measurement(self, data: str, recipe: Recipe, request: EstimateRequest) -> Measurement | None:
        """The class vectors that were measured on a data set."""
        if (stored := self.data.get(data)) is None:
            return None
        about = (request.estimator, request.counted(recipe), request.seed, request.lr or recipe.lr, recipe)
        return self._measurements.get((stored.fingerprint, *about))


def _result_identity(data: str, result: Result) -> Identity:
    return data, result.method, result.lr, result.fold, result.recipe, result.uncertainty, _text(result.plan)


def _lane_identity(data: str, lane: Lane, recipe: Recipe, stats: Stats | None) -> Identity:
    uncertainty = stats.uncertainty if stats and lane.value.uses_uncertainty else None
    measured_by = "" if uncertainty is None else digest(uncertainty)
    return data, lane.name, lane.rate(recipe), lane.fold, recipe, measured_by, _text(describe(lane.value))


def _text(plan: dict[str, Any]) -> str:
    """A plan of whatever revision: results of all of them count."""
    return json.dumps(plan | {"revision": 0}, sort_keys=True)
