"""How far the whole of a command is, and how long the rest takes."""

import threading
from dataclasses import replace

import pytest
from watching import LANES
from watching import epoch_news as news

import class_uncertainty as cu
from class_uncertainty.reporting import work_progress
from class_uncertainty.reporting.work_progress import TRUSTED, WorkProgress
from class_uncertainty.runs.watcher import Rest, Stage
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.speed import Speed

STAGES = [Stage("first", "two", (2,)), Stage("second", "four", (4,), unit=0.5), Stage("third", "two more", (2,))]


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(work_progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def work(clock) -> WorkProgress:
    work = WorkProgress()
    work.announce(STAGES)  # 2 + 4 / 2 + 2 naive trainings
    work.open(2, "training")
    return work


def test_the_share_and_the_time_left_are_of_all_stages(work, clock):
    assert work.amounts() == (0, 8, 0.0, None)
    work.update(news(0))
    clock[0] = 5.0
    work.update(news(4))  # half of two networks of the first stage: one of six naive trainings
    trained, total, share, seconds = work.amounts()
    assert (trained, total) == (0, 8)
    assert share == pytest.approx(1 / 6)
    assert seconds == pytest.approx(25.0)
    work.update(news(9))
    assert work.amounts()[0] == 2
    assert not work.running()


def test_what_is_stored_leaves_the_total_when_the_next_stage_begins(work, clock):
    work.update(news(0, LANES[:1]))
    clock[0] = 2.0
    work.update(news(9, LANES[:1]))  # the other network is stored
    work.begin("third")  # and so are all of the second stage
    assert work.amounts() == (1, 3, pytest.approx(1 / 3), pytest.approx(4.0))
    work.begin("third")
    work.begin("nothing of this name")
    assert work.amounts()[1] == 3


def test_what_a_checkpoint_holds_counts_as_done_and_not_for_the_pace(work, clock):
    clock[0] = 1.0
    work.update(news(8))  # the first that is heard of both: a tenth each was trained in that second
    _, _, share, seconds = work.amounts()
    assert share == pytest.approx(1.8 / 6)
    assert seconds == pytest.approx((6 - 1.8) / 0.2)


def test_a_measured_speed_counts_until_much_is_seen(work, clock):
    work.measure(lambda networks, kind: Speed(networks * 1.25, width=5))  # stages take 10, 5 and 10 seconds
    assert work.weights == [10.0, 5.0, 10.0]
    assert work.amounts()[3] == pytest.approx(25.0)
    work.update(news(0))
    clock[0] = 20.0
    work.update(news(9))  # twice as long as that
    assert work.amounts()[3] == pytest.approx(15.0 * (20 + TRUSTED) / (10 + TRUSTED))


def test_other_kinds_of_models_are_timed_apart():
    """Later stages train any of them: as long as the first stage's, on average."""
    slow, quick = RECIPES["boosting"], RECIPES["logistic"]
    seconds = {None: 2.0, slow: 10.0, quick: 1.0}
    work = WorkProgress()
    work.announce([Stage("first", "", (2, 4), kinds=(slow, quick)), Stage("second", "", (3,), unit=2.0)])
    work.measure(lambda networks, kind: Speed(seconds[kind]))
    assert work.weights == [24.0, 2 * 3 * 2 * 24 / (6 * 2)]
    work.measure(lambda networks, kind: None if kind == slow else Speed(seconds[kind]))
    assert work.weights[0] == 2 * 2 + 4  # too few to be timed: as by the recipe of the workflow


def test_a_stage_weighs_what_is_left_of_it_at_the_pace_that_was_measured():
    slow, quick = RECIPES["boosting"], RECIPES["logistic"]
    work = WorkProgress()
    work.announce([Stage("first", "", (2, 4), kinds=(slow, quick)), Stage("second", "", (4,))])
    work.measure(lambda networks, kind: Speed({None: 4.0, slow: 10.0, quick: 1.0}[kind]))
    second = work.weights[1]
    for left in ([Rest.apart([0.0, 1.0, 1.0, 0.5])], []):
        work.begin("second", left)
        assert work.weights == pytest.approx([2.5 / 4 * second])
        assert work.seconds == pytest.approx(2.5 / 4 * second)
        assert work.amounts()[2] == pytest.approx(0.5 / 3)  # what the checkpoint holds


def test_epochs_that_networks_share_count_once(clock):
    """Two lanes share eight of ten epochs, which train in eight seconds, and then part for two, two seconds each."""
    work = WorkProgress()
    work.announce([Stage("methods", "two", (2,), turns=(((1, 0.8), (2, 0.2)),))])
    assert (work.seconds, work.spared) == (pytest.approx(1.2), pytest.approx(0.8))
    work.open(2, "training")
    for epoch in range(8):
        clock[0] += 1.0
        work.update(replace(news(epoch), shared_by=(2, 2)))
        assert work.amounts()[2:] == (pytest.approx((epoch + 1) / 12), pytest.approx(12 - clock[0]))
    for epoch in (8, 9):
        clock[0] += 2.0
        work.update(replace(news(epoch), shared_by=(1, 1)))
        assert work.amounts()[2:] == (pytest.approx(clock[0] / 12), pytest.approx(12 - clock[0]))
    assert work.amounts()[:2] == (2, 2)


def test_lanes_go_on_where_they_parted(clock):
    """Both have trained nine of ten epochs, of which they shared eight."""
    work = WorkProgress()
    work.announce([Stage("methods", "two", (2,), turns=(((1, 0.8), (2, 0.2)),))])
    work.begin("methods", [Rest((0.1, 0.1), ((2, 0.1),))])
    assert work.seconds == pytest.approx(0.2)
    work.open(2, "training")
    clock[0] = 1.0
    work.update(replace(news(9, LANES[:1]), shared_by=(1,)))
    assert work.amounts()[3] == pytest.approx(1.0)
    work.update(replace(news(9, LANES[1:]), shared_by=(1,)))
    assert work.amounts()[2:] == (1.0, 0.0)


def test_training_that_nobody_announced_counts_every_lane(clock):
    """Which of them share is not known before."""
    work = WorkProgress()
    work.open(2, "training")
    work.update(replace(news(4), shared_by=(2, 2)))
    assert work.amounts()[2] == pytest.approx(0.5)


def test_training_that_nobody_announced_is_a_stage(clock):
    work = WorkProgress()
    assert not work.is_at_work
    assert work.open(2, "training naive")
    assert work.amounts()[:2] == (0, 2)
    assert work.is_at_work
    work.update(news(9))
    assert not work.is_at_work
    work.announce([])
    assert work.amounts()[:3] == (2, 2, 1.0)


def test_several_parts_of_a_stage_add_up(work):
    """The same lane may train by two recipes."""
    work.update(news(9, LANES[:1]))
    assert not work.open(1, "training")
    work.update(news(4, LANES[:1]))
    assert work.amounts()[:3] == (1, 8, pytest.approx(1.5 / 6))
    assert [lane.name for lane, _ in work.running()] == ["naive"]


def test_more_networks_than_announced_are_never_more_than_the_whole(work):
    work.update(news(9, [cu.Lane("naive", seed) for seed in range(20)]))
    trained, total, share, seconds = work.amounts()
    assert trained == total == 20
    assert share <= 1
    assert seconds == 0.0 or seconds > 0


def test_several_threads_may_report_while_another_looks():
    work, faults = WorkProgress(), []
    work.open(400, "training")

    def report(first: int) -> None:
        for epoch in range(9):
            for seed in range(first, first + 100):
                work.update(news(epoch, [cu.Lane("naive", seed)]))

    threads = [threading.Thread(target=report, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            work.amounts()
            work.running()
        except Exception as error:  # whatever it is
            faults.append(error)
    assert faults == []
    assert work.amounts()[2] == pytest.approx(0.9)


def test_what_a_checkpoint_held_still_counts_when_its_stage_has_ended(work):
    work.begin("first", [Rest.apart([0.5, 0.5])])
    before = work.amounts()[2]
    assert before == pytest.approx(1 / 6)
    work.begin("second")
    assert work.amounts()[2] >= before
