"""Design effects: how many independent examples the examples of groups are worth."""

import numpy as np
import pytest
from scipy import stats

from class_uncertainty.posthoc.diagnosis import Tally, diagnose
from class_uncertainty.posthoc.error_changes import price
from class_uncertainty.posthoc.goal import paired_sum, parse_goal
from class_uncertainty.posthoc.intervals import (
    design_effects,
    design_effects_of_rest,
    paired_reach,
    share_interval,
    t_quantile,
)

GROUPS, COPIES = 12, 4
WRONG = np.repeat((np.arange(GROUPS) % 3 == 0).astype(float), COPIES)  # groups whose examples are all alike
CODES, ONE_CLASS = np.repeat(np.arange(GROUPS), COPIES), np.zeros(GROUPS * COPIES, dtype=np.int64)


def test_copies_count_once():
    examples = GROUPS * COPIES
    few = stats.t.ppf(0.975, GROUPS - 1) / stats.t.ppf(0.975, examples - 1)
    expected = (examples - 1) / (GROUPS - 1) * few**2  # both variances unbiased
    assert design_effects(WRONG, ONE_CLASS, 1, CODES) == pytest.approx(expected)


def test_groups_of_unequal_size_that_are_not_wholly_alike_by_loops_over_pairs():
    """rho is over all pairs within groups, m over all examples; class 1 has no spread: only those count for it."""
    sizes, rng = [1, 2, 3, 6, 9, 4], np.random.default_rng(3)
    groups = np.repeat(np.arange(6), sizes)
    values = (rng.random(25) < np.repeat([0.1, 0.9, 0.2, 0.7, 0.2, 0.6], sizes)).astype(float)
    deviations = values - values.mean()
    pairs = [(i, j) for i in range(25) for j in range(25) if i != j and groups[i] == groups[j]]
    rho = np.mean([deviations[i] * deviations[j] for i, j in pairs]) / values.var()
    assert 0.05 < rho < 0.95
    typical = np.mean([sizes[group] for group in groups])  # of an example's group, not of a group
    few = stats.t.ppf(0.975, 5) / stats.t.ppf(0.975, 24)
    labels = np.repeat([0, 1], 25)
    effects = design_effects(np.append(values, np.zeros(25)), labels, 2, np.tile(groups, 2))
    assert effects[1] == pytest.approx((1 + (typical - 1) * rho) * few**2)


def test_groups_of_one_change_nothing():
    effects = design_effects(WRONG, ONE_CLASS, 1, np.arange(len(WRONG)))
    assert effects == design_effects(WRONG, ONE_CLASS, 1, None) == 1


def test_without_any_error_a_group_counts_once_and_one_group_says_nothing():
    effect = design_effects(np.zeros(len(WRONG)), ONE_CLASS, 1, CODES).item()
    few = stats.t.ppf(0.975, GROUPS - 1) / stats.t.ppf(0.975, GROUPS * COPIES - 1)
    assert effect == pytest.approx(COPIES * few**2)
    alone = design_effects(WRONG, ONE_CLASS, 1, np.zeros_like(CODES))
    assert alone == np.inf
    assert share_interval(16 / alone, 48 / alone) == (0, 100)


def test_one_group_allows_any_change_and_classes_may_be_absent_or_single():
    labels, groups = np.array([0, 0, 0, 2]), np.array([0, 0, 0, 0])
    changes = price(np.ones(4), np.zeros(4), labels, 3, groups)
    assert (changes.mean.low, changes.mean.high) == (-100, 100)
    assert (changes.classes[0].low, changes.classes[0].high) == (-100, 100)
    assert design_effects(np.zeros(4), labels, 3, groups).tolist() == [np.inf, 1, 1]


def test_a_class_without_spread_takes_the_correlation_of_the_others():
    labels = np.repeat([0, 1], len(WRONG))
    effects = design_effects(np.append(WRONG, 0 * WRONG), labels, 2, np.tile(CODES, 2))
    half = np.where(np.arange(COPIES) % 2, 1.0, 0.0)  # every group is half wrong: no examples err alike
    unlike = design_effects(np.append(np.tile(half, GROUPS), 0 * WRONG), labels, 2, np.tile(CODES, 2))
    few = (t_quantile(GROUPS - 1) / t_quantile(len(WRONG) - 1)) ** 2
    assert effects[1] / few == pytest.approx(COPIES)
    assert unlike / few == pytest.approx([1, 1])


def test_the_rest_is_all_other_classes_together():
    labels, values = np.tile([0, 1, 2], 16), np.append(WRONG[1:], 0)
    rest = design_effects_of_rest(values, labels, 3, CODES)
    others = labels != 1
    expected = design_effects(values[others], ONE_CLASS[others], 1, CODES[others])
    assert rest[1] == expected
    assert design_effects_of_rest(values, labels, 3, None).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("groups", "size", "rate", "rho"), [(30, 20, 0.2, 0.2), (30, 5, 0.1, 0.6), (200, 5, 0.5, 0.2)])
def test_intervals_hold_the_truth_where_groups_err_alike(groups, size, rate, rho):
    rng, rounds = np.random.default_rng(0), 400
    codes = np.repeat(np.arange(groups), size)
    covered = np.zeros(2)
    for _ in range(rounds):
        rates = rng.beta(rate * (1 - rho) / rho, (1 - rate) * (1 - rho) / rho, groups)
        wrong = (rng.random(len(codes)) < rates[codes]).astype(float)
        effect = design_effects(wrong, np.zeros_like(codes), 1, codes).item()
        for i, by in enumerate((1, effect)):
            low, high = share_interval(wrong.sum() / by, len(codes) / by)
            covered[i] += low <= 100 * rate <= high
    independent, of_groups = covered / rounds
    assert independent < 0.9
    assert of_groups >= 0.93


def test_paired_sums_over_groups_by_hand():
    differences, groups = np.array([1.0, 2.0, -4.0, 0.5]), np.array([0, 0, 1, 2])
    assert paired_sum(differences, groups) == (-0.5, pytest.approx(np.sqrt(9 + 16 + 0.25)))
    assert paired_reach(groups) == pytest.approx(stats.t.ppf(0.975, 2))
    assert paired_reach(None) == pytest.approx(stats.norm.ppf(0.975))


def test_a_goals_standard_error_grows_with_groups():
    goal = parse_goal("mean", "ab", [48, 48])
    p = np.stack([1 - WRONG, WRONG], axis=1)
    labels, groups = np.repeat([0, 1], len(WRONG)), np.tile(CODES, 2)
    both = np.concatenate([p, p[:, ::-1]])
    by_groups = goal.standard_error(both, labels, groups)
    sums = 2 * COPIES * (np.arange(GROUPS) % 3 == 0) - 2 * COPIES / 3  # of deviations, over both classes
    assert by_groups == pytest.approx(100 / 2 / len(WRONG) * np.sqrt((sums**2).sum()))
    assert by_groups > goal.standard_error(both, labels)
    assert goal.standard_error(both, labels, np.arange(len(both))) == goal.standard_error(both, labels)


def test_copies_of_examples_make_no_verdict_and_no_clear_change():
    """20 of 60 wrong against 5 of 60 is no chance; of 12 groups each it may be."""
    labels, groups = np.repeat([0, 1], 60), np.repeat(np.arange(24), 5)
    wrong = np.concatenate([np.repeat([1] * 4 + [0] * 8, 5), np.repeat([1] + [0] * 11, 5)])
    p = np.eye(2)[np.where(wrong, 1 - labels, labels)] * 0.8 + 0.1
    alone, grouped = (diagnose(labels, p, [60, 60], groups=given)[0] for given in (None, groups))
    assert (alone.kind, grouped.kind) == ("threshold", "unknown")
    assert grouped.evidence.low < alone.evidence.low < alone.evidence.high < grouped.evidence.high
    narrow, wide = (price(wrong.astype(float), np.zeros(120), labels, 2, given) for given in (None, groups))
    assert narrow.classes[0].is_clear_fall
    assert not wide.classes[0].is_clear
    assert narrow.overall.is_clear_fall
    assert wide.overall.high > narrow.overall.high
    assert wide.mean.change == narrow.mean.change
    assert wide.mean.high > narrow.mean.high


def test_what_helps_three_groups_of_four_may_be_chance():
    """Half of each group of class 0 is wrong. Adjusting mends 75 of these 100 examples, all in three groups."""
    labels, groups = np.repeat([0, 1], 200), np.repeat(np.arange(8), 50)
    before, after = labels.copy(), labels.copy()
    before[200::10] = after[200::10] = 0
    before[:200:2] = after[150:200:2] = 1
    p, adjusted = np.eye(2)[before], np.eye(2)[after]
    alone, grouped = (diagnose(labels, p, [9, 99], adjusted=adjusted, groups=given)[0] for given in (None, groups))
    assert (alone.kind, grouped.kind) == ("imbalance", "unclear")


def test_groups_among_the_others_weigh_less():
    """12 of 40 wrong against 4 of 60 is no chance; against 60 that are worth 3 it may be."""
    labels = np.repeat([0, 1], [40, 60])
    wrong = np.append(np.arange(40) < 12, np.arange(60) < 4).astype(float)
    tally = Tally.of(np.eye(2)[np.where(wrong, 1 - labels, labels)][None], labels)
    assert tally.is_worse(0.05, np.ones(2), np.ones(2)).tolist() == [True, False]
    assert tally.is_worse(0.05, np.ones(2), np.full(2, 20.0)).tolist() == [False, False]


def test_a_rival_of_one_group_is_no_rival():
    """15 errors go to class 1 and 5 to class 2: more than half, but all of one group."""
    labels = np.repeat([0, 1, 2], 100)
    guesses = labels.copy()
    guesses[:15], guesses[15:20] = 1, 2
    p = np.eye(3)[guesses] * 0.7 + 0.1
    groups = np.append(np.repeat(np.arange(4), [15, 5, 40, 40]), np.arange(4, 204))
    alone, grouped = (diagnose(labels, p, [9, 9, 9], groups=given)[0].evidence.rival for given in (None, groups))
    assert (alone, grouped) == ("1", "")
