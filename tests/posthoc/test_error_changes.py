"""What a fix brings and costs, on the same test examples."""

from dataclasses import astuple

import numpy as np
import pytest
from scipy.stats import beta, norm, sem
from scipy.stats import t as student

from class_uncertainty.posthoc.error_changes import Handful, change_of_mean, goal_change, price
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.posthoc.intervals import change_interval, share_interval

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
    assert cost.is_clear.tolist() == [True, True, False]


def test_of_many_classes_chance_seldom_names_any(rng):
    """Two equally good models of 100 classes, which differ on a fifth of the examples; then one class gets worse."""
    labels, named, intervals_alone, held = np.repeat(np.arange(100), 100), [], [], []
    for kind in rng.choice(3, (60, 10_000), p=[0.1, 0.1, 0.8]):
        before, after = (kind == 1).astype(float), (kind == 0).astype(float)
        cost = price(before, after, labels, 100)
        named.append(any(cost.is_clear))
        intervals_alone.append(any(change.is_clear_rise for change in cost.classes))
        held.append(all(change.low <= 0 <= change.high for change in cost.together))
    assert np.mean(named) <= 0.05 < 0.8 < np.mean(intervals_alone)
    assert np.mean(held) >= 0.9  # at least 95 of 100, as far as 60 draws tell
    before[:40], after[:40] = 0, 1
    assert price(before, after, labels, 100).is_clear[0]


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


def test_errors_of_groups_are_worth_fewer_examples():
    """20 groups of five examples that err alike, 6 of them: Korn and Graubard's design effect in closed form."""
    groups, labels = np.repeat(np.arange(20), 5), np.zeros(100, dtype=np.int64)
    before = (groups < 6).astype(float)
    effect = 99 / 19 * (student.ppf(0.975, 19) / student.ppf(0.975, 99)) ** 2
    wrong, right = 30 / effect, 70 / effect
    low, high = beta.ppf(0.025, wrong, right + 1), beta.ppf(0.975, wrong + 1, right)
    assert price(before, np.zeros(100), labels, 1, groups).before[0] == pytest.approx((100 * low, 100 * high))
    apart = (np.arange(100) % 5 == 0).astype(float)  # one of every group: its effect is another
    assert price(apart, before, labels, 1, groups).after[0] == pytest.approx((100 * low, 100 * high))
    assert price(before, np.zeros(100), labels, 1, np.arange(100)).before == price(before, before, labels, 1).before


def test_few_groups_reach_no_further_than_all_examples():
    """Of two groups, Student's t reaches 12.7 standard errors; no error changes by more than 100 points."""
    labels, before, after = np.repeat([0, 1], 20), np.repeat([1.0, 0.0], 20), np.zeros(40)
    mean = price(before, after, labels, 2, groups=labels).mean
    assert (mean.change, mean.low, mean.high) == (-50, -100, 100)


COSTS = Goal("cost:c.csv", np.array([0.95, 0.05]), np.array([[0.0, 1.0], [40.0, 0.0]]))


def paid(rng, labels, wrong=(0.2, 0.1)):
    return COSTS.mistakes[labels] * (rng.random(len(labels)) < np.array(wrong)[labels])


def test_of_many_examples_the_change_of_a_mean_cost_has_the_normal_interval(rng):
    labels = np.repeat([0, 1], [5000, 1000])
    before, after = paid(rng, labels), paid(rng, labels)
    after[::2] = before[::2]  # and so correlated
    change = goal_change(COSTS, before, after, labels)
    differences = [(after - before)[labels == c] for c in (0, 1)]
    mean = 0.95 * differences[0].mean() + 0.05 * differences[1].mean()
    error = np.hypot(0.95 * sem(differences[0]), 0.05 * sem(differences[1]))
    assert change.change == pytest.approx(mean)
    assert (change.low, change.high) == pytest.approx(norm.interval(0.95, mean, error), abs=0.04 * error)


def test_the_change_of_a_mean_cost_holds_it_where_few_examples_carry_it(rng):
    """One or two of 30 change, at 40 each: Wald's interval would hold the truth in 8 of 10."""
    labels = np.repeat([0, 1], [970, 30])
    changes = [goal_change(COSTS, paid(rng, labels, (0.02, 0.05)), np.zeros(1000), labels) for _ in range(400)]
    truth = -(0.95 * 0.02 + 0.05 * 0.05 * 40)
    assert np.mean([change.low <= truth <= change.high for change in changes]) >= 0.94


def test_groups_that_cost_alike_widen_the_change_of_a_mean_cost(rng):
    labels, groups = np.repeat([0, 1], [2000, 1000]), np.repeat(np.arange(300), 10)
    before, after = (np.repeat(paid(rng, labels[::10]), 10) for _ in range(2))
    change = goal_change(COSTS, before, after, labels, groups)
    as_one = goal_change(COSTS, before[::10], after[::10], labels[::10])
    assert change.change == pytest.approx(as_one.change)
    assert change.high - change.low == pytest.approx(as_one.high - as_one.low, rel=0.1)
    alone = goal_change(COSTS, before, after, labels)
    assert change.high - change.low > 3 * (alone.high - alone.low)


def test_the_change_of_an_error_is_that_of_its_classes(rng):
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    before, after = rng.random((2, 100)) < 0.3
    prior, cost = np.array([0.5, 0.3, 0.2]), price(before.astype(float), after.astype(float), labels, 3)
    change = goal_change(Goal("overall", prior), 100.0 * before, 100.0 * after, labels)
    assert astuple(change) == pytest.approx(astuple(change_of_mean(cost.classes, prior)))
