"""Intervals and tests of shares, against scipy and against their definitions."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from class_uncertainty.posthoc.intervals import (
    at_least,
    change_interval,
    changed,
    difference_interval,
    holm,
    mean_interval,
    share_interval,
    worse_than_rest,
)


@pytest.mark.parametrize(("wrong", "examples"), [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7), (12, 300), (1, 5000)])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_share_intervals_are_clopper_and_pearsons(wrong, examples, level):
    reference = stats.binomtest(wrong, examples).proportion_ci(1 - level, method="exact")
    np.testing.assert_allclose(share_interval(wrong, examples, level), (100 * reference.low, 100 * reference.high))


def test_share_intervals_between_whole_numbers_and_of_nothing():
    low, high = share_interval([2, 2.5, 3, 0], [10, 10, 10, 0])
    assert low[0] < low[1] < low[2]
    assert high[0] < high[1] < high[2]
    assert (low[3], high[3]) == (0, 100)


def test_change_intervals_by_hand():
    """n = 18, 3 better, 1 worse: (2 - 4) / 20 ± 1.96 sqrt((0.1 + 0.2 - 0.01) / 20)."""
    reach = 1.959964 * np.sqrt((0.1 + 0.2 - 0.01) / 20)
    np.testing.assert_allclose(change_interval(3, 1, 18), (100 * (-0.1 - reach), 100 * (-0.1 + reach)), rtol=1e-6)
    assert change_interval(0, 1, 1)[1] == 100  # no change is larger


@pytest.mark.parametrize(
    ("examples", "better", "worse"), [(10, 0.3, 0.1), (25, 0.2, 0.2), (25, 0.5, 0.0), (40, 0.1, 0)]
)
def test_change_intervals_hold_the_truth(examples, better, worse):
    """The probability that they do, summed over all outcomes of the trinomial distribution."""
    outcomes = np.array([(b, w) for b, w in product(range(examples + 1), repeat=2) if b + w <= examples])
    low, high = change_interval(*outcomes.T, examples)
    cells = np.column_stack([outcomes, examples - outcomes.sum(axis=1)])
    chance = stats.multinomial.pmf(cells, examples, [better, worse, 1 - better - worse])
    truth = 100 * (worse - better)
    assert chance.sum() == pytest.approx(1)
    assert chance[(low <= truth) & (truth <= high)].sum() >= 0.938


def test_changed_examples_of_each_class():
    before, after, labels = np.array([1, 1, 0, 0.5]), np.array([0, 1, 1, 0.25]), np.array([0, 0, 1, 1])
    better, worse = changed(before, after, labels, 3)
    assert better.tolist() == [1, 0.25, 0]
    assert worse.tolist() == [0, 1, 0]


@pytest.mark.parametrize("errors", [[3, 9, 1], [0, 0, 0], [20, 40, 60], [1, 0, 30]])
def test_worse_than_rest_is_fishers_exact_test(errors):
    errors, examples = np.array(errors), np.array([20, 40, 60])
    right = examples - errors
    for c, p in enumerate(worse_than_rest(errors, examples)):
        table = [[errors[c], right[c]], [errors.sum() - errors[c], right.sum() - right[c]]]
        assert p == pytest.approx(stats.fisher_exact(table, alternative="greater").pvalue)


def test_means_over_seeds_are_rounded_in_favour_of_the_class():
    assert worse_than_rest([8.9, 1.1], [20, 20])[0] == worse_than_rest([8, 2], [20, 20])[0]


def test_at_least_is_the_tail_of_a_binomial():
    for part, whole, share in [(0, 5, 0.5), (3, 5, 0.5), (5, 5, 0.1), (7, 30, 0.2)]:
        assert at_least(part, whole, share) == pytest.approx(stats.binom.sf(part - 1, whole, share))
    assert at_least(3, 10, 0.5) > at_least(3.5, 10, 0.5) > at_least(4, 10, 0.5)


def test_holm_corrects_from_the_smallest():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1, 1]
    assert holm([]).tolist() == []


@pytest.mark.parametrize(
    ("counts", "low", "high"),  # Newcombe 1998, Table II, method 10
    [((56, 70, 48, 80), 0.0524, 0.3339), ((9, 10, 3, 10), 0.1705, 0.8090), ((5, 56, 0, 29), -0.0381, 0.1926)],
)
def test_differences_of_independent_shares_are_newcombe_s(counts, low, high):
    assert difference_interval(*counts) == pytest.approx((100 * low, 100 * high), abs=0.006)


def test_the_interval_of_a_class_mean_holds_it_in_95_of_100(rng):
    shares, examples = np.array([0.02, 0.3, 0.5, 0.9]), np.array([60, 12, 200, 25])
    held = 0
    for _ in range(2000):
        low, high = mean_interval(rng.binomial(examples, shares), examples)
        held += low <= 100 * shares.mean() <= high
    assert 0.935 <= held / 2000 <= 0.975
    assert mean_interval([0, 0], [10, 10])[1] > 3  # no errors are not certainty
