"""Reproduction: what a ledger says about one experiment of the paper."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from class_uncertainty.data.sources import shape_of
from class_uncertainty.estimation import members_method
from class_uncertainty.measures import MEASURES, Stats, normalise
from class_uncertainty.methods import named, plan
from class_uncertainty.metrics import rank_correlation
from class_uncertainty.paper.catalogue import Experiment, ablations
from class_uncertainty.paper.needs import ENSEMBLE, REQUESTS, SIX_NAIVE, Lookup
from class_uncertainty.paper.outcomes import Gain, Outcome, Test, gains, outcome, outcomes, significance
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.rows import IMPORTED
from class_uncertainty.runs.store import StoredDataset
from class_uncertainty.training import Lane, Result
from class_uncertainty.training.network_size import NetworkSize


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
        return list(normalise(self.measurement.raw[self.measurement.score]))

    def correlation(self, mu: Sequence[float]) -> float | None:
        """Spearman's rho of a measure with the class errors of the members."""
        errors = self.measurement.class_errors
        return rank_correlation(mu, errors) if errors else None

    @property
    def marks(self) -> tuple[str, ...]:
        """As of a MethodRow."""
        return (IMPORTED,) if self.measurement.imported else ()

    def distance(self, other: "MeasuredData") -> tuple[float, float]:
        """How far mu^C and mu^U have moved: half the sum of the absolute changes, from 0 to 1."""
        pairs = ((self.cardinality, other.cardinality), (self.uncertainty, other.uncertainty))
        cardinality, uncertainty = (0.5 * float(np.abs(np.subtract(a, b)).sum()) for a, b in pairs)
        return cardinality, uncertainty


@dataclass(frozen=True)
class Reproduction:
    """One experiment, as far as it has been run."""

    name: str
    experiment: Experiment
    protocols: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    tests: tuple[Test, ...]
    six_naive: dict[str, Result]  # by data set
    ablated: tuple[tuple[Outcome, tuple[float, ...]], ...]  # a cell, and its errors with other pixels
    measured: tuple[MeasuredData, ...]
    naive: dict[str, tuple[Result, ...]]  # by data set, those that did not diverge
    networks: dict[str, NetworkSize]  # by data set, those of which something is known
    unfinished: str = ""  # why it stopped, "" where nothing is left to train

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
        measured = [
            {
                "data": one.data.name,
                "estimator": one.measurement.estimator,
                "marks": list(one.marks),
                "classes": one.data.classes,
                "counts": one.data.counts,
                "cardinality": one.cardinality,
                "uncertainty": one.uncertainty,
                "class_errors": one.measurement.class_errors,
                "rho_cardinality": one.correlation(one.cardinality),
                "rho_uncertainty": one.correlation(one.uncertainty),
                "rho_by_score": {score: one.correlation(raw) for score, raw in one.measurement.raw.items()},
            }
            for one in self.measured
        ]
        tests = [
            {"ours": test.ours.cell.method, "baseline": test.baseline.cell.method, "data": test.ours.cell.data}
            | {"protocol": test.ours.protocol, "printed": test.printed, "epsilon": test.epsilon}
            | {"confidence": test.confidence, "warning": test.epsilon.warning}
            for test in self.tests
        ]
        gained = [
            {"row": gain.ours.cell.row.label, "note": gain.ours.cell.row.note, "data": gain.ours.cell.data}
            | {"baseline": gain.baseline.cell.method, "protocol": gain.ours.protocol, "printed": gain.printed}
            | {"gain": gain.gain, "standard_error": gain.standard_error, "verdict": gain.verdict}
            for gain in self.gains
        ]
        return {
            "experiment": self.name,
            "unfinished": self.unfinished or None,
            "networks": {data: asdict(network) for data, network in self.networks.items()},
            "cells": [one.document() for one in self.outcomes],
            "gains": gained,
            "tests": tests,
            "six_naive": {data: result.error for data, result in self.six_naive.items()},
            "ablation": [{**one.document(), "errors_with_other_pixels": errors} for one, errors in self.ablated],
            "naive": {data: [result.error for result in results] for data, results in self.naive.items()},
            "measured": measured,
        }


def summarise(
    name: str, experiment: Experiment, protocols: Sequence[str], lookup: Lookup, only: str | None = None
) -> Reproduction:
    """What the ledger has of an experiment."""
    table, ledger, recipe = experiment.table, lookup.ledger, lookup.recipe
    shown = [data for data in experiment.data if only in (None, data)]
    measured, naive, six = [], dict[str, tuple[Result, ...]](), dict[str, Result]()
    for data in shown:
        estimators = experiment.estimators if table and data in table.columns else []
        others = [one.request for one in experiment.by_others if one.data == data]
        others += [REQUESTS[name] for name in estimators]
        requests = dict.fromkeys([ENSEMBLE] * (data in experiment.measured) + others)
        measurements = [ledger.measurement(data, recipe, request) for request in requests]
        measured += [MeasuredData(ledger.data[data], measurement) for measurement in measurements if measurement]
        if table and table.compares_cost and (ensemble := ledger.remedy(data, SIX_NAIVE, recipe)):
            six[data] = ensemble
    for data in experiment.naive:  # in this order, whatever columns the table has
        results = ledger.results(data, Lane("naive", lr=recipe.lr), recipe) if data in shown else {}
        if ended := tuple(results[seed] for seed in sorted(results) if results[seed].diverged is None):
            naive[data] = ended
    return Reproduction(
        name,
        experiment,
        tuple(protocols),
        tuple(outcomes(table, protocols, lookup, only)) if table else (),
        tuple(test for protocol in protocols for test in significance(protocol, lookup, only))
        if name == "significance"
        else (),
        six,
        tuple(_ablated(experiment, lookup, only)),
        tuple(measured),
        naive,
        {
            data: NetworkSize.of(recipe.network, shape_of(data), len(ledger.data[data].classes))
            for data in shown
            if data in ledger.data
        },
    )


def _ablated(experiment: Experiment, lookup: Lookup, only: str | None) -> list[tuple[Outcome, tuple[float, ...]]]:
    """Cells at the recipe's rate beside the same methods on data with other pixels."""
    rows: list[tuple[Outcome, tuple[float, ...]]] = []
    if not (table := experiment.table):
        return rows
    for cell in table.cells():
        if cell.row.method in table.ablated and only in (None, cell.data):
            for place in ablations(table, cell.data):
                results = lookup.ledger.results(place, Lane(cell.method, lr=lookup.recipe.lr), lookup.recipe)
                errors = tuple(e for seed in sorted(results) if (e := results[seed].error) is not None)
                rows += [(outcome(cell, "paper", lookup), errors)] if errors else []
    return rows
