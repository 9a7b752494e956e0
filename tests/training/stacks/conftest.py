"""Every third digit, and what the lanes become on them."""

import dataclasses

import numpy as np
import pytest
from training.stacks.stacked import LANES, RECIPE, every_third_digit

import class_uncertainty as cu


@pytest.fixture(scope="module")
def digits():
    return every_third_digit()


@pytest.fixture(scope="module")
def stats(digits):
    return cu.Stats(digits.train.counts, np.linspace(1, 3, 10))


@pytest.fixture(scope="module")
def whole(digits, stats):
    return cu.fit(digits.train, LANES, recipe=RECIPE, stats=stats, test=digits.test, device="cpu")


@pytest.fixture(scope="module", params=["plain", "averaged"])
def trained(request, digits, stats, whole):
    """By the recipe, and where the weights of the last epochs are averaged."""
    if request.param == "plain":
        return whole
    averaging = dataclasses.replace(RECIPE, average=0.5)
    return cu.fit(digits.train, LANES, recipe=averaging, stats=stats, test=digits.test, device="cpu")
