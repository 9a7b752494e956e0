"""Watcher: what a workflow tells while it works: what it is going to train, how far it is, and what it knows by then.

Workflows never print. A function of (what trains, networks, epochs) is enough to watch training; a Watcher hears more.
Unless a caller says otherwise, a bar is shown where someone sits before stderr: at a terminal, or in a notebook.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module

from class_uncertainty.posthoc.diagnosis import Verdict
from class_uncertainty.posthoc.ladder import Rung
from class_uncertainty.training import Recipe, Result
from class_uncertainty.training.lane import Progress
from class_uncertainty.training.shared_epochs import Turn
from class_uncertainty.training.speed import Speed

Measure = Callable[[int, Recipe | None], Speed | None]  # of so many networks, by that recipe or the workflow's
Watch = Callable[[str, int, int], AbstractContextManager[Progress | None]]  # (what trains, networks, epochs of each)
Shown = Watch | bool | None  # whether progress is shown, or by what; None where someone sees it


@dataclass(frozen=True)
class Rest:
    """What is to be trained of networks that train side by side."""

    shares: tuple[float, ...]  # how much of each, from 1 to 0
    turns: tuple[Turn, ...]  # the same in the order of training; epochs that networks share count once

    @classmethod
    def apart(cls, shares: Sequence[float]) -> "Rest":
        """Of networks that share nothing."""
        return cls(tuple(shares), tuple((number, share) for share, number in Counter(shares).items() if share))


Left = Sequence[Rest]


@dataclass(frozen=True)
class Stage:
    """Networks that are to be trained for one purpose: at most so many, since what is stored is not trained again."""

    name: str
    about: str  # '6 candidates on 1 fold'
    together: tuple[int, ...]  # numbers of networks that train side by side
    unit: float = 1.0  # what one of them costs, in naive trainings
    kinds: tuple[Recipe, ...] = ()  # how each number of `together` trains, where that is not as the workflow's recipe
    begun: float = 0.0  # what checkpoints hold of these networks, in networks
    turns: tuple[tuple[Turn, ...], ...] = ()  # how each number of `together` trains, where that is known

    @property
    def networks(self) -> int:
        return sum(self.together)

    @property
    def parts(self) -> tuple[tuple[Turn, ...], ...]:
        """The turns of each number of `together`; where they are not known, as if nothing were shared."""
        return self.turns or tuple(((number, 1.0),) for number in self.together)

    @property
    def work(self) -> float:
        """What is to be trained, in networks."""
        return sum(number * share for turns in self.parts for number, share in turns)

    @property
    def spared(self) -> float:
        """What need not be trained, in networks, since they share epochs."""
        return max(0.0, self.networks - self.begun - self.work)

    def rest(self, left: Left) -> "Stage":
        """The same without what is trained already."""
        shares = [share for part in left for share in part.shares]
        trained, begun = shares.count(0.0), sum(0.0 < share < 1.0 for share in shares)
        if not left:
            return self
        notes = [f"{trained:,} of {len(shares):,} trained before"] if trained else []
        notes += [f"{begun:,} begun"] if begun else []
        together = tuple(sum(share > 0 for share in part.shares) for part in left)
        kinds = self.kinds if len(self.kinds) == len(together) else ()
        about = f"{self.about} ({', '.join(notes)})" if notes else self.about
        held, turns = sum(together) - sum(shares), tuple(part.turns for part in left)
        return replace(self, about=about, together=together, kinds=kinds, begun=held, turns=turns)


@dataclass(frozen=True)
class RungsJudged:
    """Candidates of a fix were judged on unseen examples, last on the last rung; `aim` is to be low, in `unit`."""

    rungs: tuple[Rung, ...]
    aim: str
    unit: str


@dataclass(frozen=True)
class Diagnosed:
    """What is wrong with naive networks, on so many examples that they never saw."""

    findings: tuple[Verdict, ...]
    examples: int
    unsaid: int  # classes with too few of these examples to say anything


@dataclass(frozen=True)
class Decided:
    """What is kept, and why, in one sentence."""

    why: str


@dataclass(frozen=True, eq=False)
class RowTrained:
    """The results so far of a method at one learning rate, one at least."""

    results: tuple[Result, ...]
    complete: bool

    @property
    def row(self) -> tuple[str, float]:
        return self.results[0].method, self.results[0].lr


News = RungsJudged | Diagnosed | Decided | RowTrained


class Watcher:
    """Hears everything and does nothing with it."""

    def __call__(self, what: str, networks: int, epochs: int) -> AbstractContextManager[Progress | None]:
        """Training begins, within the returned context; what it yields is told of every epoch."""
        return nullcontext()

    def ahead(self, stages: Sequence[Stage], recipe: Recipe, device: str, measure: Measure) -> None:
        """All that is to be trained, in order; `measure` times a few steps of so many networks, if they are enough."""

    def begin(self, name: str, left: Left = ()) -> None:
        """The stage of this name begins: those before have ended. `left` is what of it is to be trained, if known."""

    def tell(self, news: News) -> None:
        """Something is known before the workflow ends."""

    def close(self) -> None:
        """The workflow has ended, or was stopped."""


def watch_by(progress: Shown) -> Watch:
    """What a call is watched by."""
    if progress is None:
        stream = sys.stderr
        in_notebook = type(stream).__module__.startswith("ipykernel")
        progress = stream is not None and not stream.closed and (in_notebook or stream.isatty())
    if not isinstance(progress, bool):
        return progress
    # late, since what is shown is of a later stage
    return import_module("class_uncertainty.reporting.progress").LiveProgress() if progress else Watcher()
