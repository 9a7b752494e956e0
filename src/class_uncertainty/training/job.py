"""A job: stacks of one fit(), each trained, kept on the way and judged."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.data import Data
from class_uncertainty.errors import Unfinished
from class_uncertainty.files import write_whole
from class_uncertainty.measures import Stats, digest
from class_uncertainty.methods import Plan, plan
from class_uncertainty.metrics import Outcomes, score
from class_uncertainty.training.augmenting import Drawn, draw
from class_uncertainty.training.cam import filled_up, generated
from class_uncertainty.training.checkpoints import Checkpoints, Started
from class_uncertainty.training.engine import Examples, Program, settle
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.folds import held_out
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.networks import NETWORKS
from class_uncertainty.training.recipe import DEARER, Lane, Recipe, Result, describe
from class_uncertainty.training.stack import SGD, Stack, State, initial, stacked
from class_uncertainty.training.stages import Leg, legs, staged
from class_uncertainty.training.streams import bootstrap, draw_order, stream
from class_uncertainty.training.teaching import Teachers


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


@dataclass(frozen=True)
class End:
    """What a lane has become at the end of a stage; it has a result after its last."""

    place: int  # among the lanes of fit()
    lane: Started
    result: Result | None
    unseen: Outcomes | None = None  # on the training examples in the fold that the lane left out


Done = Callable[[End], None]  # told of each lane as its stack ends, whichever ends first


class _Stopped(Exception):
    """A stack was told to stop."""


@dataclass(frozen=True, eq=False)
class Job:
    """What all stacks of one stage of one fit() share."""

    fitted: Fit
    leg: Leg
    train: Data
    examples: Examples
    stats: Stats | None
    test: Data | None
    progress: Progress | None
    kept: Checkpoints | None
    every: int
    deadline: float  # by time.monotonic()
    profile: Path | None = None
    teachers: Fit | None = None
    before: dict[int, Started] = field(default_factory=dict)  # lanes at the end of the stage before, by their positions
    stop: Event = field(default_factory=Event)
    begun: Event = field(default_factory=Event)  # whether any stack has
    traced: Event = field(default_factory=Event)  # whether a stack has taken the trace upon itself

    def key(self, place: int) -> str:
        """Of a lane's checkpoint in this stage."""
        return self.keys(place)[self.leg.number]

    def keys(self, place: int) -> list[str]:
        """Of a lane's checkpoints in all of its stages."""
        known = Stats.of(self.train.counts, self.stats)
        teachers = self.teachers.keys if self.teachers else ()
        return checkpoint_keys(self.train.fingerprint, self.fitted.lanes[place], self.fitted.recipe, known, self.fitted.device, teachers)

    def lane(self, place: int) -> Lane:
        """As it trains in this stage."""
        return staged(self.fitted.lanes[place], self.fitted.recipe, self.leg.number)

    def is_last(self, place: int) -> bool:
        return self.leg.number == len(self.fitted.lanes[place].value.then)

    def run(self, places: list[int], started: list[Started]) -> list[End]:
        """Train one stack, of lanes that are equally far, and judge those whose last stage it is; `started` is empty where they begin."""
        stack, ends = self._train(places, started)
        group = [self.lane(place) for place in places]
        began = time.perf_counter()
        finite, outcomes = self._judged(stack, group, judges=any(map(self.is_last, places)))
        last = self.leg.before + self.leg.recipe.epochs - 1
        seconds = (time.perf_counter() - began) / len(group)
        found = []
        for place, end, fine, judged in zip(places, ends, finite, outcomes, strict=True):
            fine = fine and all(value.isfinite().all() for value in end.state.values())
            diverged = end.diverged if end.diverged is not None or fine else last  # a last step can be one too many
            end = replace(end, diverged=diverged, seconds=end.seconds + seconds, momenta={})
            result = self._result(place, end, judged) if self.is_last(place) else None
            found.append(End(place, end, result, judged if self.test is None else None))
        return found

    def _judged(self, stack: Stack, group: list[Lane], judges: bool) -> tuple[list[bool], list[Outcomes | None]]:
        """Whether each lane's probabilities are finite, and its outcomes on the test split or, without one, on its own fold."""
        test = self.test if judges else None
        folds = [np.isin(np.arange(len(self.train)), held_out(self.train, lane.fold)) if lane.fold else None for lane in group]
        some = self.train if any(lane.fold for lane in group) else self.train.take(np.arange(min(len(self.train), 64)))
        finite, parts = [True] * len(group), [list[Outcomes]() for _ in group]
        for rows, batch in self.fitted.batches(stack, group, test or some):
            for i, p in enumerate(batch):
                finite[i] = finite[i] and bool(np.isfinite(p).all())
                if test:
                    parts[i].append(Outcomes.of(p, test.labels[rows]))
                elif self.test is None and (held := folds[i]) is not None:
                    parts[i].append(Outcomes.of(p[held[rows]], self.train.labels[rows][held[rows]]))
        return finite, [Outcomes.joined(outcomes) if outcomes else None for outcomes in parts]

    def _result(self, place: int, end: Started, judged: Outcomes | None) -> Result:
        lane, recipe = self.fitted.lanes[place], self.fitted.recipe
        uncertainty = self.stats.uncertainty if self.stats and lane.value.uses_uncertainty else None
        return Result(
            method=lane.name,
            seed=lane.seed,
            lr=lane.rate(recipe),
            fold=lane.fold,
            scores=score(judged, self.train.counts) if self.test and judged and end.diverged is None else None,
            diverged=end.diverged,
            loss=end.loss,
            seconds=end.seconds,
            plan=describe(lane.value) | (asdict(lane.teaching) if lane.teaching else {}),
            recipe=recipe,
            data=self.train.fingerprint,
            uncertainty="" if uncertainty is None else digest(uncertainty),
            device=self.fitted.device,
            cost=self._cost(lane),
        )

    def _cost(self, lane: Lane) -> float:
        """By the examples that it sees in all stages; a pass forward is a third of a step, and DUQ's steps are dearer."""
        route = legs(lane.value, self.fitted.recipe)
        seen = [leg.recipe.epochs * leg.length(self.train) * (1 / 3 if leg.trains == "head" else 1) for leg in route]
        usual = self.fitted.recipe.epochs * Leg(self.fitted.recipe).length(self.train)
        taught = len(self.teachers.lanes) / 3 if self.teachers and lane.teaching else 0
        return sum(seen) / usual * (DEARER if lane.value.head == "rbf" else 1) + taught

    def _train(self, places: list[int], started: list[Started]) -> tuple[Stack, list[Started]]:
        """The stack after the stage's last epoch, and each of its lanes."""
        recipe, device, count = self.leg.recipe, self.fitted.device, len(places)
        lanes = self.fitted.padded([self.lane(place) for place in places])
        started = self.fitted.padded(started)
        begin = started or self.fitted.padded([self._begin(place) for place in places if place in self.before])
        stack = stacked(recipe, self.fitted.shape, self.fitted.classes, lanes, [lane.state for lane in begin] or None)
        stack = settle(stack, recipe.network, device)
        first = started[0].epoch if started else 0
        if first == recipe.epochs:
            return stack, started[:count]
        stack.body.requires_grad_(self.leg.trains != "head")
        stack.head.requires_grad_(self.leg.trains != "body")
        optimiser = SGD(stack, recipe)
        if started:
            optimiser.load([lane.momenta for lane in started])
        examples, sources = self._sources(lanes, places)
        length = self.leg.length(self.train)
        draw = lambda epoch: _drawn(sources, self.leg, epoch, length)  # noqa: E731
        plans, draws = draw(first)
        if stack.margins is not None and not started:
            stack.margins.data.copy_(torch.from_numpy(np.concatenate([each.margin for each in plans])))
        teachers = Teachers(self.teachers, self.train, lanes, device) if self.teachers and lanes[0].teaching else None
        program = Program(stack, optimiser, self.leg, examples, lanes, draws, self._gathered(lanes[:count], started[:count]), teachers)
        diverged = [lane.diverged for lane in begin] or [None] * len(lanes)
        spent, began = [lane.seconds for lane in begin] or [0.0] * len(lanes), time.perf_counter()

        def now(epoch: int, losses: NDArray) -> list[Started]:
            share = (time.perf_counter() - began) / count
            gathered = [snapshots[i] if lane.gather != "online" else program.gathered_by(i) for i, lane in enumerate(lanes[:count])]
            lane_states = zip(stack.states(), optimiser.states(), diverged, losses.tolist(), spent, gathered, strict=False)
            return [Started(epoch, state, m, d, loss, share + before, g) for state, m, d, loss, before, g in lane_states]

        snapshots = [dict(lane.gathered) for lane in started] or [{} for _ in lanes]
        del started, begin  # they hold a copy of every lane
        if self.begun.is_set() and time.monotonic() >= self.deadline:  # one epoch at least: a short budget must come to an end too
            raise Unfinished
        self.begun.set()
        for epoch in range(first, recipe.epochs):
            since = time.perf_counter()
            frozen = [d is not None for d in diverged]
            rates = [0.0 if still else lane.rate_at(recipe, epoch) for lane, still in zip(lanes, frozen, strict=True)]
            lr = torch.tensor(rates, device=device)
            with self._profiled(wanted=epoch == min(first + 1, recipe.epochs - 1)):
                sums = program.epoch(plans, draws, lr, self._check_stop)
                if epoch + 1 < recipe.epochs:
                    plans, draws = draw(epoch + 1)  # while a GPU is still at work
                losses, errors = sums.cpu().numpy()
            bad = [d is None and not np.isfinite(loss) for d, loss in zip(diverged, losses, strict=True)]
            diverged = [self.leg.before + epoch if new else d for new, d in zip(bad, diverged, strict=True)]
            self._take_snapshots(stack, lanes, epoch, snapshots)
            program.set_training()
            if self.progress:
                seconds = time.perf_counter() - since
                loss, error, rate = (tuple(part[:count].tolist()) for part in (losses, errors, lr.cpu()))
                own, at, speed = tuple(self.fitted.lanes[i] for i in places), self.leg.before + epoch, count * length / seconds
                self.progress(Epoch(own, at, self.leg.total, loss, error, rate, seconds, speed))
            late = time.monotonic() >= self.deadline
            if self.kept and (late or (epoch + 1) % self.every == 0 or epoch + 1 == recipe.epochs):
                self.kept.save(dict(zip(map(self.key, places), now(epoch + 1, losses), strict=True)))
            if late and (epoch + 1 < recipe.epochs or not all(map(self.is_last, places))):
                raise Unfinished
        return stack, now(recipe.epochs, losses)

    def _take_snapshots(self, stack: Stack, lanes: list[Lane], epoch: int, snapshots: list[State]) -> None:
        """The training examples' probabilities, of lanes that want them and are at the end of a cycle."""
        ends = [self.leg.recipe.cycle_ends(lane.value.cycles) if lane.gather == "snapshots" else [] for lane in lanes]
        due = [i for i, cycles in enumerate(ends) if epoch + 1 in cycles]
        if due:
            for i in due:
                snapshots[i][f"p{ends[i].index(epoch + 1)}"] = torch.empty(len(self.train), len(self.fitted.classes))
            for rows, batch in self.fitted.batches(stack, lanes, self.train):
                for i in due:
                    snapshots[i][f"p{ends[i].index(epoch + 1)}"][rows] = torch.from_numpy(batch[i])

    def _begin(self, place: int) -> Started:
        """A lane as the stage before has left it, with a new head where this stage wants one."""
        lane = self.before[place]
        if not self.leg.fresh:
            return lane
        new = initial(self.leg.recipe, self.fitted.shape, self.fitted.classes, self.lane(place))
        return replace(lane, state=lane.state | {name: value for name, value in new.items() if name.startswith("head.")})

    def _sources(self, lanes: list[Lane], places: list[int]) -> tuple[Examples, "list[Source]"]:
        """What each lane draws from; where classes are filled up, it is by the networks that the stage before has left."""
        features = NETWORKS[self.leg.recipe.network].features(self.fitted.shape)
        sources = [Source(lane, self.train, self.stats, features) for lane in lanes]
        counts = torch.from_numpy(np.stack([source.counts for source in sources])).to(self.fitted.device)
        if not self.leg.pasted:
            return replace(self.examples, counts=counts), sources
        made = []
        for place, source in zip(places, sources, strict=False):  # the lanes behind them only fill the stack
            module = self.fitted.plain(source.lane, self.before[place].state).to(self.fitted.device)
            made.append(generated(module, self.examples, source.kept, source.counts, source.lane.seed))
        examples, own = filled_up(self.examples, made)
        return replace(examples, counts=counts), [
            source.with_more(own[i if i < len(places) else 0], examples.labels) for i, source in enumerate(sources)
        ]

    def _gathered(self, lanes: list[Lane], started: list[Started]) -> dict[str, Tensor]:
        """What was gathered before, or zeros to gather into; nothing where no lane wants it."""
        if not any(lane.gather == "online" for lane in lanes):
            return {}
        device, shape = self.fitted.device, (len(lanes), len(self.train))
        kinds = {"p": (*shape, len(self.fitted.classes)), "entropy": shape, "seen": shape}
        sums = {name: torch.zeros(size, device=device) for name, size in kinds.items()}
        for i, lane in enumerate(started):
            if lane.gathered and lanes[i].gather == "online":
                for name, whole in sums.items():
                    whole[i] = lane.gathered[name]
        return sums

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

    def __init__(self, lane: Lane, train: Data, stats: Stats | None, features: int) -> None:
        self.lane = lane
        self.kept = np.arange(len(train))
        if lane.fold:
            self.kept = np.setdiff1d(self.kept, held_out(train, lane.fold))
        if lane.bootstrap:
            self.kept = self.kept[bootstrap(stream(lane.seed, "bootstrap"), train.labels[self.kept])]
        self.labels = train.labels[self.kept]
        self.counts = np.bincount(self.labels, minlength=len(train.classes))
        self.stats = Stats.of(self.counts, stats)
        self.features = features if lane.value.dropout else 0

    def with_more(self, places: NDArray[np.int64], labels: Tensor) -> "Source":
        """The same that draws from those places too; measures still go by the counts as they were."""
        more = copy(self)
        more.kept = np.concatenate([self.kept, places])
        more.labels = labels.cpu().numpy()[more.kept]
        return more

    def plan(self, epoch: int, epochs: int) -> Plan:
        return plan(self.lane.value, self.stats, epoch, epochs)

    def draw(self, epoch: int, chosen: Plan, length: int, recipe: Recipe) -> Drawn:
        """An epoch's examples, and what is drawn for each: (length, ...)."""
        seed = TAUGHT if self.lane.teaching else self.lane.seed
        order = draw_order(stream(seed, "order", epoch), self.labels, chosen.alpha, chosen.natural, length)
        return {"order": self.kept[order], **draw(seed, epoch, length, recipe, self.lane.value.augment, self.features)}


TAUGHT = 2**63  # the seed of what students see: the same for all of them, and no lane's own
LATER = 2**20  # where the streams of a stage begin, counted from the stage before


def _drawn(sources: Sequence[Source], leg: Leg, epoch: int, length: int) -> tuple[list[Plan], Drawn]:
    """The lanes' plans, and their draws stacked: (lanes, length, ...)."""
    plans = [source.plan(epoch, leg.recipe.epochs) for source in sources]
    number = leg.number * LATER + epoch
    parts = [source.draw(number, chosen, length, leg.recipe) for source, chosen in zip(sources, plans, strict=True)]
    if any("kept" in part for part in parts):  # who leaves nothing out has no numbers to draw
        width = max(source.features for source in sources)
        parts = [{"kept": np.zeros((length, width), np.float32), **part} for part in parts]
    return plans, {name: np.stack([part[name] for part in parts]) for name in parts[0]}
