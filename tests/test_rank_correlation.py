"""Rank correlations, plain and partial, against SciPy and the closed form."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from class_uncertainty.metrics import rank_correlation

pytestmark = pytest.mark.usefixtures("no_global_random")


def sides(rng, classes=30, decimals=None):
    """Three vectors that go together in part; with few decimals there are ties."""
    z = rng.normal(0, 1, classes)
    a, b = z + rng.normal(0, 1, classes), 0.5 * z + rng.normal(0, 1, classes)
    return (a, b, z) if decimals is None else tuple(np.round(v, decimals) for v in (a, b, z))


def closed_form(a, b, z):
    """(r_ab - r_az r_bz) / sqrt((1 - r_az^2) (1 - r_bz^2)) on the ranks."""
    ab, az, bz = (spearmanr(*pair).statistic for pair in ((a, b), (a, z), (b, z)))
    return (ab - az * bz) / math.sqrt((1 - az**2) * (1 - bz**2))


@pytest.mark.parametrize("decimals", [None, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("classes", [3, 10, 100])
def test_rank_correlation_is_scipys(rng, classes, decimals):
    for _ in range(10):
        a, b, _ = sides(rng, classes, decimals)
        if min(len(set(a)), len(set(b))) > 1:
            assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


@pytest.mark.parametrize("decimals", [None, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("classes", [5, 10, 100])
def test_partial_rank_correlation_is_the_closed_form(rng, classes, decimals):
    compared = 0
    for _ in range(10):
        a, b, z = sides(rng, classes, decimals)
        if all(len(set(v)) > 1 for v in (a, b, z)) and max(abs(spearmanr(v, z).statistic) for v in (a, b)) < 0.999:
            assert rank_correlation(a, b, z) == pytest.approx(closed_form(a, b, z), abs=1e-10)
            compared += 1
    assert compared > 4


def test_hand_computed_partial_rank_correlation():
    """Ranks 1 2 3 4, 2 1 4 3 and 1 3 2 4: r = 0.6, 0.8 and 0, so (0.6 - 0) / sqrt(0.36 x 1) = 1."""
    a, b, z = [1, 2, 3, 4], [2, 1, 4, 3], [1, 3, 2, 4]
    assert rank_correlation(a, b) == pytest.approx(0.6)
    assert (rank_correlation(a, z), rank_correlation(b, z)) == (pytest.approx(0.8), pytest.approx(0, abs=1e-12))
    assert rank_correlation(a, b, z) == pytest.approx(1)


def test_rank_correlation_looks_at_ranks_alone(rng):
    a, b, z = sides(rng)
    assert rank_correlation(np.exp(a), b**3, np.arctan(z)) == pytest.approx(rank_correlation(a, b, z), abs=1e-12)
    assert rank_correlation(a, np.exp(a)) == 1
    assert rank_correlation(a, -a) == -1
    assert rank_correlation(rankdata(a), list(b)) == rank_correlation(a, b)


def test_rank_correlation_is_symmetric_and_changes_its_sign(rng):
    a, b, z = sides(rng)
    for given in (None, z):
        assert rank_correlation(b, a, given) == pytest.approx(rank_correlation(a, b, given), abs=1e-14)
        assert rank_correlation(a, -b, given) == pytest.approx(-rank_correlation(a, b, given), abs=1e-12)
    assert rank_correlation(a, b, -z) == pytest.approx(rank_correlation(a, b, z), abs=1e-12)


def test_what_is_known_and_constant_takes_nothing_out(rng):
    """On equal counts the partial correlation is the plain one."""
    a, b, _ = sides(rng)
    assert rank_correlation(a, b, np.full(30, 60)) == rank_correlation(a, b)


@pytest.mark.parametrize("size", [2, 7, 100, 1000])
def test_a_constant_side_has_no_rank_correlation(rng, size):
    a, flat = rng.normal(0, 1, size), np.full(size, 0.1)
    for given in (None, rng.normal(0, 1, size)):
        assert rank_correlation(a, flat, given) is None
        assert rank_correlation(flat, a, given) is None
        assert rank_correlation(flat, flat, given) is None


@pytest.mark.parametrize("size", [2, 7, 100, 1000])
def test_a_side_that_is_ranked_as_what_is_known_has_none_left(rng, size):
    """Whether in the same order or in the opposite one."""
    a, z = rng.normal(0, 1, size), rng.normal(0, 1, size)
    for same in (z, -z, np.exp(z)):
        assert rank_correlation(a, same, z) is None
        assert rank_correlation(same, a, z) is None


def test_a_side_that_differs_from_what_is_known_in_two_ranks_has_some_left():
    z = np.arange(1000.0)
    nearly = z.copy()
    nearly[[0, 1]] = nearly[[1, 0]]
    assert rank_correlation(nearly, -z + np.where(z == 0, -2000, 0), z) is not None
