"""A task of a Ray cluster: one stack of lanes, trained from its last checkpoints to its end."""

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
from class_uncertainty.scale.mailbox import Begun, EpochEnded, Saved
from class_uncertainty.scale.ray_cluster import difference
from class_uncertainty.text import reason
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import resolve_device, train_here
from class_uncertainty.training.fit_result import Fit, LaneOutcome
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.networks.network_table import NETWORKS, Network, sealed_as_named
from class_uncertainty.training.networks.user_code import adopt
from class_uncertainty.training.stage_context import FitOptions


@dataclass(frozen=True, eq=False)
class Job:
    """What all stacks of one training share, examples and teachers aside."""

    fitted: Fit  # untrained, on the CPU
    keys: list[list[str]]  # of the checkpoints of each lane
    device: str
    stats: Stats | None
    every: int
    threads: int
    versions: dict[str, str]
    registered: Network | None  # a network that the user has registered under its name
    named: dict[str, bytes]  # networks that the user named, with their code
    has_budget: bool


@dataclass(frozen=True, eq=False)
class StackEnded:
    """What became of a stack. Lanes without an outcome were stopped by one of the other fields."""

    outcomes: list[LaneOutcome]
    is_late: bool = False  # the budget is spent
    refusal: str = ""  # of an input that this worker cannot use
    fault: str = ""  # of this machine


class ForwardedCheckpoints(Checkpoints):
    """Checkpoints in a folder of this worker, each sent to the driver when it is written."""

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
    places: list[int],
    given: dict[str, bytes],
    mailbox: Any,
) -> StackEnded:
    """Train the lanes at these places as one stack, from the checkpoints that are given as files by name.

    Faults that the driver should know of are returned. A worker that is killed returns nothing.
    """
    here = ray.get_runtime_context()
    last_posted = None
    outcomes: list[LaneOutcome] = []

    def post(letter: Any) -> None:
        nonlocal last_posted
        last_posted = mailbox.post.remote(letter)

    post(Begun(here.get_task_id(), here.get_node_id()))
    try:
        refusal = difference(job.versions)
        if refusal:
            raise InputError(refusal)
        seconds = ray.get(mailbox.left.remote()) if job.has_budget else None
        with tempfile.TemporaryDirectory() as scratch:
            fitted = _on_this_device(job, Path(scratch))
            options = FitOptions(
                stats=job.stats,
                test=without_copies(test) if test else None,
                progress=_progress(fitted, places, post),
                checkpoints=ForwardedCheckpoints(Path(scratch), given, post),
                every=job.every,
                deadline=Deadline() if seconds is None else Deadline.after(max(seconds, 1e-9)),
                profile=None,
                teachers=teachers,
            )
            for batch in train_here(fitted, without_copies(train), options, job.keys, places):
                outcomes += batch
        return StackEnded(outcomes)
    except Unfinished:
        return StackEnded(outcomes, is_late=True)
    except InputError as error:
        return StackEnded(outcomes, refusal=str(error))
    except (MachineFault, OSError) as error:
        return StackEnded(outcomes, fault=reason(error))
    except (MemoryError, RuntimeError) as error:
        if not means_too_little_memory(error):
            raise
        return StackEnded(outcomes, fault=reason(error))
    finally:
        ray.get(last_posted)  # all letters are there before the result is


def _on_this_device(job: Job, scratch: Path) -> Fit:
    """Return the lanes, to be trained by this worker; refuse a network whose code differs here."""
    torch.set_num_threads(job.threads)
    if job.registered:
        NETWORKS[job.fitted.recipe.network] = job.registered
    adopt(job.named)
    device = resolve_device(job.device)
    standardise = deepcopy(job.fitted.standardise).to(device)
    return replace(
        job.fitted, recipe=sealed_as_named(job.fitted.recipe), device=device, standardise=standardise, scratch=scratch
    )


def _progress(fitted: Fit, places: list[int], post: Callable[[Any], object]) -> Callable[[Epoch], None]:
    """Return what posts every epoch."""
    place_of = {id(fitted.lanes[place]): place for place in places}

    def report(epoch: Epoch) -> None:
        post(EpochEnded([place_of[id(lane)] for lane in epoch.lanes], replace(epoch, lanes=())))

    return report


def without_copies(data: Data) -> Data:
    """Return the same examples, of which torch makes no copies: arrays of the object store are read-only."""
    view = copy(data)
    for name in ("inputs", "labels"):
        object.__setattr__(view, name, _unlocked(getattr(data, name)))
    return view


def _unlocked(array: NDArray) -> NDArray:
    """Return a view that says it can be written to. Training never writes to examples."""
    if array.flags.writeable or not array.size:
        return array

    class View:
        base = array  # stays alive as long as the view
        __array_interface__: ClassVar = {**array.__array_interface__, "data": (array.ctypes.data, False)}

    return np.asarray(View())
