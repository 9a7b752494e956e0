"""Watcher: what a workflow tells while it works: how many networks train, their epochs, and what is known by then.

Workflows never print. A function of (what trains, networks, epochs) is enough to watch training; a Watcher hears more.
Unless a caller says otherwise, a bar is shown where someone sits before stderr: at a terminal, or in a notebook.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module

from class_uncertainty.posthoc.fix_report import Rung
from class_uncertainty.training import Result
from class_uncertainty.training.lane import Progress

Watch = Callable[[str, int, int], AbstractContextManager[Progress | None]]  # (what trains, networks, epochs of each)
Shown = Watch | bool | None  # whether progress is shown, or by what; None where someone sees it


@dataclass(frozen=True)
class RungsJudged:
    """Candidates of a fix were judged on unseen examples, last on the last rung; `aim` is to be low, in `unit`."""

    rungs: tuple[Rung, ...]
    aim: str
    unit: str


@dataclass(frozen=True)
class Decided:
    """What is kept, and why, in one sentence."""

    why: str


@dataclass(frozen=True, eq=False)
class RowTrained:
    """The results so far of a method at one learning rate, one at least."""

    results: tuple[Result, ...]

    @property
    def row(self) -> tuple[str, float]:
        return self.results[0].method, self.results[0].lr


News = RungsJudged | Decided | RowTrained


class Watcher:
    """Hears everything, and hands on to a function that watches training what that one is for."""

    def __init__(self, watch: Watch | None = None) -> None:
        self.watch = watch

    def open(self) -> None:
        """A workflow begins."""

    def __call__(self, what: str, networks: int, epochs: int) -> AbstractContextManager[Progress | None]:
        """Training begins, within the returned context; what it yields is told of every epoch."""
        return self.watch(what, networks, epochs) if self.watch else nullcontext()

    def tell(self, news: News) -> None:
        """Something is known before the workflow ends."""

    def close(self) -> None:
        """The workflow has ended, or was stopped."""


def watch_by(progress: Shown) -> Watcher:
    """What a call is watched by."""
    if progress is None:
        stream = sys.stderr
        in_notebook = type(stream).__module__.startswith("ipykernel")
        progress = stream is not None and not stream.closed and (in_notebook or stream.isatty())
    if isinstance(progress, Watcher):
        return progress
    if callable(progress):
        return Watcher(progress)
    # late, since what is shown is of a later stage
    return import_module("class_uncertainty.reporting.progress").LiveProgress() if progress else Watcher()
