"""The speed of a device, from a few steps."""

import pytest

import class_uncertainty as cu
from class_uncertainty.training import speed
from class_uncertainty.training.fit import fit
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.shared_epochs import Turn


def test_a_few_steps_of_a_full_stack_are_timed(digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def watched(train: cu.Data, lanes: list[cu.Lane], **options):
        calls.append((len(train), len(lanes), options["recipe"].epochs))
        return fit(train, lanes, **options)

    monkeypatch.setattr(speed, "fit", watched)
    recipe = cu.Recipe("small-conv", epochs=40, batch=32, crop=1)
    assert speed.images_per_second(digits.train, recipe, "cpu") > 0
    assert calls == [(4 * 32, 5, 2)]  # on a CPU stacks of this network have five lanes


def test_the_speed_of_stacks_that_train_at_once(digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Timed where that is little beside the training."""
    recipe = cu.Recipe("small-conv", epochs=40, batch=32, crop=1)
    monkeypatch.setattr(speed.torch, "get_num_threads", lambda: 2)
    measured = speed.measured_speed(digits.train, recipe, "cpu", 20)
    assert measured is not None
    assert (measured.width, measured.at_once, measured.padded) == (5, 2, True)
    assert measured.seconds > 0
    assert speed.measured_speed(digits.train, recipe, "cpu", 1) is None


def test_heads_that_converge_are_timed_as_a_whole(digits: cu.Dataset) -> None:
    flat = cu.Data(digits.train.inputs.reshape(len(digits.train), -1).astype("float32"), digits.train.labels)
    recipe = RECIPES["embeddings"]
    assert speed.measured_speed(flat, recipe, "cpu", 10) is None
    measured = speed.measured_speed(flat, recipe, "cpu", 60)
    assert measured is not None
    assert 0 < measured.seconds < 60
    assert measured.width == 1


@pytest.mark.parametrize(
    ("given", "turns", "seconds"),
    [
        (speed.Speed(10.0, width=5), [(5, 1.0)], 10.0),
        (speed.Speed(10.0, width=5), [(1, 1.0), (6, 1.0)], 30.0),  # a stack of one takes as long as one of five
        (speed.Speed(10.0, width=5), [(1, 0.8), (5, 0.2)], 10.0),  # so that shared epochs may spare no time
        (speed.Speed(10.0, width=5), [(1, 0.8), (10, 0.2)], 12.0),
        (speed.Speed(10.0, width=5, at_once=2), [(11, 1.0), (0, 1.0)], 20.0),  # three stacks, two at a time
        (speed.Speed(10.0, width=12, padded=False), [(12, 1.0), (4, 1.0)], 15.0),  # 4 lanes seem to be 8 of 16
    ],
)
def test_seconds_of_networks_that_train_together(given: speed.Speed, turns: list[Turn], seconds: float) -> None:
    assert given.estimate(turns) == pytest.approx(seconds)
