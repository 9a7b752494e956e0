"""LiveProgress: how many of the networks of a step have been trained.

All of it goes to stderr: a bar at a terminal, and elsewhere a line from time to time. A workflow that ends before the
first line says nothing before its result.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from class_uncertainty.runs.watcher import News, RowTrained, Watcher
from class_uncertainty.text import printable
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fit import Epoch

FIRST_LINE, LINE_INTERVAL = 3.0, 30.0  # seconds, where there is no terminal
POLL = 0.1  # seconds between looks at whether training has begun
ESTIMATED_BY = 3600.0  # seconds of a step that its pace is measured over


class LiveProgress(Watcher):
    """What a command shows while it works, and keeps for the case that it is stopped."""

    def __init__(self) -> None:
        self.before_training: Callable[[], None] = lambda: None
        self.began = time.monotonic()
        self.next_line = self.began + FIRST_LINE  # kept from one workflow of a command to the next
        self.news: list[News] = []
        self.lock = Lock()  # stacks report from threads of their own
        self.console = Console(stderr=True)
        self.shows_bar = self.console.is_terminal and not self.console.is_dumb_terminal
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            # not MofNCompleteColumn, since parts of networks count as completed: all lanes of a stack end together
            TextColumn("{task.fields[ended]}/{task.total}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.shows_bar,
            transient=True,
            redirect_stdout=False,  # it may be a file or a pipe
            speed_estimate_period=ESTIMATED_BY,
        )
        self.step: TaskID | None = None
        self.reached: dict[Lane, float] = {}  # the part of its training that each lane of the step has behind it
        self.closed = Event()
        self.timer: Thread | None = None

    def open(self) -> None:
        self.news = []
        if self.timer is None and not self.shows_bar:
            self.closed.clear()
            self.timer = Thread(target=self._write_lines, daemon=True)
            self.timer.start()

    def tell(self, news: News) -> None:
        if isinstance(news, RowTrained):  # the newest of a row replaces the one before
            self.news = [old for old in self.news if not (isinstance(old, RowTrained) and old.row == news.row)]
        self.news.append(news)

    @contextmanager
    def __call__(self, what: str, networks: int, epochs: int) -> Iterator[Callable[["Epoch"], None]]:
        if not networks:
            yield lambda epoch: None
            return
        self.before_training()
        with self.lock:
            self.reached = {}
            if self.step is not None:
                self.bars.remove_task(self.step)
            self.step = self.bars.add_task(printable(what), total=networks, ended=0)
        self.bars.start()
        yield self._update
        self.bars.update(self.step, completed=networks, ended=networks)

    def close(self) -> None:
        """Stop the bar, or the lines, where they are: an interrupted step is not done."""
        self.closed.set()
        if self.timer:
            self.timer.join()
            self.timer = None
        self.bars.stop()

    def line(self) -> str:
        """'1:30 training candidates: 3/6, 1:10 left'."""
        spent = clock(time.monotonic() - self.began)
        with self.lock:
            if self.step is None:
                return f"{spent} nothing trained yet"
            (task,) = self.bars.tasks
            line = f"{spent} {task.description}: {task.fields['ended']}/{task.total}"
            if task.time_remaining:
                line += f", {clock(task.time_remaining)} left"
            return line

    def _update(self, epoch: "Epoch") -> None:
        with self.lock:
            self.reached |= dict.fromkeys(epoch.lanes, (epoch.epoch + 1) / epoch.epochs)
            parts = self.reached.values()
            assert self.step is not None
            self.bars.update(self.step, completed=sum(parts), ended=sum(part == 1 for part in parts))

    def _write_lines(self) -> None:
        """Write a line whenever it is time, whatever trains meanwhile, until the workflow has ended."""
        while not self.closed.wait(max(0.0, self.next_line - time.monotonic())):
            now = time.monotonic()
            if self.step is None and now < self.began + LINE_INTERVAL:  # perhaps nothing has to be trained
                self.next_line = now + POLL
                continue
            self.next_line = now + LINE_INTERVAL
            with suppress(OSError, ValueError):  # stderr is full or closed: training goes on
                _write(self.line())


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _write(line: str) -> None:
    """Write a whole line at once, since other threads write too."""
    print(f"{printable(line)}\n", end="", file=sys.stderr, flush=True)
