"""Estimators side by side: the correlations are SciPy's, and a narrow terminal says what it leaves out."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import spearmanr

import class_uncertainty as cu
from class_uncertainty.reporting import terminal
from class_uncertainty.reporting.comparison import EstimatorRow, estimator_rows

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture(scope="module")
def found(digits: cu.Dataset) -> list[cu.Estimate]:
    return [cu.estimate(digits, name, 2, RECIPE, seed) for name, seed in (("ensemble", 0), ("single", 7), ("duq", 7))]


def rows_of(found: list[cu.Estimate], digits: cu.Dataset) -> list[EstimatorRow]:
    return estimator_rows(found, found[0], digits.train.counts.astype(float))


def rho(a, b) -> float:
    return spearmanr(a, b).statistic


def beyond(a, b, counts) -> float:
    """The partial rank correlation by its formula in the three plain ones."""
    ab, ac, bc = rho(a, b), rho(a, counts), rho(b, counts)
    return (ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))


def test_correlations_are_scipys(found: list[cu.Estimate], digits: cu.Dataset) -> None:
    counts, errors = digits.train.counts, np.mean([result.class_errors for result in found[0].results], axis=0)
    *rows, _ = rows_of(found, digits)
    for row, each in zip(rows, found, strict=True):
        assert (row.estimator, row.score, row.lr, row.cost) == (each.estimator, each.score, 0.1, each.cost)
        assert row.ensemble == pytest.approx(rho(each.raw, found[0].raw))
        assert row.ensemble_beyond == pytest.approx(beyond(each.raw, found[0].raw, counts))
        assert row.error == pytest.approx(rho(each.raw, errors))
        assert row.error_beyond == pytest.approx(beyond(each.raw, errors, counts))
    assert (rows[0].ensemble, rows[0].ensemble_beyond) == (pytest.approx(1), pytest.approx(1))
    assert len({round(row.error, 6) for row in rows}) > 1


def test_cardinality_says_nothing_beyond_itself(found: list[cu.Estimate], digits: cu.Dataset) -> None:
    row = rows_of(found, digits)[-1]
    assert (row.estimator, row.score, row.lr, row.cost) == ("cardinality", "1 / N", 0.1, 0)
    assert row.ensemble == pytest.approx(rho(1 / digits.train.counts, found[0].raw))
    assert (row.ensemble_beyond, row.error_beyond) == (None, None)


def test_nothing_is_said_of_errors_that_are_not_known(found: list[cu.Estimate], digits: cu.Dataset) -> None:
    """And what trained nothing has no learning rate."""
    unjudged = [replace(each, results=()) for each in found]
    for row in rows_of(unjudged, digits):
        assert (row.lr, row.error, row.error_beyond) == (None, None, None)
        assert row.ensemble is not None


def test_equal_counts_take_nothing_out(found: list[cu.Estimate]) -> None:
    *rows, cardinality = estimator_rows(found, found[0], np.full(10, 40.0))
    assert all(row.ensemble_beyond == pytest.approx(row.ensemble) for row in rows)
    assert (cardinality.ensemble, cardinality.error) == (None, None)


LONGEST = EstimatorRow("out-of-fold", "least-confidence", 0.1, 5.0, 0.123456, -0.5, None, 0.75)


def printed(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(terminal, "console", lambda: Console(width=width, highlight=False))
    terminal.print_estimators([LONGEST, replace(LONGEST, estimator="cardinality", lr=None, cost=0.0)])
    return capsys.readouterr().out


def test_a_wide_terminal_sees_every_column(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(120, monkeypatch, capsys)
    head, row = out.splitlines()[1], next(line for line in out.splitlines() if "out-of-fold" in line)
    assert head.split() == ["estimator", "score", "lr", "cost", "ρ", "ensemble", "ens.", "beyond", "N", "ρ", "error", "err.", "beyond", "N"]
    assert row.split() == ["out-of-fold", "least-confidence", "0.1", "5", "0.123", "-0.500", "–", "0.750"]
    assert "No room" not in out


@pytest.mark.parametrize(
    ("width", "gone", "left"),
    [
        (88, "ens. beyond N", ["out-of-fold", "least-confidence", "0.1", "5", "0.123", "–", "0.750"]),
        (60, "ens. beyond N, lr, score", ["out-of-fold", "5", "0.123", "–", "0.750"]),
        (47, "ens. beyond N, lr, score, ρ ensemble", ["out-of-fold", "5", "–", "0.750"]),
        (30, "ens. beyond N, lr, score, ρ ensemble, err. beyond N", ["out-of-fold", "5", "–"]),
        (24, "ens. beyond N, lr, score, ρ ensemble, err. beyond N, cost", ["out-of-fold", "–"]),
    ],
)
def test_a_narrow_terminal_drops_columns_and_says_so(width: int, gone: str, left: list[str], monkeypatch, capsys) -> None:
    out = printed(width, monkeypatch, capsys)
    assert next(line for line in out.splitlines() if "out-of-fold" in line).split() == left
    assert f"No room for {gone}: widen the terminal, or use --json." in " ".join(out.split())
    assert "…" not in out
