"""RayExecutor: stacks of lanes as tasks of a Ray cluster. The driver cuts stacks, tries again, and writes the store."""

import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from ray import exceptions

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, MachineFault, Unfinished, means_too_little_memory, notice
from class_uncertainty.io import make_folder, write_together
from class_uncertainty.runs.mailbox import Begun, EpochEnded, Mailbox, Saved
from class_uncertainty.runs.node_choice import NodeChoice
from class_uncertainty.runs.ray_cluster import HEAD, STARTING, Cluster, Node, is_lost, on_node, versions
from class_uncertainty.runs.ray_task import Job, StackEnded, train_stack
from class_uncertainty.runs.stack_queue import StackQueue
from class_uncertainty.text import enumerated, reason
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import is_small
from class_uncertainty.training.fit_result import Fit, LaneOutcome
from class_uncertainty.training.networks.network_table import BUILT_IN, NETWORKS
from class_uncertainty.training.stage_context import FitOptions, alike_lanes
from class_uncertainty.training.stages import resolve_stages, staged

POLL = 0.2  # seconds between looks at what has ended
BEGINNING = 20.0  # seconds in which the first task may begin, however short the budget: the same call gets further
AHEAD = 1  # stacks that wait in Ray's own queue: a node that comes finds work, and an autoscaler sees the demand
KEPT = 4  # data sets and teachers whose examples stay in the object store
NAMED = 5  # lanes or nodes that a sentence names


@dataclass
class RayExecutor:
    """Trains lanes on a cluster, each as it would train here."""

    cluster: Cluster
    puts: dict[str, Any] = field(default_factory=dict)  # references to what the object store holds

    @property
    def device(self) -> str:
        """'cpu' or 'cuda'."""
        return self.cluster.device

    def train(
        self, fitted: Fit, train: Data, options: FitOptions, keys: list[list[str]], places: list[int]
    ) -> Generator[list[LaneOutcome], None, None]:
        """Train the lanes at these places in stacks, each a task; yield those that have just ended."""
        with _token(options) as token:
            campaign = Campaign(self, fitted, train, options, keys, places, token)
            try:
                yield from campaign.outcomes()
            finally:
                campaign.close()

    def put(self, key: str, make: Callable[[], Any]) -> Any:
        """A reference to what is made and put into the object store once."""
        if key not in self.puts:
            for old in list(self.puts)[: max(0, len(self.puts) - KEPT + 1)]:
                del self.puts[old]
            self.puts[key] = ray.put(make())
        return self.puts[key]


class Campaign:
    """The lanes of one call, from the first task to the last."""

    def __init__(
        self,
        executor: RayExecutor,
        fitted: Fit,
        train: Data,
        options: FitOptions,
        keys: list[list[str]],
        places: list[int],
        token: Path | None,
    ) -> None:
        self.cluster, self.fitted, self.options, self.keys = executor.cluster, fitted, options, keys
        recipe, device = fitted.recipe, executor.device
        self.has_budget = options.deadline.left < float("inf")
        threads, self.numbers = torch.get_num_threads(), 0
        small = is_small(recipe, fitted.shape, device)
        cores = [node.resources.get("CPU", 0) for node in self.cluster.nodes()]
        # results may depend on the number of threads, so tasks have those of the driver, on however many cores
        need = {"CPU": 1.0 if small or device == "cuda" else max(1.0, min(threads, max(cores, default=1)))}
        need |= {"GPU": 1.0} if device == "cuda" else {}
        self.alive: list[Node] = []
        self.nodes = NodeChoice(self._nodes, need)
        if not self.nodes.slots:
            wanted = " and ".join(f"{number:g} {kind}" for kind, number in need.items())
            raise InputError(f"no node of the cluster has {wanted}, which a stack of lanes needs: add nodes.")
        self.queue = StackQueue(self._groups(places), fixed=device == "cpu")
        registered = NETWORKS.get(recipe.network) if recipe.network not in BUILT_IN else None
        slim = replace(_on_cpu(fitted), lanes=[])
        about = (options.every, threads, versions(), registered, token, self.has_budget)
        self.job = ray.put(Job(slim, device, options.stats, *about))
        self.data = executor.put(train.fingerprint, lambda: _slim(train))
        self.test = self.teachers = None
        if test := options.test:
            self.test = executor.put(test.fingerprint, lambda: _slim(test))
        if teachers := options.teachers:
            self.teachers = executor.put(repr(teachers.keys), lambda: _on_cpu(teachers))
        actor = ray.remote(num_cpus=0, max_restarts=0, resources={HEAD: 0.001})(Mailbox)
        self.mailbox = actor.remote()
        # tries are counted here, since Ray would begin anew and on any node
        self.remote = ray.remote(max_retries=0)(train_stack)
        self.running: dict[Any, tuple[int, list[int]]] = {}  # numbers and places of tasks by their references
        self.stacks: dict[int, list[int]] = {}  # by the numbers of tasks
        self.sent: dict[int, str] = {}  # nodes that tasks were sent to, by their numbers; "" is any
        self.began: dict[int, str] = {}  # nodes of tasks that have begun, by their numbers
        self.beginning = Deadline()

    def _groups(self, places: list[int]) -> Iterator[tuple[list[int], int]]:
        """Lanes whose first stages can run as one stack; those whose later ones can, too, are neighbours."""
        recipe, lanes = self.fitted.recipe, self.fitted.lanes
        alike: dict[Any, list[int]] = {}
        for place in places:
            alike.setdefault(resolve_stages(lanes[place].value, recipe)[0], []).append(place)
        for group in alike.values():
            ordered = sorted(group, key=lambda place: (-self.epoch_of(place), repr(lanes[place].value.then)))
            epochs = {place: self.epoch_of(place) for place in ordered}
            yield from alike_lanes(recipe, self.cluster.device, lambda place: staged(lanes[place], recipe, 0), epochs)

    def epoch_of(self, place: int) -> int:
        """How far the checkpoints of a lane are, over its stages."""
        checkpoints = self.options.checkpoints
        return sum(checkpoints.epoch(key) for key in self.keys[place]) if checkpoints else 0

    def outcomes(self) -> Iterator[list[LaneOutcome]]:
        """Lanes as they end. What cannot be trained is named at the end."""
        unfinished = False
        if self.has_budget:  # tasks ask for it, and Ray gives the core of a task that waits to another
            self._ask("left")  # it may take long to start: what is left is told once it has
            self._ask("start", self.options.deadline.left)
        self.beginning = Deadline.after(BEGINNING)
        while True:
            while not unfinished and self._submit():
                pass
            if not self.running:
                break
            ended, _ = ray.wait(list(self.running), timeout=POLL)
            if ended:  # all that have by now
                ended, _ = ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
            outcomes, fault = list[LaneOutcome](), None
            try:
                self._read_letters()
            except MachineFault as error:  # told once what has ended is stored
                fault = error
            for reference in ended:
                number, stack = self.running.pop(reference)
                late, trained = self._result(reference, number, stack)
                outcomes += trained
                unfinished = unfinished or late
            if outcomes:
                yield outcomes
            if fault:
                raise fault
            if self.options.deadline.passed:
                self._call_off()
                unfinished = unfinished or bool(self.queue.waiting)
        self._complain(unfinished)

    def _call_off(self) -> None:
        """Take back the tasks that have not begun."""
        if self.began or self.beginning.passed:
            for reference, (number, stack) in list(self.running.items()):
                if number not in self.began:
                    del self.running[reference]
                    _cancel(reference)
                    self.queue.give_back(stack)

    def _complain(self, unfinished: bool) -> None:
        """Say what was not trained, and why."""
        waiting, lost = self.queue.waiting, self.queue.lost
        if waiting and lost:
            notice(f"{self._name_lost()}.")
        if waiting and self.nodes.all_refuse:
            refusals = enumerated(list(self.nodes.refusals.values()), NAMED)
            raise InputError(f"no node of the cluster can train the rest: {refusals}; all that has ended is stored.")
        if unfinished and (waiting or not lost):
            raise Unfinished
        if lost:
            raise MachineFault(f"{self._name_lost()}; all others are stored.")

    def _submit(self) -> bool:
        """Hand the next stack to Ray, if there is one and room for it."""
        self.nodes.look()
        slots = self.nodes.slots
        if self.nodes.all_refuse or len(self.running) >= slots + AHEAD or not (stack := self.queue.next(max(1, slots))):
            return False
        self.numbers += 1
        lanes, keys = [self.fitted.lanes[place] for place in stack], [self.keys[place] for place in stack]
        how: dict[str, Any] = {"num_cpus": self.nodes.need["CPU"], "num_gpus": self.nodes.need.get("GPU", 0)}
        busy = Counter(self.began.get(number, self.sent[number]) for number, _ in self.running.values())
        if node := self.nodes.pick(stack, busy):
            how["scheduling_strategy"] = on_node(node, soft=True)
        files = self._checkpoint_files(keys)
        about = (lanes, keys, ray.put(files) if files else files, self.mailbox, self.numbers)
        reference = self.remote.options(**how).remote(self.job, self.data, self.test, self.teachers, *about)
        self.running[reference] = self.numbers, stack
        self.stacks[self.numbers], self.sent[self.numbers] = stack, node
        return True

    def _nodes(self) -> list[Node]:
        """Those that there are; the last ones that were seen while Ray's client connects again."""
        try:
            self.alive = self.cluster.nodes()
        except Exception as error:
            if not self.alive or not is_lost(error):
                raise
        return self.alive

    def _checkpoint_files(self, keys: list[list[str]]) -> dict[str, bytes]:
        """For workers that do not share the folder."""
        contents = dict[str, bytes]()
        if not self.options.checkpoints:
            return contents
        for file in (self.options.checkpoints.file(key) for stages in keys for key in stages):
            with suppress(FileNotFoundError, NotADirectoryError):
                contents[file.name] = file.read_bytes()
        return contents

    def _ask(self, question: str, *about: Any) -> Any:
        """What the mailbox answers, once it has started."""
        try:
            return ray.get(getattr(self.mailbox, question).remote(*about), timeout=STARTING)
        except exceptions.GetTimeoutError as error:
            raise MachineFault(f"the head node of the cluster did not answer in {STARTING} s.") from error
        except exceptions.RayError as error:
            raise MachineFault(f"the head node of the cluster is gone: {reason(error)}.") from error

    def _read_letters(self) -> None:
        for letter in self._ask("collect"):
            match letter:
                case Begun():
                    self.began[letter.task] = letter.node
                case EpochEnded() if self.options.progress:
                    stack = self.stacks[letter.task]
                    lanes = tuple(self.fitted.lanes[stack[place]] for place in letter.places)
                    self.options.progress(replace(letter.epoch, lanes=lanes))
                case Saved() if self.options.checkpoints:
                    make_folder(folder := self.options.checkpoints.folder)
                    write_together({folder / name: [content] for name, content in letter.files.items()})

    def _result(self, reference: Any, number: int, stack: list[int]) -> tuple[bool, list[LaneOutcome]]:
        """Whether the budget stopped a task, and its lanes that have ended."""
        try:
            ended: StackEnded = ray.get(reference)
        except exceptions.RayTaskError as error:
            if not means_too_little_memory(error.cause) and not isinstance(error.cause, exceptions.RayError):
                self.queue.give_up(stack, f"{type(error.cause).__name__}: {reason(error.cause)}")
                return False, []
            ended = StackEnded([], fault=reason(error.cause))
        except exceptions.RayError as error:
            ended = StackEnded([], fault=_kind(error))
        outcomes = [replace(outcome, place=stack[outcome.place]) for outcome in ended.outcomes]
        rest = [place for place in stack if place not in {outcome.place for outcome in outcomes}]
        node = self.began.get(number, "")
        where = self.cluster.name_of(node)
        if ended.refused and node not in self.nodes.refusals:
            self.nodes.refusals[node] = f"{ended.refused.rstrip('.')}, on {where}"
            notice(f"{self.nodes.refusals[node]}; nothing more is trained there.")
        if ended.refused or ended.unfinished:
            self.queue.give_back(rest)
        elif rest:
            lanes = "one lane" if len(rest) == 1 else f"{len(rest)} lanes"
            notice(f"a stack of {lanes} failed on {where}: {ended.fault}; it is tried again.")
            self.nodes.failures |= dict.fromkeys(rest, node)
            self.queue.failed(rest, f"{ended.fault} on {where}", self.epoch_of)
        return ended.unfinished, outcomes

    def _name_lost(self) -> str:
        """'2 lanes could not be trained: naive, seed 1 (…) and 1 more'"""
        lost = self.queue.lost
        lanes = {place: self.fitted.lanes[place] for place in lost}
        named = [f"{lane.name}, seed {lane.seed} ({lost[place]})" for place, lane in lanes.items()]
        number = "one lane" if len(lost) == 1 else f"{len(lost):,} lanes"
        return f"{number} could not be trained: {enumerated(named, NAMED)}"

    def close(self) -> None:
        """End what still runs: after Ctrl-C, an error, or when nothing does."""
        ends = [partial(_cancel, reference) for reference in self.running]
        for end in [*ends, partial(ray.kill, self.mailbox)]:
            if ray.is_initialized():  # a lost connection is not: the call would start a local cluster
                with suppress(exceptions.RayError, ConnectionError, ValueError):
                    end()


def _cancel(reference: Any) -> None:
    with suppress(exceptions.RayError, ValueError):
        ray.cancel(reference, force=True)


def _kind(error: exceptions.RayError) -> str:
    """Why a task returned nothing, in a few words: Ray's own messages are pages."""
    match error:
        case exceptions.OutOfMemoryError():
            return "its node ran out of memory"
        case exceptions.NodeDiedError() | exceptions.ObjectLostError():
            return "its node was lost"
        case exceptions.WorkerCrashedError():
            return "its process was killed"
    return f"{type(error).__name__}: {reason(error)}"


@contextmanager
def _token(options: FitOptions) -> Iterator[Path | None]:
    """A file in the folder of checkpoints, while lanes train: workers that see it write theirs there."""
    if not options.checkpoints:
        yield None
        return
    make_folder(options.checkpoints.folder)
    token = options.checkpoints.folder / f"{uuid.uuid4().hex}.shared"
    token.touch()
    try:
        yield token.absolute()
    finally:
        token.unlink(missing_ok=True)
        options.checkpoints.remove([])


def _slim(data: Data) -> Data:
    """What training needs of examples: their names and pictures stay here."""
    slim = replace(data, names=None, pictures=None)
    slim.fingerprint, slim.counts  # noqa: B018  # computed once, for all tasks
    return slim


def _on_cpu(fitted: Fit) -> Fit:
    return replace(fitted, device="cpu", standardise=deepcopy(fitted.standardise).cpu(), scratch=None)
