"""Epochs of every form and stage against plain loops."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training.steps.stepped import RECIPE, fit, outcome, plain_network, same

import class_uncertainty as cu
from class_uncertainty.methods import Stage, losses, named
from class_uncertainty.methods.method import as_is
from class_uncertainty.training import train_step
from class_uncertainty.training.augment.crops import augmented, draw
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.heads import RBFHead
from class_uncertainty.training.networks.stack import initial
from class_uncertainty.training.sampling import STAGE_STREAMS
from class_uncertainty.training.stages import stack_key
from class_uncertainty.training.streams import draw_order, initial_state, stream

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
