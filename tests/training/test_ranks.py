"""Processes of torchrun share every batch: whatever their number, they train as one process does.

Here ranks are threads; `tests/runs/test_torchrun.py` starts processes.
"""

from contextlib import closing

import numpy as np
import pytest
import torch
from rank_threads import in_ranks
from torch import Tensor
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.training import stack_training
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import train_here
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.networks.resnet import ResNet
from class_uncertainty.training.networks.stack import Stack
from class_uncertainty.training.ranks import ALONE, Ranks, SynchronisedStatistics
from class_uncertainty.training.sampling import Examples
from class_uncertainty.training.stack_training import StackTraining
from class_uncertainty.training.stage_context import FitOptions, StageContext
from class_uncertainty.training.stages import ResolvedStage

LANES = [cu.Lane("cb-rs", gather="online"), cu.Lane("cb", 1), cu.Lane("ldam-rw", 2), cu.Lane("naive", 3)]


@pytest.fixture(scope="module")
def data() -> cu.Data:
    """100 examples, some of every class."""
    train = cu.load("digits-lt:20").train
    return train.take(np.argsort(train.labels)[::-4][:100])


def train(data: cu.Data, recipe: cu.Recipe, ranks: Ranks) -> list[dict[str, Tensor]]:
    """What each lane has at the end: weights, running statistics, its loss and errors, and what it gathered."""
    errors: dict[cu.Lane, list[float]] = {lane: [] for lane in LANES}

    def report(epoch: Epoch) -> None:
        for lane, error in zip(epoch.lanes, epoch.error, strict=True):
            errors[lane].append(error)

    fitted = cu.Fit.untrained(data, LANES, recipe, "cpu", None)
    options = FitOptions(None, None, report, None, 10, Deadline(), None, None, ranks)
    keys = [[lane.name] for lane in LANES]
    with closing(train_here(fitted, data, options, keys, list(range(len(LANES))))) as batches:
        lanes = {outcome.place: outcome.lane for batch in batches for outcome in batch}
    reported = [{"loss": torch.tensor(lanes[i].loss), "errors": torch.tensor(errors[LANES[i]])} for i in sorted(lanes)]
    return [lanes[i].state | lanes[i].gathered | reported[i] for i in sorted(lanes)]


def assert_alike(some: list[dict[str, Tensor]], others: list[dict[str, Tensor]]) -> None:
    """Up to rounding."""
    for one, other in zip(some, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("world", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("size", [2, 3, 7, 16, 33, 128])
def test_every_example_counts_once(world, size):
    """The classes of a batch are those of one process, for any number of processes."""
    counted = np.zeros(size)
    for rank in range(world):
        rows, weight = Ranks(rank, world).share(size)
        counted[rows] += weight
    assert counted == pytest.approx(np.ones(size))


@pytest.mark.parametrize("world", [2, 3, 8])
def test_no_rank_has_one_example(world):
    for size in range(2, 10 * world):
        assert all(len(range(size)[Ranks(rank, world).share(size)[0]]) >= 2 for rank in range(world))


def test_one_process_changes_nothing():
    assert ALONE.share(7) == (slice(None), 1)


@pytest.mark.parametrize("shape", [(7, 3), (7, 3, 4, 4)])
def test_synchronised_statistics_are_those_of_the_whole_batch(shape):
    """Outputs, gradients and running statistics against torch's batch norm of all examples."""
    torch.manual_seed(0)
    x, given = 3 * torch.randn(shape) + 1, torch.randn(shape)
    weight, bias = torch.randn(3), torch.randn(3)

    def passed(ranks: Ranks) -> tuple[slice, list[Tensor]]:
        rows = ranks.share(len(x))[0]
        learned = [x[rows].clone().requires_grad_(), *(p.clone().requires_grad_() for p in (weight, bias))]
        mean, variance = torch.full((3,), 0.5), torch.full((3,), 2.0)
        with SynchronisedStatistics() if ranks.world > 1 else torch.enable_grad():
            y = F.batch_norm(learned[0], mean, variance, *learned[1:], True, 0.3)
        y.backward(given[rows])
        return rows, [y.detach(), learned[0].grad, learned[1].grad, learned[2].grad, mean, variance]

    _, whole = passed(ALONE)
    of_ranks = in_ranks(2, passed)
    for rows, (y, by_input, _, _, mean, variance) in of_ranks:
        torch.testing.assert_close(y, whole[0][rows])
        torch.testing.assert_close(by_input, whole[1][rows])
        torch.testing.assert_close([mean, variance], whole[4:])
    for i in (2, 3):  # gradients of parameters are summed after the backward pass
        torch.testing.assert_close(sum(values[i] for _, values in of_ranks), whole[i])


@pytest.mark.parametrize("batch", [30, 16, 49, 97])  # 10, 4, 2 and 3 examples are left over
def test_two_ranks_train_as_one(data, batch):
    """Weights, running statistics, losses and what online uncertainty gathers."""
    recipe = cu.Recipe("small-conv", epochs=2, batch=batch, lr=0.05, warmup=0, crop=1, drop_last=False)
    alone, (first, second) = train(data, recipe, ALONE), in_ranks(2, lambda ranks: train(data, recipe, ranks))
    assert_alike(first, alone)
    assert_alike(second, first)
    assert float(first[0]["seen"].sum()) == 2 * len(data)


def test_statistics_of_each_rank_are_averaged(data):
    """Without synchronised ones too, all ranks end with the same network."""
    recipe = cu.Recipe("small-conv", epochs=1, batch=30, lr=0.05, warmup=0, crop=1, synchronised=False)
    first, second = in_ranks(2, lambda ranks: train(data, recipe, ranks))
    assert any("running_var" in name for name in first[0])
    assert_alike(second, first)


@pytest.mark.parametrize("ranks", [ALONE, Ranks(0, 2)])
def test_our_own_kernels_are_for_one_process(ranks, monkeypatch):
    """They compute batch statistics by themselves, so nobody could synchronise them."""

    def to_gpu(stack: Stack, _: str) -> Stack:
        assert isinstance(stack.body, ResNet)
        stack.body.kernels = True
        return stack

    monkeypatch.setattr(stack_training, "to_device", to_gpu)
    data = cu.Data(np.zeros((8, 3, 32, 32), np.uint8), np.arange(8) % 2)
    fitted = cu.Fit.untrained(data, [cu.Lane("naive")], cu.Recipe("resnet32", epochs=1, batch=8), "cpu", None)
    options = FitOptions(None, None, None, None, 10, Deadline(), None, None, ranks)
    images, labels, counts = map(torch.from_numpy, (data.inputs, data.labels, data.counts[None]))
    examples = Examples(images, labels, fitted.standardise, counts)
    context = StageContext(fitted, ResolvedStage(fitted.recipe), data, examples, [["key"]], options)
    assert StackTraining(context, [0], []).stack.kernels == (ranks is ALONE)
