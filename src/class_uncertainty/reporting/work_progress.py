"""WorkProgress: how far the whole of a command is, from what it has announced and from the epochs that have ended."""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from class_uncertainty.runs.watcher import Left, Measure, Stage
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.speed import Speed

TRUSTED = 5.0  # seconds of training whose pace counts as much as the one that was measured before


class WorkProgress:
    """Stages to come, and the networks of the one that trains. Stacks report from threads of their own: hence a lock.

    A network counts as so much of itself as it has reached. What is stored already is not trained, and drops out of the
    total when the next stage begins.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.speed: Speed | None = None  # by the recipe of the workflow,
        self.speeds: dict[Recipe, Speed] = {}  # and by those of other kinds of models
        self.stages: list[Stage] = []  # the first one trains now
        self.weights: list[float] = []  # of the stages: seconds where the speed is known, otherwise naive trainings
        self.parts: list[dict[Lane, tuple[Epoch, int]]] = []  # of this stage: each lane's last epoch, and its first
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
        networks = sum(stage.networks for stage in self.stages)
        kinds = dict.fromkeys(kind for stage in self.stages for kind in stage.kinds)
        with ThreadPoolExecutor(1) as pool:
            self.speed = pool.submit(measure, networks, None).result()
            timed = {kind: pool.submit(measure, networks, kind).result() for kind in kinds if self.speed}
        self.speeds = {kind: speed for kind, speed in timed.items() if speed}
        with self.lock:
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
                announced, self.stages[0] = self.stages[0].networks, self.stages[0].rest(left)
                self.weights[0] *= self.stages[0].networks / max(announced, 1)

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
            part = self.parts[-1]
            for lane in epoch.lanes:  # the lane that reported last comes last
                _, first = part.pop(lane, (epoch, epoch.epoch))
                part[lane] = epoch, first

    def running(self) -> list[tuple[Lane, Epoch]]:
        """Lanes that train now, each with its last epoch."""
        with self.lock:
            last = self.parts[-1] if self.parts else {}
            return [(lane, epoch) for lane, (epoch, _) in last.items() if epoch.epoch + 1 < epoch.epochs]

    @property
    def is_at_work(self) -> bool:
        """Whether something was trained and more is to be."""
        with self.lock:
            left = sum(stage.networks for stage in self.stages) - self._trained()
            return self.start is not None and left > 0

    @property
    def seconds(self) -> float:
        """What all stages take together, less what was begun before; in naive trainings where no speed is known."""
        stages = zip(self.weights, self.stages, strict=True)
        return sum(weight * (1 - stage.begun / max(stage.networks, 1)) for weight, stage in stages)

    def amounts(self) -> tuple[int, int, float, float | None]:
        """Networks trained, networks in all, the share of the work that is done, and seconds left where known."""
        with self.lock:
            trained = self.finished + self._trained()
            total = max(trained, self.finished + sum(stage.networks for stage in self.stages))
            reached, seen = self._reached(0), self.seen + self._reached(1)
            left = max(sum(self.weights) - reached, 0.0)
            share = (self.spent + reached) / max(self.spent + reached + left, 1e-9)
            passed = 0.0 if self.start is None else time.monotonic() - self.start
            # at the pace so far, and while little was seen at the one that was measured
            trust = TRUSTED if self.speed else 0.0
            seconds = left * (passed + trust) / (seen + trust) if seen + trust else None
            return trained, total, share, seconds

    def _weigh(self) -> None:
        speed = self.speed
        if speed is None:
            self.weights = [stage.unit * stage.networks for stage in self.stages]
            return
        alike = [stage.unit * speed.estimate(stage.together) for stage in self.stages]
        by_kind = [
            stage.unit * sum(self.speeds.get(kind, speed).estimate((n,)) for kind, n in self._parts(stage))
            for stage in self.stages
        ]
        # which kinds later stages train is not known: as if all of them alike
        with_kinds = [i for i, stage in enumerate(self.stages) if stage.kinds]
        ratio = sum(by_kind[i] for i in with_kinds) / sum(alike[i] for i in with_kinds) if with_kinds else 1.0
        self.weights = [by_kind[i] if stage.kinds else ratio * alike[i] for i, stage in enumerate(self.stages)]

    @staticmethod
    def _parts(stage: Stage) -> Iterable[tuple[Recipe, int]]:
        return zip(stage.kinds, stage.together, strict=True) if stage.kinds else ()

    def _end_stage(self) -> None:
        self.finished += self._trained()
        self.spent, self.seen = self.spent + self._reached(0), self.seen + self._reached(1)
        self.parts = []

    def _trained(self) -> int:
        """Networks of this stage that have ended."""
        return sum(epoch.epoch + 1 == epoch.epochs for part in self.parts for epoch, _ in part.values())

    def _reached(self, here: int) -> float:
        """The weight of what the stage's networks have reached; `here` is 1 for what they did since `start` alone."""
        if not self.parts:
            return 0.0
        lanes = [lane for part in self.parts for lane in part.values()]
        reached = sum((epoch.epoch + 1 - here * first) / epoch.epochs for epoch, first in lanes)
        return self.weights[0] * min(1.0, reached / max(self.stages[0].networks, 1))
