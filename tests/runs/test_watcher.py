"""What a workflow tells, and whom: the caller's watch, or whoever sits before stderr; a plain Watcher lets it pass."""

import io
import sys
from types import SimpleNamespace

import pytest

import class_uncertainty as cu
from class_uncertainty.reporting import progress
from class_uncertainty.reporting.progress import LiveProgress
from class_uncertainty.runs.watcher import Decided, RowTrained, Watcher, watch_by


def test_a_row_is_known_by_its_method_and_rate():
    first, second = (SimpleNamespace(method="cb-rs", lr=lr, seed=seed) for lr, seed in ((0.1, 0), (0.2, 1)))
    assert RowTrained((first,)).row == ("cb-rs", 0.1)
    assert RowTrained((second, first)).row == ("cb-rs", 0.2)  # all of a row are alike: the first says it
    assert RowTrained((first,)) != RowTrained((first,))  # results are not compared


def test_a_watcher_trains_nothing_and_says_nothing(capsys):
    watcher = Watcher()
    watcher.open()
    with watcher("training", 5, 3) as progress:
        assert progress is None  # no epochs are reported
    watcher.tell(Decided("One is kept."))
    watcher.close()
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def closed_terminal():
    terminal = Terminal()
    terminal.close()
    return terminal


class Notebook(io.StringIO):
    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(
    ("stream", "watch"),
    [
        (Terminal(), LiveProgress),
        (Notebook(), LiveProgress),
        (io.StringIO(), Watcher),
        (closed_terminal(), Watcher),
        (None, Watcher),
    ],
)
def test_by_default_progress_is_shown_where_someone_sees_it(monkeypatch, stream, watch):
    monkeypatch.setattr(sys, "stderr", stream)
    assert type(watch_by(None)) is watch
    assert type(watch_by(True)) is LiveProgress
    assert type(watch_by(False)) is Watcher


def test_a_watch_of_the_caller_is_told():
    watch = Watcher()
    assert watch_by(watch) is watch


@pytest.mark.parametrize(("stream", "says"), [(Notebook, True), (io.StringIO, False)])
def test_a_call_speaks_to_a_notebook_and_not_to_a_pipe(monkeypatch, digits, stream, says):
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "POLL", 0.001)
    monkeypatch.setattr(sys, "stderr", stream())
    cu.measure(digits, members=2, recipe=cu.Recipe("small-conv", epochs=2, batch=32))
    assert bool(sys.stderr.getvalue()) == says
