"""Epochs that lanes share train once, and every lane is to the last bit what it is alone."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from fits import same_fits

import class_uncertainty as cu
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.shared_epochs import Stretch, spared_epochs, stretches
from class_uncertainty.training.stack_training import StackTraining
from class_uncertainty.training.stages import resolve_stages, staged

RECIPE = cu.Recipe("small-conv", epochs=5, batch=32, crop=1, flip=True)  # the second stage is the last epoch
NAMES = ("2s-cb-rs", "naive", "2s-csce", "crt", "ldam", "ldam-rw", "2s-ubrw-focal", "cb-rs")
LANES = [*map(cu.Lane, NAMES), cu.Lane("2s-cb-rs", 1), cu.Lane("naive", lr=0.05), cu.Lane("naive", fold=(0, 4))]
APART = len(LANES) * RECIPE.epochs + 1  # and the second stage of crt


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    digits = cu.load("digits-lt:20")
    return dataclasses.replace(digits, train=digits.train.take(np.arange(0, len(digits.train), 4)))


@pytest.fixture(scope="module")
def stats(digits: cu.Dataset) -> cu.Stats:
    return cu.Stats(digits.train.counts, np.linspace(1, 3, 10))


@pytest.fixture(scope="module")
def alone(digits: cu.Dataset, stats: cu.Stats) -> list[cu.Fit]:
    """Each lane in a fit of its own."""
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu"}
    return [cu.fit(digits.train, [lane], **options) for lane in LANES]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of lanes in every epoch that a stack trains."""
    counts, train_epoch = [], StackTraining._train_epoch

    def counted(stack: StackTraining, epoch: int) -> np.ndarray:
        counts.append(stack.count)
        return train_epoch(stack, epoch)

    monkeypatch.setattr(StackTraining, "_train_epoch", counted)
    return counts


def first_stages(names: list[str], recipe: cu.Recipe) -> dict[int, cu.Lane]:
    return {place: staged(cu.Lane(name), recipe, 0) for place, name in enumerate(names)}


def test_lanes_that_are_alike_have_the_same_plans() -> None:
    """Over every pair of every table: whatever a stretch holds together does the same in each of its epochs."""
    recipe, names = dataclasses.replace(RECIPE, epochs=20), list(cu.METHODS)
    lanes, stats = first_stages(names, recipe), cu.Stats(np.geomspace(100, 5, 6), np.linspace(0.2, 1, 6))
    together = stretches(lanes, recipe, shares=True)
    assert [stretch.until for stretch in together] == [16, 20]
    assert any(len(places) > 10 for places in together[0].alike)
    for stretch in together:
        assert sorted(place for places in stretch.alike for place in places) == list(lanes)
        for first, *others in stretch.alike:
            for place in others:
                a, b = lanes[first].value, lanes[place].value
                assert (a.head, a.scale, a.augment, a.dropout, a.cycles) == (
                    b.head,
                    b.scale,
                    b.augment,
                    b.dropout,
                    b.cycles,
                )
                for epoch in range(stretch.until):
                    plans = [vars(cu.plan(method, stats, epoch, recipe.epochs)) for method in (a, b)]
                    acts = plans[0]["margin"].any()
                    for name in plans[0].keys() - (set() if acts else {"beta"}):
                        assert np.array_equal(plans[0][name], plans[1][name]), (names[first], names[place], epoch, name)
                    assert a.reduction == b.reduction or (plans[0]["weight"] == 1).all()


def test_what_shares_and_what_does_not() -> None:
    def together(*names: str) -> list[list[list[int]]]:
        return [stretch.alike for stretch in stretches(first_stages(list(names), RECIPE), RECIPE, shares=True)]

    assert together("naive", "2s-cb-rs", "crt") == [[[0, 1, 2]], [[0, 2], [1]]]
    assert together("2s-csce", "2s-ubrw") == [[[0, 1]], [[0], [1]]]
    assert together("naive", "naive+mixup", "pb-rs", "cb-rs") == [[[0], [1], [2], [3]]]
    # shares of mixtures do not add up to 1 to the last bit, so that a mean over them is another number
    assert together("naive+mixup", "2s-cb-rs+mixup", "2s-csce+mixup") == [[[0, 1], [2]], [[0], [1], [2]]]
    assert stretches(first_stages(["naive", "2s-cb-rs"], RECIPE), RECIPE, shares=False) == [Stretch(5, [[0], [1]])]


def test_lanes_that_share_are_what_they_are_alone(
    digits: cu.Dataset, stats: cu.Stats, alone: list[cu.Fit], trained: list[int]
) -> None:
    told: list[Epoch] = []
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu"}
    fitted = cu.fit(digits.train, LANES, **options, progress=told.append)
    for place, single in enumerate(alone):
        same_fits(fitted.take([place]), single)
    # two lanes of two stages follow naive for four epochs, ldam-rw follows ldam, and crt follows naive for five
    assert APART - sum(trained) == 4 * 3 + 5 == spared_epochs(LANES, RECIPE)
    seen = [(lane, news.epoch) for news in told for lane in news.lanes]
    assert len(seen) == len(set(seen)) == APART
    totals = {(lane, news.epochs) for news in told for lane in news.lanes}
    assert {(lane, resolve_stages(lane.value, RECIPE)[-1].total) for lane in LANES} == totals
    assert all(result.seconds > 0 for result in fitted.results)


@pytest.mark.parametrize("average", [0.0, 0.5])
@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_stopped_while_epochs_are_shared_and_taken_up_again(
    epoch: int, average: float, digits: cu.Dataset, stats: cu.Stats, tmp_path: Path, trained: list[int]
) -> None:
    """In the second epoch, in the last shared one, and behind it; with weights that are averaged from the third on."""
    recipe = dataclasses.replace(RECIPE, average=average)
    options = {"recipe": recipe, "stats": stats, "test": digits.test, "device": "cpu"}
    whole = cu.fit(digits.train, LANES, **options)
    in_one_go, running = sum(trained), tmp_path / "running"

    def stop(news: Epoch) -> None:
        if news.epoch == epoch:
            raise KeyboardInterrupt

    trained.clear()
    with pytest.raises(KeyboardInterrupt):
        cu.fit(digits.train, LANES, **options, checkpoints=running, every=1, progress=stop)
    same_fits(cu.fit(digits.train, LANES, **options, checkpoints=running), whole)
    assert in_one_go <= sum(trained) <= in_one_go + len(LANES)  # the epoch in which it was stopped, at most
    assert not running.exists()


def test_lanes_go_on_from_where_they_part_without_the_one_that_led(
    digits: cu.Dataset,
    stats: cu.Stats,
    alone: list[cu.Fit],
    tmp_path: Path,
    trained: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu"}
    running, lanes = tmp_path / "running", LANES[:3]
    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "passed", property(lambda _: len(trained) >= 4))
        with pytest.raises(cu.Unfinished):
            cu.fit(digits.train, lanes, **options, checkpoints=running)
    assert trained == [1, 1, 1, 1]  # for all three
    trained.clear()
    followers = cu.fit(digits.train, [lanes[0], lanes[2]], **options, checkpoints=running)
    assert trained == [2]
    same_fits(followers.take([0]), alone[0])
    same_fits(followers.take([1]), alone[2])
