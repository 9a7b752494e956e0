"""A table for tests of training."""

import pytest

import class_uncertainty as cu


@pytest.fixture(scope="module")
def wine():
    from sklearn.datasets import load_wine

    bunch = load_wine()
    return cu.Data(bunch.data, bunch.target, bunch.target_names)
