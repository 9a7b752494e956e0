"""Loss: what the package's own loop minimises, for every row that has a loss of its own."""

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.stats import chisquare
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import class_uncertainty as cu
from class_uncertainty.integrations.method_parts import needs
from class_uncertainty.integrations.torch import CosineHead, TrainingParts
from class_uncertainty.training.sampling import LaneSampler, draw_epoch
from class_uncertainty.training.stages import resolve_stages
from class_uncertainty.training.streams import Grouped
from class_uncertainty.training.train_step import LossTensors

COUNTS, UNCERTAINTY, EPOCHS = [400, 90, 20, 5], [0.1, 0.7, 0.3, 0.5], 10
STATS = cu.Stats(COUNTS, UNCERTAINTY)
DRAWN = [name for name, method in cu.METHODS.items() if method.alpha and not needs(method)]
LOSSES = [name for name, method in cu.METHODS.items() if not method.alpha and not needs(method)]
NEITHER = [name for name, method in cu.METHODS.items() if needs(method)]
LABELS = np.repeat(np.arange(4), COUNTS)


def batch(rng: np.random.Generator, cosines: bool) -> tuple[torch.Tensor, torch.Tensor]:
    z = rng.uniform(-1, 1, (37, 4)) if cosines else rng.normal(0, 3, (37, 4))
    return torch.tensor(z, dtype=torch.float32), torch.tensor(rng.integers(0, 4, 37))


def own_loss(method: str, epoch: int, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """That of the package's own training loop."""
    lane = cu.Lane(method)
    objective = LossTensors([lane], 4, "cpu")
    objective.set([cu.plan(lane.value, STATS, epoch, EPOCHS)])
    return objective.loss(z[None], labels[None])[0]


@pytest.mark.parametrize("method", [*LOSSES, "cb-focal:beta=0.99@mix:gamma=0.3", "ubrw@cardinality^0.5"])
def test_it_is_the_loss_of_the_package_s_own_loop_in_every_epoch(method, rng):
    loss = cu.Loss(method, COUNTS, UNCERTAINTY, epochs=EPOCHS)
    for epoch in range(EPOCHS):
        z, labels = batch(rng, loss.head == "cosine")
        loss.set_epoch(epoch)
        (mine, own), gradients = (z.clone().requires_grad_() for _ in range(2)), []
        for values, value in ((mine, loss(mine, labels)), (own, own_loss(method, epoch, own, labels))):
            value.backward()
            gradients.append(values.grad)
        torch.testing.assert_close(loss(z, labels), own_loss(method, epoch, z, labels), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)
        parts = [(z[:5], labels[:5]), (z[5:], labels[5:])]  # add up to one large batch
        denominator = sum(loss.denominator(part) for _, part in parts)
        added = sum(loss.total(*part) for part in parts) / denominator
        torch.testing.assert_close(added, loss(z, labels), rtol=1e-5, atol=1e-6)


def test_every_row_has_its_place():
    """A loss, draws, or a sentence that says by name what is missing."""
    assert sorted([*LOSSES, *DRAWN, *NEITHER]) == sorted(cu.METHODS)
    acting = {name for name, method in cu.METHODS.items() if method.focal or method.weight or method.margin}
    assert acting | {"naive"} == set(LOSSES)
    assert {"cb-rs", "pb-rs", "power-rs", "ubrs", "pb-ubrs", "2s-cb-rs", "2s-pb-rs", "2s-ubrs"} == set(DRAWN)


@pytest.mark.parametrize("method", [*DRAWN, "naive"])
def test_rows_that_act_on_draws_have_a_sampler(method):
    options = {"uncertainty": UNCERTAINTY, "epochs": EPOCHS}
    sampler = cu.ClassSampler.for_method(method, LABELS, **options)
    for epoch in (0, EPOCHS - 1):
        sampler.set_epoch(epoch)
        expected = cu.plan(cu.METHODS[method], STATS, epoch, EPOCHS).alpha
        np.testing.assert_allclose(sampler.alpha, expected, rtol=1e-12)
    if method != "naive":
        with refused(f"'{method}'", "cu.ClassSampler.for_method"):
            cu.Loss(method, COUNTS, **options)


@pytest.mark.parametrize("method", [name for name in LOSSES if name != "naive"])
def test_rows_that_act_on_the_loss_have_no_sampler(method):
    with refused(f"'{method}'", "cu.Loss"):
        cu.ClassSampler.for_method(method, LABELS, uncertainty=UNCERTAINTY, epochs=EPOCHS)


@pytest.mark.parametrize("method", NEITHER)
def test_other_rows_are_refused_by_name_with_what_they_need(method):
    for make in (lambda: cu.Loss(method, COUNTS, UNCERTAINTY), lambda: cu.ClassSampler.for_method(method, LABELS)):
        with refused(f"'{method}' needs", "cu.fit"):
            make()


def test_naive_is_cross_entropy_and_others_their_closed_forms(rng):
    z, labels = batch(rng, False)
    torch.testing.assert_close(cu.Loss("naive", COUNTS)(z, labels), F.cross_entropy(z, labels))
    prior = torch.tensor(COUNTS, dtype=torch.float32).log()
    torch.testing.assert_close(cu.Loss("balanced-softmax", COUNTS)(z, labels), F.cross_entropy(z + prior, labels))
    weights = torch.tensor([1 / count for count in COUNTS])
    late = cu.Loss("2s-csce", COUNTS, epochs=10)
    torch.testing.assert_close(late(z, labels), F.cross_entropy(z, labels))
    late.set_epoch(9)
    torch.testing.assert_close(late(z, labels), F.cross_entropy(z, labels, weight=weights))


def test_logits_of_any_shape_and_half_precision_are_taken(rng):
    loss = cu.Loss("cb-focal", COUNTS)
    z, labels = batch(rng, False)
    torch.testing.assert_close(loss(z[:36].view(2, 18, 4), labels[:36].view(2, 18)), loss(z[:36], labels[:36]))
    assert loss(z.bfloat16(), labels).dtype == torch.float32
    assert loss(z.double(), labels).dtype == torch.float64


def test_it_moves_and_copies_with_a_network_and_leaves_no_trace_in_its_state():
    loss = cu.Loss("ubrw", COUNTS, UNCERTAINTY)
    network = torch.nn.ModuleDict({"body": torch.nn.Linear(2, 4), "loss": loss})
    assert not [name for name in network.state_dict() if name.startswith("loss")]
    moved = copy.deepcopy(network).to("meta")
    assert moved["loss"].weight.device.type == "meta"
    moved["loss"].set_epoch(3)
    assert moved["loss"].weight.device.type == "meta"


def test_ldam_takes_cosines_alone(rng):
    loss, head = cu.Loss("ldam", COUNTS), CosineHead(8, 4)
    torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(5, dtype=torch.int64)
    assert loss(head(torch.tensor(rng.normal(size=(5, 8)), dtype=torch.float32)), labels).item() > 0
    assert (loss.head, loss.scale.item()) == ("cosine", 30)
    with refused("'ldam'", "cosines", "CosineHead"):
        cu.Loss("ldam", COUNTS)(torch.full((5, 4), 3.0), labels)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: cu.Loss("ubrw", COUNTS), ["'ubrw'", "uncertainty="]),
        (lambda: cu.Loss("2s-csce", COUNTS), ["'2s-csce'", "epochs="]),
        (lambda: cu.Loss("2s-csce", COUNTS, epochs=0), ["epochs is 0"]),
        (lambda: cu.Loss("2s-csce", COUNTS, epochs=5).set_epoch(5), ["epoch is 5", "to 4"]),
        (lambda: cu.Loss("cbb", COUNTS), ["did you mean 'cb'"]),
        (lambda: cu.Loss("cb", [1, 0]), ["counts of class 1 is 0"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 3), torch.zeros(2).long()), ["(2, 3)", "(..., 4)"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 4), torch.zeros(3).long()), ["labels", "(3,)"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 4), torch.zeros(2)), ["labels", "float32"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(2, 4), torch.tensor([0, 4])), ["label is 4", "0 to 3"]),
        (lambda: cu.Loss("cb", COUNTS)(torch.zeros(0, 4), torch.zeros(0).long()), ["no examples"]),
    ],
)
def test_what_a_loss_refuses(make, parts):
    with refused(*parts):
        make()


def test_its_repr_says_what_it_minimises():
    assert repr(cu.Loss("2s-csce", [9, 4, 2], epochs=8)) == "Loss(method '2s-csce', 3 classes, linear head, 8 epochs)"
    assert repr(cu.Loss(cu.METHODS["ldam"], [9, 4, 2])) == "Loss(method 'ldam', 3 classes, cosine head)"


GIVEN_LABELS = np.repeat([0, 1, 2, 3], [500, 100, 40, 4])
ALPHA = [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("method", ["", "cb-rs", "ubrs"])
def test_draws_meet_alpha_and_are_uniform_within_a_class(method):
    uncertainty = [0.1, 0.2, 0.3, 0.6] if method == "ubrs" else None
    options = {"num_samples": 40_000, "seed": 3}
    sampler = cu.ClassSampler(GIVEN_LABELS, ALPHA, **options)
    if method:
        sampler = cu.ClassSampler.for_method(method, GIVEN_LABELS, uncertainty=uncertainty, **options)
    expected = {"": ALPHA, "cb-rs": [0.25] * 4, "ubrs": np.array([1, 2, 3, 6]) / 12}[method]
    order = np.array(list(sampler))
    assert len(order) == len(sampler) == 40_000
    assert chisquare(np.bincount(GIVEN_LABELS[order]), 40_000 * np.array(expected)).pvalue > 0.01
    by_example = np.bincount(order, minlength=len(GIVEN_LABELS))
    for c in range(4):
        assert chisquare(by_example[c == GIVEN_LABELS]).pvalue > 0.01
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
    sampler = cu.ClassSampler(GIVEN_LABELS)
    assert sorted(sampler) == list(range(len(GIVEN_LABELS)))
    assert list(sampler) != sorted(sampler)
    np.testing.assert_allclose(sampler.alpha, np.bincount(GIVEN_LABELS) / len(GIVEN_LABELS))


def test_draws_are_a_function_of_seed_and_epoch_alone(no_global_random):
    first, second = (cu.ClassSampler(GIVEN_LABELS, ALPHA, seed=5) for _ in range(2))
    third = cu.ClassSampler(GIVEN_LABELS, ALPHA, seed=6)
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
    data = cu.Data(np.zeros((len(GIVEN_LABELS), 2), np.float32), GIVEN_LABELS)
    lane, recipe = cu.Lane("pb-rs", seed=7), cu.Recipe("linear", epochs=5, batch=32)
    own = LaneSampler(lane, data, None, 2)
    sampler = cu.ClassSampler.for_method("pb-rs", GIVEN_LABELS, epochs=5, seed=7)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        _, drawn = draw_epoch([own], resolve_stages(lane.value, recipe)[0], epoch, len(GIVEN_LABELS))
        assert np.array_equal(sampler.order(), drawn["order"][0])


@pytest.mark.parametrize("world", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("alpha", [None, ALPHA])
def test_any_number_of_processes_draws_the_same_multiset(world, alpha):
    whole = cu.ClassSampler(GIVEN_LABELS, alpha, num_samples=997)
    whole.set_epoch(3)
    shards = [whole.shard(rank, world) for rank in range(world)]
    assert Counter(index for shard in shards for index in shard) == Counter(whole)
    assert [len(list(shard)) for shard in shards] == [len(shard) for shard in shards]


def test_a_shard_of_a_shard_is_refused():
    with refused("shard 1 of 2"):
        cu.ClassSampler(GIVEN_LABELS).shard(1, 2).shard(0, 2)
    with refused("rank is 2", "from 0 to 1"):
        cu.ClassSampler(GIVEN_LABELS).shard(2, 2)


@pytest.mark.parametrize("drawn", [0, 1, 250, 643, 644])
def test_it_resumes_in_mid_epoch(drawn):
    sampler = cu.ClassSampler(GIVEN_LABELS, ALPHA, seed=1)
    sampler.set_epoch(2)
    whole, started = list(sampler), iter(sampler)
    first = [next(started) for _ in range(drawn)]
    state = pickle.loads(pickle.dumps(sampler.state_dict()))
    again = cu.ClassSampler(GIVEN_LABELS, ALPHA, seed=1)
    again.load_state_dict(state)
    again.set_epoch(2)  # as a loop does before every epoch
    assert first + list(again) == whole
    assert list(again) == whole  # the next time from the start
    again.set_epoch(3)
    sampler.set_epoch(3)
    assert list(again) == list(sampler)


def test_it_resumes_twice_in_one_epoch():
    whole, drawn = list(cu.ClassSampler(GIVEN_LABELS, ALPHA)), []
    state = cu.ClassSampler(GIVEN_LABELS, ALPHA).state_dict()
    for number in (200, 150):
        again = cu.ClassSampler(GIVEN_LABELS, ALPHA)
        again.load_state_dict(state)
        assert again.state_dict() == state  # nothing drawn since
        resumed = iter(again)
        drawn += [next(resumed) for _ in range(number)]
        state = again.state_dict()
    assert state["drawn"] == 350
    again.load_state_dict(state)
    assert drawn + list(again) == whole


def test_it_resumes_with_another_number_of_processes():
    whole = cu.ClassSampler(GIVEN_LABELS, ALPHA)
    shards = [whole.shard(rank, 2) for rank in range(2)]
    first = []
    for shard in shards:
        started = iter(shard)
        first += [next(started) for _ in range(90)]
    assert shards[0].state_dict()["drawn"] == shards[1].state_dict()["drawn"] == 180
    whole.load_state_dict(shards[0].state_dict())
    rest = [index for rank in range(3) for index in whole.shard(rank, 3)]
    assert Counter(first + rest) == Counter(cu.ClassSampler(GIVEN_LABELS, ALPHA))


def test_what_workers_draw_ahead_need_not_count():
    sampler = cu.ClassSampler(GIVEN_LABELS, ALPHA)
    whole = list(sampler)
    data = TensorDataset(torch.arange(len(GIVEN_LABELS)))
    batches = iter(DataLoader(data, batch_size=10, sampler=sampler))
    seen = torch.cat([next(batches)[0] for _ in range(3)]).tolist()
    again = cu.ClassSampler(GIVEN_LABELS, ALPHA)
    again.load_state_dict(sampler.state_dict(drawn=30))
    assert seen + list(again) == whole


def test_another_state_is_refused_and_nothing_is_lost():
    sampler = cu.ClassSampler(GIVEN_LABELS, ALPHA)
    state, whole = sampler.state_dict(), list(sampler)
    with refused("seed 9", "has 0"):
        sampler.load_state_dict(cu.ClassSampler(GIVEN_LABELS, ALPHA, seed=9).state_dict())
    with refused("other labels"):
        sampler.load_state_dict(cu.ClassSampler(GIVEN_LABELS).state_dict())
    with refused("other labels"):  # alpha is that of the labels: drawn with replacement, not permuted
        cu.ClassSampler(GIVEN_LABELS, np.bincount(GIVEN_LABELS)).load_state_dict(
            cu.ClassSampler(GIVEN_LABELS).state_dict()
        )
    step, ramp = (cu.ClassSampler.for_method(name, GIVEN_LABELS, epochs=9) for name in ("2s-cb-rs", "2s-pb-rs"))
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
def test_what_a_sampler_refuses(make, parts):
    with refused(*parts):
        make()


def test_more_classes_than_16_bits_tell_apart():
    labels = np.arange(2**16 + 3)
    order = cu.ClassSampler.for_method("cb-rs", labels[::-1]).grouped.positions
    assert np.array_equal(order, labels[::-1])


def test_its_repr_says_what_is_drawn():
    sampler = cu.ClassSampler.for_method("cb-rs", GIVEN_LABELS, seed=3)
    assert repr(sampler) == "ClassSampler(644 of 644 examples, 4 classes, method 'cb-rs', seed 3, epoch 0)"
    part = cu.ClassSampler(GIVEN_LABELS, ALPHA, num_samples=100).shard(1, 2)
    assert "100 of 644 examples, 4 classes, fixed alpha, seed 0, epoch 0, shard 1 of 2" in repr(part)


def test_an_empty_class_without_probability_is_fine():
    assert set(cu.ClassSampler([0, 2], [0.5, 0, 0.5], num_samples=50)) == {0, 1}


SPLIT = np.repeat([0, 1, 2], [40, 12, 4])


@pytest.mark.parametrize("method", ["naive", "cb-rs", "pb-rs", "balanced-softmax"])
def test_labels_are_grouped_once_and_draws_are_the_method_s(method, monkeypatch):
    grouped, group = [], Grouped.of.__func__
    monkeypatch.setattr(Grouped, "of", classmethod(lambda *given: grouped.append(given) or group(*given)))
    parts = TrainingParts(method, SPLIT, None, epochs=3, seed=4)
    assert len(grouped) == 1
    by_draws = method.endswith("rs")
    expected = cu.ClassSampler.for_method(method if by_draws else "naive", SPLIT, epochs=3, seed=4)
    for epoch in range(3):
        for sampler in (parts.sampler, expected):
            sampler.set_epoch(epoch)
        assert list(parts.sampler) == list(expected)
    assert parts.loss.schedule.method is cu.METHODS["naive" if by_draws else method]


def test_a_method_on_draws_and_loss_is_refused():
    both = cu.Method("both", alpha=cu.METHODS["cb-rs"].alpha, weight=cu.METHODS["cb"].weight)
    with refused("the method acts on the loss", "cu.Loss"):
        TrainingParts(both, SPLIT, None, epochs=None, seed=0)
