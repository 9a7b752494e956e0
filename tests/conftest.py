"""Strict for all tests: a warning is an error, and random numbers come from a fixture with a fixed seed."""

import gc
import logging
import os
import shlex
import signal
import sqlite3
import sys
import tempfile
from contextlib import nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

if "PYTEST_XDIST_WORKER" in os.environ:  # workers are as many as cores: threads that spin for a core take it from them
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy, which reads it once

import numpy as np
import pytest

pytest.register_assert_rewrite("contracts", "measure_contracts", "method_contracts", "loss_contracts")
os.environ.pop("COLUMNS", None)  # which readline sets for the processes that pytest-xdist starts

import class_uncertainty.limits  # noqa: E402, F401  # isort: skip  # before torch, whose idle threads it lets sleep

from contracts import global_random_untouched  # noqa: E402
from hypothesis import configuration, settings  # noqa: E402
from typer.main import get_command  # noqa: E402

from class_uncertainty import Fit, load  # noqa: E402
from class_uncertainty.runs.sqlite_faults import WaitingConnection  # noqa: E402

configuration.set_hypothesis_home_dir(
    f"{tempfile.gettempdir()}/class-uncertainty-hypothesis"
)  # nothing is left in the tree
settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("suite")

REAL = os.environ.get("CLASS_UNCERTAINTY_DATA")
BESIDE = [Path(__file__).parents[2] / "shared" / "data"]


def pytest_configure(config: pytest.Config) -> None:
    """At the front, so that what pyproject allows after it stays allowed."""
    config.getini("filterwarnings").insert(0, "error")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell leaves it to what it starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """The tests and their modules stay to the end: no later search for garbage goes through them. And fewer search."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Decoded images go to this run's temporary folder, shared by its tests; there is no data folder."""
    folder = tmp_path_factory.getbasetemp().parent / "cache"
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(folder))
    monkeypatch.delenv("CLASS_UNCERTAINTY_DATA", raising=False)
    return folder


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk():
    """No test cuts the power. Those about syncing look at the calls; those that start processes sync for real."""

    def connect(connection: WaitingConnection, *given: Any, **options: Any) -> None:
        sqlite3.Connection.__init__(connection, *given, **options)
        with suppress(sqlite3.Error):  # of a file that is locked or no store: whoever reads it finds that too
            sqlite3.Connection.execute(connection, "PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(WaitingConnection, "__init__", connect)
        yield


@lru_cache
def _command_of(app):
    """Typer reads the signatures of all commands; a process does it once."""
    return get_command(app)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A command line after `cu`, and more words, in an empty folder -> (exit code, stdout, stderr)."""
    from class_uncertainty.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "interrupt_once", nullcontext)  # Ctrl-C is for pytest
    monkeypatch.setattr("typer.main.get_command", _command_of)
    # a slow machine writes no lines of progress between those that tests compare
    monkeypatch.setattr("class_uncertainty.reporting.progress.FIRST_LINE", 3600.0)

    def call(line: str, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cu", *shlex.split(line), *words])
        monkeypatch.setattr("class_uncertainty.training.networks.user_code._named", {})  # as a new process
        monkeypatch.setattr(sys.stdout, "reconfigure", lambda **_: None, raising=False)
        monkeypatch.setattr(sys.stderr, "reconfigure", lambda **_: None, raising=False)
        with pytest.raises(SystemExit) as ended:
            app.main()  # typer ends every command with SystemExit
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def forbid_training(monkeypatch):
    """From the call on, a workflow that trains fails the test."""

    def trained(fitted: Fit, *_: object) -> None:
        pytest.fail(f"trained again: {[lane.name for lane in fitted.lanes]}")

    return lambda: monkeypatch.setattr("class_uncertainty.runs.context.train_lanes", trained)


@pytest.fixture
def notices(monkeypatch):
    """What the package tells of while it goes on."""
    told: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("class_uncertainty")
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)
    return told


@pytest.fixture
def real():
    """The folder of real CIFAR and SVHN files, where there is one; it is never part of the repository."""
    folder = REAL or next((place for place in BESIDE if place.is_dir()), None)
    if folder is None:
        pytest.skip("the real CIFAR and SVHN files are not here: CLASS_UNCERTAINTY_DATA says where they are")
    return Path(folder)


@pytest.fixture(scope="session")
def digits():
    """Real handwritten digits, long-tailed: 120 examples of the digit 0, 6 of the digit 9."""
    return load("digits-lt:20")


@pytest.fixture
def rng():
    """The same numbers in every run."""
    return np.random.default_rng(20231114)


@pytest.fixture
def no_global_random():
    """The test leaves the random states of NumPy, torch and Python as they were."""
    with global_random_untouched():
        yield
