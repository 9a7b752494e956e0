"""Fit: trained lanes, as results, probabilities and plain networks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.boundary import check_least, check_place, checked
from class_uncertainty.data import Data, check_fits
from class_uncertainty.data.columns import Column
from class_uncertainty.errors import InputError
from class_uncertainty.files import scratch_array
from class_uncertainty.metrics import Outcomes
from class_uncertainty.training.augmenting import Drawn, augmented, draw
from class_uncertainty.training.engine import dropped, precision, settle
from class_uncertainty.training.folds import held_out
from class_uncertainty.training.networks import NETWORKS, WIDEST, Classifier, Standardise
from class_uncertainty.training.recipe import Lane, Recipe, Result
from class_uncertainty.training.stack import Stack, State, stacked
from class_uncertainty.training.stages import staged
from class_uncertainty.training.streams import stream

SCORING = 2**40  # the epoch of streams that no training draws from
BATCH = 256  # examples that are asked about at once

Batches = Iterator[tuple[slice, NDArray[np.float32]]]  # places among the examples, and what is said of them


def width_of(network: str, device: str) -> int:
    """Lanes of a stack: on a CPU always so many, elsewhere at most."""
    return NETWORKS[network].width if device == "cpu" else WIDEST


def as_tensor(inputs: NDArray) -> Tensor:
    """Without a copy where it can be: pixels may be a file mapped into memory."""
    usable = inputs.flags.writeable and min(inputs.strides) >= 0  # torch has no strides backwards, as in bgr[:, ::-1]
    return torch.from_numpy(inputs if usable else np.array(inputs))


def standardising(train: Data) -> Standardise:
    """By the mean and deviation of each channel or column, as given or measured; a constant one is left as it is."""
    mean, std = train.statistics or train.measured_statistics()
    shape = (-1, 1, 1) if train.is_images else (-1,)
    deviation = np.where(np.asarray(std) > 0, std, 1)
    return Standardise(*(torch.tensor(part, dtype=torch.float32).view(shape) for part in (mean, deviation)))


def _softmax(z: NDArray[np.float32]) -> NDArray[np.float32]:
    return torch.from_numpy(z).softmax(dim=-1).numpy()


@checked
@dataclass(eq=False)
class Fit:
    """Trained lanes: their results, their probabilities on any data, and each as a plain network."""

    recipe: Recipe
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    lanes: list[Lane]
    device: str
    standardise: Standardise
    states: list[State] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    unseen: list[Outcomes | None] = field(default_factory=list)  # of a lane's own fold, where no test split was given
    gathered: list[State] = field(default_factory=list)  # what the lanes gathered (Lane.gather)
    keys: list[str] = field(default_factory=list)  # what each lane's result depends on, as one word
    encoding: tuple[Column, ...] | None = None  # of the table that features come from
    scratch: Path | None = None  # where arrays go that are too large for memory; the system's temporary folder if None

    @checked
    def take(self, places: Sequence[int]) -> "Fit":
        """Some of the lanes."""
        for place in places:
            check_place("lane", place, len(self.states))
        parts: dict[str, Any] = {
            part: [getattr(self, part)[i] for i in places] for part in ("lanes", "states", "results", "unseen", "gathered", "keys")
        }
        return replace(self, **parts)

    def padded(self, items: list) -> list:
        """On a CPU the first is repeated to the stack's width, which never depends on how many lanes there are."""
        return items + items[:1] * (width_of(self.recipe.network, self.device) - len(items)) if self.device == "cpu" else items

    @checked
    def probabilities(self, data: Data, views: int = 0) -> NDArray[np.float32]:
        """(lanes, N, C); with `views` the mean over so many random crops and flips by the recipe, the same for every lane."""
        check_fits(self.shape, data)
        check_least("views", views, 0)
        return self._filled(data, lambda stack, group: self.batches(stack, group, data, views))

    @checked
    def logits(self, data: Data) -> NDArray[np.float32]:
        """(lanes, N, C), scaled: their softmax are the probabilities. Of a DUQ head the logarithms of its kernels."""
        check_fits(self.shape, data)
        return self._filled(data, lambda stack, group: self._logits(stack, group, as_tensor(data.inputs).to(self.device)))

    @checked
    def out_of_fold(self, data: Data, views: int = 0) -> NDArray[np.float32]:
        """(N, C): of each training example the probabilities by the lane that left it out."""
        check_fits(self.shape, data)
        check_least("views", views, 0)
        if not all(lane.fold for lane in self.lanes):
            raise InputError("a lane has seen every example: out-of-fold probabilities need lanes that each leave a fold out.")
        p = scratch_array((len(data), len(self.classes)), self.scratch)
        held = [np.isin(np.arange(len(data)), held_out(data, lane.fold)) for lane in self.lanes if lane.fold]
        if not np.logical_or.reduce(held).all():
            raise InputError("some examples were left out by no lane: out-of-fold probabilities need a lane for every fold.")
        for places, group, stack in self._stacks():
            for rows, batch in self.batches(stack, group, data, views):
                for place, mine in zip(places, batch, strict=True):
                    p[rows][held[place][rows]] = mine[held[place][rows]]
        return p

    @checked
    def dropped_out(self, data: Data, passes: int) -> NDArray[np.float32]:
        """(lanes * passes, N, C): each lane's probabilities with other features left out in every pass, by the lane's own share."""
        check_fits(self.shape, data)
        check_least("passes", passes, 1)
        return self._filled(data, lambda stack, group: self._passes(stack, group, as_tensor(data.inputs).to(self.device), passes), passes)

    def _filled(self, data: Data, of: Callable[[Stack, list[Lane]], Batches], passes: int = 1) -> NDArray[np.float32]:
        """(lanes * passes, N, C), of what `of` says of one batch after the other."""
        whole = scratch_array((len(self.lanes), passes, len(data), len(self.classes)), self.scratch)
        for places, group, stack in self._stacks():
            for rows, batch in of(stack, group):
                whole[places, :, rows] = batch.reshape(len(places), passes, -1, len(self.classes))
        return whole.reshape(-1, len(data), len(self.classes))

    def _stacks(self) -> Iterator[tuple[list[int], list[Lane], Stack]]:
        """All lanes as stacks: (places, lanes, stack)."""
        width = width_of(self.recipe.network, self.device)
        lanes = [staged(lane, self.recipe, len(lane.value.then)) for lane in self.lanes]
        for rbf in (False, True):
            alike = [i for i, lane in enumerate(lanes) if (lane.value.head == "rbf") is rbf]
            for some in (alike[start : start + width] for start in range(0, len(alike), width)):
                group, states = [lanes[i] for i in some], [self.states[i] for i in some]
                stack = stacked(self.recipe, self.shape, self.classes, self.padded(group), self.padded(states))
                yield some, group, settle(stack, self.recipe.network, self.device)

    def batches(self, stack: Stack, group: Sequence[Lane], data: Data, views: int = 0) -> Batches:
        """Probabilities (len(group), B, C) of the first lanes of a stack, one batch after the other."""
        inputs = as_tensor(data.inputs).to(self.device)
        if not views:
            for rows, z in self._logits(stack, group, inputs):
                yield rows, _softmax(z)
            return
        drawn = [draw(view, SCORING, len(inputs), self.recipe) for view in range(views)]
        shown = [self._logits(stack, group, inputs, view) for view in drawn]
        for batches in zip(*shown, strict=True):
            yield batches[0][0], sum(_softmax(z) for _, z in batches) / np.float32(views)  # type: ignore[misc]

    def _logits(self, stack: Stack, group: Sequence[Lane], inputs: Tensor, drawn: Drawn | None = None) -> Batches:
        """(len(group), B, C), on the host."""
        for rows, features in self._features(stack, inputs, drawn):
            yield rows, self._head(stack, group, features).numpy()

    @torch.no_grad()
    def _features(self, stack: Stack, inputs: Tensor, drawn: Drawn | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Of one batch after the other; with `drawn` of the images cropped and mirrored."""
        stack.eval()
        for start in range(0, len(inputs), BATCH):
            rows = slice(start, min(start + BATCH, len(inputs)))
            batch = inputs[rows]
            if drawn is not None:
                batch = augmented(batch, {name: torch.from_numpy(part[rows]).to(self.device) for name, part in drawn.items()}, self.recipe)
            x = self.standardise(batch).repeat(1, stack.lanes, *[1] * (batch.ndim - 2))
            with precision(stack):
                features = stack.body(x)
            yield rows, features

    @torch.no_grad()
    def _head(self, stack: Stack, group: Sequence[Lane], features: Tensor) -> Tensor:
        scale = torch.tensor([lane.value.scale for lane in group], device=self.device).view(-1, 1, 1)
        with precision(stack):
            z = stack.head(features)
        return (scale * z.float()[: len(group)]).cpu()

    def _passes(self, stack: Stack, group: Sequence[Lane], inputs: Tensor, passes: int) -> Batches:
        """(len(group), passes, B, C)."""
        share = torch.tensor([lane.value.dropout for lane in self.padded(list(group))], device=self.device).view(1, -1, 1)
        streams = [stream(lane.seed, "dropout", SCORING) for lane in self.padded(list(group))]
        for rows, features in self._features(stack, inputs):
            size = (len(features), features.shape[1] // stack.lanes)
            drawn = (np.stack([rng.random(size, dtype=np.float32) for rng in streams]) for _ in range(passes))
            each = [dropped(features, torch.from_numpy(kept).to(self.device), share) for kept in drawn]
            yield rows, torch.stack([self._head(stack, group, some).softmax(dim=-1) for some in each], dim=1).numpy()

    @checked
    def module(self, i: int) -> Classifier:
        """Lane i as a plain network in evaluation mode: raw inputs in, logits out."""
        check_place("lane", i, len(self.states))
        return self.plain(staged(self.lanes[i], self.recipe, len(self.lanes[i].value.then)), self.states[i])

    def plain(self, lane: Lane, state: State) -> Classifier:
        """A lane of a stack in that state, likewise."""
        module = Classifier(self.recipe.network, self.shape, self.classes, lane.value.head, lane.value.scale, self.encoding)
        known = {f"preprocess.{name}": value.cpu() for name, value in self.standardise.named_buffers()} | state
        module.load_state_dict({name: value for name, value in known.items() if name in module.state_dict()})
        return module.eval()
