"""Every form of a step and every stage: lanes apart, bits the same again, and each as plain PyTorch would do it."""

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from own_networks import Layers, images, registered
from refusals import refused
from torch import Tensor, nn
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.methods import Stage, losses, named
from class_uncertainty.methods.units import as_is
from class_uncertainty.training import train_step
from class_uncertainty.training.augment.crop_flip_mixup import augmented, draw
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.rbf_head import RBFHead
from class_uncertainty.training.networks.stack import initial
from class_uncertainty.training.sampling import STAGE_STREAMS, LaneSampler
from class_uncertainty.training.stages import resolve_stages, stack_key, staged
from class_uncertainty.training.streams import draw_order, initial_state, stream
from class_uncertainty.training.train_step import StepProgram

RECIPE = cu.Recipe("small-conv", epochs=4, batch=32, crop=1)
TABLE = cu.Recipe("mlp", epochs=4, batch=16)
FORMS = {
    "mixup": cu.Lane("naive+mixup", 1),
    "remix": cu.Lane("cb+remix", 2),
    "autoaugment and cutout": cu.Lane("naive+autoaugment+cutout", 3),
    "dropout": cu.Lane("dropout", 4),
    "crt": cu.Lane("crt", 5),
    "dro": cu.Lane("dro", 6),
    "dro-learned": cu.Lane("dro-learned+autoaugment+cutout", 7),
    "cam": cu.Lane("2s-cam-rs", 8),
    "duq": cu.Lane("duq", 9),
    "cyclic": cu.Lane("cyclic", 10),
    "bootstrap": cu.Lane("naive", 11, bootstrap=True),
    "online": cu.Lane("naive", 12, gather="online"),
    "snapshots": cu.Lane(replace(named("cyclic"), cycles=2), 13, gather="snapshots"),
}
IMAGES_ONLY = ("autoaugment and cutout", "dro-learned", "cam")
ON_TABLES = [name for name in FORMS if name not in IMAGES_ONLY]
CASES = [("small-conv", name) for name in FORMS] + [("mlp", name) for name in ON_TABLES]


@pytest.fixture(scope="module")
def digits() -> cu.Data:
    """Every third example: four batches an epoch."""
    train = cu.load("digits-lt:20").train
    return train.take(np.arange(0, len(train), 3))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Plain loops over small networks are faster so."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def given(digits: cu.Data) -> dict[str, tuple[cu.Data, cu.Recipe]]:
    from sklearn.datasets import load_wine

    wine = load_wine()
    return {"small-conv": (digits, RECIPE), "mlp": (cu.Data(wine.data, wine.target), TABLE)}


def fit(data: cu.Data, lanes: list[cu.Lane], recipe: cu.Recipe = RECIPE, **options: object) -> cu.Fit:
    return cu.fit(data, lanes, recipe=recipe, device="cpu", **options)  # type: ignore[arg-type]


Kept = tuple[cu.Result, dict[str, Tensor], dict[str, Tensor]]


def outcome(fitted: cu.Fit, i: int = 0) -> Kept:
    return replace(fitted.results[i], seconds=0), fitted.states[i], fitted.gathered[i]


@pytest.fixture(scope="module")
def together(given: dict[str, tuple[cu.Data, cu.Recipe]]) -> dict[tuple[str, str], Kept]:
    """All forms in one fit(), each beside a lane of the same form and another seed that comes first."""
    found = {}
    for network, (data, recipe) in given.items():
        names = [name for kind, name in CASES if kind == network]
        fitted = fit(data, [lane for name in names for lane in (replace(FORMS[name], seed=50), FORMS[name])], recipe)
        found |= {(network, name): outcome(fitted, 2 * i + 1) for i, name in enumerate(names)}
    return found


def same(one: Kept, other: Kept) -> None:
    """To the last bit."""
    assert one[0] == other[0]
    for a, b in zip(one[1:], other[1:], strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(("network", "name"), CASES)
def test_a_lane_alone_is_the_lane_among_others(network, name, given, together):
    """The same bits again, then, too: these are two trainings."""
    data, recipe = given[network]
    alone = outcome(fit(data, [FORMS[name]], recipe))
    same(alone, together[network, name])
    assert bool(alone[2]) == (name in ("online", "snapshots"))


@pytest.mark.parametrize(("network", "name"), CASES)
def test_stopped_in_every_epoch_of_every_stage(network, name, given, together, tmp_path):
    """Each call ends an epoch and is interrupted in the next; the last one removes the checkpoints of all stages."""
    (data, recipe), running, files, fitted = given[network], tmp_path / "running", set(), None
    total = resolve_stages(FORMS[name].value, recipe)[-1].total
    for call in range(total):
        told = []

        def progress(news, told=told):
            told.append(news.epoch)
            if len(told) == 2:
                raise KeyboardInterrupt

        try:
            fitted = fit(data, [FORMS[name]], recipe, checkpoints=running, every=1, progress=progress)
        except KeyboardInterrupt:
            files |= {file.name for file in running.iterdir()}
        assert told == [call, call + 1][: total - call]
    same(outcome(fitted), together[network, name])
    assert len(files) >= len(FORMS[name].value.stages) - 1  # a last stage of one epoch is never seen half done
    assert not running.exists()


@pytest.mark.parametrize("name", FORMS)
def test_a_budget_is_spent_in_every_stage(name, given, together, tmp_path):
    """One that allows an epoch a call: nothing is trained twice, nothing left out."""
    (data, recipe), running, told = given["small-conv"], tmp_path / "running", []
    total = resolve_stages(FORMS[name].value, recipe)[-1].total
    for _ in range(total - 1):
        with pytest.raises(cu.Unfinished, match="with 0 of 1 networks trained"):
            fit(data, [FORMS[name]], recipe, checkpoints=running, budget=1e-9, progress=told.append)
    fitted = fit(data, [FORMS[name]], recipe, checkpoints=running, budget=1e-9, progress=told.append)
    same(outcome(fitted), together["small-conv", name])
    assert [(news.epoch, news.epochs) for news in told] == [(epoch, total) for epoch in range(total)]
    assert not running.exists()


def test_stages_and_forms_of_the_cases():
    """They are what the tests above are meant to go through."""
    assert [len(lane.value.stages) for name, lane in FORMS.items() if name in ("crt", "dro", "dro-learned", "cam")] == [
        2,
        3,
        3,
        2,
    ]
    stages = [(lane, number) for lane in FORMS.values() for number in range(len(lane.value.stages))]
    assert len({stack_key(staged(lane, RECIPE, number)) for lane, number in stages}) == 4


@pytest.mark.parametrize("name", ["crt", "dro", "cam", "duq", "mixup"])
def test_a_lane_that_diverges_leaves_the_others_as_they_are(name, digits, together):
    fitted = fit(digits, [replace(FORMS[name], seed=60, lr=1e30), FORMS[name]])
    same(outcome(fitted, 1), together["small-conv", name])
    assert fitted.results[0].diverged == 0


@pytest.mark.parametrize(
    "method", ["dropout", "naive+mixup", "cb+remix", "crt", "dro", "2s-cam-rs", "naive+autoaugment"]
)
@pytest.mark.parametrize(("classes", "size"), [(2, 3), (7, 13)])
def test_a_place_in_the_stack_changes_no_bit(method, classes, size):
    """Odd sizes, where a lane's numbers do not fill what torch computes at once."""
    pixels = np.random.default_rng(0).integers(0, 256, (70, 3, size, 9)).astype(np.uint8)
    fitted = fit(
        cu.Data(pixels, np.arange(70) % classes), [cu.Lane(method)] * 5, cu.Recipe("small-conv", epochs=2, batch=17)
    )
    for state in fitted.states[1:]:
        assert all(torch.equal(value, fitted.states[0][name]) for name, value in state.items())


# Augmentations and dropout.


def test_mixing_and_dropping_change_a_training_and_leave_their_neighbours_alone(digits):
    """A naive lane shares its stack with one that drops features, and with all augmentations."""
    lanes = [
        cu.Lane(method, 2)
        for method in ("naive", "dropout", "naive+mixup", "naive+remix", "naive+cutout", "naive+autoaugment")
    ]
    alone, beside = fit(digits, lanes[:1]), fit(digits, lanes[::-1])
    same(outcome(alone), outcome(beside, -1))
    assert len({stack_key(lane) for lane in lanes}) == 1
    weights = [state["head.weight"] for state in beside.states]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(weights, 2))


def plain_network(
    data: cu.Data, recipe: cu.Recipe, lane: cu.Lane, state: dict[str, Tensor] | None = None
) -> Classifier:
    """As it starts, or in a state, and with its data's mean and spread."""
    module = Classifier(recipe.network, data.shape, data.classes, lane.value.head)
    pixels = torch.from_numpy(data.inputs.copy()).double()
    scaling = {"preprocess.mean": pixels.mean().view(1, 1, 1), "preprocess.std": pixels.std(correction=0).view(1, 1, 1)}
    state = state or initial(recipe, data.shape, data.classes, lane)
    module.load_state_dict(
        {name: value.float() for name, value in (scaling | state).items() if name != "margins"}, strict=False
    )
    return module.train()


def near(state: dict[str, Tensor], module: nn.Module, start: dict[str, Tensor], names: str = "") -> None:
    """All that was trained, within a hundredth of how far it went."""
    reference, checked = module.state_dict(), 0
    for name, value in state.items():
        if name.startswith(names) and name in reference and name in start:
            off, way = (value - reference[name]).norm(), (reference[name] - start[name]).norm()
            assert off <= 0.01 * way + 1e-6, (name, float(off), float(way))
            checked += bool(way > 1e-4)
    assert checked >= 2


@pytest.mark.parametrize("method", ["cb+mixup", "cb-literal+mixup", "cb+remix", "dropout", "focal+cutout"])
def test_an_epoch_is_the_plain_loop(method, digits, one_thread):
    """Two labels an example, each with its weight; features left out; squares cut out."""
    recipe, lane = replace(RECIPE, epochs=1, warmup=0, drops=()), cu.Lane(method, 5, lr=0.03)
    fitted, value = fit(digits, [lane], recipe), lane.value
    module, start = plain_network(digits, recipe, lane), initial(recipe, digits.shape, digits.classes, lane)
    optimiser = torch.optim.SGD(module.parameters(), 0.03, 0.9, weight_decay=2e-4, nesterov=True)
    inputs, labels, counts = (
        torch.from_numpy(digits.inputs.copy()),
        torch.from_numpy(digits.labels),
        torch.from_numpy(digits.counts),
    )
    length = len(digits) // 32 * 32
    order = torch.from_numpy(stream(5, "order").permutation(len(digits))[:length])
    drawn = {
        k: torch.from_numpy(v) for k, v in draw(5, 0, length, recipe, value.augment, 32 * bool(value.dropout)).items()
    }
    weight = torch.tensor(cu.plan(value, cu.Stats(digits.counts), 0, 1).weight, dtype=torch.float32)
    for now in torch.arange(length).split(32):
        here = {name: part[now] for name, part in drawn.items()}
        x, y = module.preprocess(augmented(inputs[order[now]], here, recipe)), labels[order[now]]
        if "mixed" in here:
            share, other = float(here["mixed"][0]), here["partner"]
            x = share * x + (1 - share) * x[other]
        features = module.body(x)
        if value.dropout:
            features = features * (here["dropout"] >= 0.5) * 2
        z, pairs = module.head(features), [(y, torch.ones(32))]
        if "mixed" in here:
            own = [share] * 32
            for i, (n, m) in enumerate(zip(counts[y], counts[y[other]], strict=True)):
                if "remix" in value.augment and n >= 3 * m and share < 0.5:
                    own[i] = 0.0
                if "remix" in value.augment and m >= 3 * n and 1 - share < 0.5:
                    own[i] = 1.0
            pairs = [(y, torch.tensor(own)), (y[other], 1 - torch.tensor(own))]
        total, weights = torch.zeros(()), torch.zeros(())
        for labelled, part in pairs:
            each = F.cross_entropy(z, labelled, reduction="none")
            if value.focal:
                hit, p = F.one_hot(labelled, 10).float(), z.sigmoid()
                each = (
                    torch.where(hit.bool(), 1 - p, p) ** 2
                    * F.binary_cross_entropy_with_logits(z, hit, reduction="none")
                ).sum(-1)
            total, weights = total + (part * weight[labelled] * each).sum(), weights + (part * weight[labelled]).sum()
        optimiser.zero_grad()
        (total / (weights if value.reduction == "weights" else 32)).backward()
        optimiser.step()
    near(fitted.states[0], module, start)


# Stages.


def stages_of(data: cu.Data, lane: cu.Lane, recipe: cu.Recipe, folder: Path) -> list[LaneState]:
    """The lane at the end of each of its stages."""
    kept = Checkpoints(folder)
    fit(data, [lane], recipe, checkpoints=kept)
    found = [kept.load(key) for key in checkpoint_keys(data.fingerprint, lane, recipe, cu.Stats(data.counts), "cpu")]
    assert all(found)
    return found  # type: ignore[return-value]


def changed(before: LaneState, after: LaneState) -> set[str]:
    """What a stage has changed, by the first parts of its names."""
    names = before.state.keys() & after.state.keys()
    return {name.split(".")[0] for name in names if not torch.equal(before.state[name], after.state[name])}


def test_crt_keeps_the_naive_features_and_learns_a_head(digits):
    """Batch statistics too, to the bit."""
    fitted = fit(digits, [cu.Lane("crt", 3), cu.Lane("naive", 3)])
    crt, naive = fitted.states
    assert crt.keys() == naive.keys()
    assert sum("running" in name for name in crt) == 6
    assert {name for name in crt if not torch.equal(crt[name], naive[name])} == {"head.weight", "head.bias"}


@pytest.mark.parametrize("fresh", [True, False])
def test_a_head_starts_anew_where_its_stage_says_so(fresh, digits, tmp_path):
    """At a rate so small that nothing moves after that."""
    (stage,) = named("crt").then
    still = replace(named("crt"), then=(replace(stage, rate=1e-30, fresh=fresh),))
    first, second = stages_of(digits, cu.Lane(still, 3), RECIPE, tmp_path)
    begun = initial_state(Classifier("small-conv", digits.shape, digits.classes), 3)
    assert changed(first, second) == ({"head"} if fresh else set())
    for name in ("head.weight", "head.bias"):
        assert torch.equal(second.state[name], torch.from_numpy(begun[name])) == fresh


@pytest.mark.parametrize("method", ["dro", "dro-learned"])
def test_dro_trains_features_then_the_head(method, digits, tmp_path):
    naive, features, head = stages_of(digits, cu.Lane(method, 3), RECIPE, tmp_path)
    assert [each.epoch for each in (naive, features, head)] == [4, 2, 1]
    assert changed(naive, features) == {"body"}
    assert any("running" in name and not torch.equal(naive.state[name], features.state[name]) for name in naive.state)
    assert changed(features, head) == {"head"}
    assert (features.momenta, head.momenta) == ({}, {})  # a stage that has ended keeps none
    assert ["margins" in each.state for each in (naive, features, head)] == [False, method == "dro-learned", False]


def balanced_batches(
    data: cu.Data, seed: int, recipe: cu.Recipe, stage: int, augment: tuple[str, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """The drawn and augmented examples of a balanced stage's first epoch, and their labels, batch by batch."""
    length = int(data.counts.max()) * 10 // 32 * 32
    order = draw_order(stream(seed, "order", stage * STAGE_STREAMS), data.labels, np.full(10, 0.1), False, length)
    drawn = {k: torch.from_numpy(v) for k, v in draw(seed, stage * STAGE_STREAMS, length, recipe, augment).items()}
    x = augmented(torch.from_numpy(data.inputs[order]), drawn, recipe)
    return list(x.split(32)), list(torch.from_numpy(data.labels[order]).split(32))


@pytest.mark.parametrize("passed", [0, 350])
@pytest.mark.parametrize("method", ["dro", "dro:epsilon=0.5", "dro-learned", "dro-learned+autoaugment+cutout"])
def test_dros_stages_are_the_plain_loop(method, passed, digits, tmp_path, one_thread, monkeypatch):
    """Centroids example by example in evaluation mode, torch's weighted cross entropy and the robust loss, SGD for
    features and margins; then cross entropy alone for the head, of a body that stays as it is. On a GPU more examples
    than a batch pass at once for the centroids: `passed`."""
    monkeypatch.setitem(train_step.PASSED, "cpu", passed)
    recipe, lane = replace(RECIPE, epochs=2), cu.Lane(method, 4)
    naive, features, head = stages_of(digits, lane, recipe, tmp_path)
    assert (features.epoch, head.epoch) == (1, 1)
    module = plain_network(digits, recipe, lane, naive.state)
    augment = lane.value.augment
    images, labels = balanced_batches(digits, 4, recipe, 1, augment)
    module.eval()
    with torch.no_grad():
        by_class: dict[int, list[Tensor]] = {c: [] for c in range(10)}
        for x, y in zip(images, labels, strict=True):
            for f, c in zip(module.body(module.preprocess(x)), y.tolist(), strict=True):
                by_class[c].append(f)
        centroids = torch.stack([sum(own) / len(own) for own in by_class.values()])
    counts = torch.tensor(digits.counts, dtype=torch.float32)
    learned, epsilon = method.startswith("dro-learned"), 0.5 if "0.5" in method else 1
    margins = torch.ones(10).requires_grad_() if learned else epsilon * counts**-0.5
    trained = [*module.body.parameters(), *([margins] if margins.requires_grad else [])]
    optimiser = torch.optim.SGD(trained, 0.05 * recipe.lr, 0.9, weight_decay=1e-4)
    module.train()
    seen = []
    for x, y in zip(images, labels, strict=True):
        f = module.body(module.preprocess(x))
        loss = F.cross_entropy(module.head(f), y, weight=counts) + losses.robust(f, y, centroids, margins).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seen.append(loss.item())
    assert features.loss == pytest.approx(np.mean(seen), rel=1e-4)
    near(features.state, module, naive.state, "body")
    if learned:
        assert (margins - 1).abs().min() > 1e-5
        torch.testing.assert_close(features.state["margins"] - 1, margins.detach() - 1, rtol=0.02, atol=1e-6)

    module.load_state_dict({name: value for name, value in features.state.items() if name != "margins"}, strict=False)
    module.eval()
    optimiser = torch.optim.SGD(module.head.parameters(), 0.1 * recipe.lr, 0.9, weight_decay=1e-4)
    for x, y in zip(*balanced_batches(digits, 4, recipe, 2, augment), strict=True):
        optimiser.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimiser.step()
    near(head.state, module, features.state, "head")


def test_margins_of_classes_that_no_batch_holds_decay(tmp_path):
    """Their own gradient is zero: what is left is weight decay, so large here that it shows, and momentum."""
    rng = np.random.default_rng(0)
    data = cu.Data(rng.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8), np.repeat([0, 1, 2], [30, 20, 10]))
    only = cu.methods.Knob(
        cu.measures.Measure("first", "the first class alone", lambda stats: np.array([1.0, 1e-300, 1e-300])),
        cu.normalise,
    )
    learned = cu.Method(
        alpha=only, margin=cu.methods.Knob(cu.MEASURES["uniform"], as_is), level="features", learned=True
    )
    method = cu.Method(
        then=(Stage(learned, 1.0, recipe=(("weight_decay", 0.1), ("nesterov", False), ("warmup", 0), ("drops", ()))),)
    )
    _, second = stages_of(data, cu.Lane(method), cu.Recipe("small-conv", epochs=2, batch=20), tmp_path)
    expected, velocity = 1.0, 0.0
    for _ in range(6):
        velocity = 0.9 * velocity + 0.1 * expected
        expected -= 0.1 * velocity
    np.testing.assert_allclose(second.state["margins"][1:], expected, rtol=1e-5)


def test_learned_margins_start_where_their_measure_says(tmp_path):
    """At a rate too small to learn anything they are still there."""
    rng = np.random.default_rng(0)
    data = cu.Data(rng.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8), np.repeat([0, 1, 2], [36, 16, 8]))
    for name, start in (("dro-learned", [1, 1, 1]), ("dro-learned@cardinality-root", [1 / 6, 1 / 4, 1 / np.sqrt(8)])):
        _, features, _ = stages_of(
            data, cu.Lane(name, lr=1e-8), cu.Recipe("small-conv", epochs=3, batch=20), tmp_path / name
        )
        np.testing.assert_allclose(features.state["margins"], start, rtol=1e-5)


# DUQ.


def test_an_epoch_of_duq_is_the_plain_loop(digits, one_thread):
    """Binary cross entropy of the kernels, a penalty by ordinary double backward, torch's SGD, and averages in
    evaluation mode."""
    recipe, lane = replace(RECIPE, epochs=1, warmup=0, drops=(), crop=0), cu.Lane("duq", 3, lr=0.02)
    fitted = fit(digits, [lane], recipe)
    module, start = plain_network(digits, recipe, lane), initial(recipe, digits.shape, digits.classes, lane)
    assert isinstance(module.head, RBFHead)
    assert {type(layer) for layer in module.body if isinstance(layer, nn.Conv2d)} == {nn.Conv2d}
    weight, count, total = module.head.weight, module.head.count, module.head.total
    optimiser = torch.optim.SGD(module.parameters(), 0.02, 0.9, weight_decay=2e-4, nesterov=True)
    seen = []
    for batch in stream(3, "order").permutation(len(digits))[: len(digits) // 32 * 32].reshape(-1, 32):
        module.train()
        x = module.preprocess(torch.from_numpy(digits.inputs[batch])).requires_grad_()
        y = F.one_hot(torch.from_numpy(digits.labels[batch]), 10).float()
        embedded = torch.einsum("ckd,bd->bck", weight.view(10, 32, 32), module.body(x))
        kernels = torch.exp(-(embedded - total / count[:, None]).square().mean(-1) / (2 * 0.1**2))
        (slope,) = torch.autograd.grad(kernels.sum(), x, create_graph=True)
        penalty = (slope.flatten(1).square().sum(1).sqrt() - 1).square().mean()
        loss = F.binary_cross_entropy(kernels, y) + 0.5 * penalty
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seen.append(loss.item())
        module.eval()
        with torch.no_grad():
            embedded = torch.einsum("ckd,bd->bck", weight.view(10, 32, 32), module.body(x))
            count.copy_(0.999 * count + 0.001 * y.sum(0))
            total.copy_(0.999 * total + 0.001 * torch.einsum("bck,bc->ck", embedded, y))
    assert fitted.results[0].loss == pytest.approx(np.mean(seen), rel=1e-4)
    near(fitted.states[0], module, start)
    assert not torch.equal(fitted.states[0]["head.count"], start["head.count"])


# What is gathered on the way.


def test_online_sums_are_those_of_a_plain_loop(digits, one_thread):
    """What a network in training mode says of each example just before it learns from it, over the epochs; scaled as it
    trains."""
    recipe = replace(RECIPE, epochs=2, warmup=0, drops=(), lr=0.02)
    lane = cu.Lane(cu.Method(scale=3.0), 5, gather="online")
    fitted = fit(digits, [cu.Lane(seed=9), lane], recipe)
    module = plain_network(digits, recipe, lane)
    optimiser = torch.optim.SGD(module.parameters(), 0.02, 0.9, weight_decay=2e-4, nesterov=True)
    inputs, length, sums = torch.from_numpy(digits.inputs.copy()), len(digits) // 32 * 32, torch.zeros(len(digits), 12)
    for epoch in range(2):
        order = torch.from_numpy(stream(5, "order", epoch).permutation(len(digits))[:length])
        shifts = torch.from_numpy(draw(5, epoch, length, recipe)["shifts"])
        for batch, moved in zip(order.split(32), shifts.split(32), strict=True):
            x = augmented(inputs[batch], {"shifts": moved}, recipe)
            z = 3 * module.head(module.body(module.preprocess(x)))
            p = z.detach().softmax(-1)
            for i, mine in zip(batch.tolist(), p, strict=True):
                sums[i] += torch.cat([mine, -(mine * mine.log()).sum()[None], torch.ones(1)])
            optimiser.zero_grad()
            F.cross_entropy(z, torch.from_numpy(digits.labels)[batch]).backward()
            optimiser.step()
    assert fitted.gathered[0] == {}
    found = fitted.gathered[1]
    assert torch.equal(found["seen"], sums[:, 11])
    assert {1, 2} <= set(found["seen"].tolist())
    torch.testing.assert_close(found["p"], sums[:, :10], rtol=0, atol=2e-3)
    torch.testing.assert_close(found["entropy"], sums[:, 10], rtol=0, atol=5e-3)


def test_gathering_changes_no_training(digits):
    lanes = [cu.Lane("naive", 2, gather=gather) for gather in ("", "online")]
    lanes += [cu.Lane("cyclic", 2, gather=gather) for gather in ("", "snapshots")]
    states = fit(digits, lanes).states
    for a, b in (states[:2], states[2:]):
        assert all(torch.equal(a[name], b[name]) for name in a)


def test_what_is_gathered_belongs_to_its_own_checkpoint(digits, tmp_path):
    """A lane that gathers does not go on from one that did not."""
    kept = Checkpoints(tmp_path)
    fit(digits, [cu.Lane("naive", 2)], checkpoints=kept)
    found = fit(digits, [cu.Lane("naive", 2, gather="online")], checkpoints=kept)
    assert found.gathered[0]["seen"].sum() == RECIPE.epochs * (len(digits) // 32 * 32)


def test_snapshots_are_the_network_at_the_end_of_each_cycle(digits, tmp_path):
    """Against trainings that are stopped there."""
    recipe, lane, kept = (
        replace(RECIPE, epochs=5),
        cu.Lane(replace(named("cyclic"), cycles=3), 4, gather="snapshots"),
        Checkpoints(tmp_path),
    )
    (key,) = checkpoint_keys(digits.fingerprint, lane, recipe, cu.Stats(digits.counts), "cpu")
    ends = []

    def progress(news):
        """Told of an epoch before it is kept: it looks at the one before."""
        if news.epoch in (2, 3):
            ends.append(kept.load(key))

    fitted = fit(digits, [cu.Lane(seed=1), lane], recipe, checkpoints=kept, every=1, progress=progress)
    ends = [end for end in ends if end]
    assert recipe.cycle_ends(3) == [2, 3, 5]
    assert [end.epoch for end in ends] == [2, 3]
    assert list(ends[0].gathered) == ["p0"]
    found = fitted.gathered[1]
    assert sorted(found) == ["p0", "p1", "p2"]
    for p, state in zip(
        (found[f"p{i}"] for i in range(3)), (*(end.state for end in ends), fitted.states[1]), strict=True
    ):
        then = dataclasses.replace(fitted.take([1]), states=[state])
        assert np.array_equal(p.numpy(), then.probabilities(digits)[0])


# Bootstraps.


@pytest.mark.parametrize("fold", [None, (1, 4)])
def test_a_bootstrap_is_of_the_lanes_own_examples(fold, digits):
    """Every class keeps its size; by the seed alone."""
    plain, once, again, other = (
        LaneSampler(cu.Lane("naive", seed, fold=fold, bootstrap=bootstrap), digits, None, 0)
        for seed, bootstrap in ((0, False), (3, True), (3, True), (4, True))
    )
    assert np.array_equal(once.counts, plain.counts)
    assert np.array_equal(once.labels, digits.labels[once.indices])
    assert set(once.indices) < set(plain.indices)
    assert np.array_equal(once.indices, again.indices)
    assert not np.array_equal(once.indices, other.indices)
    assert not fold or not set(once.indices) & set(fold_indices(digits, fold))


@pytest.mark.parametrize("method", ["naive", "cb-rs"])
def test_a_lane_never_sees_what_its_bootstrap_did_not_draw(method, digits):
    """Turned pictures there (the data's mean and spread stay) change nothing; elsewhere they do."""
    lane = cu.Lane(method, 3, bootstrap=True)
    unseen = np.setdiff1d(np.arange(len(digits)), LaneSampler(lane, digits, None, 0).indices)
    pixels = digits.inputs.copy()
    pixels[unseen] = pixels[unseen][:, :, ::-1, ::-1]
    lanes = [lane, cu.Lane(method, 3), cu.Lane(method, 4, bootstrap=True)]
    a, b = (fit(data, lanes).states for data in (digits, cu.Data(pixels, digits.labels, digits.classes)))
    assert [torch.equal(x["head.weight"], y["head.weight"]) for x, y in zip(a, b, strict=True)] == [True, False, False]


@pytest.mark.parametrize("method", ["naive", "ldam+cutout", "cb-focal"])
def test_a_batch_in_parts_has_the_gradient_of_the_whole(method):
    """For a network without batch statistics, where the loss of a batch is the mean over its examples."""
    with registered("mine", Layers):
        data = images(number=64)
        recipe = cu.Recipe("mine", epochs=2, batch=32, lr=0.05, jitter=0.3)
        whole, parts = (
            cu.fit(data, [cu.Lane(method)], recipe=replace(recipe, accumulate=number)).states[0] for number in (1, 4)
        )
        for name, value in whole.items():
            torch.testing.assert_close(parts[name], value, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("method", ["cb", "ubrw-bot"])
def test_weights_of_a_batch_in_parts_are_divided_by_those_of_the_whole(method):
    """In parts of two examples too, most of which have one class alone."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], [40, 16, 8])
    data = cu.Data(rng.normal(size=(64, 6)) + labels[:, None], labels)
    recipe, stats = cu.Recipe("linear", epochs=4, batch=32, lr=0.5), cu.Stats(data.counts, [0.1, 0.3, 0.6])
    whole, *parts = (
        cu.fit(data, [cu.Lane(method), cu.Lane()], recipe=replace(recipe, accumulate=number), stats=stats)
        for number in (1, 4, 16)
    )
    for fitted in parts:
        for name, value in whole.states[0].items():
            torch.testing.assert_close(fitted.states[0][name], value, atol=1e-5, rtol=1e-4)
        assert fitted.results[0].loss == pytest.approx(whole.results[0].loss, rel=1e-4)


def test_mixed_weights_of_a_batch_in_parts_are_added_up():
    """A lane that mixes divides by the weights of both labels: parts of one batch add up to their weighted mean."""
    with watched_steps() as steps:
        recipe = cu.Recipe("linear", epochs=1, batch=8, accumulate=2)
        data = cu.Data(np.random.default_rng(0).normal(size=(8, 3)), [0, 0, 0, 0, 0, 1, 1, 1])
        cu.fit(data, [cu.Lane("cb+remix"), cu.Lane("cb")], recipe=recipe)
    (program, mean_weight), *_ = steps
    program.at.zero_()
    weights = []
    for size in (4, 4):
        _, labels, drawn = program._next(size)
        mixture = program.augmentation.mixture(labels, drawn, program.examples.counts)
        first, second = (program.objective.weight.gather(1, y) for y in (labels, mixture.partners))
        weights.append(mixture.share * first + (1 - mixture.share) * second)
        program.at += size
    torch.testing.assert_close(mean_weight, torch.cat(weights, dim=1).mean(dim=1))


@contextmanager
def watched_steps():
    """The programs and the mean weights of the batches that come in parts."""
    steps, original = [], StepProgram._mean_weight
    with pytest.MonkeyPatch.context() as patch:

        def watched(program, batch):
            steps.append((program, original(program, batch)))
            return steps[-1][1]

        patch.setattr(StepProgram, "_mean_weight", watched)
        yield steps


def test_a_part_of_one_example_is_refused_or_left_out():
    with refused("batch is 4 in 4 parts"):
        cu.fit(images(), [cu.Lane()], recipe=cu.Recipe("small-conv", 1, 4, accumulate=4))
    with refused("accumulate is 3", "a divisor of the batch, 16"):
        cu.Recipe("small-conv", 1, 16, accumulate=3)
    recipe = cu.Recipe("small-conv", 1, 8, accumulate=4, drop_last=False)
    assert cu.fit(images(number=59), [cu.Lane()], recipe=recipe).results[0].diverged is None
