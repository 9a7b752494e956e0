"""Reproduction: what is stored of one experiment of the paper."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from class_uncertainty.data.sources import shape_of
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import members_method
from class_uncertainty.measures import MEASURES, Stats, normalise
from class_uncertainty.methods import named, plan
from class_uncertainty.metrics import rank_correlation
from class_uncertainty.paper.experiments import Experiment, Selection
from class_uncertainty.paper.ledger import Ledger, data_of
from class_uncertainty.paper.outcomes import AsoTest, Gain, Outcome, gains, outcome, outcomes, significance
from class_uncertainty.paper.printed_tables import PaperTable
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.rows import IMPORTED
from class_uncertainty.runs.store import Store, StoredDataset
from class_uncertainty.training import Lane, Recipe, Result
from class_uncertainty.training.network_size import NetworkSize
from class_uncertainty.training.networks.network_table import sealed


@dataclass(frozen=True)
class MeasuredData:
    """A data set with its measurement."""

    data: StoredDataset
    measurement: Measurement

    @property
    def cardinality(self) -> list[float]:
        """(C,) mu^C, by how often the members saw each class: as often as the data have it, if they drew naively."""
        drawn = plan(named(members_method(self.measurement.estimator)), Stats(self.data.counts), 0, 1).alpha
        return list(normalise(MEASURES["cardinality"](Stats(drawn))))

    @property
    def uncertainty(self) -> list[float]:
        """(C,) mu^U."""
        return list(self.measurement.mu)

    def correlation(self, mu: Sequence[float]) -> float | None:
        """Spearman's rho of a measure with the class errors of the members."""
        errors = self.measurement.class_errors
        return rank_correlation(mu, errors) if errors else None

    @property
    def marks(self) -> tuple[str, ...]:
        """As of a MethodRow."""
        return (IMPORTED,) if self.measurement.imported else ()

    def document(self) -> dict[str, Any]:
        """The measures as `cu reproduce --json` prints them."""
        return {
            "data": self.data.name,
            "estimator": self.measurement.estimator,
            "marks": list(self.marks),
            "classes": self.data.classes,
            "counts": self.data.counts,
            "cardinality": self.cardinality,
            "uncertainty": self.uncertainty,
            "class_errors": self.measurement.class_errors,
            "rho_cardinality": self.correlation(self.cardinality),
            "rho_uncertainty": self.correlation(self.uncertainty),
            "rho_by_score": {score: self.correlation(raw) for score, raw in self.measurement.raw.items()},
        }


def shift(before: Sequence[float], after: Sequence[float]) -> float:
    """How far a measure has moved: half the sum of the absolute changes, from 0 to 1."""
    return 0.5 * float(np.abs(np.subtract(before, after)).sum())


@dataclass(frozen=True)
class Reproduction:
    """One experiment, as far as it has been run."""

    name: str
    experiment: Experiment
    protocols: tuple[str, ...]
    outcomes: tuple[Outcome, ...] = ()
    tests: tuple[AsoTest, ...] = ()
    six_naive: dict[str, Result] = field(default_factory=dict)  # by data set
    ablations: tuple[tuple[Outcome, Outcome], ...] = ()  # of a cell at the recipe's rate, and with other pixels
    measured: tuple[MeasuredData, ...] = ()
    naive: dict[str, tuple[Result, ...]] = field(default_factory=dict)  # by data set, those that did not diverge
    networks: dict[str, NetworkSize] = field(default_factory=dict)  # by data set, of which something is known
    unfinished: str = ""  # why training stopped, "" where nothing is left to train

    @property
    def marks(self) -> list[tuple[str, ...]]:
        """Of every row that has run, and of every measurement."""
        run = [one.marks for one in self.outcomes if one.devices]
        return run + [one.marks for one in self.measured]

    @property
    def gains(self) -> list[Gain]:
        return gains(self.outcomes)

    def document(self) -> dict[str, Any]:
        """What `cu reproduce --json` prints."""
        return {
            "experiment": self.name,
            "unfinished": self.unfinished or None,
            "networks": {data: asdict(network) for data, network in self.networks.items()},
            "cells": [one.document() for one in self.outcomes],
            "gains": [gain.document() for gain in self.gains],
            "tests": [test.document() for test in self.tests],
            "six_naive": {data: result.error for data, result in self.six_naive.items()},
            "ablation": [one.document() | {"errors_with_other_pixels": other.errors} for one, other in self.ablations],
            "naive": {data: [result.error for result in results] for data, results in self.naive.items()},
            "measured": [one.document() for one in self.measured],
        }


def stored_reproductions(selection: Selection, store: Store, without_older: bool = False) -> list[Reproduction]:
    """What a store has of experiments; `without_older` leaves out results of older revisions of a method."""
    recipe = _stored_recipe(selection, store)
    reproductions = []
    for name, experiment in selection.experiments.items():
        ledger = Ledger.read(store, recipe, data_of(selection.wanted(experiment)), without_older)
        reproductions.append(summarise(name, experiment, selection.protocols, ledger, selection.only))
    return reproductions


def _stored_recipe(selection: Selection, store: Store) -> Recipe:
    """What the stored results of experiments were trained by.

    Results tell networks apart by their weights. Where those are not on this machine, the results are found by the
    network's name, unless it names several.
    """
    try:
        return sealed(selection.recipe)
    except InputError:
        stored = set()
        for data in store.data():
            for result in store.results(data.fingerprint):
                if replace(result.recipe, fingerprint="") == selection.recipe:
                    stored.add(result.recipe)
        if len(stored) != 1:
            raise
        return stored.pop()


def summarise(
    name: str, experiment: Experiment, protocols: Sequence[str], ledger: Ledger, only: str | None = None
) -> Reproduction:
    """What the ledger has of an experiment."""
    shown = [data for data in experiment.data if only in (None, data)]
    measured = []
    for data in shown:
        measurements = [ledger.measurement(data, request) for request in experiment.requests_on(data)]
        measured += [MeasuredData(ledger.data[data], measurement) for measurement in measurements if measurement]

    naive = {}
    for data in experiment.naive:
        if data in shown:
            results = ledger.results(data, Lane("naive"))
            ended = tuple(results[seed] for seed in sorted(results) if results[seed].diverged is None)
            if ended:
                naive[data] = ended

    tests: list[AsoTest] = []
    if name == "significance":
        for protocol in protocols:
            tests += significance(protocol, ledger, only)

    table = experiment.table
    six_naive = {data: ledger.six_naive(data) for data in shown} if table and table.compares_cost else {}
    network = ledger.recipe.network
    return Reproduction(
        name,
        experiment,
        tuple(protocols),
        outcomes=tuple(outcomes(table, protocols, ledger, only)) if table else (),
        tests=tuple(tests),
        six_naive={data: result for data, result in six_naive.items() if result},
        ablations=tuple(_ablations(table, ledger, only)) if table else (),
        measured=tuple(measured),
        naive=naive,
        networks={
            data: NetworkSize.of(network, shape_of(data), len(ledger.data[data].classes))
            for data in shown
            if data in ledger.data
        },
    )


def _ablations(table: PaperTable, ledger: Ledger, only: str | None) -> list[tuple[Outcome, Outcome]]:
    """Cells beside the same methods on data with other pixels, as far as those have been run."""
    ablations = []
    for cell in table.cells():
        other_pixels = table.ablation_of(cell.data)
        if cell.row.method not in table.ablated or not other_pixels or only not in (None, cell.data):
            continue
        other = outcome(replace(cell, data=other_pixels), "paper", ledger)
        if other.errors:
            ablations.append((outcome(cell, "paper", ledger), other))
    return ablations
