"""RayExecutor: stacks of lanes as tasks of a Ray cluster. The driver cuts stacks, tries again, and writes the store."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import ray
import torch
from ray import exceptions

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, MachineFault, Unfinished, means_too_little_memory, notice
from class_uncertainty.io import make_folder, write_together
from class_uncertainty.scale.mailbox import Begun, EpochEnded, Mailbox, Saved
from class_uncertainty.scale.ray_cluster import (
    HEAD,
    STARTING,
    alive_nodes,
    is_lost,
    node_name,
    on_node,
    open_cluster,
    versions,
)
from class_uncertainty.scale.ray_task import Job, StackEnded, train_stack
from class_uncertainty.text import enumerated, reason
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import is_small
from class_uncertainty.training.fit_result import Fit, LaneOutcome
from class_uncertainty.training.networks.network_table import BUILT_IN, NETWORKS
from class_uncertainty.training.networks.user_code import named
from class_uncertainty.training.stage_context import FitOptions, alike_lanes, cut, narrowest
from class_uncertainty.training.stages import resolve_stages, staged

POLL = 0.2  # seconds between looks at what has ended
LOOK = 1.0  # seconds between looks at which nodes there are
BEGINNING = 20.0  # seconds in which the first task may begin, however short the budget: the same call gets further
AHEAD = 1  # stacks that wait in Ray's own queue: a node that comes finds work, and an autoscaler sees the demand
MOST_TRIES = 3  # of a lane that gets no further
NAMED = 5  # lanes or nodes that a sentence names


@dataclass
class RayExecutor:
    """Trains lanes on the cluster that this process is connected to, each as it would train here."""

    device: str  # "cpu" or "cuda"
    references: dict[str, Any] = field(default_factory=dict)  # to examples in the object store, by their fingerprints

    def train(
        self, fitted: Fit, train: Data, options: FitOptions, keys: list[list[str]], places: list[int]
    ) -> Generator[list[LaneOutcome], None, None]:
        """Train the lanes at these places in stacks, each a task; yield those that have just ended."""
        run = RayRun(self, fitted, train, options, keys, places)
        try:
            yield from run.outcomes()
        finally:
            run.close()

    def put(self, data: Data | None) -> Any:
        """Return a reference to examples, which are put into the object store once for all calls."""
        if data is None:
            return None
        if data.fingerprint not in self.references:
            self.references[data.fingerprint] = ray.put(_slim(data))
        return self.references[data.fingerprint]


@contextmanager
def open_ray(on: str, device: str | None) -> Iterator[RayExecutor]:
    """Connect to a cluster, or start one, that trains lanes while the context is open."""
    with open_cluster(on, device) as device_there:
        yield RayExecutor(device_there)


@dataclass
class StackTask:
    """A stack that was handed to Ray."""

    places: list[int]
    node: str  # the one that it was sent to, then the one that it has begun on; "" is any
    has_begun: bool = False


class RayRun:
    """The lanes of one call, from the first task to the last."""

    def __init__(
        self,
        executor: RayExecutor,
        fitted: Fit,
        train: Data,
        options: FitOptions,
        keys: list[list[str]],
        places: list[int],
    ) -> None:
        self.device = executor.device
        self.fitted = fitted
        self.options = options
        self.keys = keys
        self.has_budget = options.deadline.left < float("inf")

        self.need = _resources_of_a_stack(fitted, self.device)
        self.able: dict[str, int] = {}  # how many stacks each node trains at once
        self.next_look = Deadline()
        self.refusals: dict[str, str] = {}  # by the nodes that cannot use an input
        self.failed_on: dict[int, str] = {}  # the node that a lane last failed on
        self.failures: Counter[tuple[int, int]] = Counter()  # of lanes, by their places and how far they were
        self.lost: dict[int, str] = {}  # lanes that are given up, and why
        self.waiting: list[list[int]] = []  # stacks that Ray does not have
        self.running: dict[Any, StackTask] = {}  # by the references to what they return
        self.any_has_begun = False
        self._look()
        if not self.able:
            wanted = " and ".join(f"{number:g} {kind}" for kind, number in self.need.items())
            raise InputError(f"no node of the cluster has {wanted}, which a stack of lanes needs: add nodes.")
        self.waiting = self._stacks(places)

        self.job = ray.put(self._job())
        self.train = executor.put(train)
        self.test = executor.put(options.test)
        self.teachers = ray.put(_on_cpu(options.teachers)) if options.teachers else None
        actor = ray.remote(num_cpus=0, max_restarts=0, resources={HEAD: 0.001})(Mailbox)
        self.mailbox = actor.remote()
        # a stack that was lost is submitted anew: Ray itself would repeat a task from its first checkpoints
        self.remote = ray.remote(max_retries=0)(train_stack)

    def _job(self) -> Job:
        network = self.fitted.recipe.network
        return Job(
            fitted=_on_cpu(self.fitted),
            keys=self.keys,
            device=self.device,
            stats=self.options.stats,
            every=self.options.every,
            threads=torch.get_num_threads(),
            versions=versions(),
            registered=None if network in BUILT_IN else NETWORKS.get(network),
            named=named(),
            has_budget=self.has_budget,
        )

    def outcomes(self) -> Iterator[list[LaneOutcome]]:
        """Yield lanes as they end. What cannot be trained is named at the end."""
        if self.has_budget:  # tasks ask for it, and Ray gives the core of a task that waits to another
            self._ask("left")  # it may take long to start: what is left is told once it has
            self._ask("start", self.options.deadline.left)
        first_begins = Deadline.after(BEGINNING)
        is_late = False
        while True:
            if not is_late:
                self._submit()
            if not self.running:
                break
            returned = self._wait()
            fault = None
            try:
                self._read_letters()
            except MachineFault as error:  # told once what has ended is stored
                fault = error
            outcomes: list[LaneOutcome] = []
            for reference in returned:
                ended = self._end(reference)
                outcomes += ended.outcomes
                is_late = is_late or ended.is_late
            if outcomes:
                yield outcomes
            if fault:
                raise fault
            if self.options.deadline.passed:
                is_late = True
                self._take_back(first_begins)
        self._say_what_is_missing()

    # Which stacks train where

    def _epoch_of(self, place: int) -> int:
        """Return how far the checkpoints of a lane are, in epochs of all its stages."""
        checkpoints = self.options.checkpoints
        return sum(checkpoints.epoch(key) for key in self.keys[place]) if checkpoints else 0

    def _stacks(self, places: Iterable[int]) -> list[list[int]]:
        """Cut lanes into stacks: on a CPU of a fixed width, on GPUs as narrow as they can be without one more round.

        A lane that has one try left is alone: its neighbours may be to blame, or it may be.
        """
        alone: list[list[int]] = []
        others: dict[int, int] = {}
        for place in places:
            epoch = self._epoch_of(place)
            if self.failures[place, epoch] == MOST_TRIES - 1:
                alone.append([place])
            else:
                others[place] = epoch
        groups = list(self._groups(others))
        most = narrowest(groups, max(1, self._slots())) if self.device == "cuda" else None
        return alone + cut(groups, most)

    def _groups(self, epochs: dict[int, int]) -> Iterator[tuple[list[int], int]]:
        """Yield lanes whose first stages can run as one stack; those whose later ones can, too, are neighbours."""
        recipe, lanes = self.fitted.recipe, self.fitted.lanes
        alike: dict[Any, list[int]] = {}
        for place in epochs:
            alike.setdefault(resolve_stages(lanes[place].value, recipe)[0], []).append(place)
        for group in alike.values():
            ordered = sorted(group, key=lambda place: (-epochs[place], repr(lanes[place].value.then)))
            epochs_of_group = {place: epochs[place] for place in ordered}
            yield from alike_lanes(recipe, self.device, lambda place: staged(lanes[place], recipe, 0), epochs_of_group)

    def _put_back(self, places: Iterable[int]) -> None:
        """Let lanes wait, in stacks with those that wait already."""
        self.waiting = self._stacks([*places, *chain(*self.waiting)])

    def _look(self) -> None:
        """See which nodes there are; while Ray's client connects again, they are those that were seen last."""
        self.next_look = Deadline.after(LOOK)
        try:
            nodes = alive_nodes()
        except Exception as error:
            if not self.able or not is_lost(error):
                raise
            return
        slots_before = self._slots()
        was_able = bool(self.able)
        self.able = {}
        for node in nodes:
            stacks = min(int(node["Resources"].get(kind, 0) // number) for kind, number in self.need.items())
            if stacks:
                self.able[node["NodeID"]] = stacks
        if was_able and not self.able:
            notice("no node of the cluster can train now: waiting for one that comes.")
        if self._slots() != slots_before:
            self._put_back([])

    def _willing(self) -> list[str]:
        """Return the nodes that do not refuse."""
        return [node for node in self.able if node not in self.refusals]

    def _slots(self) -> int:
        """Return how many stacks train at once."""
        return sum(self.able[node] for node in self._willing())

    def _all_refuse(self) -> bool:
        """Whether there are nodes, and none of them can use an input."""
        return bool(self.able) and not self._willing()

    def _node_for(self, places: list[int]) -> str:
        """Choose the least busy of the nodes that do not refuse and that these lanes have not failed on; "" is any."""
        failed = {self.failed_on.get(place) for place in places}
        willing = self._willing()
        better = [node for node in willing if node not in failed] or willing
        if len(better) == len(self.able):
            return ""
        busy = Counter(task.node for task in self.running.values())
        return min(better, key=lambda node: busy[node] / self.able[node])

    # Tasks

    def _submit(self) -> None:
        """Hand Ray as many stacks as train at once, and a few more."""
        if self.next_look.passed:
            self._look()
        while self.waiting and not self._all_refuse() and len(self.running) < self._slots() + AHEAD:
            places = self.waiting.pop(0)
            options: dict[str, Any] = {"num_cpus": self.need["CPU"], "num_gpus": self.need.get("GPU", 0)}
            node = self._node_for(places)
            if node:
                options["scheduling_strategy"] = on_node(node, soft=True)
            task = self.remote.options(**options)
            given = self._checkpoint_files(places)
            reference = task.remote(self.job, self.train, self.test, self.teachers, places, given, self.mailbox)
            self.running[reference] = StackTask(places, node)

    def _wait(self) -> list[Any]:
        """Wait a little for a task to return, and return the references to all that have by then."""
        returned, _ = ray.wait(list(self.running), timeout=POLL)
        if returned:
            returned, _ = ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        return returned

    def _take_back(self, first_begins: Deadline) -> None:
        """Take back the tasks that have not begun; the first one may take a while."""
        if not self.any_has_begun and not first_begins.passed:
            return
        for reference, task in list(self.running.items()):
            if not task.has_begun:
                del self.running[reference]
                _cancel(reference)
                self._put_back(task.places)

    def _end(self, reference: Any) -> StackEnded:
        """Return what became of a task. Its lanes that have not ended wait again, or are given up."""
        task = self.running.pop(reference)
        node = task.node if task.has_begun else ""
        try:
            ended = ray.get(reference)
        except exceptions.RayTaskError as error:
            if not isinstance(error.cause, exceptions.RayError) and not means_too_little_memory(error.cause):
                why = f"{type(error.cause).__name__}: {reason(error.cause)}"
                self.lost |= dict.fromkeys(task.places, why)
                return StackEnded([])
            ended = StackEnded([], fault=reason(error.cause))
        except exceptions.RayError as error:
            ended = StackEnded([], fault=_kind(error))
        finished = {outcome.place for outcome in ended.outcomes}
        rest = [place for place in task.places if place not in finished]
        if ended.refusal:
            self._refused(node, ended.refusal)
        if ended.refusal or ended.is_late:
            self._put_back(rest)
        elif rest:
            self._failed(rest, node, ended.fault)
        return ended

    def _refused(self, node: str, refusal: str) -> None:
        """Avoid a node that cannot use an input."""
        if node not in self.refusals:
            self.refusals[node] = f"{refusal.rstrip('.')}, on {node_name(node)}"
            notice(f"{self.refusals[node]}; nothing more is trained there.")

    def _failed(self, places: list[int], node: str, fault: str) -> None:
        """Try lanes again, each from its last checkpoint; those that got no further three times are given up."""
        where = node_name(node)
        lanes = "one lane" if len(places) == 1 else f"{len(places)} lanes"
        notice(f"a stack of {lanes} failed on {where}: {fault}; it is tried again.")
        self.failed_on |= dict.fromkeys(places, node)
        for place in places:
            epoch = self._epoch_of(place)
            self.failures[place, epoch] += 1
            if self.failures[place, epoch] == MOST_TRIES:
                self.lost[place] = f"{fault} on {where}, {MOST_TRIES} times"
        self._put_back([place for place in places if place not in self.lost])

    def _checkpoint_files(self, places: list[int]) -> dict[str, bytes]:
        """Return the checkpoints of lanes, as files by name."""
        contents: dict[str, bytes] = {}
        if self.options.checkpoints:
            for key in chain(*(self.keys[place] for place in places)):
                file = self.options.checkpoints.file(key)
                with suppress(FileNotFoundError, NotADirectoryError):
                    contents[file.name] = file.read_bytes()
        return contents

    # What workers tell, and what the user is told

    def _ask(self, question: str, *arguments: Any) -> Any:
        """Return what the mailbox answers, once it has started."""
        try:
            return ray.get(getattr(self.mailbox, question).remote(*arguments), timeout=STARTING)
        except exceptions.GetTimeoutError as error:
            raise MachineFault(f"the head node of the cluster did not answer in {STARTING} s.") from error
        except exceptions.RayError as error:
            raise MachineFault(f"the head node of the cluster is gone: {reason(error)}.") from error

    def _read_letters(self) -> None:
        tasks = {reference.task_id().hex(): task for reference, task in self.running.items()}
        for letter in self._ask("collect"):
            match letter:
                case Begun() if letter.task in tasks:
                    tasks[letter.task].node = letter.node
                    tasks[letter.task].has_begun = True
                    self.any_has_begun = True
                case EpochEnded() if self.options.progress:
                    lanes = tuple(self.fitted.lanes[place] for place in letter.places)
                    self.options.progress(replace(letter.epoch, lanes=lanes))
                case Saved() if self.options.checkpoints:
                    folder = self.options.checkpoints.folder
                    make_folder(folder)
                    write_together({folder / name: [content] for name, content in letter.files.items()})

    def _say_what_is_missing(self) -> None:
        """Say what was not trained, and why."""
        if self.waiting and self.lost:
            notice(f"{self._name_lost()}.")
        if self.waiting and self._all_refuse():
            refusals = enumerated(list(self.refusals.values()), NAMED)
            raise InputError(f"no node of the cluster can train the rest: {refusals}; all that has ended is stored.")
        if self.waiting:
            raise Unfinished
        if self.lost:
            raise MachineFault(f"{self._name_lost()}; all others are stored.")

    def _name_lost(self) -> str:
        """Say which lanes are lost: '2 lanes could not be trained: naive, seed 1 (…) and 1 more'."""
        named = []
        for place, why in self.lost.items():
            lane = self.fitted.lanes[place]
            named.append(f"{lane.name}, seed {lane.seed} ({why})")
        number = "one lane" if len(named) == 1 else f"{len(named):,} lanes"
        return f"{number} could not be trained: {enumerated(named, NAMED)}"

    def close(self) -> None:
        """End what still runs: after Ctrl-C, an error, or when nothing does."""
        for reference in self.running:
            _cancel(reference)
        if ray.is_initialized():
            with suppress(exceptions.RayError, ConnectionError, ValueError):
                ray.kill(self.mailbox)


def _resources_of_a_stack(fitted: Fit, device: str) -> dict[str, float]:
    """Return what a task takes.

    Results may depend on threads: a task has those of the driver, on however many cores there are.
    """
    if device == "cuda":
        return {"CPU": 1.0, "GPU": 1.0}
    if is_small(fitted.recipe, fitted.shape, device):
        return {"CPU": 1.0}
    most_cores = max((node["Resources"].get("CPU", 0) for node in alive_nodes()), default=1)
    return {"CPU": max(1.0, min(torch.get_num_threads(), most_cores))}


def _cancel(reference: Any) -> None:
    """End a task. Where the connection is lost, the call would start a local cluster."""
    if ray.is_initialized():
        with suppress(exceptions.RayError, ConnectionError, ValueError):
            ray.cancel(reference, force=True)


def _kind(error: exceptions.RayError) -> str:
    """Say why a task returned nothing, in a few words: Ray's own messages are pages."""
    match error:
        case exceptions.OutOfMemoryError():
            return "its node ran out of memory"
        case exceptions.NodeDiedError() | exceptions.ObjectLostError():
            return "its node was lost"
        case exceptions.WorkerCrashedError():
            return "its process was killed"
    return f"{type(error).__name__}: {reason(error)}"


def _slim(data: Data) -> Data:
    """Return what training needs of examples: their names and pictures stay here."""
    slim = replace(data, names=None, pictures=None)
    slim.fingerprint, slim.counts  # noqa: B018  # computed once, for all tasks
    return slim


def _on_cpu(fitted: Fit) -> Fit:
    """Return the same lanes, so that they can travel to any device."""
    return replace(fitted, device="cpu", standardise=deepcopy(fitted.standardise).cpu(), scratch=None)
