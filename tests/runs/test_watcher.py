"""What a workflow tells, and whom: the caller's watch, or whoever sits before stderr; a plain Watcher lets it pass."""

import io
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

import class_uncertainty as cu
from class_uncertainty.reporting.progress import LiveProgress
from class_uncertainty.runs import context
from class_uncertainty.runs.watcher import Decided, Rest, RowTrained, Stage, Watcher, watch_by
from class_uncertainty.training.speed import Speed

RECIPE = cu.Recipe("small-conv", epochs=3, batch=32)


@pytest.mark.parametrize("together", [(), (5,), (4, 2, 1)])
def test_a_stage_counts_the_networks_of_all_its_stacks(together):
    assert Stage("rung 1", "candidates", together).networks == sum(together)


def test_what_is_left_of_a_stage_says_what_was_trained_before():
    kinds = (RECIPE, replace(RECIPE, epochs=9))
    stage = Stage("rung 1", "6 candidates", (3, 3), kinds=kinds)
    assert stage.rest([]) is stage
    assert stage.rest([Rest.apart([1.0] * 3), Rest.apart([1.0] * 3)]).about == "6 candidates"
    rest = stage.rest([Rest.apart([0.0, 0.0, 0.25]), Rest.apart([0.5, 1.0, 0.0])])
    assert (rest.about, rest.together) == ("6 candidates (3 of 6 trained before, 2 begun)", (1, 2))
    assert (rest.begun, rest.kinds) == (1.25, kinds)
    assert (rest.networks, rest.work, rest.spared) == (3, 1.75, 0.0)
    assert stage.rest([Rest.apart([share]) for share in (0.5, 1.0, 1.0)]).kinds == ()  # other parts than announced
    assert stage.rest([Rest.apart([0.5])]).about == "6 candidates (1 begun)"


def test_epochs_that_networks_share_are_no_work_of_a_stage():
    stage = Stage("methods", "4 methods", (4,), turns=(((1, 0.8), (4, 0.2)),))
    assert (stage.networks, stage.work, stage.spared) == (4, pytest.approx(1.6), pytest.approx(2.4))
    rest = stage.rest([Rest((0.0, 1.0, 1.0, 0.5), ((2, 0.5), (1, 0.25)))])
    assert (rest.networks, rest.work, rest.spared) == (3, 1.25, 1.25)


def test_a_row_is_known_by_its_method_and_rate():
    first, second = (SimpleNamespace(method="cb-rs", lr=lr, seed=seed) for lr, seed in ((0.1, 0), (0.2, 1)))
    assert RowTrained((first,), False).row == ("cb-rs", 0.1)
    assert RowTrained((second, first), True).row == ("cb-rs", 0.2)  # all of a row are alike: the first says it
    assert RowTrained((first,), True) != RowTrained((first,), True)  # results are not compared


def test_a_watcher_trains_nothing_and_says_nothing(capsys):
    def measure(networks, recipe):
        pytest.fail("nobody asked for the time")

    watcher = Watcher()
    watcher.ahead([Stage("rung 1", "candidates", (5,))], RECIPE, "cpu", measure)
    watcher.begin("rung 1")
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


def test_what_is_neither_is_refused(digits):
    with pytest.raises(cu.InputError, match="progress is 'yes'"):
        cu.measure(digits, progress="yes")


@pytest.mark.parametrize(("stream", "says"), [(Notebook, True), (io.StringIO, False)])
def test_a_call_that_takes_long_speaks_to_a_notebook_and_not_to_a_pipe(monkeypatch, digits, stream, says):
    monkeypatch.setattr(context, "measured_speed", lambda *about: Speed(60.0))
    monkeypatch.setattr(sys, "stderr", stream())
    cu.measure(digits, members=2, recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    assert sys.stderr.getvalue().startswith("To train: up to 2 networks of one epoch in about 2 min") == says
    assert bool(sys.stderr.getvalue()) == says
