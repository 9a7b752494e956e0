"""fit(): the only training loop. Lanes go through it in stacks, on a CPU of one fixed width, so that none depends on its neighbours."""

import gc
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from class_uncertainty.boundary import checked
from class_uncertainty.data import Data, check_judge, check_trainable
from class_uncertainty.errors import InputError, MachineFault, Unfinished, unknown
from class_uncertainty.measures import Stats
from class_uncertainty.training.checkpoints import Checkpoints, Started
from class_uncertainty.training.engine import Examples
from class_uncertainty.training.fitted import Fit, as_tensor, standardising, width_of
from class_uncertainty.training.job import Done, End, Epoch, Job, Progress
from class_uncertainty.training.networks import NETWORKS
from class_uncertainty.training.recipe import Lane, Recipe, default_recipe
from class_uncertainty.training.stages import Leg, form, legs
from class_uncertainty.training.teaching import check_teachers

SMALL = 2**15  # numbers in a batch of one lane: 32 grey images of 32 x 32, or 32 rows of 1,024 features


def _device(asked: str | torch.device | None) -> str:
    """'cpu', 'cuda' or 'mps'."""
    try:
        device = torch.device(asked or default_device())
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # torch without CUDA asserts that it has it
        raise InputError(f"device {str(asked)!r} is not one that torch has here; 'cpu' always is.") from None
    if device.type == "cuda" and device.index:
        raise InputError(f"device {str(asked)!r} has a number: set CUDA_VISIBLE_DEVICES={device.index} and give 'cuda'.")
    if device.type not in ("cpu", "cuda", "mps") or device.index:
        raise InputError(f"device {str(asked)!r} is none to train on: 'cpu', 'cuda' and 'mps' are.")
    return device.type


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


@checked
def fit(
    train: Data,
    lanes: Sequence[Lane],
    *,
    recipe: Recipe | None = None,
    stats: Stats | None = None,
    test: Data | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    done: Done | None = None,
    checkpoints: str | Path | Checkpoints | None = None,
    every: int = 10,
    budget: float | None = None,
    profile: str | Path | None = None,
    teachers: Fit | None = None,
) -> Fit:
    """Train every lane. `stats` carries the class uncertainties for methods that use them; `test` is what results are judged on.

    With `checkpoints`, a folder, running lanes are kept there after `every` so many epochs and at their end, and the same call goes on from
    them; when all have ended they are removed (of a Checkpoints they are not: that is left to the caller). After `budget` seconds it stops
    at the next epoch's end, keeps what runs, and raises Unfinished. `profile` is where a trace of one epoch is written, for
    chrome://tracing and its like. `teachers` are the networks that lanes with `teaching` learn from.

    A method of several stages goes through them one after the other, each a training of its own that starts where the last one ended.

    Where batches are small (SMALL), as many stacks train at once on a CPU as torch has threads, each on one thread: faster than several
    threads that wait for each other at every operation, and far faster where other programs run too. That depends on the data and
    the recipe alone, never on the lanes.
    """
    began = time.monotonic()
    recipe, device = recipe or default_recipe(train), _device(device)
    _check(train, lanes, recipe, stats, test)
    check_teachers(train, lanes, teachers)
    if every < 1 or (budget is not None and not budget > 0):
        raise InputError(f"every is {every!r} epochs and budget {budget!r} seconds: both must be numbers above 0.")
    standardise = standardising(train).to(device)
    kept = Checkpoints(checkpoints) if isinstance(checkpoints, str | Path) else checkpoints
    labels = torch.from_numpy(train.labels).to(device)
    first = Job(
        fitted=Fit(
            recipe,
            train.shape,
            train.classes,
            list(lanes),
            device,
            standardise,
            encoding=train.encoding,
            scratch=kept.folder.parent if kept else None,
        ),
        leg=Leg(recipe),
        train=train,
        examples=Examples(as_tensor(train.inputs).to(device), labels, standardise, torch.from_numpy(train.counts[None]).to(device)),
        stats=stats,
        test=test,
        progress=progress,
        kept=kept,
        every=every,
        deadline=began + budget if budget else float("inf"),
        profile=Path(profile) if profile else None,
        teachers=teachers,
    )
    ends = _stages(first, done)
    if kept and kept is not checkpoints:
        kept.remove(key for place in range(len(lanes)) for key in first.keys(place))
    for end in ends:
        assert end.result is not None
        first.fitted.states.append(end.lane.state)
        first.fitted.results.append(end.result)
        first.fitted.unseen.append(end.unseen)
        first.fitted.gathered.append(end.lane.gathered)
        first.fitted.keys.append(first.keys(end.place)[0])
    return first.fitted


def _stages(first: Job, done: Done | None) -> list[End]:
    """Every lane through all of its stages, in their order: stages that are alike train together."""
    lanes, recipe = first.fitted.lanes, first.fitted.recipe
    routes = [legs(lane.value, recipe) for lane in lanes]
    ends: dict[int, End] = {}
    for number in range(max(map(len, routes))):
        together: dict[Leg, list[int]] = {}
        for place, route in enumerate(routes):
            if number < len(route):
                together.setdefault(route[number], []).append(place)
        for leg, places in together.items():
            before = {place: replace(ends[place].lane, gathered={}) for place in places if number}
            ends |= {end.place: end for end in _run(replace(first, leg=leg, before=before), places, done)}
    return [ends[place] for place in range(len(lanes))]


def _run(job: Job, places: list[int], done: Done | None) -> list[End]:
    """The lanes at those places through one stage, in stacks of lanes that are equally far."""
    fitted, ends = job.fitted, []
    small = fitted.device == "cpu" and fitted.recipe.batch * int(np.prod(fitted.shape)) <= SMALL
    groups = _groups(job, places)
    with _workers(min(len(groups), torch.get_num_threads()) if small else 1, one_thread=small) as pool:
        running = [pool.submit(_fitting, job, places) for places in groups]
        unfinished = None
        try:
            for stack in as_completed(running):
                if stack.cancelled():
                    continue
                try:
                    for end in stack.result():
                        ends.append(end)
                        if done and end.result:
                            done(end)
                except Unfinished as error:  # the others end their epochs, and those not begun do not begin
                    unfinished = error
                    for other in running:
                        other.cancel()
        except BaseException:  # Ctrl-C too: what is in flight ends at its next step
            job.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    if unfinished:
        trained = sum(end.result is not None for end in ends)
        raise Unfinished(f"the budget is spent with {trained} of {len(fitted.lanes)} lanes trained") from None
    return ends


def _groups(job: Job, places: list[int]) -> list[list[int]]:
    """Positions of lanes that train as one stack."""
    alike: dict[tuple, list[int]] = {}
    for place in places:
        epoch = job.kept.epoch(job.key(place)) if job.kept else 0
        alike.setdefault((epoch, *form(job.lane(place))), []).append(place)
    groups = []
    for kind in sorted(alike, key=repr):
        width = width_of(job.fitted.recipe.network, job.fitted.device)
        if kind[1] and width > 1:  # second derivatives of the last numbers of a tensor have other last bits: no lane is there
            width -= 1
        groups += [alike[kind][at : at + width] for at in range(0, len(alike[kind]), width)]
    return groups


def _fitting(job: Job, places: list[int]) -> list[End]:
    """The lanes as one stack; as several where they are not equally far any more, for another process may have gone on with some."""
    equally_far: dict[int, tuple[list[int], list[Started]]] = {}
    for place in places:
        lane = job.kept.load(job.key(place)) if job.kept else None
        those, started = equally_far.setdefault(lane.epoch if lane else 0, ([], []))
        those.append(place)
        started += [lane] if lane else []
    return [end for those, started in equally_far.values() for end in _stacked(job, those, started)]


def _stacked(job: Job, places: list[int], started: list[Started]) -> list[End]:
    """One stack, or two where the GPU's memory is too small for it."""
    try:
        return job.run(places, started)
    except torch.OutOfMemoryError:
        if len(places) == 1:
            need = f"network {job.fitted.recipe.network!r} with batch {job.fitted.recipe.batch}"
            raise MachineFault(f"the GPU has too little memory for one lane of {need}.") from None
    gc.collect()  # out of the handler: until then the error holds on to what did not fit
    torch.cuda.empty_cache()
    half = len(places) // 2
    return _fitting(job, places[:half]) + _fitting(job, places[half:])


@contextmanager
def _workers(count: int, one_thread: bool) -> Iterator[ThreadPoolExecutor]:
    """Threads that train a stack each; torch uses one thread in each of them, or all that it has."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1 if one_thread else before,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


def _check(train: Data, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, test: Data | None) -> None:
    check_trainable(train)
    if test is not None:
        check_judge(train, test)
    if not lanes:
        raise InputError("there are no lanes to train: give one at least.")
    if recipe.network not in NETWORKS:
        raise unknown("network", recipe.network, NETWORKS)
    network = NETWORKS[recipe.network]
    if network.images != train.is_images:
        takes, given = ("images", "features") if network.images else ("features", "images")
        raise InputError(f"network {recipe.network!r} takes {takes}, and the data are {given}: choose another recipe.")
    if not train.is_images and (recipe.crop or recipe.flip):
        raise InputError("the recipe crops or flips, and the data are features: crop must be 0 and flip False.")
    if train.is_images and recipe.crop > min(train.shape[1:]):
        raise InputError(f"crop is {recipe.crop}, and the images are {train.shape[1]} x {train.shape[2]}: it must not be wider.")
    if min(recipe.batch, len(train)) < 2:
        raise InputError(f"batch is {recipe.batch}: batch statistics need two examples at least.")
    known = Stats.of(train.counts, stats)
    for lane in lanes:
        for method in lane.value.stages:
            for knob in method.knobs.values():
                knob.measure(known)  # says so where it needs what is not known
            pictures = [name for name in method.augment if name in ("autoaugment", "cutout")]
            if pictures and not train.is_images:
                raise InputError(f"method {lane.name!r} has {pictures[0]}, which is for images, and the data are features.")
            if "autoaugment" in pictures and train.shape[0] not in (1, 3):
                raise InputError(
                    f"method {lane.name!r} has autoaugment, which is for 1 or 3 channels, and the images have {train.shape[0]}."
                )
        if lane.gather and lane.value.then:
            raise InputError(
                f"lane {lane.name!r} gathers {lane.gather}, and its method has several stages: only one training can be followed."
            )
        if lane.gather == "snapshots" and not lane.value.cycles:
            raise InputError(f"lane {lane.name!r} gathers snapshots, and its method has no cycles: give one that has, as 'cyclic'.")
        if any(stage.pasted for stage in lane.value.then) and not train.is_images:
            raise InputError(f"method {lane.name!r} pastes parts of images, and the data are features.")


__all__ = ["Done", "End", "Epoch", "Progress", "default_device", "fit"]
