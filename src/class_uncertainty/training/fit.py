"""fit(): the only training loop. Lanes train in stacks, on a CPU of one fixed width: none depends on its neighbours."""

import gc
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from class_uncertainty.checks import check, check_least, take
from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, MachineFault, Unfinished
from class_uncertainty.measures import Stats
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.distillation import check_teachers
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.fit_result import Done, Fit, LaneOutcome, as_tensor
from class_uncertainty.training.keys import checkpoint_keys
from class_uncertainty.training.lane import Epoch, Lane, Progress
from class_uncertainty.training.networks.network_table import find_network
from class_uncertainty.training.recipe import Recipe, default_recipe
from class_uncertainty.training.sampling import Examples
from class_uncertainty.training.shared_epochs import can_share, in_turn, stretches
from class_uncertainty.training.stage_context import FitOptions, Trace, equally_far, stacks_of
from class_uncertainty.training.stage_runner import Ended, StageRunner
from class_uncertainty.training.stages import ResolvedStage, resolve_stages

Duplicates = dict[int, list[int]]  # the places of lanes that are alike, itself among them, by the first of them


def is_seedless(lane: Lane, recipe: Recipe) -> bool:
    """Whether every seed gives the same network, since nothing is drawn.

    A linear head on full batches starts at zero, and boosting takes all examples.
    """
    if lane.bootstrap:
        return False
    is_head = recipe.full_batch and all(method.head == "linear" for method in lane.value.stages)
    return is_head or recipe.network == "boosting"


def find_duplicates(lanes: Sequence[Lane], recipe: Recipe) -> Duplicates:
    alike: dict[Lane | int, list[int]] = {}
    for place, lane in enumerate(lanes):
        alike.setdefault(replace(lane, seed=0) if is_seedless(lane, recipe) else place, []).append(place)
    return {places[0]: places for places in alike.values()}


def report_duplicates(progress: Progress | None, duplicates: Duplicates, lanes: Sequence[Lane]) -> Progress | None:
    """The same progress, told of all duplicates of a lane where that lane is reported."""
    if progress is None or len(duplicates) == len(lanes):
        return progress
    by_lane = {lanes[first]: [lanes[place] for place in places] for first, places in duplicates.items()}

    def report(epoch: Epoch) -> None:
        times = [len(by_lane[lane]) for lane in epoch.lanes]
        all_lanes = tuple(twin for lane in epoch.lanes for twin in by_lane[lane])
        loss, error, lr = (_repeated(values, times) for values in (epoch.loss, epoch.error, epoch.lr))
        progress(replace(epoch, lanes=all_lanes, loss=loss, error=error, lr=lr))

    return report


def _repeated(values: Sequence[float], times: Sequence[int]) -> tuple[float, ...]:
    return tuple(value for value, number in zip(values, times, strict=True) for _ in range(number))


SMALL = 2**15  # numbers in a batch of one lane: 32 grey images of 32 x 32, or 32 rows of 1,024 features


class Executor(Protocol):
    """Trains lanes elsewhere than in this process: bit for bit as `fit` does on the same device."""

    @property
    def device(self) -> str:
        """'cpu', 'cuda' or 'mps'."""

    def train(
        self, fitted: Fit, train: Data, options: FitOptions, keys: list[list[str]], places: list[int]
    ) -> Generator[list[LaneOutcome], None, None]:
        """Train the lanes at these places; yield those that have just ended. `keys` are of their checkpoints."""


def default_device() -> str:
    """The fastest device that torch has here."""
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def resolve_device(name: str | torch.device | None) -> str:
    """'cpu', 'cuda' or 'mps'."""
    check(str | torch.device | None, device=name)
    try:
        device = torch.device(name or default_device())
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # torch without CUDA asserts that it has it
        hint = "; a GPU of NVIDIA or AMD is 'cuda', one of Apple 'mps'" if str(name).lower() == "gpu" else ""
        raise InputError(f"device {str(name)!r} is not one that torch has here{hint}; 'cpu' always is.") from None
    if device.type == "cuda" and device.index:
        raise InputError(f"device {str(name)!r} has a number: set CUDA_VISIBLE_DEVICES={device.index} and give 'cuda'.")
    if device.type not in ("cpu", "cuda", "mps") or device.index:
        raise InputError(f"device {str(name)!r} cannot train: 'cpu', 'cuda' and 'mps' can.")
    return device.type


def available(device: str) -> str:
    """The device if torch has it here, otherwise 'cpu'."""
    try:
        return resolve_device(device)
    except InputError:
        return "cpu"


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
    budget: float | Deadline | None = None,
    profile: str | Path | None = None,
    force: bool = False,
    teachers: Fit | None = None,
) -> Fit:
    """Train every lane.

    A method of several stages goes through them one after the other; each starts where the last one ended.

    Parameters
    ----------
    train : Data
        The training examples.
    lanes : sequence of Lane
        The trainings.
    recipe : Recipe, optional
        How to train; chosen by the data if not given.
    stats : Stats, optional
        The class uncertainties, for methods that use them.
    test : Data, optional
        What results are evaluated on.
    device : str, optional
        "cpu", "cuda" or "mps"; the fastest one if not given.
    progress : callable, optional
        Called with an Epoch whenever a stack has ended one, and once for each number of epochs that its lanes have.
    done : callable, optional
        Called with a LaneOutcome whenever a lane has ended.
    checkpoints : path, optional
        A folder for lanes that are under way. The same call goes on from them. They are removed when all lanes have
        ended.
    every : int
        Epochs between checkpoints.
    budget : float or Deadline, optional
        Seconds after which training stops at the end of an epoch, writes checkpoints and raises Unfinished.
    profile : path, optional
        Where to write a trace of one epoch, for chrome://tracing.
    force : bool
        Whether the trace may replace any file.
    teachers : Fit, optional
        The networks that lanes with `teaching` learn from.

    Returns
    -------
    Fit

    Notes
    -----
    Where batches are small, as many stacks train at once on a CPU as torch has threads, each on one thread. That is
    faster than several threads that wait for each other at every operation. It depends on the data and the recipe
    alone, never on the lanes.

    Examples
    --------
    >>> data = cu.load("digits-lt:20")
    >>> lanes = [cu.Lane("naive"), cu.Lane("cb-rs", seed=1)]
    >>> fitted = cu.fit(data.train, lanes, recipe=cu.Recipe("small-conv", epochs=1, batch=32), test=data.test)
    >>> [(result.method, result.seed) for result in fitted.results]
    [('naive', 0), ('cb-rs', 1)]
    """
    check(Data, train=train)
    lanes = take(list[Lane], lanes=lanes)
    check(Recipe | None, recipe=recipe)
    check(Stats | None, stats=stats)
    check(Data | None, test=test)
    check(Callable | None, progress=progress, done=done)
    check(Path | Checkpoints | None, checkpoints=checkpoints)
    check_least("every", every, 1)
    every = take(int, every=every)
    check(Path | None, profile=profile)
    check(bool, force=force)
    check(Fit | None, teachers=teachers)
    recipe, device, deadline = recipe or default_recipe(train), resolve_device(device), Deadline.after(budget)
    folder = Checkpoints(checkpoints) if isinstance(checkpoints, str | Path) else checkpoints
    trace = Trace(profile, f"data {train.fingerprint}", force) if profile else None
    scratch = folder.folder.parent if folder else None
    fitted, outcomes = Fit.untrained(train, lanes, recipe, device, scratch), []
    if trace:
        trace.claim(recipe, lanes)
    options = FitOptions(stats, test, progress, folder, every, deadline, trace, teachers)
    with closing(train_lanes(fitted, train, options)) as ended:
        for batch in ended:
            outcomes += batch
            for outcome in batch:
                if done:
                    done(outcome)
    if folder and folder is not checkpoints:
        folder.remove(key for outcome in outcomes for key in outcome.keys)
    return fitted.trained(outcomes)


def train_lanes(
    fitted: Fit, train: Data, options: FitOptions, executor: Executor | None = None
) -> Generator[list[LaneOutcome], None, None]:
    """Train the lanes of an untrained Fit, here or by an executor; yield those whose last stages have just ended."""
    check_fit(train, fitted.lanes, fitted.recipe, options.stats, options.test)
    check_teachers(train, fitted.lanes, options.teachers)
    taught_by = options.teachers.keys if options.teachers else ()
    device = executor.device if executor else fitted.device
    about = (fitted.recipe, Stats.of(train.counts, options.stats), device, taught_by)
    keys = [checkpoint_keys(train.fingerprint, lane, *about) for lane in fitted.lanes]
    duplicates, ended = find_duplicates(fitted.lanes, fitted.recipe), 0
    options = replace(options, progress=report_duplicates(options.progress, duplicates, fitted.lanes))
    train_each = executor.train if executor else train_here
    try:
        with closing(train_each(fitted, train, options, keys, list(duplicates))) as batches:
            for outcomes in batches:
                batch: list[LaneOutcome] = []
                for outcome in outcomes:
                    batch += _of_duplicates(outcome, fitted, duplicates, keys)
                ended += len(batch)
                yield batch
    except Unfinished:
        raise Unfinished(f"the budget is spent with {ended} of {len(fitted.lanes)} networks trained") from None


def _of_duplicates(
    outcome: LaneOutcome, fitted: Fit, duplicates: Duplicates, keys: list[list[str]]
) -> Iterator[LaneOutcome]:
    """The lane and all that are like it, each with its share of the time."""
    places = duplicates[outcome.place]
    for place in places:
        result = replace(outcome.result, seed=fitted.lanes[place].seed, seconds=outcome.result.seconds / len(places))
        yield replace(outcome, place=place, keys=keys[place], result=result)


def train_here(
    fitted: Fit, train: Data, options: FitOptions, keys: list[list[str]], places: list[int]
) -> Generator[list[LaneOutcome], None, None]:
    """Train the lanes at these places in this process. Like stages run together."""
    arrays = (train.inputs, train.labels, train.counts[None])
    inputs, labels, counts = (as_tensor(array).to(fitted.device) for array in arrays)
    if fitted.recipe.full_batch:  # standardised once for all epochs of all lanes
        inputs = fitted.standardise(inputs)
    examples = Examples(inputs, labels, fitted.standardise, counts)
    first = StageRunner(fitted, ResolvedStage(fitted.recipe), train, examples, keys, options)
    stages_by_lane = {place: resolve_stages(fitted.lanes[place].value, fitted.recipe) for place in places}
    states = dict[int, LaneState]()  # of lanes with more stages to come
    for number in range(max(map(len, stages_by_lane.values()))):
        alike: dict[ResolvedStage, list[int]] = {}
        for place, stages in stages_by_lane.items():
            if number < len(stages):
                alike.setdefault(stages[number], []).append(place)
        for stage, group in alike.items():
            before = {place: replace(states.pop(place), gathered={}) for place in group if number}
            for runner in _stretches(replace(first, stage=stage, before=before, held={}), group):
                with closing(_run_stretch(runner)) as stacks:
                    for stack in stacks:
                        states |= {place: lane for place, lane in stack if isinstance(lane, LaneState)}
                        if ended := [lane for _, lane in stack if isinstance(lane, LaneOutcome)]:
                            yield ended


def _stretches(runner: StageRunner, places: list[int]) -> Iterator[StageRunner]:
    """The runners of a stage, one after the other. Epochs in which some lanes do not differ yet train once."""
    recipe = runner.stage.recipe
    shares = not runner.stage.number and can_share(recipe)
    together = stretches({place: runner.lane(place) for place in places}, recipe, shares)
    fills = runner.fitted.device != "cpu"  # a CPU's stacks have one width
    for turn in in_turn(together, lambda place: runner.progress(place)[0], fills):
        at_start = {place: runner.progress(place) for alike in turn.alike for place in alike}
        by_progress = (sorted(alike, key=lambda place: -at_start[place][0]) for alike in turn.alike)
        leaders = {first: [first, *others] for first, *others in by_progress}
        yield replace(runner, until=turn.until, trained_for=leaders, at_start=at_start)


def _run_stretch(runner: StageRunner) -> Generator[list[Ended], None, None]:
    """Train in stacks of lanes that are equally far."""
    fitted, unfinished = runner.fitted, None
    groups = stacks_of(runner)
    small = is_small(fitted.recipe, fitted.shape, fitted.device)
    with _workers(min(len(groups), torch.get_num_threads()) if small else 1, single=small) as pool:
        try:
            running = [pool.submit(_run_group, runner, places) for places in groups]
            for stack in as_completed(running):
                try:
                    if not stack.cancelled():
                        yield stack.result()
                except Unfinished as error:  # running stacks end their epochs, and the others do not begin
                    unfinished = error
                    for other in running:
                        other.cancel()
        except BaseException:  # Ctrl-C too: running stacks end at their next step
            runner.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    if unfinished:
        raise unfinished


def is_small(recipe: Recipe, shape: Sequence[int], device: str) -> bool:
    """Whether stacks train on one thread each, as many at once as there are threads."""
    small = recipe.is_fitted or recipe.batch * int(np.prod(shape)) <= SMALL
    shared = find_network(recipe.network).own is not None  # they may share torch's one generator
    return small and device == "cpu" and not shared


def _run_group(runner: StageRunner, places: list[int]) -> list[Ended]:
    """Run the lanes as one stack, or as several: where the GPU's memory is too small, or some lanes are further."""
    ended, pending = list[Ended](), [places]
    while pending:
        for stack, started in equally_far(runner, pending.pop()):
            try:
                ended += runner.run(stack, started)
                continue
            except torch.OutOfMemoryError:
                if len(stack) == 1:
                    need = f"network {runner.fitted.recipe.network!r} with batch {runner.fitted.recipe.batch}"
                    raise MachineFault(f"the GPU has too little memory for one lane of {need}.") from None
            gc.collect()  # outside of the handler, where the error still holds on to what did not fit
            torch.cuda.empty_cache()
            half = len(stack) // 2
            pending += [stack[half:], stack[:half]]
    return ended


@contextmanager
def _workers(count: int, single: bool) -> Iterator[ThreadPoolExecutor]:
    """Threads that train a stack each; torch uses one thread in each of them, or all that it has."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1 if single else before,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


__all__ = ["Done", "Epoch", "LaneOutcome", "Progress", "available", "default_device", "fit", "resolve_device"]
__all__ += ["train_lanes"]
