"""Few digits, and torch on one thread."""

import numpy as np
import pytest
import torch

import class_uncertainty as cu


@pytest.fixture(scope="module")
def digits():
    """Every third example: four batches an epoch."""
    train = cu.load("digits-lt:20").train
    return train.take(np.arange(0, len(train), 3))


@pytest.fixture
def one_thread():
    """Plain loops over small networks are faster so."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
