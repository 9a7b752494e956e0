"""CAM-based resampling: maps by the layer before pooling, classes filled up, and from a lane's own examples alone."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

import class_uncertainty as cu
from class_uncertainty.training import stack_training
from class_uncertainty.training.augment import cam_resampling
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.networks.classifier import Classifier, Standardise
from class_uncertainty.training.sampling import Examples, LaneSampler
from class_uncertainty.training.train_step import StepProgram

RECIPE = cu.Recipe("small-conv", epochs=5, batch=32, crop=1)


def network(kind: str) -> Classifier:
    """Random, with batch statistics that are not at rest."""
    torch.manual_seed(0)
    module = Classifier(kind, (3, 16, 12), tuple("abcd"))
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            value.copy_(
                torch.rand_like(value) + 0.5 if name.endswith(("running_var", "std")) else torch.randn_like(value) / 3
            )
    return module.eval()


@pytest.mark.parametrize("kind", ["small-conv", "resnet32", "resnet32x4"])
def test_maps_are_of_the_layer_before_pooling(kind, monkeypatch):
    """Against a hook on that layer; in several parts too. Their mean over the picture is the own class's logit, less
    its bias and shift."""
    module, caught = network(kind), []
    images, labels = torch.randint(0, 256, (11, 3, 16, 12), dtype=torch.uint8), torch.arange(11) % 4
    layer = module.body[-3] if kind == "small-conv" else module.body.blocks[-1]
    hook = layer.register_forward_hook(lambda _, __, output: caught.append(output))
    with torch.no_grad():
        logits = module(images)
    hook.remove()
    expected = torch.stack(
        [(module.head.weight[y][:, None, None] * f).sum(0) for f, y in zip(caught[0], labels, strict=True)]
    )
    assert expected.shape == (11, 4, 3)
    monkeypatch.setattr(cam_resampling, "AT_ONCE", 4)
    found = cam_resampling.activation_maps(module, images, labels)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-4)
    own = logits[torch.arange(11), labels] - (module.head.bias + module.shift)[labels].detach()
    torch.testing.assert_close(found.mean((1, 2)), own, rtol=1e-4, atol=1e-4)


def examples_of(data: cu.Data) -> Examples:
    ones = torch.ones(data.shape[0], 1, 1)
    return Examples(
        torch.from_numpy(data.inputs.copy()),
        torch.from_numpy(data.labels),
        Standardise(0 * ones, 255 * ones),
        Tensor(data.counts[None]),
    )


def test_classes_are_filled_up_to_the_largest_and_the_smallest_together(digits, monkeypatch):
    """Made of positions that are given; the same of the same seed, in whatever parts."""
    module, examples, counts = (
        Classifier("small-conv", (1, 8, 8), digits.classes).eval(),
        examples_of(digits.train),
        digits.train.counts,
    )
    everything = np.arange(len(digits.train))
    images, labels = cam_resampling.generated(module, examples, everything, counts, 3)
    assert (np.bincount(labels) + counts == counts.max() + counts.min()).all()
    assert images.dtype == torch.uint8
    other, _ = cam_resampling.generated(module, examples, everything, counts, 4)
    monkeypatch.setattr(cam_resampling, "AT_ONCE", 100)
    again, _ = cam_resampling.generated(module, examples, everything, counts, 3)
    assert torch.equal(images, again)
    assert not torch.equal(images, other)
    plain = {bytes(image) for image in digits.train.inputs.reshape(len(digits.train), -1)}
    new = sum(bytes(image) not in plain for image in images.flatten(1).numpy())
    assert new > len(images) / 4  # not copies alone


def test_what_was_made_stands_behind_the_examples(digits):
    examples = examples_of(digits.train)
    made = [(torch.full((n, 1, 8, 8), n, dtype=torch.uint8), torch.full((n,), n)) for n in (2, 0, 3)]
    more, places = cam_resampling.filled_up(examples, made)
    first = len(digits.train)
    assert [list(own) for own in places] == [[first, first + 1], [], [first + 2, first + 3, first + 4]]
    assert torch.equal(more.inputs[:first], examples.inputs)
    assert torch.equal(more.labels[places[2]], torch.full((3,), 3))
    assert (more.inputs[places[2]] == 3).all()
    assert more.counts is examples.counts


LANES = [
    cu.Lane("2s-cam-rs", 1),
    cu.Lane("2s-cam-rs", 2, fold=(1, 4)),
    cu.Lane("2s-cam-rs", 3, bootstrap=True),
    cu.Lane("2s-cam-pb-rs", 4),
]


def test_a_lane_draws_from_its_own_examples_and_from_what_was_made_of_them(digits, monkeypatch):
    """Every class of it is as large as the largest and the smallest of its own together."""
    train, given = digits.train, []

    class Spied(StepProgram):
        def __init__(self, stack, optimiser, leg, examples, lanes, draws, *more):
            super().__init__(stack, optimiser, leg, examples, lanes, draws, *more)
            given.append((leg, examples, lanes, draws))

    monkeypatch.setattr(stack_training, "StepProgram", Spied)
    cu.fit(train, LANES, recipe=RECIPE, device="cpu")
    ((leg, examples, lanes, draws),) = [each for each in given if each[0].pasted]
    assert (leg.number, leg.recipe.epochs, leg.before, leg.total) == (1, 1, 4, 5)
    made = len(train)
    for i, lane in enumerate(LANES):
        source = LaneSampler(lanes[i], train, None, 0)
        assert not lane.fold or not set(source.indices) & set(fold_indices(train, lane.fold))
        fill = source.counts.max() + source.counts.min()
        own = np.arange(made, made := made + int((fill - source.counts).sum()))
        labels = examples.labels.numpy()[np.concatenate([source.indices, own])]
        assert (np.bincount(labels) == fill).all()
        drawn = draws["order"][i]
        assert set(drawn) <= set(source.indices) | set(own)
        assert (drawn >= len(train)).mean() > 0.5  # most of the filled-up classes were made
    assert made == len(examples.labels)
    assert np.array_equal(
        draws["order"][len(LANES)], draws["order"][0]
    )  # who only fills the stack is the first once more


@pytest.mark.parametrize(("method", "released"), [("2s-cam-rs", False), ("2s-cam-rs-bot", True)])
def test_a_row_pastes_as_it_says(method, released, digits, monkeypatch):
    """Foregrounds, sources and draws are the same: only the pastes differ."""
    made = {}

    def spied(module, examples, indices, counts, seed, pasted_as_released):
        for kind in (False, True):
            made[kind] = cam_resampling.generated(module, examples, indices, counts, seed, kind)
        made["used"] = made[pasted_as_released]
        return made["used"]

    monkeypatch.setattr(stack_training, "generated", spied)
    cu.fit(digits.train, [cu.Lane(method)], recipe=RECIPE, device="cpu")
    assert made["used"] is made[released]
    assert torch.equal(made[True][1], made[False][1])
    assert not torch.equal(made[True][0], made[False][0])


@pytest.mark.parametrize("lane", LANES[1:3], ids=["fold", "bootstrap"])
def test_pictures_are_made_of_what_a_lane_keeps(lane, digits):
    """All that it does not keep is white: no white picture is made, and other pixels would change nothing."""
    source = LaneSampler(lane, digits.train, None, 0)
    inputs = digits.train.inputs.copy()
    inputs[np.setdiff1d(np.arange(len(inputs)), source.indices)] = 255
    data = cu.Data(inputs, digits.train.labels, digits.classes)
    module = Classifier("small-conv", (1, 8, 8), digits.classes).eval()
    spoilt, whole = (
        cam_resampling.generated(module, examples_of(d), source.indices, source.counts, lane.seed)[0]
        for d in (data, digits.train)
    )
    assert len(source.indices) == len(source.labels) == source.counts.sum()
    assert not (spoilt.flatten(1) == 255).all(dim=1).any()
    assert torch.equal(spoilt, whole)


def test_the_first_stage_is_the_cut_recipe(digits, tmp_path):
    """To the bit; the second goes on from there, at a hundredth of the rate and then at a hundredth of that."""
    kept, lane, recipe, told = (
        Checkpoints(tmp_path),
        cu.Lane("2s-cam-rs", 6),
        dataclasses.replace(RECIPE, epochs=10),
        [],
    )
    fitted = cu.fit(digits.train, [lane], recipe=recipe, device="cpu", checkpoints=kept, progress=told.append)
    keys = checkpoint_keys(digits.train.fingerprint, lane, recipe, cu.Stats(digits.train.counts), "cpu")
    first, second = map(kept.load, keys)
    naive = cu.fit(digits.train, [cu.Lane("naive", 6)], recipe=recipe.cut(8), device="cpu")
    assert (first.epoch, second.epoch) == (8, 2)
    assert all(torch.equal(value, naive.states[0][name]) for name, value in first.state.items())
    assert all(torch.equal(value, fitted.states[0][name]) for name, value in second.state.items())
    assert [news.epoch for news in told] == list(range(10))
    assert {news.epochs for news in told} == {10}
    np.testing.assert_allclose(
        [news.lr[0] for news in told], [*(0.1 * recipe.factor(e) for e in range(8)), 1e-3, 1e-5], rtol=1e-6
    )
    assert 0 < (second.state["head.weight"] - first.state["head.weight"]).abs().max() < 0.05


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("2s-cam-rs", "method '2s-cam-rs' pastes parts of images, and the data are features."),
        (
            "naive+autoaugment",
            r"method 'naive\+autoaugment' has autoaugment, which is for images, and the data are features.",
        ),
        ("cb+cutout", r"method 'cb\+cutout' has cutout, which is for images, and the data are features."),
        (
            "dro+autoaugment",
            r"method 'dro\+autoaugment' has autoaugment, which is for images, and the data are features.",
        ),
        ("crt+cutout", r"method 'crt\+cutout' has cutout, which is for images"),
    ],
)
def test_what_is_for_images_is_refused_on_tables(method, sentence):
    data = cu.Data(np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 2)
    with pytest.raises(cu.InputError, match=sentence):
        cu.fit(data, [cu.Lane(), cu.Lane(method)], recipe=cu.Recipe("mlp", epochs=1, batch=8), device="cpu")
