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

from class_uncertainty.reporting.terminal import fitting_table
from class_uncertainty.text import printable
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fit import Epoch

LINE_INTERVAL, MOST_LINES = 30, 12  # without a terminal: seconds between prints, and lanes in one
COLUMNS = ("lane", "epoch", "loss", "train err %", "lr", "images/s", "left")
DROP = (("train err %", "lr", "images/s"), ("loss",), ("left",))  # where there is no room


class LaneProgress:
    """The last epoch of each lane, and how long the rest may take."""

    def __init__(self, what: str, lanes: int, epochs: int) -> None:
        self.what, self.total, self.epochs = what, lanes, epochs
        self.last: dict[Lane, Epoch] = {}  # the lane that reported last comes last
        self.lane_epochs, self.start = 0, time.monotonic()  # since then: a checkpoint may hold earlier ones
        self.lock = Lock()  # stacks report from threads of their own

    def update(self, epoch: "Epoch") -> None:
        with self.lock:
            for lane in epoch.lanes:
                self.last.pop(lane, None)
                self.last[lane] = epoch
            self.lane_epochs += len(epoch.lanes)

    def snapshot(self, most: int) -> tuple[str, list[tuple[str, ...]], list[str]]:
        """The summary, a row for each of `most` running lanes, and how many more there are."""
        with self.lock:
            running = [lane for lane, epoch in self.last.items() if epoch.epoch + 1 < epoch.epochs]
            trained = len(self.last) - len(running)
            summary = f"{self.what}: {trained} of {self.total} lanes trained, {self._time_left()} left"
            more = [f"  and {len(running) - most} more lanes"] if len(running) > most else []
            return summary, [self._row(lane) for lane in running[-most:]], more

    def lines(self, most: int) -> list[str]:
        """For a file."""
        summary, rows, more = self.snapshot(most)
        pairs = (zip(COLUMNS, row, strict=True) for row in rows)
        lines = ("  " + ", ".join(f"{name} {value}" for name, value in row) for row in pairs)
        return [summary, *lines, *more]

    def table(self, most: int, console: Console) -> RenderableType:
        """For a terminal. The summary comes first, since Live cuts off the end."""
        summary, rows, more = self.snapshot(most)
        table, _ = fitting_table(console, COLUMNS, rows, DROP)
        return Group(Text(summary), table, *map(Text, more)) if rows else Text(summary)

    def _time_left(self) -> str:
        """At the mean pace so far."""
        if not self.lane_epochs:
            return "?"
        remaining = sum(epoch.epochs - epoch.epoch - 1 for epoch in self.last.values())
        remaining += max(self.total - len(self.last), 0) * self.epochs
        return _clock(remaining * (time.monotonic() - self.start) / self.lane_epochs)

    def _row(self, lane: Lane) -> tuple[str, ...]:
        epoch = self.last[lane]
        i = epoch.lanes.index(lane)
        name = f"{lane.name} {lane.seed}" + (f" fold {lane.fold[0] + 1}/{lane.fold[1]}" if lane.fold else "")
        speed = f"{epoch.speed / len(epoch.lanes):,.0f}"
        left = _clock((epoch.epochs - epoch.epoch - 1) * epoch.seconds)
        numbers = (f"{epoch.loss[i]:.4f}", f"{epoch.error[i]:.1f}", f"{epoch.lr[i]:.3g}")
        return (name, f"{epoch.epoch + 1}/{epoch.epochs}", *numbers, speed, left)


class Pace:
    """When a line was last printed, over all stages of a command, so that many short ones are not silent."""

    def __init__(self) -> None:
        self.last_print = time.monotonic()


@contextmanager
def watch(what: str, lanes: int, epochs: int, pace: Pace | None = None) -> Iterator[Callable[["Epoch"], None]]:
    """A function to report epochs to, which are shown on stderr while lanes train."""
    state, console, pace = LaneProgress(what, lanes, epochs), Console(stderr=True), pace or Pace()

    def table() -> RenderableType:
        return state.table(max(console.height - 6, 1), console)

    def update_and_print(epoch: "Epoch") -> None:
        state.update(epoch)
        if time.monotonic() - pace.last_print >= LINE_INTERVAL:
            pace.last_print = time.monotonic()
            print("\n".join(map(printable, state.lines(MOST_LINES))), file=sys.stderr, flush=True)

    if not lanes:
        yield state.update
    elif console.is_terminal and not console.is_dumb_terminal:
        with Live(console=console, get_renderable=table, transient=True, refresh_per_second=4):
            yield state.update
    else:
        yield update_and_print


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
