"""What a Ray worker runs: one stack of lanes from its last checkpoints to its end."""

import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import ray
import torch
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, MachineFault, Unfinished, means_too_little_memory
from class_uncertainty.measures import Stats
from class_uncertainty.runs.mailbox import Begun, EpochEnded, Saved
from class_uncertainty.runs.ray_cluster import check_same_versions, versions
from class_uncertainty.text import reason
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import resolve_device, train_here
from class_uncertainty.training.fit_result import Fit, LaneOutcome
from class_uncertainty.training.lane import Epoch, Lane
from class_uncertainty.training.networks.network_table import NETWORKS, Network, sealed
from class_uncertainty.training.stage_context import FitOptions


@dataclass(frozen=True, eq=False)
class Job:
    """What all stacks of one training share, examples aside."""

    fitted: Fit  # without lanes, on the CPU
    device: str
    stats: Stats | None
    every: int
    threads: int
    versions: dict[str, str]
    registered: Network | None  # a network that the user has registered under its name
    token: Path | None  # a file in the folder of checkpoints: a worker that sees it shares the folder
    has_budget: bool


@dataclass(frozen=True, eq=False)
class StackEnded:
    """What became of a stack; places of outcomes are those within it."""

    outcomes: list[LaneOutcome]
    unfinished: bool = False  # the budget is spent
    refused: str = ""  # an input that this worker cannot use
    fault: str = ""  # of this machine


class ForwardedCheckpoints(Checkpoints):
    """Checkpoints in a folder of this worker alone, each sent to the driver when it is written."""

    def __init__(self, folder: Path, given: Mapping[str, bytes], post: Callable[[Any], object]) -> None:
        super().__init__(folder)
        self.post = post
        for name, content in given.items():
            (folder / name).write_bytes(content)

    def save(self, lanes: Mapping[str, LaneState]) -> None:
        super().save(lanes)
        files = [self.file(key) for key in lanes]
        self.post(Saved({file.name: file.read_bytes() for file in files}))


def train_stack(
    job: Job,
    train: Data,
    test: Data | None,
    teachers: Fit | None,
    lanes: list[Lane],
    keys: list[list[str]],
    given: dict[str, bytes],
    mailbox: Any,
    task: int,
) -> StackEnded:
    """Train lanes as one stack. Faults that the driver should know of are values; a killed worker returns none."""
    node, posted = ray.get_runtime_context().get_node_id(), list[Any]()

    def post(letter: Any) -> None:
        posted[:] = [mailbox.post.remote(letter)]

    def report(epoch: Epoch) -> None:
        places = [places_by_id[id(lane)] for lane in epoch.lanes]
        post(EpochEnded(task, places, replace(epoch, lanes=())))

    places_by_id = {id(lane): place for place, lane in enumerate(lanes)}
    outcomes: list[LaneOutcome] = []
    post(Begun(task, node))
    try:
        check_same_versions(socket.gethostname(), versions(), job.versions)
        left = ray.get(mailbox.left.remote()) if job.has_budget else None
        with tempfile.TemporaryDirectory() as scratch:
            fitted = _fitted(job, lanes, Path(scratch))
            if job.token is None or not (job.token.exists() and os.access(job.token.parent, os.W_OK)):
                checkpoints: Checkpoints = ForwardedCheckpoints(Path(scratch), given, post)
            else:
                checkpoints = Checkpoints(job.token.parent)
            judged = shared(test) if test else None
            deadline = Deadline.after(None if left is None else max(left, 1e-9))
            about = (checkpoints, job.every, deadline, None, teachers)
            options = FitOptions(job.stats, judged, report, *about)
            for batch in train_here(fitted, shared(train), options, keys, list(range(len(lanes)))):
                outcomes += batch
        return StackEnded(outcomes)
    except Unfinished:
        return StackEnded(outcomes, unfinished=True)
    except InputError as error:
        return StackEnded(outcomes, refused=str(error))
    except (MachineFault, MemoryError, OSError, RuntimeError) as error:
        if not isinstance(error, MachineFault | OSError) and not means_too_little_memory(error):
            raise
        return StackEnded(outcomes, fault=reason(error))
    finally:
        ray.get(posted)  # all letters are there before the result is


def _fitted(job: Job, lanes: list[Lane], scratch: Path) -> Fit:
    """The lanes, to be trained on this worker's device."""
    torch.set_num_threads(job.threads)
    if job.registered:
        NETWORKS[job.fitted.recipe.network] = job.registered
    recipe, device = sealed(job.fitted.recipe), resolve_device(job.device)  # refuses a network with other code
    standardise = deepcopy(job.fitted.standardise).to(device)
    return replace(job.fitted, recipe=recipe, lanes=lanes, device=device, standardise=standardise, scratch=scratch)


def shared(data: Data) -> Data:
    """The same examples, of which torch makes tensors without a copy: arrays of the object store are read-only."""
    view = copy(data)
    for name in ("inputs", "labels"):
        object.__setattr__(view, name, _unlocked(getattr(data, name)))
    return view


def _unlocked(array: NDArray) -> NDArray:
    """A view that says it can be written to. Training never writes to examples."""
    if array.flags.writeable or not array.size:
        return array

    class View:
        base = array  # stays alive as long as the view
        __array_interface__: ClassVar = {**array.__array_interface__, "data": (array.ctypes.data, False)}

    return np.asarray(View())
