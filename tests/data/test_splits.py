"""Shaping: pure functions that choose, repeat and join examples."""

import math

import numpy as np
import pytest
import sklearn.datasets  # noqa: F401  # its import draws a random number, which would count as ours
from hypothesis import given
from hypothesis import strategies as st

from class_uncertainty import (
    Data,
    Dataset,
    InputError,
    duplicate,
    load,
    long_tail,
    mix_hardness,
    svci20,
    validation_split,
)
from class_uncertainty.data.splits import split_off

pytestmark = pytest.mark.usefixtures("no_global_random")


def data(*counts, shape=(1,), names=None):
    """Examples that can be told apart: the first value of each is its number."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    inputs = np.arange(len(labels))[:, None] * np.ones(shape)
    return Data(inputs.reshape(len(labels), *shape), labels, names or [f"class {c}" for c in range(len(counts))])


def numbers(some):
    return some.inputs[:, 0].astype(int).tolist()


TAIL = data(40, 20, 7, 3)


@pytest.mark.parametrize(
    ("classes", "each", "ratio", "total", "smallest"),
    [(10, 5000, 50, 13_996, 100), (10, 5000, 100, 12_406, 50), (100, 500, 50, 12_608, 10), (100, 500, 100, 10_847, 5)],
    ids=["cifar10-lt:50", "cifar10-lt:100", "cifar100-lt:50", "cifar100-lt:100"],
)
def test_long_tail_totals_of_the_paper(classes, each, ratio, total, smallest):
    tail = long_tail(data(*[each] * classes), ratio)
    assert len(tail) == tail.counts.sum() == total
    assert tail.counts[0] == each
    assert tail.counts[-1] == smallest
    assert tail.counts.tolist() == [math.floor(each * (1 / ratio) ** (c / (classes - 1))) for c in range(classes)]


def test_the_counts_of_cifar10_lt():
    """As Bag-of-Tricks prints them."""
    assert long_tail(data(*[5000] * 10), 50).counts.tolist() == [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100]
    assert long_tail(data(*[5000] * 10), 100).counts.tolist() == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]


def test_the_classes_of_323_66_and_12_examples_occur():
    """Sec. III names them; they are classes 11, 51 and 94 of CIFAR-100-LT at 50."""
    assert long_tail(data(*[500] * 100), 50).counts[[11, 51, 94]].tolist() == [323, 66, 12]


def ldam_drw(labels, counts, seed=0):
    """IMBALANCECIFAR.gen_imbalanced_data of LDAM-DRW, which seeds and uses NumPy's global generator."""
    before = np.random.get_state()
    try:
        np.random.seed(seed)
        kept = []
        for the_class, the_number in zip(np.unique(labels), counts, strict=True):
            index = np.where(labels == the_class)[0]
            np.random.shuffle(index)
            kept.extend(index[:the_number])
        return [int(i) for i in kept]
    finally:
        np.random.set_state(before)


@pytest.mark.parametrize("ratio", [1, 10, 100])
def test_seed_0_keeps_the_examples_of_ldam_drw(ratio):
    whole = data(*[500] * 10)
    tail = long_tail(whole, ratio)
    assert numbers(tail) == ldam_drw(whole.labels, tail.counts)
    assert (tail.labels == whole.labels[numbers(tail)]).all()


def test_seeds_draw_other_examples_of_the_same_counts():
    whole = data(*[100] * 5)
    zero, one = long_tail(whole, 10), long_tail(whole, 10, seed=1)
    assert zero.counts.tolist() == one.counts.tolist()
    assert set(numbers(zero)) != set(numbers(one))
    assert numbers(one) == numbers(long_tail(whole, 10, seed=1))


def test_no_example_is_kept_twice():
    kept = numbers(long_tail(data(*[100] * 10), 20))
    assert len(kept) == len(set(kept))


def test_ratio_1_keeps_everything():
    whole = data(*[20] * 4)
    assert sorted(numbers(long_tail(whole, 1))) == sorted(numbers(whole))


def test_an_unbalanced_set_is_cut_from_its_smallest_class():
    """The largest class of the tail can have no more than every class has."""
    assert long_tail(data(20, 30), 4).counts.tolist() == [20, 5]


@pytest.mark.parametrize("ratio", [0.5, 0, -1, math.nan, math.inf])
def test_long_tail_refuses_a_ratio(ratio):
    with pytest.raises(InputError, match=rf"^imbalance ratio is {ratio:g}: it must be 1 \(balanced\) or more\.$"):
        long_tail(data(*[20] * 3), ratio)


def test_long_tail_refuses_to_empty_a_class():
    with pytest.raises(InputError, match=r"^imbalance ratio 15 leaves class 'class 2' 1 of 20 examples"):
        long_tail(data(*[20] * 3), 15)
    assert long_tail(data(*[20] * 3), 10).counts[-1] == 2


def test_long_tail_refuses_a_single_class():
    with pytest.raises(InputError, match="class"):
        long_tail(data(20), 2)


@pytest.mark.parametrize("strength", [0, 0.3, 0.5, 0.7, 1])
def test_duplicate_has_the_papers_shares(strength):
    """alpha = alpha_R ** lambda alpha_N ** (1 - lambda), rounded, on the scale of the largest class."""
    more = duplicate(TAIL, strength)
    alpha = 0.25**strength * (TAIL.counts / len(TAIL)) ** (1 - strength)
    np.testing.assert_allclose(more.counts, alpha / alpha[0] * 40, atol=0.5)
    assert more.counts[0] == 40


def test_duplicate_from_natural_to_balanced():
    assert duplicate(TAIL, 0).fingerprint == TAIL.fingerprint
    assert duplicate(TAIL, 1).counts.tolist() == [40] * 4


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.floats(0, 1), st.integers(0, 5))
def test_duplicate_repeats_evenly_and_only_repeats(counts, strength, seed):
    before = data(*counts)
    more = duplicate(before, strength, seed)
    times = np.bincount(numbers(more), minlength=len(before))
    assert numbers(more)[: len(before)] == numbers(before)
    np.testing.assert_array_equal(more.labels, before.labels[numbers(more)])
    for c in range(len(counts)):
        each = times[before.labels == c]
        assert each.min() >= 1
        assert np.ptp(each) <= 1


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_duplicate_refuses(strength):
    with pytest.raises(InputError, match=r"strength is .*: it must lie between 0 \(natural\) and 1 \(balanced\)"):
        duplicate(TAIL, strength)


def test_validation_split_is_balanced_and_apart():
    rest, held = validation_split(TAIL, 1, seed=3)
    assert held.counts.tolist() == [1] * 4
    assert rest.counts.tolist() == [39, 19, 6, 2]
    assert sorted(numbers(rest) + numbers(held)) == list(range(len(TAIL)))
    np.testing.assert_array_equal(TAIL.labels[numbers(rest)], rest.labels)
    assert numbers(validation_split(TAIL, 1, seed=4)[1]) != numbers(held)
    assert numbers(validation_split(TAIL, 1, seed=3)[1]) == numbers(held)


@pytest.mark.parametrize("per_class", [0, 2, -1])
def test_validation_split_refuses(per_class):
    with pytest.raises(InputError, match=rf"{per_class} examples per class .* class 'class 3' has 3: .* 1 to 1"):
        validation_split(TAIL, per_class)


def test_validation_is_cut_before_the_long_tail():
    """The tail is long still, and the test images are not the ones judged on."""
    plain, tuned = load("digits-lt:20"), load("digits-lt:20?validation=20")
    assert tuned.test.counts.tolist() == [20] * 10
    assert tuned.train.counts.tolist() == [int(100 * 20 ** (-c / 9)) for c in range(10)]
    assert not np.isin(tuned.test.digests, plain.test.digests).any()
    assert not np.isin(tuned.test.digests, tuned.train.digests).any()


@given(st.lists(st.integers(3, 60), min_size=2, max_size=6), st.floats(0.01, 0.99))
def test_hold_out_takes_its_share_of_every_class(counts, share):
    whole = data(*counts)
    rest, held = split_off(whole, share)
    assert sorted(numbers(rest) + numbers(held)) == list(range(len(whole)))
    for n, kept, test in zip(counts, rest.counts, held.counts, strict=True):
        assert kept >= 2
        assert test >= 1
        assert abs(test - share * n) <= 0.5 or test in (1, n - 2)


@pytest.mark.parametrize("share", [0, 1, -0.5, 7, float("nan")])
def test_hold_out_refuses_what_is_no_share(share):
    with pytest.raises(InputError, match="a share must lie between 0 and 1"):
        split_off(TAIL, share)


def test_hold_out_refuses_a_class_of_two():
    with pytest.raises(InputError, match=r"class 'class 1' has 2 examples: .* three"):
        split_off(data(9, 2), 0.2)


EASY = Dataset("easy", data(5, 6, names=["x", "y"]), data(3, 1, names=["x", "y"]))
HARD = Dataset("hard", data(4, 9, 7, names=["a", "b", "c"]), data(2, 2, 5, names=["a", "b", "c"]))


def test_mix_hardness():
    mixed = mix_hardness(EASY, HARD, 4)
    assert mixed.classes == ("a", "b", "c", "x", "y")
    assert mixed.train.counts.tolist() == [4] * 5
    assert mixed.test.counts.tolist() == [2, 2, 5, 3, 1]
    for part, side, first in ((mixed.train.labels < 3, HARD, 0), (mixed.train.labels >= 3, EASY, 3)):
        chosen = mixed.train.inputs[part][:, 0].astype(int)
        assert len(set(chosen.tolist())) == len(chosen)
        np.testing.assert_array_equal(side.train.labels[chosen] + first, mixed.train.labels[part])
    assert mix_hardness(EASY, HARD, 4, seed=1).fingerprint != mixed.fingerprint


def test_svci20_has_the_objects_first():
    assert svci20(HARD, EASY, 3).classes == ("a", "b", "c", "x", "y")


@pytest.mark.parametrize(
    ("easy", "hard", "per_class", "message"),
    [
        (EASY, HARD, 5, "5 examples per class .* class 'a' has 4: .* 1 to 4"),
        (EASY, HARD, 0, "1 to 4"),
        (EASY, Dataset("blind", HARD.train), 2, "blind has no test split"),
        (EASY, EASY, 2, "class 'easy/x' appears twice"),
        (EASY, Dataset("wide", data(4, 4, shape=(2,)), data(4, 4, shape=(2,))), 2, "easy has shape .* wide"),
    ],
)
def test_mix_hardness_refuses(easy, hard, per_class, message):
    with pytest.raises(InputError, match=message):
        mix_hardness(easy, hard, per_class)


@pytest.mark.parametrize("shape", [duplicate, long_tail, lambda some, n, seed: validation_split(some, int(n), seed)])
def test_a_seed_that_numpy_cannot_take_is_refused(shape):
    with pytest.raises(InputError, match="seed is -1"):
        shape(TAIL, 1, -1)


def test_shaping_leaves_its_input_and_the_global_random_state_alone():
    before = TAIL.fingerprint
    for _ in (duplicate(TAIL, 0.5), validation_split(TAIL, 1), split_off(TAIL, 0.2)):
        pass
    assert Data(TAIL.inputs, TAIL.labels, TAIL.classes).fingerprint == before
