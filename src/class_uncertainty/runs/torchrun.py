"""`torchrun -m class_uncertainty …`: every lane trains in all processes, each with its share of every batch.

The first process (rank 0) runs the command. The others wait for lanes to train with it; they read no data, write no
files and print nothing.
"""

import atexit
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from class_uncertainty.data import Data
from class_uncertainty.errors import MachineFault, Unfinished, notice
from class_uncertainty.methods import MIXING
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.fit import resolve_device, train_here
from class_uncertainty.training.fit_result import Fit, LaneOutcome
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.ranks import LEAST, AgreedDeadline, Ranks
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.stage_context import FitOptions
from class_uncertainty.training.stages import resolve_stages

PATIENCE = timedelta(days=7)  # the others wait while the first reads data or evaluates
_command: list["TorchrunExecutor"] = []  # of this process, once it runs a command under torchrun


class GivenCheckpoints(Checkpoints):
    """What the first rank has read. It alone writes."""

    def __init__(self, states: dict[str, LaneState]) -> None:
        self.states = states

    def progress(self, key: str) -> tuple[int, float]:
        state = self.states.get(key)
        return (state.epoch, state.seconds) if state else (0, 0.0)

    def load(self, key: str) -> LaneState | None:
        return self.states.get(key)

    def save(self, lanes: Any) -> None:
        self.states |= lanes


@dataclass(frozen=True, eq=False)
class Shared:
    """What all ranks train; data that were sent before come as their fingerprints."""

    fitted: Fit
    train: Data | str
    test: Data | str | None
    options: FitOptions
    keys: list[list[str]]
    places: list[int]
    states: dict[str, LaneState]


@dataclass(frozen=True, eq=False)
class TorchrunExecutor:
    """Trains lanes in all processes of torchrun; what cannot be shared trains in the first alone."""

    ranks: Ranks
    device: str
    sent: set[str] = field(default_factory=set)  # fingerprints of data that all ranks have
    under_way: list[Fit] = field(default_factory=list)  # what all ranks train now

    def train(
        self, fitted: Fit, train: Data, options: FitOptions, keys: list[list[str]], places: list[int]
    ) -> Generator[list[LaneOutcome], None, None]:
        """Train the lanes at these places."""
        reasons = {place: unshared(fitted.lanes[place], fitted.recipe, self.ranks.world) for place in places}
        if alone := [place for place, reason in reasons.items() if reason]:
            lane = fitted.lanes[alone[0]]
            notice(f"{lane.name} trains in one of the {self.ranks.world} processes: {reasons[alone[0]]}.")
            yield from train_here(fitted, train, options, keys, alone)
        if together := [place for place, reason in reasons.items() if not reason]:
            states = {}
            for key in (key for place in together for key in keys[place]) if options.checkpoints else ():
                if options.checkpoints and (state := options.checkpoints.load(key)):
                    states[key] = state
            on_cpu = replace(fitted, device=self.device, standardise=deepcopy(fitted.standardise).cpu(), scratch=None)
            agreed = replace(options, deadline=AgreedDeadline(options.deadline.at), ranks=self.ranks)
            test = self._unsent(options.test) if options.test else None
            bare = replace(agreed, test=None, progress=None, checkpoints=None, profile=None, deadline=AgreedDeadline())
            with self.training(fitted):
                _tell(Shared(on_cpu, self._unsent(train), test, bare, keys, together, states))
                yield from train_here(fitted, train, agreed, keys, together)

    @contextmanager
    def training(self, fitted: Fit) -> Iterator[None]:
        """Lanes are under way within it, and after any error but a spent budget, on which all ranks agree."""
        self.under_way.append(fitted)
        try:
            yield
        except Unfinished:
            self.under_way.clear()
            raise
        self.under_way.clear()

    def _unsent(self, data: Data) -> Data | str:
        """The data the first time, then their fingerprint."""
        if data.fingerprint in self.sent:
            return data.fingerprint
        self.sent.add(data.fingerprint)
        return replace(data, names=None, pictures=None)


def unshared(lane: Lane, recipe: Recipe, world: int) -> str:
    """Why the batches of a lane cannot be shared; "" where they can."""
    if recipe.is_fitted:
        return f"network {recipe.network!r} is fitted on all examples at once"
    if recipe.part < LEAST * world:
        return f"batch is {recipe.part}, and each process needs {LEAST} examples at least"
    methods = lane.value.stages
    if any(method.head == "rbf" or method.level == "features" for method in methods):
        return "its loss compares the examples of a batch with each other"
    stages = resolve_stages(lane.value, recipe)
    if MIXING & {name for method in methods for name in method.augment} or any(stage.pasted for stage in stages):
        return "its augmentation mixes the examples of a batch"
    return ""


def current_executor(device: str | None) -> TorchrunExecutor | None:
    """What trains in all processes, where this one runs a command under torchrun."""
    return replace(_command[0], device=resolve_device(device)) if _command else None


@contextmanager
def joined_ranks() -> Iterator[bool]:
    """Join the processes of torchrun; yields whether this one runs the command. The others train until it has ended."""
    local, per_node = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    _choose_gpu(local, per_node)
    import torch
    from torch import distributed as dist

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=PATIENCE)
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    executor = TorchrunExecutor(ranks, "")
    try:
        if ranks.rank:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process; the others end with it
            _serve(executor)
            yield False
        else:
            _command.append(executor)
            yield True
    finally:
        _command.clear()
        if executor.under_way:  # the others wait for a step that never comes: torchrun ends them after this process
            atexit.register(_exit_at_once)
        else:
            if not ranks.rank:
                _tell(None)
            dist.destroy_process_group()


def _exit_at_once() -> None:
    """Without taking down the process group, which may wait for the others."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(1)


def _choose_gpu(local: int, per_node: int) -> None:
    """One GPU for each process of a node, before torch sees any: threads share it then, whatever they set."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    if names and len(names) < per_node:
        raise MachineFault(f"torchrun starts {per_node} processes on a node with {len(names)} GPUs: start as many.")
    if names:
        os.environ["CUDA_VISIBLE_DEVICES"] = names[local]


def _tell(shared: Shared | None) -> None:
    """To all other ranks; None ends them."""
    from torch import distributed as dist

    dist.broadcast_object_list([shared], src=0)


def _serve(executor: TorchrunExecutor) -> None:
    """Train what the first rank trains, until it has nothing more."""
    from torch import distributed as dist

    data: dict[str, Data] = {}
    while True:
        message: list[Shared | None] = [None]
        dist.broadcast_object_list(message, src=0)
        if (shared := message[0]) is None:
            return
        data |= {one.fingerprint: one for one in (shared.train, shared.test) if isinstance(one, Data)}
        train, test = (data[one] if isinstance(one, str) else one for one in (shared.train, shared.test))
        assert train is not None
        device = resolve_device(shared.fitted.device)
        fitted = replace(shared.fitted, standardise=shared.fitted.standardise.to(device))
        checkpoints = GivenCheckpoints(shared.states)
        options = replace(shared.options, test=test, checkpoints=checkpoints, ranks=executor.ranks)
        with suppress(Unfinished), executor.training(fitted):
            for _ in train_here(fitted, train, options, shared.keys, shared.places):
                pass
