"""WorkProgress: how far the whole of a command is, from what it has announced and from the epochs that have ended."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple

from class_uncertainty.runs.watcher import Left, Measure, Stage
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.speed import Speed

TRUSTED = 5.0  # seconds of training whose pace counts as much as the one that was measured before


class Reached(NamedTuple):
    """How far a lane is: its last epoch, and what it did before the first report and since, as shares of a training."""

    epoch: Epoch
    before: float
    since: float

    @classmethod
    def first(cls, epoch: Epoch, shared_by: int) -> "Reached":
        one = 1 / (epoch.epochs * shared_by)
        return cls(epoch, epoch.epoch * one, one)

    def then(self, epoch: Epoch, shared_by: int) -> "Reached":
        more = (epoch.epoch - self.epoch.epoch) / (epoch.epochs * shared_by)
        return Reached(epoch, self.before, self.since + more)


class WorkProgress:
    """Stages to come, and the networks of the one that trains. Stacks report from threads of their own: hence a lock.

    A network counts as so much of itself as it has reached; of an epoch that several share each has its part, where the
    stage counts such epochs once. What is stored already is not trained, and drops out of the total when the next stage
    begins.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.speed: Speed | None = None  # by the recipe of the workflow,
        self.speeds: dict[Recipe, Speed] = {}  # and by those of other kinds of models
        self.stages: list[Stage] = []  # the first one trains now
        self.ratio = 1.0  # of the time of stages of several kinds to that by the recipe of the workflow
        self.weights: list[float] = []  # of the stages: seconds where the speed is known, otherwise naive trainings
        self.parts: list[dict[Lane, Reached]] = []  # of this stage
        self.finished = 0  # networks of stages that have ended
        self.spent, self.seen = 0.0, 0.0  # weight of those; of it what was seen training since `start`
        self.start: float | None = None

    def announce(self, stages: Sequence[Stage]) -> None:
        """All that is ahead."""
        with self.lock:
            self._end_stage()
            self.stages = list(stages)
            self._weigh()

    def measure(self, measure: Measure) -> None:
        """Weigh networks by the time that they take. Steps are timed in a thread, which leaves this one as it is."""
        networks = round(sum(stage.work for stage in self.stages))
        kinds = dict.fromkeys(kind for stage in self.stages for kind in stage.kinds)
        with ThreadPoolExecutor(1) as pool:
            self.speed = pool.submit(measure, networks, None).result()
            timed = {kind: pool.submit(measure, networks, kind).result() for kind in kinds if self.speed}
        self.speeds = {kind: speed for kind, speed in timed.items() if speed}
        with self.lock:
            self.ratio = self._ratio()
            self._weigh()

    def begin(self, name: str, left: Left = ()) -> None:
        """Drop the stages before the one of this name, and of this one what is trained already."""
        with self.lock:
            names = [stage.name for stage in self.stages]
            if name in names[1:]:
                self._end_stage()
                place = names.index(name)
                self.stages, self.weights = self.stages[place:], self.weights[place:]
            if name in names:
                self.stages[0] = self.stages[0].rest(left)
                self.weights[0] = self._weight(self.stages[0])

    def open(self, networks: int, what: str) -> bool:
        """So many networks of the stage begin; whether they are a stage of their own, which nobody has announced."""
        with self.lock:
            self.start = time.monotonic() if self.start is None else self.start
            self.parts.append({})
            if unannounced := not self.stages:
                self.stages = [Stage(what, what, (networks,))]
                self._weigh()
            return unannounced

    def update(self, epoch: Epoch) -> None:
        """Lanes of a stack have ended an epoch."""
        with self.lock:
            part, counts_once = self.parts[-1], self.stages[0].spared > 1e-6
            shared_by = epoch.shared_by if counts_once and epoch.shared_by else (1,) * len(epoch.lanes)
            for lane, number in zip(epoch.lanes, shared_by, strict=True):  # the lane that reported last comes last
                reached = part.pop(lane, None)
                part[lane] = reached.then(epoch, number) if reached else Reached.first(epoch, number)

    def running(self) -> list[tuple[Lane, Epoch]]:
        """Lanes that train now, each with its last epoch."""
        with self.lock:
            last = self.parts[-1] if self.parts else {}
            epochs = ((lane, reached.epoch) for lane, reached in last.items())
            return [(lane, epoch) for lane, epoch in epochs if epoch.epoch + 1 < epoch.epochs]

    @property
    def is_at_work(self) -> bool:
        """Whether something was trained and more is to be."""
        with self.lock:
            left = sum(stage.networks for stage in self.stages) - self._trained()
            return self.start is not None and left > 0

    @property
    def seconds(self) -> float:
        """What all stages take together, less what was begun before; in naive trainings where no speed is known."""
        return sum(self.weights)

    @property
    def spared(self) -> float:
        """What need not be trained, in networks, since networks share epochs."""
        return sum(stage.spared for stage in self.stages)

    def amounts(self) -> tuple[int, int, float, float | None]:
        """Networks trained, networks in all, the share of the work that is done, and seconds left where known."""
        with self.lock:
            trained = self.finished + self._trained()
            total = max(trained, self.finished + sum(stage.networks for stage in self.stages))
            reached, seen = self._reached(0), self.seen + self._reached(1)
            left = max(sum(self.weights) - reached, 0.0)
            done = self.spent + self._held() + reached
            share = done / max(done + left, 1e-9)
            passed = 0.0 if self.start is None else time.monotonic() - self.start
            # at the pace so far, and while little was seen at the one that was measured
            trust = TRUSTED if self.speed else 0.0
            seconds = left * (passed + trust) / (seen + trust) if seen + trust else None
            return trained, total, share, seconds

    def _weigh(self) -> None:
        self.weights = [self._weight(stage) for stage in self.stages]

    def _weight(self, stage: Stage) -> float:
        if self.speed is None:
            return stage.unit * stage.work
        # which kinds later stages train is not known: as if all of them alike
        return self._by_kind(stage) if stage.kinds else self.ratio * self._alike(stage)

    def _alike(self, stage: Stage) -> float:
        """Seconds if all networks trained by the recipe of the workflow."""
        return stage.unit * sum(map(self.speed.estimate, stage.parts)) if self.speed else 0.0

    def _by_kind(self, stage: Stage) -> float:
        speeds = (self.speeds.get(kind, self.speed) for kind in stage.kinds)
        parts = zip(speeds, stage.parts, strict=True)
        return stage.unit * sum(speed.estimate(turns) for speed, turns in parts if speed)

    def _ratio(self) -> float:
        with_kinds = [stage for stage in self.stages if stage.kinds]
        alike = sum(map(self._alike, with_kinds))
        return sum(map(self._by_kind, with_kinds)) / alike if alike else 1.0

    def _end_stage(self) -> None:
        self.finished += self._trained()
        self.spent, self.seen = self.spent + self._held() + self._reached(0), self.seen + self._reached(1)
        self.parts = []

    def _trained(self) -> int:
        """Networks of this stage that have ended."""
        return sum(one.epoch.epoch + 1 == one.epoch.epochs for part in self.parts for one in part.values())

    def _held(self) -> float:
        """The weight of what checkpoints hold of this stage."""
        return self.weights[0] * self.stages[0].begun / max(self.stages[0].work, 1e-9) if self.stages else 0.0

    def _reached(self, here: int) -> float:
        """The weight of what the stage's networks have reached; `here` is 1 for what they did since `start` alone."""
        if not self.parts:
            return 0.0
        stage, lanes = self.stages[0], [lane for part in self.parts for lane in part.values()]
        unknown = max(0.0, sum(lane.before for lane in lanes) - stage.begun)  # held by checkpoints, and not announced
        reached = sum(lane.since for lane in lanes) + (0.0 if here else unknown)
        return self.weights[0] * min(1.0, reached / max(stage.work, 1e-9))
