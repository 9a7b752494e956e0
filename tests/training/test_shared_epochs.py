"""Epochs that lanes share train once, and every lane is to the last bit what it is alone."""

import dataclasses
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fits import same_fits

import class_uncertainty as cu
from class_uncertainty.training import stack_training, stage_runner
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.shared_epochs import Stretch, in_turn, spared_epochs, stretches
from class_uncertainty.training.stack_training import StackTraining
from class_uncertainty.training.stages import resolve_stages, staged

RECIPE = cu.Recipe("small-conv", epochs=5, batch=32, crop=1, flip=True)  # the second stage is the last epoch
NAMES = ("2s-cb-rs", "naive", "2s-csce", "crt", "ldam", "ldam-rw", "2s-ubrw-focal", "cb-rs")
LANES = [*map(cu.Lane, NAMES), cu.Lane("2s-cb-rs", 1), cu.Lane("naive", lr=0.05), cu.Lane("naive", fold=(0, 4))]
APART = len(LANES) * RECIPE.epochs + 1  # and the second stage of crt


@pytest.fixture(scope="module")
def digits():
    digits = cu.load("digits-lt:20")
    return dataclasses.replace(digits, train=digits.train.take(np.arange(0, len(digits.train), 4)))


@pytest.fixture(scope="module")
def stats(digits):
    return cu.Stats(digits.train.counts, np.linspace(1, 3, 10))


@pytest.fixture(scope="module")
def alone(digits, stats):
    """Each lane in a fit of its own."""
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu"}
    return [cu.fit(digits.train, [lane], **options) for lane in LANES]


@pytest.fixture
def trained(monkeypatch):
    """The number of lanes in every epoch that a stack trains."""
    counts, train_epoch = [], StackTraining._train_epoch

    def counted(stack: StackTraining, epoch: int) -> np.ndarray:
        counts.append(stack.count)
        return train_epoch(stack, epoch)

    monkeypatch.setattr(StackTraining, "_train_epoch", counted)
    return counts


def first_stages(names: list[str], recipe: cu.Recipe) -> dict[int, cu.Lane]:
    return {place: staged(cu.Lane(name), recipe, 0) for place, name in enumerate(names)}


def test_lanes_that_are_alike_have_the_same_plans():
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


def test_what_shares_and_what_does_not():
    def together(*names: str) -> list[list[list[int]]]:
        return [stretch.alike for stretch in stretches(first_stages(list(names), RECIPE), RECIPE, shares=True)]

    assert together("naive", "2s-cb-rs", "crt") == [[[0, 1, 2]], [[0, 2], [1]]]
    assert together("2s-csce", "2s-ubrw") == [[[0, 1]], [[0], [1]]]
    assert together("naive", "naive+mixup", "pb-rs", "cb-rs") == [[[0], [1], [2], [3]]]
    # shares of mixtures do not add up to 1 to the last bit, so that a mean over them is another number
    assert together("naive+mixup", "2s-cb-rs+mixup", "2s-csce+mixup") == [[[0, 1], [2]], [[0], [1], [2]]]
    assert stretches(first_stages(["naive", "2s-cb-rs"], RECIPE), RECIPE, shares=False) == [Stretch(5, [[0], [1]])]
    one_epoch = dataclasses.replace(RECIPE, epochs=1)  # which is the second stage
    assert stretches(first_stages(["naive", "2s-cb-rs"], one_epoch), one_epoch, True) == [Stretch(1, [[0], [1]])]


def test_a_ramp_of_someone_else_is_never_at_rest():
    """Whether it is would have to be asked of every epoch."""
    weight = dataclasses.replace(cu.METHODS["2s-csce"].weight, ramp=lambda epoch, epochs: float(epoch > 2))
    lanes = {0: cu.Lane("naive"), 1: cu.Lane(cu.Method(weight=weight))}
    assert stretches(lanes, RECIPE, shares=True) == [Stretch(5, [[0], [1]])]


def test_what_trains_in_turn():
    """Three lanes that share four of five epochs, two of them all, and one that shares nothing."""
    together = [Stretch(4, [[0, 1, 2], [3]]), Stretch(5, [[0, 1], [2], [3]])]
    last = together[-1]
    assert in_turn([last], dict.fromkeys(range(4), 0).__getitem__, fills=False) == [last]
    assert in_turn(together, dict.fromkeys(range(4), 0).__getitem__, fills=True) == together
    assert in_turn(together, dict.fromkeys(range(4), 0).__getitem__, fills=False) == [Stretch(4, [[0, 1, 2]]), last]
    ahead = {0: 0, 1: 0, 2: 1, 3: 4}  # the last lane is to end first, and the third goes on for all
    assert in_turn(together, ahead.__getitem__, fills=True) == [
        Stretch(5, [[3]]),
        Stretch(4, [[0, 1, 2]]),
        Stretch(5, [[0, 1], [2]]),
    ]
    parted = {0: 0, 1: 5, 2: 3, 3: 0}  # the second has ended: the first, which is like it, follows
    assert in_turn(together, parted.__getitem__, fills=True) == [
        Stretch(5, [[0, 1]]),
        Stretch(4, [[2], [3]]),
        Stretch(5, [[2], [3]]),
    ]


def test_epochs_are_spared_only_where_lanes_share_them():
    """Of lanes with a second stage only the first; heads on full batches and trees share nothing."""
    lanes = [cu.Lane("naive"), cu.Lane("2s-cb-rs"), cu.Lane("2s-csce"), cu.Lane("cb-rs")]
    assert spared_epochs(lanes, RECIPE) == 2 * 4
    assert spared_epochs([cu.Lane("naive"), cu.Lane("crt")], RECIPE) == 5
    assert spared_epochs([cu.Lane("crt"), cu.Lane("cb-rs")], RECIPE) == 0
    for recipe in (RECIPES["embeddings"], RECIPES["forest"]):
        assert spared_epochs(lanes, recipe) == 0


def test_lanes_that_share_are_what_they_are_alone(digits, stats, alone, trained):
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


@pytest.mark.parametrize(("epoch", "average"), [(1, 0.5), (3, 0.0), (4, 0.5)])
def test_stopped_while_epochs_are_shared_and_taken_up_again(epoch, average, digits, stats, tmp_path, trained):
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
    digits, stats, alone, tmp_path, trained, monkeypatch
):
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


def test_lanes_part_where_a_later_stage_begins(digits):
    """The first stages of these differ, and the second do not."""
    crt = cu.METHODS["crt"]
    lanes = [cu.Lane("crt"), cu.Lane(dataclasses.replace(crt, weight=cu.METHODS["cb"].weight)), cu.Lane("naive")]
    options = {"recipe": RECIPE, "test": digits.test, "device": "cpu"}
    fitted = cu.fit(digits.train, lanes, **options)
    for place, lane in enumerate(lanes):
        same_fits(fitted.take([place]), cu.fit(digits.train, [lane], **options))


@pytest.mark.parametrize("stopped", [4, None])
def test_another_process_goes_on_with_the_lane_that_leads(stopped, digits, alone, tmp_path):
    """While the first stacks train: beyond the epochs that others share with it."""
    options = {"recipe": RECIPE, "test": digits.test, "device": "cpu"}
    checkpoints, meanwhile = Checkpoints(tmp_path / "running"), list[int]()

    def stop(news: Epoch) -> None:
        if news.epoch == stopped:
            raise KeyboardInterrupt

    def other(news: Epoch) -> None:
        if not meanwhile:
            meanwhile.append(news.epoch)
            with suppress(KeyboardInterrupt):
                cu.fit(digits.train, [LANES[1]], **options, checkpoints=checkpoints, every=1, progress=stop)

    many = [cu.Lane(name, seed) for seed in range(2, 18) for name in ("2s-cb-rs", "naive")]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        fitted = cu.fit(digits.train, [*many, LANES[1], LANES[0]], **options, checkpoints=checkpoints, progress=other)
    finally:
        torch.set_num_threads(threads)
    assert meanwhile == [0]
    same_fits(fitted.take([len(many)]), alone[1])
    same_fits(fitted.take([len(many) + 1]), alone[0])


def test_the_time_of_shared_epochs_is_shared(digits, monkeypatch, tmp_path):
    """By a clock that only training moves, a second for each lane of an epoch."""
    clock, train_epoch = [0.0], StackTraining._train_epoch

    def counted(stack: StackTraining, epoch: int) -> np.ndarray:
        clock[0] += stack.count
        return train_epoch(stack, epoch)

    def tick() -> float:
        clock[0] += 1e-9
        return clock[0]

    monkeypatch.setattr(StackTraining, "_train_epoch", counted)
    for module in (stack_training, stage_runner):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=tick))
    options = {"recipe": RECIPE, "test": digits.test, "device": "cpu"}
    lanes = [cu.Lane("naive"), cu.Lane("crt"), cu.Lane("2s-cb-rs")]
    seconds = [result.seconds for result in cu.fit(digits.train, lanes, **options).results]
    # four epochs for three, one for two and one alone; crt has one more of its own
    assert seconds == pytest.approx([4 / 3 + 1 / 2, 4 / 3 + 1 / 2 + 1, 4 / 3 + 1], abs=1e-5)

    def stop(news: Epoch) -> None:
        if news.epoch == 5:
            raise KeyboardInterrupt

    for _ in range(2):  # in the second stage of crt
        with pytest.raises(KeyboardInterrupt):
            cu.fit(digits.train, lanes, **options, checkpoints=tmp_path / "running", progress=stop)
    taken_up = cu.fit(digits.train, lanes, **options, checkpoints=tmp_path / "running")
    assert [result.seconds for result in taken_up.results] == pytest.approx(seconds, abs=1e-5)


def test_a_stop_right_behind_the_parting_loses_nothing(digits, stats, trained, tmp_path):
    """Though checkpoints are rare: where lanes part they are written."""
    options = {"recipe": RECIPE, "stats": stats, "test": digits.test, "device": "cpu", "every": 100}

    def stop(news: Epoch) -> None:
        if news.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cu.fit(digits.train, LANES[:3], **options, checkpoints=tmp_path / "running", progress=stop)
    trained.clear()
    cu.fit(digits.train, LANES[:3], **options, checkpoints=tmp_path / "running")
    assert sum(trained) == 3  # the last epoch of each
