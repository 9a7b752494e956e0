"""Rows of estimators: the correlations are SciPy's."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

import class_uncertainty as cu
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.compare_estimators import EstimatorRow, estimator_rows

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


@pytest.fixture(scope="module")
def estimates(digits: cu.Dataset) -> list[cu.Estimate]:
    return [cu.estimate(digits, name, 2, RECIPE, seed) for name, seed in (("ensemble", 0), ("single", 7), ("duq", 7))]


def rows_of(estimates: list[cu.Estimate], digits: cu.Dataset) -> list[EstimatorRow]:
    return estimator_rows(estimates, estimates[0], digits.train.counts.astype(float))


def rho(a, b) -> float:
    return spearmanr(a, b).statistic


def beyond(a, b, counts) -> float:
    """The partial rank correlation, from the three plain ones."""
    ab, ac, bc = rho(a, b), rho(a, counts), rho(b, counts)
    return (ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))


def test_correlations_are_scipys(estimates: list[cu.Estimate], digits: cu.Dataset) -> None:
    counts, errors = digits.train.counts, np.mean([result.class_errors for result in estimates[0].results], axis=0)
    *rows, _ = rows_of(estimates, digits)
    for row, estimate in zip(rows, estimates, strict=True):
        assert (row.estimator, row.score, row.lr, row.cost) == (estimate.estimator, estimate.score, 0.1, estimate.cost)
        assert row.ensemble == pytest.approx(rho(estimate.raw, estimates[0].raw))
        assert row.ensemble_beyond == pytest.approx(beyond(estimate.raw, estimates[0].raw, counts))
        assert row.error == pytest.approx(rho(estimate.raw, errors))
        assert row.error_beyond == pytest.approx(beyond(estimate.raw, errors, counts))
    assert (rows[0].ensemble, rows[0].ensemble_beyond) == (pytest.approx(1), pytest.approx(1))
    assert len({round(row.error, 6) for row in rows}) > 1


def test_cardinality_has_nothing_beyond_the_counts(estimates: list[cu.Estimate], digits: cu.Dataset) -> None:
    row = rows_of(estimates, digits)[-1]
    assert (row.estimator, row.score, row.lr, row.cost) == ("cardinality", "1 / N", 0.1, 0)
    assert row.ensemble == pytest.approx(rho(1 / digits.train.counts, estimates[0].raw))
    assert (row.ensemble_beyond, row.error_beyond) == (None, None)


def test_without_results_there_are_neither_errors_nor_a_learning_rate(
    estimates: list[cu.Estimate], digits: cu.Dataset
) -> None:
    unjudged = [replace(estimate, results=()) for estimate in estimates]
    for row in rows_of(unjudged, digits):
        assert (row.lr, row.error, row.error_beyond) == (None, None, None)
        assert row.ensemble is not None


def test_forests_have_errors_and_no_learning_rate(estimates: list[cu.Estimate], digits: cu.Dataset) -> None:
    results = tuple(replace(result, recipe=RECIPES["forest"]) for result in estimates[0].results)
    for row in rows_of([replace(estimates[0], results=results)], digits):
        assert row.lr is None
        assert row.error is not None


def test_equal_counts_regress_nothing_out(estimates: list[cu.Estimate]) -> None:
    *rows, cardinality = estimator_rows(estimates, estimates[0], np.full(10, 40.0))
    assert all(row.ensemble_beyond == pytest.approx(row.ensemble) for row in rows)
    assert (cardinality.ensemble, cardinality.error) == (None, None)
