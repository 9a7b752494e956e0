"""Rows of classes and of methods: plain numbers that follow from estimates and results."""

from dataclasses import replace

import numpy as np
import pytest
from reporting.examples import FULL
from scipy.stats import rankdata, spearmanr

import class_uncertainty as cu
from class_uncertainty.runs.rows import class_rows, counterpart_of, method_rows, spearman

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)


@pytest.fixture(scope="module")
def estimate(digits: cu.Dataset) -> cu.Estimate:
    return cu.estimate(digits, "ensemble", 2, RECIPE)


@pytest.fixture(scope="module")
def results(digits: cu.Dataset, estimate: cu.Estimate) -> list[cu.Result]:
    lanes = [cu.Lane(name, seed) for name in ("naive", "cb-rs", "ubrs") for seed in (0, 1)]
    return cu.fit(digits.train, lanes, recipe=RECIPE, test=digits.test, stats=estimate.stats).results


def test_a_class_by_every_measure(digits: cu.Dataset, estimate: cu.Estimate) -> None:
    rows = class_rows(digits.classes, digits.train.counts.tolist(), estimate)
    inverse = 1 / digits.train.counts
    assert [row.name for row in rows] == list(digits.classes)
    assert [row.count for row in rows] == list(digits.train.counts)
    assert [row.cardinality for row in rows] == pytest.approx(inverse / inverse.sum())
    assert [row.uncertainty for row in rows] == pytest.approx(estimate.mu)
    assert [row.raw for row in rows] == pytest.approx(estimate.raw)
    assert sum(row.effective for row in rows) == pytest.approx(1)
    assert [row.rank_cardinality for row in rows] == list(rankdata(digits.train.counts))
    assert [row.rank_uncertainty for row in rows] == list(rankdata(-estimate.mu))
    assert [row.disagreement for row in rows] == list(rankdata(digits.train.counts) - rankdata(-estimate.mu))
    errors = np.mean([result.class_errors for result in estimate.results], axis=0)
    assert [row.error for row in rows] == pytest.approx(errors)
    assert all(0 <= row.epistemic_share <= 1 for row in rows)


def test_spearman_needs_every_error() -> None:
    errors = [row.error for row in FULL.classes]
    expected = spearmanr([row.uncertainty for row in FULL.classes], errors).statistic
    assert spearman(FULL.classes, "uncertainty") == pytest.approx(expected)
    unjudged = [replace(row, error=None) for row in FULL.classes[:1]]
    assert spearman([*unjudged, *FULL.classes[1:]], "uncertainty") is None


def test_a_method_over_its_seeds(results: list[cu.Result], estimate: cu.Estimate) -> None:
    naive, cb_rs, ubrs = method_rows(results, estimate.cost)
    for i, row in enumerate((naive, cb_rs, ubrs)):
        errors = [result.error for result in results[2 * i : 2 * i + 2]]
        assert (row.runs, row.diverged) == (2, 0)
        assert (row.error, row.error_sd) == (pytest.approx(np.mean(errors)), pytest.approx(np.std(errors, ddof=1)))
        assert row.top1_error == pytest.approx(np.mean([result.top1_error for result in results[2 * i : 2 * i + 2]]))
    assert naive.gain is None
    assert ubrs.gain == pytest.approx(naive.error - ubrs.error)
    assert (cb_rs.counterpart, cb_rs.aso, ubrs.counterpart) == ("", None, "cb-rs")
    assert 0 <= ubrs.aso <= 1
    assert (naive.cost, cb_rs.cost, ubrs.cost) == (1, 1, 1 + estimate.cost)


def test_one_run_has_no_deviation_and_no_gain_without_naive(results: list[cu.Result]) -> None:
    (row,) = method_rows(results[2:3])
    assert (row.runs, row.error_sd, row.gain, row.aso) == (1, None, None, None)


@pytest.mark.parametrize(
    ("method", "counterpart"),
    [("ubrs", "cb-rs"), ("ubrs+mixup", "cb-rs+mixup"), ("naive", ""), ("ubrs@product", ""), ("ubrs*5", "")],
)
def test_counterparts(method: str, counterpart: str) -> None:
    assert counterpart_of(method) == counterpart
