"""A job: stacks of one fit(), each trained, kept on the way and judged."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import Unfinished
from class_uncertainty.files import write_whole
from class_uncertainty.measures import Stats, digest
from class_uncertainty.methods import Plan, plan
from class_uncertainty.metrics import Scores, evaluate
from class_uncertainty.training.checkpoints import Checkpoints, Started
from class_uncertainty.training.engine import Draws, Examples, Program, settle
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.folds import held_out
from class_uncertainty.training.keys import lane_key
from class_uncertainty.training.recipe import Lane, Result, describe
from class_uncertainty.training.stack import SGD, Stack, State, stacked
from class_uncertainty.training.streams import draw_augmentation, draw_order, stream


@dataclass(frozen=True)
class Epoch:
    """News of a stack: an epoch that its lanes have just ended."""

    lanes: tuple[Lane, ...]
    epoch: int  # from 0
    epochs: int
    loss: tuple[float, ...]  # mean over the epoch
    error: tuple[float, ...]  # percent of the examples as they were drawn and augmented
    lr: tuple[float, ...]
    seconds: float  # that it took
    speed: float  # examples of all these lanes a second


Progress = Callable[[Epoch], object]
Unseen = NDArray[np.float32] | None  # (n, C) probabilities of the training examples in the fold that a lane left out
Done = Callable[[int, Result, Unseen], None]  # told each lane's position, result and unseen as its stack ends, whichever ends first
End = tuple[int, State, Result, Unseen]  # a lane's position and what it has become


class _Stopped(Exception):
    """A stack was told to stop."""


@dataclass(frozen=True, eq=False)
class Job:
    """What all stacks of one fit() share."""

    fitted: Fit
    train: Data
    examples: Examples
    stats: Stats | None
    test: Data | None
    progress: Progress | None
    kept: Checkpoints | None
    every: int
    deadline: float  # by time.monotonic()
    profile: Path | None = None
    stop: Event = field(default_factory=Event)
    begun: Event = field(default_factory=Event)  # whether any stack has
    traced: Event = field(default_factory=Event)  # whether a stack has taken the trace upon itself

    @cached_property
    def keys(self) -> list[str]:
        known = Stats.of(self.train.counts, self.stats)
        return [lane_key(self.train.fingerprint, lane, self.fitted.recipe, known, self.fitted.device) for lane in self.fitted.lanes]

    def run(self, places: list[int], started: list[Started]) -> list[End]:
        """Train and judge one stack, of lanes that are equally far; `started` is empty where they begin."""
        group = [self.fitted.lanes[i] for i in places]
        stack, ends = self._train(places, group, started)
        began = time.perf_counter()
        scores: list[Scores | None] = [None] * len(group)
        unseen: list[Unseen] = [None] * len(group)
        finite = [all(value.isfinite().all() for value in end.state.values()) for end in ends]
        some = self.train if any(lane.fold for lane in group) else self.train.take(np.arange(min(len(self.train), 64)))
        judged = self.fitted.probabilities_of(stack, group, self.test or some)
        finite = [fine and bool(np.isfinite(p).all()) for fine, p in zip(finite, judged, strict=True)]
        last = self.fitted.recipe.epochs - 1  # a last step can be one too many
        diverged = [end.diverged if end.diverged is not None or fine else last for end, fine in zip(ends, finite, strict=True)]
        for i, lane in enumerate(group):
            if self.test is not None and diverged[i] is None:
                scores[i] = evaluate(judged[i], self.test.labels, self.train.counts)
            elif self.test is None and lane.fold:
                unseen[i] = judged[i][held_out(self.train, lane.fold)]
        seconds = (time.perf_counter() - began) / len(group)
        results = [
            Result(
                method=lane.name,
                seed=lane.seed,
                lr=lane.rate(self.fitted.recipe),
                fold=lane.fold,
                scores=scores[i],
                diverged=diverged[i],
                loss=ends[i].loss,
                seconds=ends[i].seconds + seconds,
                plan=describe(lane.value),
                recipe=self.fitted.recipe,
                data=self.train.fingerprint,
                uncertainty=digest(self.stats.uncertainty)
                if self.stats and self.stats.uncertainty is not None and lane.value.uses_uncertainty
                else "",
                device=self.fitted.device,
            )
            for i, lane in enumerate(group)
        ]
        return list(zip(places, [end.state for end in ends], results, unseen, strict=True))

    def _train(self, places: list[int], group: list[Lane], started: list[Started]) -> tuple[Stack, list[Started]]:
        """The stack after its last epoch, and each of its lanes."""
        recipe, device = self.fitted.recipe, self.fitted.device
        lanes = self.fitted.padded(group)
        started = self.fitted.padded(started)
        stack = stacked(recipe, self.fitted.shape, self.fitted.classes, lanes, [lane.state for lane in started] or None)
        stack = settle(stack, recipe.network, device)
        first = started[0].epoch if started else 0
        if first == recipe.epochs:
            return stack, started[: len(group)]
        optimiser = SGD(stack, recipe)
        if started:
            optimiser.load([lane.momenta for lane in started])
        program = Program(stack, optimiser, recipe, self.examples, lanes)
        sources = [Source(lane, self.train, self.stats) for lane in lanes]
        rates = torch.tensor([lane.rate(recipe) for lane in lanes], device=device)
        diverged = [lane.diverged for lane in started] or [None] * len(lanes)
        spent, began = [lane.seconds for lane in started] or [0.0] * len(lanes), time.perf_counter()

        def now(epoch: int, losses: NDArray) -> list[Started]:
            share = (time.perf_counter() - began) / len(group)
            lane_states = zip(stack.states(), optimiser.states(), diverged, losses.tolist(), spent, strict=True)
            everyone = [Started(epoch, state, momenta, d, loss, share + before) for state, momenta, d, loss, before in lane_states]
            return everyone[: len(group)]

        del started  # it holds a copy of every lane
        draw = lambda epoch: _drawn(sources, epoch, recipe.epochs, program.length, recipe.crop)  # noqa: E731
        if self.begun.is_set() and time.monotonic() >= self.deadline:  # one epoch at least: a short budget must come to an end too
            raise Unfinished
        self.begun.set()
        plans, draws = draw(first)
        for epoch in range(first, recipe.epochs):
            since = time.perf_counter()
            lr = rates * recipe.factor(epoch) * torch.tensor([d is None for d in diverged], device=device)  # who diverged is frozen
            with self._profiled(wanted=epoch == min(first + 1, recipe.epochs - 1)):
                sums = program.epoch(plans, draws, lr, self._check_stop)
                if epoch + 1 < recipe.epochs:
                    plans, draws = draw(epoch + 1)  # while a GPU is still at work
                losses, errors = sums.cpu().numpy()
            diverged = [epoch if d is None and not np.isfinite(loss) else d for d, loss in zip(diverged, losses, strict=True)]
            if self.progress:
                seconds = time.perf_counter() - since
                loss, error, rate = (tuple(part[: len(group)].tolist()) for part in (losses, errors, lr.cpu()))
                self.progress(Epoch(tuple(group), epoch, recipe.epochs, loss, error, rate, seconds, len(group) * program.length / seconds))
            late = time.monotonic() >= self.deadline
            if self.kept and (late or (epoch + 1) % self.every == 0 or epoch + 1 == recipe.epochs):
                for i, lane in zip(places, now(epoch + 1, losses), strict=True):
                    self.kept.save(self.keys[i], lane)
            if late and epoch + 1 < recipe.epochs:
                raise Unfinished
        return stack, now(recipe.epochs, losses)

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise _Stopped

    @contextmanager
    def _profiled(self, wanted: bool) -> Iterator[None]:
        """One epoch of one stack is traced: the second that it trains, for in the first much is made ready."""
        if not self.profile or not wanted or self.traced.is_set():
            yield
            return
        self.traced.set()
        with torch.profiler.profile() as profiler:
            yield
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(trace))
            write_whole(self.profile, trace.read_bytes())


class Source:
    """What one lane draws from: the training examples it keeps, and its own random streams."""

    def __init__(self, lane: Lane, train: Data, stats: Stats | None) -> None:
        self.lane = lane
        everything = np.arange(len(train))
        self.kept = np.setdiff1d(everything, held_out(train, lane.fold)) if lane.fold else everything
        self.labels = train.labels[self.kept]
        self.stats = Stats.of(np.bincount(self.labels, minlength=len(train.classes)), stats)

    def plan(self, epoch: int, epochs: int) -> Plan:
        return plan(self.lane.value, self.stats, epoch, epochs)

    def draw(self, epoch: int, chosen: Plan, length: int, pad: int) -> tuple[NDArray, NDArray, NDArray]:
        """An epoch's examples (length,), crop offsets (length, 2) and flips (length,)."""
        order = draw_order(stream(self.lane.seed, "order", epoch), self.labels, chosen.alpha, chosen.natural, length)
        return self.kept[order], *draw_augmentation(self.lane.seed, epoch, length, pad)


def _drawn(sources: Sequence[Source], epoch: int, epochs: int, length: int, pad: int) -> tuple[list[Plan], Draws]:
    plans = [source.plan(epoch, epochs) for source in sources]
    parts = [source.draw(epoch, chosen, length, pad) for source, chosen in zip(sources, plans, strict=True)]
    return plans, Draws(*(np.stack(part) for part in zip(*parts, strict=True)))
