"""What a fix brings and costs, on the same test examples."""

import numpy as np
import pytest

from class_uncertainty.posthoc.intervals import change_interval, share_interval
from class_uncertainty.posthoc.price import Handful, price

CHANGES = [(0.9, 0.0, 5.5), (0.1, 0.1, 9), (0.002, 0, 4), (0.01, 0.005, 5)]  # shares worse, better; widest interval


def test_changes_of_classes_of_all_and_of_the_mean():
    """Class 0: 4 of 10 get better, 1 worse; class 1: all 5 stay wrong."""
    labels = np.repeat([0, 1], [10, 5])
    before, after = np.ones(15), np.ones(15)
    before[4] = 0
    after[:4] = 0
    cost = price(before, after, labels, 2)
    assert cost.examples == (10, 5)
    assert [one.change for one in cost.classes] == pytest.approx([-30, 0])
    assert (cost.classes[0].low, cost.classes[0].high) == pytest.approx(change_interval(4, 1, 10))
    assert cost.before == pytest.approx(np.transpose(share_interval([9, 5], [10, 5])))
    assert cost.overall.change == pytest.approx(-20)
    assert (cost.overall.low, cost.overall.high) == pytest.approx(change_interval(4, 1, 15))
    (low, high), (still_low, still_high) = change_interval(4, 1, 10), change_interval(0, 0, 5)
    below, above = np.hypot(-30 - low, still_low) / 2, np.hypot(high + 30, still_high) / 2
    assert (cost.mean.change, cost.mean.low, cost.mean.high) == pytest.approx((-15, -15 - below, -15 + above))


@pytest.mark.parametrize(("worse", "better", "widest"), CHANGES)
def test_the_interval_of_the_mean_holds_it_in_95_of_100(worse, better, widest, rng):
    """Half of ten classes of 50 examples change: many of them, a few, or hardly any."""
    labels, trials = np.repeat(np.arange(10), 50), 400
    kinds = rng.choice(3, (trials, 500), p=[worse, better, 1 - worse - better])
    kinds[:, labels >= 5] = 2
    held, widths = [], []
    for kind in kinds:
        mean = price((kind == 1).astype(float), (kind == 0).astype(float), labels, 10).mean
        held.append(mean.low <= 50 * (worse - better) <= mean.high)
        widths.append(mean.high - mean.low)
    assert np.mean(held) > 0.93
    assert np.mean(widths) < widest


def test_classes_that_clearly_change_are_counted():
    labels = np.repeat(np.arange(3), 40)
    before = np.repeat([0.0, 1, 0], 40)
    after = np.repeat([1.0, 0, 0], 40)
    after[80] = 1  # one example more is no evidence
    cost = price(before, after, labels, 3)
    assert (cost.fallen, cost.risen) == (1, 1)


def test_a_gain_that_hangs_on_a_handful_is_named():
    """One class of one example goes from wrong to right: 10 of 10.1 points."""
    labels = np.concatenate([np.repeat(np.arange(9), 100), [9]])
    before = np.zeros(901)
    before[[0, 900]] = 1
    cost = price(before, np.zeros(901), labels, 10)
    assert cost.mean.change == pytest.approx(-10.1)
    assert cost.handful == Handful(pytest.approx(10.0), 1, 1)
    before[:400] = 1  # four classes more
    assert price(before, np.zeros(901), labels, 10).handful is None
    assert price(np.zeros(901), before, labels, 10).handful is None  # no gain
