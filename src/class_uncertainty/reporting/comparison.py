"""Estimators side by side: what each costs, and what its class uncertainties know."""

from collections.abc import Sequence
from dataclasses import dataclass

from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import Vector
from class_uncertainty.metrics import rank_correlation


@dataclass(frozen=True)
class EstimatorRow:
    """Spearman's rho of class uncertainties with the ensemble's and with the class errors, as they are and beyond what counts say."""

    estimator: str
    score: str
    lr: float | None  # None: nothing was judged
    cost: float  # in trainings of one network
    ensemble: float | None
    ensemble_beyond: float | None
    error: float | None
    error_beyond: float | None


def estimator_rows(found: Sequence[Estimate], reference: Estimate, counts: Vector) -> list[EstimatorRow]:
    """A row for each estimate. The errors are those of the reference, an ensemble's members or what judged them."""
    errors = reference.class_errors
    lr = reference.results[0].lr if reference.results else None

    def row(name: str, score: str, cost: float, mu: Vector) -> EstimatorRow:
        with_ensemble = [rank_correlation(mu, reference.raw, given) for given in (None, counts)]
        with_error = [None if errors is None else rank_correlation(mu, errors, given) for given in (None, counts)]
        return EstimatorRow(name, score, lr, cost, *with_ensemble, *with_error)

    rows = [row(each.estimator, each.score, each.cost, each.raw) for each in found]
    return [*rows, row("cardinality", "1 / N", 0.0, 1 / counts)]
