"""The time that lanes take on a device, from a few steps."""

import pytest

import class_uncertainty as cu
from class_uncertainty.paper import training_time
from class_uncertainty.training.fit import fit


def test_a_few_steps_of_a_full_stack_are_timed(digits, monkeypatch):
    calls = []

    def watched(train: cu.Data, lanes: list[cu.Lane], **options):
        calls.append((len(train), len(lanes), options["recipe"].epochs))
        return fit(train, lanes, **options)

    monkeypatch.setattr(training_time, "fit", watched)
    recipe = cu.Recipe("small-conv", epochs=40, batch=32, crop=1)
    assert training_time.images_per_second(digits.train, recipe, "cpu") > 0
    assert calls == [(4 * 32, 5, 2)]  # on a CPU stacks of this network have five lanes


@pytest.mark.parametrize(
    ("lanes", "width", "is_padded", "stacks"),
    [
        (5, 5, True, 1.0),
        (1, 5, True, 1.0),  # a stack of one takes as long as one of five
        (6, 5, True, 2.0),
        (12, 12, False, 1.0),
        (16, 12, False, 1.5),  # 4 lanes seem to be 8 of 16
    ],
)
def test_stacks_that_are_not_full(lanes, width, is_padded, stacks):
    assert training_time.full_stacks(lanes, width, is_padded) == pytest.approx(stacks)
