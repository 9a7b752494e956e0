"""Purposes are plain values, and one from a file is checked."""

import numpy as np
import pytest

from class_uncertainty import InputError
from class_uncertainty.training.purpose import Purpose

FIELDS = {"counts": [9, 1], "prior": [0.5, 0.5], "goal": "mean", "method": "naive", "label": None}


def test_values_are_plain():
    purpose = Purpose.of(np.array([9, 1]), np.array([0.25, 0.75], dtype=np.float32), goal="mean")
    assert (purpose.counts, purpose.prior) == ((9, 1), (0.25, 0.75))
    assert {type(number) for number in purpose.counts} == {int}
    assert purpose == Purpose.restored({"counts": [9, 1], "prior": [0.25, 0.75], "goal": "mean"}, 2)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"counts": [9, 1, 1]}, "one a class"),
        ({"counts": [9, 0]}, "above 0"),
        ({"goal": 3}, "must be text"),
        ({"label": ["x"]}, "must be text"),
    ],
)
def test_a_purpose_that_was_edited(change, why):
    with pytest.raises(ValueError, match=why):
        Purpose.restored(FIELDS | change, 2)


@pytest.mark.parametrize("prior", [[0.5], [-1, 2], [0, 0]])
def test_a_prior_that_was_edited(prior):
    with pytest.raises(InputError):
        Purpose.restored(FIELDS | {"prior": prior}, 2)
