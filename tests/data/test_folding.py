"""Folds and shares by groups: no group on both sides, classes as even as scikit-learn's; without groups as ever."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from sklearn.model_selection import StratifiedGroupKFold

import class_uncertainty as cu
from class_uncertainty.data.folding import held_groups, numbered, stratified

pytestmark = pytest.mark.usefixtures("no_global_random")

CASES = {
    "few large": (1000, 40, 4),
    "many": (3000, 400, 10),
    "of one or two": (900, 600, 5),
    "two classes": (500, 25, 2),
}


def drawn(examples, number, classes, seed=0):
    """Labels with a long tail, and groups that prefer a class."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, classes + 1)
    labels = rng.choice(classes, examples, p=shares / shares.sum())
    return labels, numbered([str(g) for g in (rng.integers(0, number, examples) + 3 * labels) % number])


def unevenness(labels, part):
    """The root mean square of how far a fold's share of a class is from a fifth."""
    shares = [np.bincount(part[labels == c], minlength=5) / (labels == c).sum() for c in np.unique(labels)]
    return float(np.sqrt(np.mean((np.array(shares) - 0.2) ** 2)))


@pytest.mark.parametrize("case", CASES)
def test_groups_stay_together_and_classes_are_spread_as_scikit_learn_spreads_them(case):
    labels, groups = drawn(*CASES[case])
    part = stratified(labels, 5, groups=groups)
    assert sorted(set(part)) == [0, 1, 2, 3, 4]
    assert all(len(set(part[groups == group])) == 1 for group in range(groups.max() + 1))
    reference, splitter = np.empty_like(part), StratifiedGroupKFold(5, shuffle=True, random_state=0)
    for k, (_, left_out) in enumerate(splitter.split(labels, labels, groups)):
        reference[left_out] = k
    assert unevenness(labels, part) <= unevenness(labels, reference) + 1e-3
    assert np.array_equal(part, stratified(labels, 5, groups=groups))


def test_groups_of_one_example_are_spread_like_examples():
    labels = np.repeat([0, 1, 2], [53, 21, 5])
    part = stratified(labels, 5, groups=np.arange(79))
    for c in range(3):
        assert np.ptp(np.bincount(part[labels == c], minlength=5)) <= 1


def test_the_names_of_groups_do_not_matter():
    labels, groups = drawn(300, 30, 3)
    inputs = np.arange(600.0).reshape(300, 2)
    named, renamed = (cu.Data(inputs, labels, groups=[f"{word} {99 - g}" for g in groups]) for word in ("a", "patient"))
    assert named.fingerprint == renamed.fingerprint
    assert np.array_equal(named.folds[5], renamed.folds[5])
    assert np.array_equal(named.group_codes, groups)
    others = cu.Data(inputs, labels, groups=np.roll(groups, 1))
    assert len({named.fingerprint, others.fingerprint, cu.Data(inputs, labels).fingerprint}) == 3


def test_without_groups_nothing_has_changed():
    """As results are stored under these."""
    part = stratified(np.arange(97) % 7 % 4, 5)
    assert hashlib.sha256(part.data).hexdigest()[:16] == "229adb70ff741357"
    assert cu.Data(np.arange(12.0).reshape(6, 2), [0, 1] * 3).fingerprint == "b3b2313e09b788ba"


@pytest.mark.parametrize("share", [0.1, 0.2, 0.35, 0.5])
@pytest.mark.parametrize("case", CASES)
def test_a_share_of_groups(case, share):
    labels, groups = drawn(*CASES[case])
    held = held_groups(labels, groups, share, 0)
    assert not set(groups[held]) & set(groups[~held])
    shares = np.array([held[labels == c].mean() for c in np.unique(labels)])
    assert (shares > 0).all()
    assert (shares < 1).all()
    assert abs(held.mean() - share) < 0.05
    assert not np.array_equal(held, held_groups(labels, groups, share, 1))


def groups_by_class(labels, groups):
    return np.array([len(set(groups[labels == c])) for c in range(labels.max() + 1)])


def test_of_every_class_a_group_is_held_and_two_stay():
    """On small data, where one class or the other easily misses out; at shares at which none would be held as well."""
    rng, tried = np.random.default_rng(0), 0
    for seed in range(500):
        labels = rng.choice(4, 60, p=rng.dirichlet(np.ones(4)))
        groups = numbered([str(g) for g in rng.integers(0, rng.integers(5, 15), 60)])
        total = groups_by_class(labels, groups)
        if len(total) < 4 or total.min() < 3:
            continue
        held, tried = held_groups(labels, groups, [0.02, 0.2, 0.5, 0.8][seed % 4], seed), tried + 1
        stay = groups_by_class(np.append(labels[~held], 3), np.append(groups[~held], -1)) - [0, 0, 0, 1]
        assert stay.min() >= 2
        assert set(labels[held]) == {0, 1, 2, 3}
        assert not set(groups[held]) & set(groups[~held])
    assert tried > 100


def test_lanes_that_leave_out_a_fold_leave_out_whole_groups():
    labels, groups = drawn(120, 12, 2)
    data = cu.Data(np.arange(240.0).reshape(120, 2), labels, groups=groups)
    lanes = [cu.Lane("naive", fold=(k, 5)) for k in range(5)]
    fitted = cu.fit(data, lanes, recipe=cu.Recipe("linear", 1, 16))
    judged = [outcomes.labels.tolist() for outcomes in fitted.unseen]
    assert judged == [labels[data.folds[5] == k].tolist() for k in range(5)]


def test_groups_are_taken_along():
    data = cu.Data(np.eye(6), [0, 1] * 3, groups=["a", "a", "b", "b", "c", "c"])
    assert data.take([4, 1]).groups.tolist() == ["c", "a"]
    assert cu.duplicate(data, 1).groups.tolist() == data.groups.tolist()


def test_refusals():
    inputs, labels = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    with refused("there are 3 groups, and 5 folds need as many"):
        cu.Dataset("x", cu.Data(inputs, labels, groups=np.arange(20) % 3))
    with refused("class '1' has one group alone", "?min=2"):
        cu.Dataset("x", cu.Data(inputs, labels, groups=np.where(labels, 99, np.arange(20))))
    with refused("2 groups are in both splits, 0, 1"):
        cu.Dataset("x", *[cu.Data(inputs, labels, groups=np.arange(20) % 10 // 5)] * 2)
    with refused("there are 19 groups and 20 examples"):
        cu.Data(inputs, labels, groups=np.arange(19))
    with refused("groups have shape (20, 1)"):
        cu.Data(inputs, labels, groups=np.arange(20)[:, None])
    with refused("full_train has groups"):
        cu.validation_split(cu.Data(inputs, labels, groups=np.arange(20)), 2)


def test_duplicates_within_a_group_do_not_count():
    inputs, labels = np.arange(20.0).reshape(10, 2)[[0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 0]], [0, 1] * 5 + [0]
    groups = [0, 1, 2, 3, 4, 5, 6, 7, 0, 8, 9]  # the copy of 0 is in its group, that of 1 and the second of 0 are not
    dataset = cu.Dataset("x", cu.Data(inputs, labels, groups=groups, names=[f"n{i}" for i in range(11)]))
    assert dataset.duplicates == 2
    assert cu.Dataset("x", cu.Data(inputs, labels)).duplicates == 3


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.integers(2, 7), st.integers(0, 3))
def test_stratified_parts_are_even(labels, parts, seed):
    """In every class, and over all of them, the parts differ by one example at most."""
    part = stratified(labels, parts, seed)
    assert part.shape == (len(labels),)
    assert set(part) <= set(range(parts))
    for of_class in [part, *(part[np.array(labels) == c] for c in set(labels))]:
        sizes = np.bincount(of_class, minlength=parts)
        assert sizes.max() - sizes.min() <= 1


def test_stratified_is_one_split_for_all_and_random_within_a_class():
    labels = np.repeat([0, 1], 50)
    assert np.array_equal(stratified(labels, 5), stratified(labels, 5))
    assert not np.array_equal(stratified(labels, 5), stratified(labels, 5, seed=1))
    assert not np.array_equal(stratified(labels, 5)[:10], np.arange(10) % 5)
