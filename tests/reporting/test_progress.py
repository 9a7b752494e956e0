"""What a command shows while it trains: a bar and news at a terminal, lines elsewhere."""

import io
import sys
import time
from contextlib import suppress

import pytest
from watching import LANES
from watching import epoch_news as news

import class_uncertainty as cu
from class_uncertainty.reporting import progress
from class_uncertainty.reporting.progress import LiveProgress
from class_uncertainty.runs.watcher import Decided, RungsJudged

NEWS = RungsJudged((), "class-mean error", "%")


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def short_intervals(monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE", 0.01)
    monkeypatch.setattr(progress, "LINE_INTERVAL", 0.01)


def new_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal in the place of stderr."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return stream


def timed_by(clock: list[float]) -> LiveProgress:
    """Progress whose estimates go by this clock, too."""
    state = LiveProgress()
    state.bars.get_time = lambda: clock[0]
    return state


def wait_for_lines(capsys: pytest.CaptureFixture[str], number: int) -> list[str]:
    """The next so many lines of stderr, or those of ten seconds."""
    err = ""
    until = time.monotonic() + 10
    while err.count("\n") < number and time.monotonic() < until:
        time.sleep(0.01)
        err += capsys.readouterr().err
    return err.splitlines()


def test_a_line_says_how_many_networks_ended_and_how_long_the_others_take(clock):
    state = timed_by(clock)
    with state("training candidates", 6, 10) as update:
        clock[0] = 1.0
        update(news(0))
        clock[0] = 91.0
        update(news(9, LANES[1:]))
        line = state.line()  # the other lane has 0.9 of its training to go, and four have not begun
    assert line == "1:31 training candidates: 1/6, 8:10 left"
    clock[0] = 3700.0
    assert state.line() == "1:01:40 training candidates: 6/6"


def test_before_the_first_epoch_nobody_knows_how_long_it_takes(clock):
    state = LiveProgress()
    clock[0] = 5.0
    assert state.line() == "0:05 nothing trained yet"
    with state("training", 2, 10):
        assert state.line() == "0:05 training: 0/2"


def test_the_pace_of_epochs_that_take_minutes_is_known(clock):
    state = timed_by(clock)
    with state("training", 2, 10) as update:
        for epoch in range(3):
            clock[0] += 600.0
            update(news(epoch))
        assert state.line().endswith(", 1:10:00 left")


def test_every_step_counts_its_own_networks(clock):
    state = LiveProgress()
    for networks in (2, 3):
        with state("training", networks, 10) as update:
            update(news(9, LANES[:1]))
            assert f"1/{networks}" in state.line()
    with state("reading", 0, 10) as update:  # nothing to train is no step
        update(news(9))
    assert "3/3" in state.line()


@pytest.mark.usefixtures("short_intervals")
def test_lines_are_written_while_a_step_says_nothing(capsys):
    state = LiveProgress()
    state.open()
    with state("training a forest", 1, 1):
        lines = wait_for_lines(capsys, 3)
    assert len(lines) >= 3
    assert "training a forest: 0/1" in lines[-1]
    state.close()
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""
    state.open()  # the next workflow of the same command
    assert wait_for_lines(capsys, 1) != []
    state.close()


@pytest.mark.usefixtures("short_intervals")
def test_a_closed_stderr_ends_no_training(monkeypatch):
    stream = io.StringIO()
    stream.close()
    state = LiveProgress()
    monkeypatch.setattr(sys, "stderr", stream)
    state.open()
    time.sleep(0.05)
    assert state.timer is not None
    assert state.timer.is_alive()
    state.close()


def test_the_first_line_comes_soon_and_the_next_ones_regularly():
    assert progress.FIRST_LINE < 5
    assert progress.LINE_INTERVAL <= 30


def test_a_terminal_sees_a_bar_and_no_lines(monkeypatch):
    terminal = new_terminal(monkeypatch)
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    state = LiveProgress()
    state.open()
    with state("training [b]candidates[/b]", 6, 10) as update:
        update(news(4))
        update(news(9, LANES[1:]))
        state.bars.refresh()
    state.close()
    assert state.timer is None
    text = terminal.getvalue()
    assert "training [b]candidates[/b]" in text
    assert "1/6" in text
    assert "━" in text
    assert "0:00 training" not in text


def test_a_stop_leaves_the_step_where_it_is(monkeypatch):
    terminal = new_terminal(monkeypatch)
    state = LiveProgress()
    state.open()
    with suppress(KeyboardInterrupt), state("training candidates", 6, 10) as update:
        update(news(9))
        raise KeyboardInterrupt
    state.close()
    assert "2/6" in terminal.getvalue()
    assert "6/6" not in terminal.getvalue()


def test_news_are_kept_for_a_command_that_is_stopped(capsys):
    state = LiveProgress()
    with state("training candidates", 6, 10):
        state.tell(NEWS)
        state.tell(Decided("One network is kept."))
    assert capsys.readouterr().err == ""
    assert [type(one) for one in state.news] == [RungsJudged, Decided]


def test_news_of_stored_networks_are_kept_and_not_said(clock, capsys):
    """The result comes at once."""
    state = LiveProgress()
    clock[0] = 10.0
    state.tell(NEWS)
    assert (capsys.readouterr().err, state.news) == ("", [NEWS])


def test_another_workflow_begins_without_news():
    state = LiveProgress()
    for _ in range(2):
        state.open()
        state.tell(NEWS)
        assert state.news == [NEWS]
        state.close()


def test_lanes_that_ended_early_have_ended_with_their_step(clock):
    """A lane that diverges tells of no last epoch."""
    state = LiveProgress()
    with state("training", 2, 10) as update:
        update(news(3, [cu.Lane("naive", 0), cu.Lane("naive", 1)]))
    assert "2/2" in state.line()
