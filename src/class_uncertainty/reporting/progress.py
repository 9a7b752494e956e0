"""LiveProgress: a plan at the start, one bar for the whole of a command, and what is known as soon as it is known.

All of it goes to stderr. Where that is not a terminal, a few lines take the place of the bar. Where all is trained in a
few seconds, nothing is said before the result.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from class_uncertainty.reporting.news_view import describe_news
from class_uncertainty.reporting.terminal import fitting_table
from class_uncertainty.reporting.work_progress import WorkProgress
from class_uncertainty.runs.watcher import Left, Measure, News, RowTrained, Stage, Watcher
from class_uncertainty.text import printable
from class_uncertainty.training import Lane, Recipe

if TYPE_CHECKING:
    from class_uncertainty.training.fit import Epoch

LINE_INTERVAL, LINE_SHARE = 30.0, 0.1  # without a terminal: seconds between lines, and of the time that has passed
WIDEST = 60  # characters of the bar
COLUMNS = ("network", "epoch", "loss", "train err %", "lr", "images/s")
DROP = (("train err %", "lr", "images/s"), ("loss",))  # where there is no room
DEVICES = {"cpu": "on this CPU", "cuda": "on this GPU", "mps": "on this GPU"}


class LiveProgress(Watcher):
    """What a command shows while it works, and keeps for the case that it is stopped."""

    def __init__(self) -> None:
        self.work, self.console = WorkProgress(), Console(stderr=True)
        self.news: list[News] = []
        self.what, self.noun, self.live = "", "network", None  # type: str, str, Live | None
        self.began = self.last_line = time.monotonic()
        self.plan: Callable[[], None] | None = None  # says it, once something is really to be trained
        self.long = False  # whether that takes more than a few seconds

    def ahead(self, stages: Sequence[Stage], recipe: Recipe, device: str, measure: Measure) -> None:
        self.work, self.news, self.long = WorkProgress(), [], False  # another workflow begins
        self.noun = recipe.noun
        self.work.announce(stages)

        def say_plan() -> None:
            self.work.measure(measure)
            self.long = self.work.speed is not None
            self.say(describe_plan(self.work, recipe, device))

        self.plan = say_plan

    def begin(self, name: str, left: Left = ()) -> None:
        self.work.begin(name, left)

    def tell(self, news: News) -> None:
        if isinstance(news, RowTrained):  # the newest of a row replaces the one before
            self.news = [old for old in self.news if not (isinstance(old, RowTrained) and old.row == news.row)]
        self.news.append(news)
        if self.long and self.work.is_at_work:  # otherwise the result comes next
            self.say(*describe_news(news))

    def say(self, *lines: str) -> None:
        """Lines for people, above the bar where there is one."""
        for line in map(printable, lines if self.long else ()):
            if self.shows_bar:
                self.console.print(line, markup=False, highlight=False)
            else:
                print(line, file=sys.stderr, flush=True)

    @contextmanager
    def __call__(self, what: str, networks: int, epochs: int) -> Iterator[Callable[["Epoch"], None]]:
        if not networks:
            yield lambda epoch: None
            return
        if self.plan:
            say_plan, self.plan = self.plan, None
            say_plan()
        self.what = what
        alone = self.work.open(networks, what)
        self._show()
        yield self._update
        if alone:
            self.work.announce([])

    def close(self) -> None:
        self.plan = None
        if self.live:  # it shows how far the work is once more, and must not take what was stopped for done
            self.live.stop()
            self.live = None
        self.work.announce([])

    def summary(self) -> str:
        """'3 of 25 networks, about 0:40 left: training candidates'; what may be cut off comes last."""
        trained, total, _, seconds = self.work.amounts()
        left = "?" if seconds is None else clock(seconds)
        return f"{trained} of {total} {self.noun}s, about {left} left: {self.what}"

    def table(self) -> RenderableType:
        """For a terminal: the summary and the bar come first, since Live cuts off the end."""
        most, running = max(self.console.height - 7, 1), self.work.running()
        _, _, share, _ = self.work.amounts()
        bar = ProgressBar(1.0, share, width=min(WIDEST, self.console.width))
        parts: list[RenderableType] = [Text(self.summary(), no_wrap=True, overflow="ellipsis"), bar]
        if running:
            table, _ = fitting_table(self.console, COLUMNS, [_row(*one) for one in running[-most:]], DROP)
            parts.append(table)
        if len(running) > most:
            parts.append(Text(f"  and {len(running) - most} more {self.noun}s"))
        return Group(*parts)

    @property
    def shows_bar(self) -> bool:
        return self.console.is_terminal and not self.console.is_dumb_terminal

    def _show(self) -> None:
        """From the first training to the end of the workflow, where there is a terminal."""
        if self.live is None and self.shows_bar:
            self.live = Live(
                console=self.console,
                get_renderable=self.table,
                transient=True,
                refresh_per_second=4,
                redirect_stdout=False,  # it may be a file or a pipe
            )
            self.live.start()

    def _update(self, epoch: "Epoch") -> None:
        self.work.update(epoch)
        now = time.monotonic()
        interval = max(LINE_INTERVAL, LINE_SHARE * (now - self.began))
        if self.live is None and now - self.last_line >= interval:
            self.last_line = now
            print(printable(self.summary()), file=sys.stderr, flush=True)


def describe_plan(work: WorkProgress, recipe: Recipe, device: str) -> str:
    """'To train: up to 24 networks of 40 epochs in about 40 s on this CPU: 6 candidates on 1 fold; …'."""
    networks, noun = sum(stage.networks for stage in work.stages), recipe.noun
    epochs = 0 if recipe.is_trees else recipe.epochs
    number = f"one {noun}" if networks == 1 else f"up to {networks:,} {noun}s"
    passes = "" if not epochs else " of one epoch" if epochs == 1 else f" of {epochs:,} epochs"
    about = f" in about {roughly(work.seconds)} {DEVICES[device]}" if work.speed else ""
    spared = f" Epochs that {noun}s share train once, which spares {work.spared:.1f} {noun}s."
    spared = spared if work.spared >= 0.05 else ""
    return f"To train: {number}{passes}{about}: {'; '.join(stage.about for stage in work.stages)}.{spared}"


def roughly(seconds: float) -> str:
    """'20 s', '3 min' or '2.5 h': what a guess is good for."""
    if seconds < 55:
        return f"{max(5, round(seconds / 5) * 5)} s"
    minutes = seconds / 60
    if minutes < 90:
        return f"{round(minutes) if minutes < 10 else round(minutes / 5) * 5} min"
    return f"{round(minutes / 30) / 2:g} h"


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _row(lane: Lane, epoch: "Epoch") -> tuple[str, ...]:
    i = epoch.lanes.index(lane)
    name = f"{lane.name} {lane.seed}" + (f" fold {lane.fold[0] + 1}/{lane.fold[1]}" if lane.fold else "")
    numbers = (f"{epoch.loss[i]:.4f}", f"{epoch.error[i]:.1f}", f"{epoch.lr[i]:.3g}")
    return (name, f"{epoch.epoch + 1}/{epoch.epochs}", *numbers, f"{epoch.speed / len(epoch.lanes):,.0f}")
