"""What fit() tells and hands over while it runs, and lanes, recipes and networks that it refuses."""

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from refusals import refused
from training.fit_settings import FEATURES, IMAGES, stats_of

import class_uncertainty as cu
from class_uncertainty.training.fit_result import LaneOutcome
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.stage_runner import StageRunner


def test_a_diverging_lane_leaves_its_neighbours_alone(digits):
    good = [cu.Lane("naive", s) for s in range(4)]
    alone = cu.fit(digits.train, good, recipe=IMAGES, test=digits.test, device="cpu")
    beside = cu.fit(
        digits.train,
        [*good[:2], cu.Lane("naive", 9, lr=1e30), *good[2:]],
        recipe=IMAGES,
        test=digits.test,
        device="cpu",
    )
    gone = beside.results.pop(2)
    assert gone.diverged == 0
    assert gone.scores is None
    assert gone.error is None
    assert [r.error for r in beside.results] == [r.error for r in alone.results]
    assert np.array_equal(np.delete(beside.probabilities(digits.test), 2, axis=0), alone.probabilities(digits.test))


def test_results_arrive_as_stacks_end(digits):
    """Twelve lanes in stacks of five: what had ended before an interruption has been handed over."""
    seen: list[int] = []

    def done(end: LaneOutcome) -> None:
        seen.append(end.place)
        if end.place == 5:
            raise KeyboardInterrupt

    lanes = [cu.Lane("naive", s) for s in range(12)]
    with pytest.raises(KeyboardInterrupt):
        cu.fit(digits.train, lanes, recipe=IMAGES, done=done)
    assert {0, 1, 2, 3, 4} <= set(seen) or {5} == set(seen)
    assert seen[-1] == 5


def test_ctrl_c_between_two_stacks_stops_the_first(digits, monkeypatch):
    """It would train to its last epoch while the pool waits for it."""
    epochs: list[int] = []
    submit = ThreadPoolExecutor.submit

    def interrupted(pool: ThreadPoolExecutor, run: Callable, runner: StageRunner, places: list[int]) -> object:
        if 0 not in places:
            raise KeyboardInterrupt
        return submit(pool, run, runner, places)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    recipe = dataclasses.replace(IMAGES, epochs=50)
    with pytest.raises(KeyboardInterrupt):
        cu.fit(
            digits.train,
            [cu.Lane("naive", s) for s in range(6)],
            recipe=recipe,
            progress=lambda news: epochs.append(news.epoch),
        )
    assert len(epochs) < 50


def test_a_stack_that_ends_first_is_handed_over_first(digits, monkeypatch):
    """The first stack fails after the others have ended: their results are not lost."""
    ended, train = threading.Event(), StageRunner.run

    def slow_first(runner: StageRunner, places: list[int], started: list) -> object:
        if places[0] == 0:
            ended.wait(30)
            raise MemoryError
        return train(runner, places, started)

    seen: list[int] = []

    def done(end: LaneOutcome) -> None:
        seen.append(end.place)
        if end.place == 9:
            ended.set()

    monkeypatch.setattr(StageRunner, "run", slow_first)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    lanes = [cu.Lane("naive", seed) for seed in range(10)]
    with pytest.raises(MemoryError):
        cu.fit(digits.train, lanes, recipe=IMAGES, done=done, device="cpu")
    assert seen == [5, 6, 7, 8, 9]


def test_progress_tells_of_every_lane_in_every_epoch(digits):
    told: list[Epoch] = []
    lanes = [cu.Lane("naive", seed, lr=0.1 * (seed + 1)) for seed in range(7)]
    fitted = cu.fit(digits.train, lanes, recipe=IMAGES, progress=told.append)
    assert sorted((lane.seed, news.epoch) for news in told for lane in news.lanes) == [
        (s, e) for s in range(7) for e in (0, 1)
    ]
    for news in told:
        np.testing.assert_allclose(news.lr, [lane.lr * IMAGES.factor(news.epoch) for lane in news.lanes], rtol=1e-6)
        assert all(0 <= error <= 100 for error in news.error)
        assert news.speed > 0
        if news.epoch == 1:
            assert news.loss == tuple(fitted.results[lane.seed].loss for lane in news.lanes)


def test_learning_rate_warms_up_and_drops():
    """Warm-up 0.4667, 0.6, ... 1 over five epochs as in Bag-of-Tricks; drops in epochs 161 and 181, counted from 1, as
    in LDAM-DRW."""
    recipe = cu.Recipe("small-conv", epochs=200, batch=128, drop=0.01)
    factors = [recipe.factor(epoch) for epoch in range(200)]
    np.testing.assert_allclose(factors[:5], [0.46667, 0.6, 0.73333, 0.86667, 1.0], atol=1e-5)
    np.testing.assert_allclose([factors[159], factors[160], factors[179], factors[180]], [1, 0.01, 0.01, 0.0001])


def test_small_data_and_large_batches(wine):
    """Fewer examples than a batch: the batch shrinks, and training still moves."""
    few = wine.take(np.arange(0, len(wine), 9))
    fitted = cu.fit(few, [cu.Lane()], recipe=cu.Recipe("mlp", epochs=30, batch=512))
    assert (fitted.probabilities(few)[0].argmax(1) == few.labels).mean() > 0.9


@pytest.mark.parametrize(("lanes", "sentence"), [([], "no lanes"), ([cu.Lane("ubrs")], "needs class uncertainties")])
def test_refusals(lanes, sentence, digits):
    with pytest.raises(cu.InputError, match=sentence):
        cu.fit(digits.train, lanes)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cu.Lane("ldma"), "unknown method 'ldma': did you mean 'ldam'"),
        (lambda: cu.Lane(lr=0.0), "learning rate is 0"),
        (lambda: cu.Lane(lr=-1.0), "learning rate is -1"),
        (lambda: cu.Lane(lr=float("nan")), "learning rate is nan"),
        (lambda: cu.Lane(seed=-1), "seed is -1"),
        (lambda: cu.Lane(fold=(5, 5)), "fold is"),
        (lambda: cu.Lane(fold=(0, 1)), "fold is"),
        (lambda: cu.Lane(fold=(0.5, 2)), "fold is"),  # type: ignore[arg-type]
        (lambda: cu.Lane(fold=(0, 2, 3)), "fold is"),  # type: ignore[arg-type]
        (lambda: cu.Lane(seed=2**63), "seed is"),
        (lambda: cu.Lane(seed=True), "seed is True"),
        (lambda: cu.Recipe("mlp", epochs=1, batch=2, crop=-1), "crop is -1"),
        (lambda: cu.Recipe("mlp", epochs=0, batch=1), "epochs is 0"),
        (lambda: cu.Recipe("mlp", epochs=1, batch=0), "batch is 0"),
    ],
)
def test_wrong_lanes_and_recipes(make, sentence):
    with pytest.raises(cu.InputError, match=sentence):
        make()  # type: ignore[operator]


def test_wrong_network_for_the_data(wine):
    with pytest.raises(cu.InputError, match="takes images"):
        cu.fit(wine, [cu.Lane()], recipe=IMAGES)
    for change, sentence in (
        ({"crop": 1}, "crops or flips"),
        ({"flip": True}, "crops or flips"),
        ({"batch": 1}, "batch is 1"),
    ):
        recipe = dataclasses.replace(FEATURES["mlp"], **change)
        with pytest.raises(cu.InputError, match=sentence):
            cu.fit(wine, [cu.Lane()], recipe=recipe)
    with pytest.raises(cu.InputError, match="device 'gpu' is not one"):
        cu.fit(wine, [cu.Lane()], device="gpu")
    with pytest.raises(cu.InputError, match="unknown network 'mpl': did you mean 'mlp'"):
        cu.fit(wine, [cu.Lane()], recipe=cu.Recipe("mpl", epochs=1, batch=2))


@pytest.mark.parametrize("method", ["dro", "dro-learned", "ubm-dro:epsilon=2"])
def test_a_network_without_features_is_refused_where_they_are_trained(method, wine):
    with refused(f"method '{method}'", "trains features", "'linear'", "another recipe"):
        cu.fit(wine, [cu.Lane(), cu.Lane(method)], recipe=FEATURES["linear"], stats=stats_of(wine), device="cpu")


def test_batch_statistics_that_processes_do_not_share_are_refused(wine):
    """Stored recipes have the field, so a Recipe takes it; nothing trains by it."""
    recipe = dataclasses.replace(FEATURES["mlp"], synchronised=False)
    with refused("synchronised", "True"):
        cu.fit(wine, [cu.Lane()], recipe=recipe, device="cpu")
