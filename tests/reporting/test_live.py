"""Lanes while they train: what the table and the lines say."""

import dataclasses
import io
import threading

import pytest
from rich.console import Console

import class_uncertainty as cu
from class_uncertainty.reporting import live
from class_uncertainty.reporting.live import Watch
from class_uncertainty.training.job import Epoch

LANES = [cu.Lane("naive", 0), cu.Lane("ubrs", 1, fold=(1, 5))]


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    return now


def news(epoch: int, lanes=LANES, epochs: int = 10) -> Epoch:
    return Epoch(tuple(lanes), epoch, epochs, (0.5,) * len(lanes), (12.34,) * len(lanes), (0.1,) * len(lanes), 2.0, 1000.0 * len(lanes))


def rendered(watch: Watch, most: int = 20) -> str:
    file = io.StringIO()
    console = Console(file=file, width=120)
    console.print(watch.table(most, console))
    return file.getvalue()


def test_what_is_said_of_each_lane(clock):
    watch = Watch("training", 3, 10)
    watch.tell(news(0))
    clock[0] = 4.0
    watch.tell(news(1))  # 4 lane-epochs in 4 seconds
    text = rendered(watch)
    for word in ("naive 0", "ubrs 1 fold 2/5", "2/10", "0.5000", "12.3", "0.1", "1,000", "0 of 3 lanes trained, 0:26 left"):
        assert word in text  # 8 + 8 + 10 lane-epochs left
    first, *rows = watch.lines(20)
    assert first == "training: 0 of 3 lanes trained, 0:26 left"
    assert rows[0] == "  lane naive 0, epoch 2/10, loss 0.5000, train err % 12.3, lr 0.1, images/s 1,000, left 0:16"


LONG = [cu.Lane("balanced-softmax", 12, fold=(2, 5)), cu.Lane("ubrs", 1, fold=(1, 5))]


@pytest.mark.parametrize("lanes", [LANES, LONG])
@pytest.mark.parametrize(("width", "seen"), [(80, ("4999/5000", "2:04:58")), (48, ("4999/5000",)), (42, ("4999/5000",))])
def test_a_narrow_terminal_sees_whole_numbers(clock, width, seen, lanes):
    watch = Watch("training", 60, 5000)
    watch.tell(dataclasses.replace(news(4998, lanes, epochs=5000), seconds=7498.0))
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(watch.table(3, console))
    first, *rest = file.getvalue().splitlines()
    assert first.startswith("training: 0 of 60 lanes trained")
    assert "…" not in file.getvalue()
    assert any(all(word in line for word in ("ubrs 1 fold 2/5", *seen)) for line in rest)


def test_lanes_that_have_ended_leave_the_table(clock):
    watch = Watch("training", 2, 10)
    watch.tell(news(9, LANES[:1]))
    watch.tell(news(3, LANES[1:]))
    assert "naive 0" not in rendered(watch)
    assert "1 of 2 lanes trained" in rendered(watch)


def test_more_lanes_than_there_is_room_for(clock):
    lanes = [cu.Lane("naive", seed) for seed in range(30)]
    watch = Watch("training", 30, 10)
    watch.tell(news(0, lanes))
    assert "and 25 lanes more" in rendered(watch, 5)
    assert watch.lines(5)[-1] == "  and 25 lanes more"


def test_nothing_is_known_yet():
    assert rendered(Watch("training", 2, 10)).strip() == "training: 0 of 2 lanes trained, ? left"


def test_lines_go_to_a_file_every_thirty_seconds(clock, capsys):
    with live.watch("training", 2, 10) as tell:
        for second in (0, 10, 29, 30, 31, 59, 61):
            clock[0] = float(second)
            tell(news(second // 10))
    assert capsys.readouterr().err.count("training: 0 of 2 lanes trained") == 2


def test_many_short_stages_are_not_silent(clock, capsys):
    pace = live.Pace()
    for stage in range(7):  # of ten seconds each
        with live.watch(f"stage {stage}", 2, 10, pace) as tell:
            clock[0] += 10.0
            tell(news(stage))
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines() if "lanes trained" in line] == ["stage 2", "stage 5"]


def test_several_threads_may_tell_while_another_looks():
    watch, faults, console = Watch("training", 400, 10), [], Console(file=io.StringIO())

    def tell(first: int) -> None:
        for epoch in range(9):
            for seed in range(first, first + 100):
                watch.tell(news(epoch, [cu.Lane("naive", seed)]))

    threads = [threading.Thread(target=tell, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            watch.table(50, console)
            watch.lines(50)
        except Exception as error:  # whatever it is
            faults.append(error)
    assert faults == []
