"""Lanes while they train: the live table, and lines for a file."""

import dataclasses
import io
import threading

import pytest
from rich.console import Console

import class_uncertainty as cu
from class_uncertainty.reporting import progress
from class_uncertainty.reporting.progress import LaneProgress
from class_uncertainty.training.fit import Epoch

LANES = [cu.Lane("naive", 0), cu.Lane("ubrs", 1, fold=(1, 5))]


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def news(epoch: int, lanes=LANES, epochs: int = 10) -> Epoch:
    losses, errors, rates = ((value,) * len(lanes) for value in (0.5, 12.34, 0.1))
    return Epoch(tuple(lanes), epoch, epochs, losses, errors, rates, seconds=2.0, speed=1000.0 * len(lanes))


def rendered(state: LaneProgress, most: int = 20) -> str:
    file = io.StringIO()
    console = Console(file=file, width=120)
    console.print(state.table(most, console))
    return file.getvalue()


def test_a_row_for_each_lane(clock):
    state = LaneProgress("training", 3, 10)
    state.update(news(0))
    clock[0] = 4.0
    state.update(news(1))  # 4 lane-epochs in 4 seconds
    text = rendered(state)
    cells = ("naive 0", "ubrs 1 fold 2/5", "2/10", "0.5000", "12.3", "0.1", "1,000")
    assert all(cell in text for cell in cells)
    assert "0 of 3 lanes trained, 0:26 left" in text  # 8 + 8 + 10 lane-epochs left
    first, *rows = state.lines(20)
    assert first == "training: 0 of 3 lanes trained, 0:26 left"
    assert rows[0] == "  lane naive 0, epoch 2/10, loss 0.5000, train err % 12.3, lr 0.1, images/s 1,000, left 0:16"


LONG = [cu.Lane("balanced-softmax", 12, fold=(2, 5)), cu.Lane("ubrs", 1, fold=(1, 5))]


@pytest.mark.parametrize("lanes", [LANES, LONG])
@pytest.mark.parametrize(
    ("width", "seen"), [(80, ("4999/5000", "2:04:58")), (48, ("4999/5000",)), (42, ("4999/5000",))]
)
def test_a_narrow_terminal_shows_whole_numbers(clock, width, seen, lanes):
    state = LaneProgress("training", 60, 5000)
    state.update(dataclasses.replace(news(4998, lanes, epochs=5000), seconds=7498.0))
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(state.table(3, console))
    first, *rest = file.getvalue().splitlines()
    assert first.startswith("training: 0 of 60 lanes trained")
    assert "…" not in file.getvalue()
    assert any(all(cell in line for cell in ("ubrs 1 fold 2/5", *seen)) for line in rest)


def test_trained_lanes_leave_the_table(clock):
    state = LaneProgress("training", 2, 10)
    state.update(news(9, LANES[:1]))
    state.update(news(3, LANES[1:]))
    assert "naive 0" not in rendered(state)
    assert "1 of 2 lanes trained" in rendered(state)


def test_more_lanes_than_there_is_room_for(clock):
    lanes = [cu.Lane("naive", seed) for seed in range(30)]
    state = LaneProgress("training", 30, 10)
    state.update(news(0, lanes))
    assert "and 25 more lanes" in rendered(state, 5)
    assert state.lines(5)[-1] == "  and 25 more lanes"


def test_without_news_the_time_left_is_unknown():
    assert rendered(LaneProgress("training", 2, 10)).strip() == "training: 0 of 2 lanes trained, ? left"


def test_lines_go_to_a_file_every_thirty_seconds(clock, capsys):
    with progress.watch("training", 2, 10) as update:
        for second in (0, 10, 29, 30, 31, 59, 61):
            clock[0] = float(second)
            update(news(second // 10))
    assert capsys.readouterr().err.count("training: 0 of 2 lanes trained") == 2


def test_many_short_stages_are_not_silent(clock, capsys):
    pace = progress.Pace()
    for stage in range(7):  # of ten seconds each
        with progress.watch(f"stage {stage}", 2, 10, pace) as update:
            clock[0] += 10.0
            update(news(stage))
    lines = [line for line in capsys.readouterr().err.splitlines() if "lanes trained" in line]
    assert [line.split(":")[0] for line in lines] == ["stage 2", "stage 5"]


def test_several_threads_may_report_while_another_renders():
    state, faults, console = LaneProgress("training", 400, 10), [], Console(file=io.StringIO())

    def report(first: int) -> None:
        for epoch in range(9):
            for seed in range(first, first + 100):
                state.update(news(epoch, [cu.Lane("naive", seed)]))

    threads = [threading.Thread(target=report, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            state.table(50, console)
            state.lines(50)
        except Exception as error:  # whatever it is
            faults.append(error)
    assert faults == []
