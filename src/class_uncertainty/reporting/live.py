"""Lanes while they train: a live table on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from class_uncertainty.reporting.terminal import fitting
from class_uncertainty.text import printable
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.loop import Epoch

LINE_EVERY, LINES = 30, 12  # where there is no terminal: seconds, and lanes at most
COLUMNS = ("lane", "epoch", "loss", "train err %", "lr", "images/s", "left")
DROPS = (("train err %", "lr", "images/s"), ("loss",), ("left",))  # where there is no room


class Watch:
    """What is known of each lane, and how long the rest may take."""

    def __init__(self, what: str, lanes: int, epochs: int) -> None:
        self.what, self.total, self.epochs = what, lanes, epochs
        self.last: dict[Lane, Epoch] = {}
        self.done, self.began = 0, time.monotonic()  # lane-epochs since then: some may have been done before
        self.lock = Lock()  # stacks tell of themselves from threads of their own

    def tell(self, news: "Epoch") -> None:
        with self.lock:
            for lane in news.lanes:
                self.last.pop(lane, None)  # the ones told of last come last
                self.last[lane] = news
            self.done += len(news.lanes)

    @property
    def ended(self) -> int:
        return sum(news.epoch + 1 == news.epochs for news in self.last.values())

    @property
    def left(self) -> str:
        """Time, by the lane-epochs done since the beginning."""
        open_epochs = sum(news.epochs - news.epoch - 1 for news in self.last.values())
        open_epochs += max(self.total - len(self.last), 0) * self.epochs
        return _clock(open_epochs * (time.monotonic() - self.began) / self.done) if self.done else "?"

    def line(self) -> str:
        return f"{self.what}: {self.ended} of {self.total} lanes trained, {self.left} left"

    def lines(self, most: int) -> list[str]:
        """The same as the table, for a file."""
        with self.lock:
            running = self.running()
            rows = [dict(zip(COLUMNS, self.row(lane), strict=True)) for lane in running[-most:]]
            lines = [", ".join(f"{name} {value}" for name, value in row.items()) for row in rows]
            return [self.line(), *(f"  {line}" for line in lines), *self.more(running, most)]

    def running(self) -> list[Lane]:
        return [lane for lane, news in self.last.items() if news.epoch + 1 < news.epochs]

    def more(self, running: list[Lane], most: int) -> list[str]:
        return [f"  and {len(running) - most} lanes more"] if len(running) > most else []

    def row(self, lane: Lane) -> tuple[str, ...]:
        news = self.last[lane]
        i = news.lanes.index(lane)
        own = news.speed / len(news.lanes)
        left = (news.epochs - news.epoch - 1) * news.seconds
        name = f"{lane.name} {lane.seed}" + (f" fold {lane.fold[0] + 1}/{lane.fold[1]}" if lane.fold else "")
        numbers = (f"{news.loss[i]:.4f}", f"{news.error[i]:.1f}", f"{news.lr[i]:.3g}", f"{own:,.0f}", _clock(left))
        return (name, f"{news.epoch + 1}/{news.epochs}", *numbers)

    def table(self, most: int, console: Console) -> RenderableType:
        with self.lock:
            running = self.running()
            rows, more, last = [self.row(lane) for lane in running[-most:]], map(Text, self.more(running, most)), Text(self.line())
        table, _ = fitting(console, COLUMNS, rows, DROPS)
        return Group(last, table, *more) if rows else last  # the last lines are cut off where there are too many


class Pace:
    """When something was said last, over all stages of a command: many short ones are not silent."""

    def __init__(self) -> None:
        self.said = time.monotonic()


@contextmanager
def watch(what: str, lanes: int, epochs: int, pace: Pace | None = None) -> Iterator[Callable[["Epoch"], None]]:
    """Something to tell of epochs, shown on stderr while lanes train."""
    watched, console = Watch(what, lanes, epochs), Console(stderr=True)
    if not lanes:
        yield watched.tell
    elif console.is_terminal and not console.is_dumb_terminal:
        render = lambda: watched.table(max(console.height - 6, 1), console)  # noqa: E731
        with Live(console=console, get_renderable=render, transient=True, refresh_per_second=4):
            yield watched.tell
    else:
        pace = pace or Pace()

        def tell(news: "Epoch") -> None:
            watched.tell(news)
            if time.monotonic() - pace.said >= LINE_EVERY:
                pace.said = time.monotonic()
                print("\n".join(map(printable, watched.lines(LINES))), file=sys.stderr, flush=True)

        yield tell


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
