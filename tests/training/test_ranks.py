"""Processes of torchrun share every batch: no example is lost or counted twice, whatever their number."""

import numpy as np
import pytest

from class_uncertainty.training.ranks import ALONE, Ranks


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
