"""What steps gather, bootstraps, and batches in parts."""

import dataclasses
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from own_networks import Layers, images, registered
from refusals import refused
from torch.nn import functional as F
from training.steps.stepped import RECIPE, fit, plain_network

import class_uncertainty as cu
from class_uncertainty.methods import named
from class_uncertainty.training.augment.crops import augmented, draw
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.sampling import LaneSampler
from class_uncertainty.training.streams import stream
from class_uncertainty.training.train_step import StepProgram

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
