"""Lanes of different augmentations in one stack: each has the bits that it has alone, and the work is its own."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.training import fit as training_fit
from class_uncertainty.training.augment import crops
from class_uncertainty.training.augment.crops import augmented, draw, mixed, remixed
from class_uncertainty.training.augment.stack_augmentation import Mixture, StackAugmentation
from class_uncertainty.training.sampling import LaneSampler, draw_epoch
from class_uncertainty.training.stage_context import stacks_of
from class_uncertainty.training.stage_runner import StageRunner
from class_uncertainty.training.stages import ResolvedStage, stack_key

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32, crop=1, flip=True, drop_last=False)
TABLE = cu.Recipe("mlp", epochs=2, batch=16)
NAIVE = ("naive", "naive+autoaugment", "naive+cutout", "naive+mixup", "naive+remix", "naive+autoaugment+cutout")
STACKS = {
    **{f"without {name}": tuple(other for other in NAIVE if other != name) for name in NAIVE},
    "filled up with copies of an augmented lane": ("naive+autoaugment", "naive+mixup"),
    "apart": ("naive", "ldam+autoaugment+cutout", "cb+autoaugment+mixup", "naive+cutout", "naive+cutout+remix"),
    "weighted": ("cb-literal", "cb", "focal", "cb+mixup", "cb-focal+remix"),
    "dropped": ("dropout", "dropout+mixup", "naive", "ldam-rw", "vs+cutout"),
    "duq": ("duq", "duq+mixup", "duq+autoaugment"),
    "stages": ("dro", "dro+mixup", "dro-learned", "dro-learned+remix", "crt"),
}
ON_TABLES = ("naive", "cb-literal", "naive+mixup", "cb+remix", "focal+mixup")


@pytest.fixture(scope="module")
def images():
    """A few batches an epoch, the last one incomplete."""
    train = cu.load("digits-lt:20").train
    return train.take(np.arange(0, len(train), 4))


@pytest.fixture(scope="module")
def table():
    from sklearn.datasets import load_wine

    wine = load_wine()
    return cu.Data(wine.data, wine.target)


def lanes_of(names: tuple[str, ...]) -> list[cu.Lane]:
    return [cu.Lane(name, seed, lr=0.02 if "duq" in name else None) for seed, name in enumerate(names)]


def assert_same_bits_alone(data: cu.Data, recipe: cu.Recipe, lanes: list[cu.Lane]) -> None:
    together = cu.fit(data, lanes, recipe=recipe, device="cpu")
    for lane, state, result in zip(lanes, together.states, together.results, strict=True):
        alone = cu.fit(data, [lane], recipe=recipe, device="cpu")
        assert result.diverged is None
        assert replace(result, seconds=0) == replace(alone.results[0], seconds=0)
        assert [name for name, value in state.items() if not torch.equal(value, alone.states[0][name])] == []


@pytest.mark.parametrize("name", STACKS)
def test_a_lane_among_others_is_the_lane_alone(name, images):
    """In stacks of five: whatever the neighbours' augmentations are, and whether they stand side by side."""
    assert_same_bits_alone(images, RECIPE, lanes_of(STACKS[name]))


def test_rows_of_a_table_alone_and_among_others(table):
    assert_same_bits_alone(table, TABLE, lanes_of(ON_TABLES))


def test_batches_that_torch_spreads_over_threads():
    """Of odd sizes."""
    pixels = np.random.default_rng(0).integers(0, 256, (300, 3, 13, 9)).astype(np.uint8)
    data = cu.Data(pixels, np.minimum(np.arange(300) % 83, 66))
    recipe = cu.Recipe("small-conv", epochs=2, batch=130, crop=1)
    assert recipe.batch * int(np.prod(data.shape)) > training_fit.SMALL
    weighted = ("cb-literal", "cb", "ldam-rw", "cb+mixup", "cb-literal+remix")
    assert_same_bits_alone(data, recipe, lanes_of(weighted) + lanes_of(STACKS["apart"]))


def test_neighbours_that_diverge_leave_a_plain_lane_alone(images):
    lanes = [cu.Lane("naive", 3), cu.Lane("naive+mixup", 4, lr=1e30), cu.Lane("naive+autoaugment", 5, lr=1e30)]
    together, alone = (cu.fit(images, some, recipe=RECIPE, device="cpu") for some in (lanes, lanes[:1]))
    assert [result.diverged is None for result in together.results] == [True, False, False]
    assert all(torch.equal(value, alone.states[0][name]) for name, value in together.states[0].items())


# How many stacks there are.


def test_stacks_are_full_whatever_the_augmentations(images, monkeypatch):
    """Ten lanes of six kinds are two stacks of a CPU, where each kind apart would make six."""
    run, widths = StageRunner.run, []

    def counted(runner, places, started):
        widths.append(len(places))
        return run(runner, places, started)

    monkeypatch.setattr(StageRunner, "run", counted)
    lanes = [cu.Lane(name, seed) for seed in range(2) for name in NAIVE][:10]
    cu.fit(images, lanes, recipe=replace(RECIPE, epochs=1), device="cpu")
    assert widths == [5, 5]


def test_first_stages_join_the_stack_of_methods_without_stages(images, monkeypatch):
    """DRO-LT's is naive training with two augmentations. Each lane is told of with the epochs that it has in all."""
    run, stacks, told = StageRunner.run, [], []

    def noted(runner, places, started):
        stacks.append((runner.stage.number, sorted(runner.lane(place).seed for place in places)))
        return run(runner, places, started)

    monkeypatch.setattr(StageRunner, "run", noted)
    lanes, recipe = lanes_of(("naive", "dro", "crt", "naive+mixup", "ubm-dro@cardinality")), replace(RECIPE, epochs=3)
    cu.fit(images, lanes, recipe=recipe, device="cpu", progress=told.append)
    assert sorted(stacks) == [(0, [0, 1, 2, 3, 4]), (1, [1, 4]), (1, [2]), (2, [1, 4])]
    epochs = {lane: [(news.epoch, news.epochs) for news in told if lane in news.lanes] for lane in lanes}
    totals = [3, 5, 4, 3, 5]
    assert list(epochs.values()) == [[(epoch, total) for epoch in range(total)] for total in totals]
    assert all(len(news.lanes) == len(news.loss) == len(news.error) == len(news.lr) for news in told)


def test_a_budget_that_ends_with_a_stage_keeps_the_lanes_that_are_done(images):
    """Without checkpoints, too."""
    done, recipe = [], replace(RECIPE, epochs=1)
    with pytest.raises(cu.Unfinished, match="with 1 of 2 networks trained"):
        cu.fit(images, lanes_of(("naive", "crt")), recipe=recipe, device="cpu", budget=1e-9, done=done.append)
    assert [outcome.place for outcome in done] == [0]


@pytest.mark.parametrize(("copies", "widths"), [(1, [6]), (10, [60]), (11, [64, 2]), (32, [64, 64, 64])])
def test_stacks_of_a_gpu_are_full_and_kinds_are_neighbours(copies, widths):
    """Lanes of a kind stand side by side, in the order in which they were given."""
    names = NAIVE * copies
    lanes = [cu.Lane(name, seed) for seed, name in enumerate(names)]
    fitted = SimpleNamespace(recipe=RECIPE, device="cuda")
    places = dict.fromkeys(range(len(lanes)), (0, 0.0))
    context = SimpleNamespace(fitted=fitted, at_start=places, trained_for=places, lane=lanes.__getitem__)
    stacks = stacks_of(context)
    assert [len(stack) for stack in stacks] == widths
    places = [place for stack in stacks for place in stack]
    assert sorted(places) == list(range(len(names)))
    kinds = [names[place] for place in places]
    assert sum(a != b for a, b in pairwise(kinds)) == len(NAIVE) - 1
    for name in NAIVE:
        same = [place for place in places if names[place] == name]
        assert same == sorted(same)


def test_what_still_trains_apart():
    """Another kind of head, margins at the features, learned margins; and students of other images."""
    features = [cu.Lane(cu.METHODS[name].then[0].method) for name in ("dro", "dro-learned")]
    students = [cu.Lane(name, teaching=cu.Teaching()) for name in ("naive", "naive+mixup", "naive+cutout")]
    apart = [cu.Lane("naive"), cu.Lane("duq"), *features, *students, replace(students[0], fold=(0, 5))]
    assert len({stack_key(lane) for lane in apart}) == len(apart)
    assert {stack_key(cu.Lane(name)) for name in NAIVE} == {stack_key(apart[0])}


# What is done, and on which lanes.


def test_an_augmentation_works_on_the_lanes_that_have_it_alone(images, monkeypatch):
    """Images that go through each in an epoch of a stack: those of its lanes, and of no other."""
    seen = Counter()

    def counted(name, change):
        def count_and_change(x, *numbers):
            seen[name] += len(x)
            return change(x, *numbers)

        return count_and_change

    for name in ("autoaugment", "cutout", "crop", "flip"):
        monkeypatch.setattr(crops, name, counted(name, getattr(crops, name)))
    recipe, length = replace(RECIPE, epochs=1), len(images)
    lanes = [cu.Lane(name) for name in ("cb", *NAIVE) if "mix" not in name]
    cu.fit(images, lanes, recipe=recipe, device="cpu")
    assert seen == {"crop": 5 * length, "flip": 5 * length, "autoaugment": 2 * length, "cutout": 2 * length}
    seen.clear()
    cu.fit(images, [cu.Lane("naive")] * 5, recipe=recipe, device="cpu")
    assert seen == {"crop": 5 * length, "flip": 5 * length}


KINDS = ["naive", "cb+autoaugment", "naive+autoaugment+cutout", "focal+mixup", "naive+cutout", "naive+cutout+remix"]
ORDERS = {
    "side by side": sorted(KINDS, key=lambda name: cu.Lane(name).value.augment),
    "apart": [KINDS[i] for i in (3, 1, 4, 0, 2, 5)],
    "all mixed": ["naive+mixup", "cb+remix", "naive+mixup"],
    "all the same": ["naive+autoaugment+cutout+remix"] * 3,
    "none": ["naive", "cb"],
}


def drawn_for(names: list[str], data: cu.Data, device: str = "cpu") -> tuple[list[cu.Lane], dict[str, torch.Tensor]]:
    """The first batch of an epoch."""
    lanes = [cu.Lane(name, seed) for seed, name in enumerate(names)]
    samplers = [LaneSampler(lane, data, None, 32) for lane in lanes]
    _, draws = draw_epoch(samplers, ResolvedStage(RECIPE), 0, len(data))
    return lanes, {name: torch.from_numpy(numbers[:, : RECIPE.batch]).to(device) for name, numbers in draws.items()}


@pytest.mark.parametrize("order", ORDERS)
def test_each_lane_has_what_it_would_have_alone(order, images):
    """Images, mixed images and both labels of each lane, from its own random streams."""
    lanes, drawn = drawn_for(ORDERS[order], images)
    inputs, labels = torch.from_numpy(images.inputs.copy())[drawn["order"]], torch.from_numpy(images.labels)
    labels, counts = labels[drawn["order"]], torch.from_numpy(images.counts)[None]
    stack = StackAugmentation(lanes, RECIPE, "cpu")
    pixels = stack.images(inputs.clone(), drawn)
    x, mixture = stack.mixed(pixels.float(), drawn), stack.mixture(labels, drawn, counts)
    assert (mixture is None) == (not any("mix" in lane.name for lane in lanes))
    for i, lane in enumerate(lanes):
        draws = draw(lane.seed, 0, len(images), RECIPE, lane.value.augment)
        mine = {name: torch.from_numpy(numbers[: RECIPE.batch]) for name, numbers in draws.items()}
        alone = augmented(inputs[i], mine, RECIPE)
        assert torch.equal(pixels[i], alone)
        share, partners = torch.ones(RECIPE.batch), labels[i]
        if "mixed" in mine:
            share, partners = mine["mixed"], labels[i][mine["partner"]]
            assert torch.equal(x[i], mixed(alone.float()[None], {name: mine[name][None] for name in mine})[0])
            if "remix" in lane.value.augment:
                share = remixed(share, counts[0, labels[i]], counts[0, partners])
        else:
            assert torch.equal(x[i], alone.float())
        if mixture:
            assert torch.equal(mixture.share[i], share)
            assert torch.equal(mixture.partners[i], partners)
            assert (mixture.plain is not None and bool(mixture.plain[i])) == ("mixed" not in mine)


def test_the_loss_of_a_plain_lane_is_that_of_its_label():
    """An infinite one, too: zero times infinity is not in it."""
    labels, losses = torch.tensor([[0, 1], [0, 1]]), torch.tensor([torch.inf, 2.0])
    half = torch.tensor([[1.0, 1.0], [0.5, 0.5]])
    mixture = Mixture(torch.tensor([[0, 1], [1, 1]]), half, torch.tensor([[True], [False]]))
    assert mixture.of(labels, lambda y: losses[y]).tolist() == [[np.inf, 2], [np.inf, 2]]
    assert replace(mixture, plain=None, share=half / 2).of(labels, lambda y: 1.0 + y).tolist() == [[1, 2], [1.75, 2]]


def test_lanes_side_by_side_are_slices():
    """They are not copied out of the stack first."""
    stack = StackAugmentation([cu.Lane(name) for name in ORDERS["side by side"]], RECIPE, "cpu")
    assert (stack.autoaugment, stack.cutout, stack.mixing) == (slice(1, 3), slice(2, 5), slice(4, 6))


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_reads_values_on_the_host(order, images):
    """Tensors without values: a CUDA graph can hold whatever works on them."""
    lanes, drawn = drawn_for(ORDERS[order], images, "meta")
    x = torch.empty(len(lanes), RECIPE.batch, *images.shape, dtype=torch.uint8, device="meta")
    labels = torch.empty(len(lanes), RECIPE.batch, dtype=torch.int64, device="meta")
    stack = StackAugmentation(lanes, RECIPE, "meta")
    assert stack.mixed(stack.images(x, drawn).float(), drawn).shape == x.shape
    mixture = stack.mixture(labels, drawn, torch.empty(1, 10, device="meta"))
    assert mixture is None or mixture.share.shape == mixture.partners.shape == labels.shape
