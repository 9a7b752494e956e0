"""fit(): the only training loop. Lanes go through it in stacks of one fixed width, so that none depends on its neighbours."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.data import Data, check_judge, check_trainable
from class_uncertainty.data.augmentation import crop, flip
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import Stats, digest
from class_uncertainty.methods import Plan, losses, plan
from class_uncertainty.metrics import Scores, evaluate
from class_uncertainty.training.fitted import Fit, as_tensor, pad
from class_uncertainty.training.folds import held_out
from class_uncertainty.training.networks import NETWORKS
from class_uncertainty.training.recipe import Lane, Recipe, Result, default_recipe, describe
from class_uncertainty.training.stack import SGD, Stack, State, stacked
from class_uncertainty.training.streams import draw_order, stream

SMALL = 2**15  # numbers in a batch of one lane: 32 grey images of 32 x 32, or 32 rows of 1,024 features

Progress = Callable[[int], None]  # told how many lane-epochs have just been done
Unseen = NDArray[np.float32] | None  # (n, C) probabilities of the training examples in the fold that a lane left out
Done = Callable[[int, Result, Unseen], None]  # told each lane's position, result and unseen as its stack ends, whichever ends first


def _silent(lane_epochs: int) -> None:
    pass


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def fit(
    train: Data,
    lanes: Sequence[Lane],
    *,
    recipe: Recipe | None = None,
    stats: Stats | None = None,
    test: Data | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    done: Done | None = None,
) -> Fit:
    """Train every lane. `stats` carries the class uncertainties for methods that use them; `test` is what results are judged on.

    Where batches are small (SMALL), as many stacks train at once on a CPU as torch has threads, each on one thread: faster than several
    threads that wait for each other at every operation, and far faster where other programs run too. That depends on the data and
    the recipe alone, never on the lanes.
    """
    _check_kinds(train, lanes)
    recipe, device = recipe or default_recipe(train), device or default_device()
    _check(train, lanes, recipe, stats, test)
    try:
        torch.empty(0, device=device)
    except RuntimeError:
        raise InputError(f"device {device!r} is not one that torch has here; 'cpu' always is.") from None
    mean, std = (statistic.to(device) for statistic in _statistics(train))
    fitted = Fit(recipe, train.shape, train.classes, list(lanes), device, mean, std)
    width, stop = NETWORKS[recipe.network].width, Event()
    groups = [list(lanes[start : start + width]) for start in range(0, len(lanes), width)]
    small = device == "cpu" and recipe.batch * int(np.prod(train.shape)) <= SMALL
    with _workers(min(len(groups), torch.get_num_threads()) if small else 1, one_thread=small) as pool:
        ends = {pool.submit(_run, fitted, train, group, stats, test, progress or _silent, stop): i for i, group in enumerate(groups)}
        try:
            for end in as_completed(ends):
                _, results, unseen = end.result()
                for i, (result, p) in enumerate(zip(results, unseen, strict=True), start=width * ends[end]):
                    if done:
                        done(i, result, p)
        except BaseException:  # Ctrl-C too: what is in flight ends at its next step
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    for end in ends:
        states, results, unseen = end.result()
        fitted.states += states
        fitted.results += results
        fitted.unseen += unseen
    return fitted


@contextmanager
def _workers(count: int, one_thread: bool) -> Iterator[ThreadPoolExecutor]:
    """Threads that train a stack each; torch uses one thread in each of them, or all that it has."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1 if one_thread else before,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


class _Stopped(Exception):
    """A stack was told to stop."""


def _run(
    fitted: Fit, train: Data, group: list[Lane], stats: Stats | None, test: Data | None, progress: Progress, stop: Event
) -> tuple[list[State], list[Result], list[Unseen]]:
    """Train and judge one stack -> what each of its lanes has become."""
    recipe, began = fitted.recipe, time.perf_counter()
    lanes = pad(group, NETWORKS[recipe.network].width)
    stack, diverged, last_losses = _train(fitted, train, lanes, stats, partial(progress, len(group)), stop)
    scores: list[Scores | None] = [None] * len(group)
    if test is not None:
        judged = fitted.probabilities_of(stack, group, test)
        last = recipe.epochs - 1  # a last step can be one too many
        diverged = [d if d is not None or np.isfinite(p).all() else last for d, p in zip(diverged, judged, strict=False)]
        scores = [evaluate(p, test.labels, train.counts) if d is None else None for d, p in zip(diverged, judged, strict=False)]
    unseen: list[Unseen] = [None] * len(group)
    if test is None and any(lane.fold for lane in group):
        seen_by_all = fitted.probabilities_of(stack, group, train)
        unseen = [p[held_out(train, lane.fold)] if lane.fold else None for p, lane in zip(seen_by_all, group, strict=True)]
    seconds = (time.perf_counter() - began) / len(group)
    results = [
        Result(
            method=lane.name,
            seed=lane.seed,
            lr=lane.lr or recipe.lr,
            fold=lane.fold,
            scores=scores[i],
            diverged=diverged[i],
            loss=float(last_losses[i]),
            seconds=seconds,
            plan=describe(lane.value),
            recipe=recipe,
            data=train.fingerprint,
            uncertainty=digest(stats.uncertainty) if stats and stats.uncertainty is not None and lane.value.uses_uncertainty else "",
            device=fitted.device,
        )
        for i, lane in enumerate(group)
    ]
    return stack.states()[: len(group)], results, unseen


def _check_kinds(train: object, lanes: object) -> None:
    if not isinstance(train, Data):
        raise InputError(f"training data are {type(train).__name__}: give Data(inputs, labels).")
    if not isinstance(lanes, list | tuple) or not all(isinstance(lane, Lane) for lane in lanes):
        raise InputError(f"lanes are {lanes!r}: give a list, as in [Lane('naive')].")


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
        raise InputError(f"network {recipe.network!r} takes {takes}, and the data are {given}.")
    if not train.is_images and (recipe.crop or recipe.flip):
        raise InputError("the recipe crops or flips, and the data are features: crop must be 0 and flip False.")
    if min(recipe.batch, len(train)) < 2:
        raise InputError(f"batch is {recipe.batch}: batch statistics need two examples at least.")
    known = Stats(train.counts, stats.uncertainty if stats else None)
    for knob in (knob for lane in lanes for knob in lane.value.knobs.values()):
        knob.measure(known)  # says so where it needs what is not known


def _statistics(train: Data) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel (ch, 1, 1) or column (D,), as given or measured; a constant one is left as it is."""
    mean, std = train.statistics or train.measured_statistics()
    shape = (-1, 1, 1) if train.is_images else (-1,)
    return torch.tensor(mean, dtype=torch.float32).view(shape), torch.tensor(
        np.where(np.asarray(std) > 0, std, 1), dtype=torch.float32
    ).view(shape)


class _Source:
    """What one lane draws from: the training examples it keeps, and its own random streams."""

    def __init__(self, lane: Lane, train: Data, stats: Stats | None) -> None:
        self.lane = lane
        everything = np.arange(len(train))
        self.kept = np.setdiff1d(everything, held_out(train, lane.fold)) if lane.fold else everything
        self.labels = train.labels[self.kept]
        self.stats = Stats(np.bincount(self.labels, minlength=len(train.classes)), stats.uncertainty if stats else None)

    def plan(self, epoch: int, epochs: int) -> Plan:
        return plan(self.lane.value, self.stats, epoch, epochs)

    def draw(self, epoch: int, chosen: Plan, length: int, pad: int) -> tuple[NDArray, NDArray, NDArray]:
        """An epoch's examples (length,), crop offsets (length, 2) and flips (length,)."""
        order = draw_order(stream(self.lane.seed, "order", epoch), self.labels, chosen.alpha, chosen.natural, length)
        shifts = stream(self.lane.seed, "crop", epoch).integers(0, 2 * pad + 1, (length, 2))
        mirrored = stream(self.lane.seed, "flip", epoch).random(length) < 0.5
        return self.kept[order], shifts, mirrored


def _train(
    fitted: Fit, train: Data, lanes: list[Lane], stats: Stats | None, tick: Callable[[], object], stop: Event
) -> tuple[Stack, list[int | None], NDArray]:
    """Train one stack -> (stack, the epoch each lane diverged in, the mean loss of each lane's last epoch)."""
    recipe, device = fitted.recipe, fitted.device
    stack = stacked(recipe, fitted.shape, fitted.classes, lanes).to(device)
    optimiser = SGD(stack, recipe)
    sources = [_Source(lane, train, stats) for lane in lanes]
    inputs, labels = as_tensor(train.inputs).to(device), torch.from_numpy(train.labels).to(device)
    batch = min(recipe.batch, len(train))
    length = len(train) // batch * batch  # the last incomplete batch is dropped
    base = torch.tensor([lane.lr or recipe.lr for lane in lanes], device=device)
    diverged: list[int | None] = [None] * len(lanes)
    stack.train()
    for epoch in range(recipe.epochs):
        plans = [source.plan(epoch, recipe.epochs) for source in sources]
        knobs = _Knobs(plans, lanes, device)
        draws = [source.draw(epoch, chosen, length, recipe.crop) for source, chosen in zip(sources, plans, strict=True)]
        order, shifts, mirrored = (torch.from_numpy(np.stack(part)).to(device) for part in zip(*draws, strict=True))
        rates = optimiser.rates(base * recipe.factor(epoch))
        total = torch.zeros(len(lanes), device=device)
        for at in range(0, length, batch):
            if stop.is_set():
                raise _Stopped
            now = slice(at, at + batch)
            x = inputs[order[:, now].flatten()]  # (lanes * B, ...)
            if recipe.crop:
                x = crop(x, shifts[:, now].flatten(0, 1), recipe.crop)
            if recipe.flip:
                x = flip(x, mirrored[:, now].flatten())
            x = ((x.float() - fitted.mean) / fitted.std).unflatten(0, (len(lanes), batch)).transpose(0, 1).flatten(1, 2)
            loss = knobs.loss(stack(x), labels[order[:, now]])  # (lanes,)
            stack.zero_grad()
            loss.sum().backward()
            optimiser.step(rates)
            total += loss.detach()
        means = (total * batch / length).cpu().numpy()
        diverged = [epoch if d is None and not np.isfinite(m) else d for d, m in zip(diverged, means, strict=True)]
        tick()
    return stack, diverged, means


class _Knobs:
    """The plans of an epoch as tensors with a lane axis, and the loss they make."""

    def __init__(self, plans: list[Plan], lanes: list[Lane], device: str) -> None:
        def tensor(name: str, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.tensor(np.array([getattr(p, name) for p in plans]), dtype=dtype, device=device)

        self.weight = tensor("weight")  # (lanes, C)
        self.margin, self.divisor = tensor("margin")[:, None], tensor("divisor")[:, None]  # (lanes, 1, C)
        self.beta, self.scale = tensor("beta").view(-1, 1, 1), tensor("scale").view(-1, 1, 1)
        self.gamma, self.sigmoid = tensor("gamma")[:, None], tensor("sigmoid", torch.bool)[:, None]  # (lanes, 1)
        self.by_weights = torch.tensor([lane.value.reduction == "weights" for lane in lanes], device=device)

    def loss(self, z: Tensor, labels: Tensor) -> Tensor:
        """Logits (lanes, B, C), labels (lanes, B) -> (lanes,).

        Padded to 32 examples or a multiple: torch computes exp and log of a tensor's last few numbers otherwise than of the rest,
        and the last lane of a stack must not be the one that holds them.
        """
        size, more = z.shape[1], -z.shape[1] % 32
        z, known = F.pad(z, (0, 0, 0, more)), F.pad(labels, (0, more))
        targets = F.one_hot(known, z.shape[-1]).to(z.dtype)
        z = losses.adjust_logits(z, known, self.margin, self.divisor, self.beta, self.scale)
        each = losses.per_example(z, targets, known, self.gamma, self.sigmoid)[:, :size]
        return losses.reduce(each, self.weight.gather(1, labels), self.by_weights)
