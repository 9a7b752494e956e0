"""benchmarks/best_epoch.py: what choosing on test images would report, beside networks that train as ever."""

import runpy
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import class_uncertainty as cu
from class_uncertainty.training import stage_runner
from class_uncertainty.training.stack_training import StackTraining

BENCHMARK = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "best_epoch.py"))
RECIPE = cu.Recipe("small-conv", epochs=10, batch=32)  # DRO-LT then trains features for 4 epochs, and the head for 1
LANES = [cu.Lane("dro", seed) for seed in range(2)]

errors_by_epoch = BENCHMARK["errors_by_epoch"]


@pytest.fixture(scope="module")
def digits():
    """A third of them to train on."""
    digits = cu.load("digits-lt:20")
    return replace(digits, train=digits.train.take(np.arange(0, len(digits.train), 3)))


def test_evaluating_every_epoch_changes_no_network(digits):
    on_last, _ = errors_by_epoch(digits, LANES, RECIPE)
    fitted = cu.fit(digits.train, LANES, recipe=RECIPE, test=digits.test)
    assert [len(errors) for errors in on_last] == [1, 1]
    assert [errors[-1] for errors in on_last] == [result.error for result in fitted.results]
    assert stage_runner.StackTraining is StackTraining


@pytest.mark.parametrize("step", [-1, 1])
def test_a_head_is_trained_on_the_features_with_the_lowest_error(digits, step):
    """Of errors that fall the last features are chosen, of errors that rise the first: another head follows."""
    errors = count(0, step)
    on_last, on_chosen = errors_by_epoch(digits, LANES, RECIPE, lambda training, test: [next(errors)] * 5)
    assert [len(by_epoch) for by_epoch in on_chosen] == [1, 1]
    assert (on_chosen == on_last) == (step == -1)


def test_centroids_are_compared_by_cosine(rng):
    features, centroids, labels = rng.normal(size=(3, 50, 4)), rng.normal(size=(3, 6, 4)), rng.integers(0, 6, 50)
    wrong = BENCHMARK["wrong_by_centroid"](*map(torch.from_numpy, (features, centroids, labels)))
    nearest = [cdist(own, near, "cosine").argmin(axis=1) for own, near in zip(features, centroids, strict=True)]
    assert wrong.tolist() == [(place != labels).sum() for place in nearest]


def test_the_centroids_of_each_lane_judge_its_features(digits):
    """As plain networks have them, one by one."""
    errors = list[tuple[float, float]]()

    def checked(training: StackTraining, test: cu.Data) -> list[float]:
        by_lane = BENCHMARK["centroid_errors"](training, test)
        lanes = zip(training.lanes, training.stack.states(), training.program.centroids, by_lane, strict=True)
        for lane, state, centroids, error in lanes:
            network = training.context.fitted.plain(lane, state)
            with torch.no_grad():
                features = network.body(network.preprocess(torch.from_numpy(test.inputs)))
            errors.append((error, 100 * np.mean(cdist(features, centroids, "cosine").argmin(axis=1) != test.labels)))
        return by_lane

    errors_by_epoch(digits, LANES, RECIPE, checked)
    assert len(errors) == 4 * 5  # epochs of a stack of five, which two lanes fill up
    assert [error for error, _ in errors] == pytest.approx([expected for _, expected in errors], abs=0.2)  # near ties


def test_methods_without_a_stage_for_features_have_no_such_choice(digits):
    on_last, on_chosen = errors_by_epoch(digits, [cu.Lane("cb-rs")], RECIPE)
    assert (len(on_last[0]), on_chosen) == (10, [[]])
