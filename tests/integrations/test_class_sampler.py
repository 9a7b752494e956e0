"""ClassSampler: draws by alpha, the same in every process and after a stop."""

import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.stats import chisquare
from torch.utils.data import DataLoader, TensorDataset

import class_uncertainty as cu
from class_uncertainty.training.sampling import LaneSampler, draw_epoch
from class_uncertainty.training.stages import resolve_stages

LABELS = np.repeat([0, 1, 2, 3], [500, 100, 40, 4])
ALPHA = [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("method", ["", "cb-rs", "ubrs"])
def test_draws_meet_alpha_and_are_uniform_within_a_class(method):
    uncertainty = [0.1, 0.2, 0.3, 0.6] if method == "ubrs" else None
    options = {"num_samples": 40_000, "seed": 3}
    sampler = cu.ClassSampler(LABELS, ALPHA, **options)
    if method:
        sampler = cu.ClassSampler.for_method(method, LABELS, uncertainty=uncertainty, **options)
    expected = {"": ALPHA, "cb-rs": [0.25] * 4, "ubrs": np.array([1, 2, 3, 6]) / 12}[method]
    order = np.array(list(sampler))
    assert len(order) == len(sampler) == 40_000
    assert chisquare(np.bincount(LABELS[order]), 40_000 * np.array(expected)).pvalue > 0.01
    by_example = np.bincount(order, minlength=len(LABELS))
    for c in range(4):
        assert chisquare(by_example[c == LABELS]).pvalue > 0.01
    np.testing.assert_allclose(sampler.alpha, expected)


@pytest.mark.parametrize("classes", [2, 3, 50, 1000])
def test_the_guided_search_is_an_inverse_of_the_distribution(rng, classes):
    """Against NumPy's own search, of probabilities from very rare to very frequent."""
    alpha = rng.random(classes) ** 20
    alpha /= alpha.sum()
    sampler = cu.ClassSampler(np.arange(classes), alpha, num_samples=300_000)
    uniforms = np.random.default_rng([0, 1, 0]).random(300_000)
    assert np.array_equal(sampler.order(), np.searchsorted(np.cumsum(alpha)[:-1], uniforms, side="right"))


def test_without_alpha_an_epoch_is_a_permutation():
    sampler = cu.ClassSampler(LABELS)
    assert sorted(sampler) == list(range(len(LABELS)))
    assert list(sampler) != sorted(sampler)
    np.testing.assert_allclose(sampler.alpha, np.bincount(LABELS) / len(LABELS))


def test_draws_are_a_function_of_seed_and_epoch_alone(no_global_random):
    first, second = (cu.ClassSampler(LABELS, ALPHA, seed=5) for _ in range(2))
    third = cu.ClassSampler(LABELS, ALPHA, seed=6)
    before = list(first)
    first.set_epoch(4)
    second.set_epoch(2)
    second.set_epoch(4)
    third.set_epoch(4)
    assert list(first) == list(first) == list(second)
    assert list(first) not in (before, list(third))
    first.set_epoch(0)
    assert list(first) == before


def test_a_method_draws_what_the_package_draws():
    """For the same seed, as `cu.fit` does: a class by alpha that comes in over the epochs."""
    data = cu.Data(np.zeros((len(LABELS), 2), np.float32), LABELS)
    lane, recipe = cu.Lane("pb-rs", seed=7), cu.Recipe("linear", epochs=5, batch=32)
    own = LaneSampler(lane, data, None, 2)
    sampler = cu.ClassSampler.for_method("pb-rs", LABELS, epochs=5, seed=7)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        _, drawn = draw_epoch([own], resolve_stages(lane.value, recipe)[0], epoch, len(LABELS))
        assert np.array_equal(sampler.order(), drawn["order"][0])


@pytest.mark.parametrize("world", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("alpha", [None, ALPHA])
def test_any_number_of_processes_draws_the_same_multiset(world, alpha):
    whole = cu.ClassSampler(LABELS, alpha, num_samples=997)
    whole.set_epoch(3)
    shards = [whole.shard(rank, world) for rank in range(world)]
    assert Counter(index for shard in shards for index in shard) == Counter(whole)
    assert [len(list(shard)) for shard in shards] == [len(shard) for shard in shards]


def test_a_shard_of_a_shard_is_refused():
    with refused("shard 1 of 2"):
        cu.ClassSampler(LABELS).shard(1, 2).shard(0, 2)
    with refused("rank is 2", "from 0 to 1"):
        cu.ClassSampler(LABELS).shard(2, 2)


@pytest.mark.parametrize("drawn", [0, 1, 250, 643, 644])
def test_it_resumes_in_mid_epoch(drawn):
    sampler = cu.ClassSampler(LABELS, ALPHA, seed=1)
    sampler.set_epoch(2)
    whole, started = list(sampler), iter(sampler)
    first = [next(started) for _ in range(drawn)]
    state = pickle.loads(pickle.dumps(sampler.state_dict()))
    again = cu.ClassSampler(LABELS, ALPHA, seed=1)
    again.load_state_dict(state)
    again.set_epoch(2)  # as a loop does before every epoch
    assert first + list(again) == whole
    assert list(again) == whole  # the next time from the start
    again.set_epoch(3)
    sampler.set_epoch(3)
    assert list(again) == list(sampler)


def test_it_resumes_twice_in_one_epoch():
    whole, drawn = list(cu.ClassSampler(LABELS, ALPHA)), []
    state = cu.ClassSampler(LABELS, ALPHA).state_dict()
    for number in (200, 150):
        again = cu.ClassSampler(LABELS, ALPHA)
        again.load_state_dict(state)
        assert again.state_dict() == state  # nothing drawn since
        resumed = iter(again)
        drawn += [next(resumed) for _ in range(number)]
        state = again.state_dict()
    assert state["drawn"] == 350
    again.load_state_dict(state)
    assert drawn + list(again) == whole


def test_it_resumes_with_another_number_of_processes():
    whole = cu.ClassSampler(LABELS, ALPHA)
    shards = [whole.shard(rank, 2) for rank in range(2)]
    first = []
    for shard in shards:
        started = iter(shard)
        first += [next(started) for _ in range(90)]
    assert shards[0].state_dict()["drawn"] == shards[1].state_dict()["drawn"] == 180
    whole.load_state_dict(shards[0].state_dict())
    rest = [index for rank in range(3) for index in whole.shard(rank, 3)]
    assert Counter(first + rest) == Counter(cu.ClassSampler(LABELS, ALPHA))


def test_what_workers_draw_ahead_need_not_count():
    sampler = cu.ClassSampler(LABELS, ALPHA)
    whole = list(sampler)
    data = TensorDataset(torch.arange(len(LABELS)))
    batches = iter(DataLoader(data, batch_size=10, sampler=sampler))
    seen = torch.cat([next(batches)[0] for _ in range(3)]).tolist()
    again = cu.ClassSampler(LABELS, ALPHA)
    again.load_state_dict(sampler.state_dict(drawn=30))
    assert seen + list(again) == whole


def test_another_state_is_refused_and_nothing_is_lost():
    sampler = cu.ClassSampler(LABELS, ALPHA)
    state, whole = sampler.state_dict(), list(sampler)
    with refused("seed 9", "has 0"):
        sampler.load_state_dict(cu.ClassSampler(LABELS, ALPHA, seed=9).state_dict())
    with refused("other labels"):
        sampler.load_state_dict(cu.ClassSampler(LABELS).state_dict())
    with refused("other labels"):  # alpha is that of the labels: drawn with replacement, not permuted
        cu.ClassSampler(LABELS, np.bincount(LABELS)).load_state_dict(cu.ClassSampler(LABELS).state_dict())
    step, ramp = (cu.ClassSampler.for_method(name, LABELS, epochs=9) for name in ("2s-cb-rs", "2s-pb-rs"))
    np.testing.assert_array_equal(step.alpha, ramp.alpha)  # the same at first and in the end, not in between
    with refused("other labels"):
        ramp.load_state_dict(step.state_dict())
    with refused("no 'drawn'"):
        sampler.load_state_dict({"seed": 0, "epoch": 0})
    with refused("drawn is -1", "from 0 to 644"):
        sampler.load_state_dict(state | {"drawn": -1})
    assert list(sampler) == whole


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: cu.ClassSampler([]), ["no labels"]),
        (lambda: cu.ClassSampler([0, 2], [0.5, 0.3, 0.2]), ["class 1", "alpha 0.3", "no examples"]),
        (lambda: cu.ClassSampler([0, 3], [0.5, 0.5]), ["alpha has length 2", "labels run from 0 to 3", "give 4"]),
        (lambda: cu.ClassSampler([0, 1], [3, 2, 1]), ["class 2", "alpha 1", "no examples", "set it to 0"]),
        (lambda: cu.ClassSampler([0, 1], [[0.5, 0.5]]), ["alpha", "(1, 2)"]),
        (lambda: cu.ClassSampler([0, 1], [2, -1]), ["alpha of class 1 is -1", "finite number from 0"]),
        (lambda: cu.ClassSampler([0, 1], [float("nan"), 1]), ["alpha of class 0 is nan", "finite"]),
        (lambda: cu.ClassSampler([0, 1], [0, 0]), ["alpha sums to 0", "above 0"]),
        (lambda: cu.ClassSampler([0, 1], [1e308, 1e308]), ["alpha sums to inf", "finite"]),
        (lambda: cu.ClassSampler([0, 1], ["0.5", "0.5"]), ["alpha holds the text '0.5'", "a number"]),
        (lambda: cu.ClassSampler([0, 1], seed=-1), ["seed is -1"]),
        (lambda: cu.ClassSampler([0, 1], num_samples=0), ["num_samples is 0"]),
        (lambda: cu.ClassSampler.for_method("pb-rs", [0, 1]), ["'pb-rs'", "epochs="]),
        (lambda: cu.ClassSampler.for_method("ubrs", [0, 1]), ["'ubrs'", "uncertainty="]),
        (lambda: cu.ClassSampler.for_method("cb-sr", [0, 1]), ["did you mean 'cb-rs'"]),
        (lambda: cu.ClassSampler.for_method("cb-rs", [0, 2]), ["class 1 is 0"]),
        (lambda: cu.ClassSampler.for_method("pb-rs", [0, 1], epochs=3).set_epoch(3), ["epoch is 3", "to 2"]),
        (lambda: cu.ClassSampler([0, 1]).set_epoch(-1), ["epoch is -1"]),
    ],
)
def test_wrong_input_is_refused(make, parts):
    with refused(*parts):
        make()


def test_more_classes_than_16_bits_tell_apart():
    labels = np.arange(2**16 + 3)
    order = cu.ClassSampler.for_method("cb-rs", labels[::-1]).grouped.positions
    assert np.array_equal(order, labels[::-1])


def test_its_repr_says_what_is_drawn():
    sampler = cu.ClassSampler.for_method("cb-rs", LABELS, seed=3)
    assert repr(sampler) == "ClassSampler(644 of 644 examples, 4 classes, method 'cb-rs', seed 3, epoch 0)"
    part = cu.ClassSampler(LABELS, ALPHA, num_samples=100).shard(1, 2)
    assert "100 of 644 examples, 4 classes, fixed alpha, seed 0, epoch 0, shard 1 of 2" in repr(part)


def test_an_empty_class_without_probability_is_fine():
    assert set(cu.ClassSampler([0, 2], [0.5, 0, 0.5], num_samples=50)) == {0, 1}
