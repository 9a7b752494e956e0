"""Fit: trained lanes, as results, probabilities and plain networks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.boundary import check_least, check_place, checked
from class_uncertainty.data import Data, check_fits
from class_uncertainty.data.columns import Column
from class_uncertainty.training.augmenting import augmented, draw
from class_uncertainty.training.engine import dropped, precision, settle
from class_uncertainty.training.networks import NETWORKS, WIDEST, Classifier, Standardise
from class_uncertainty.training.recipe import Lane, Recipe, Result
from class_uncertainty.training.stack import Stack, State, stacked
from class_uncertainty.training.stages import staged
from class_uncertainty.training.streams import stream

SCORING = 2**40  # the epoch of streams that no training draws from


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
    unseen: list[NDArray[np.float32] | None] = field(default_factory=list)  # (n, C) of a lane's own fold, where no test split was given
    gathered: list[State] = field(default_factory=list)  # what the lanes gathered (Lane.gather)
    keys: list[str] = field(default_factory=list)  # what each lane's result depends on, as one word
    encoding: tuple[Column, ...] | None = None  # of the table that features come from

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
        return self._over_stacks(lambda stack, group: self.probabilities_of(stack, group, data, views))

    @checked
    def logits(self, data: Data) -> NDArray[np.float32]:
        """(lanes, N, C), scaled: their softmax are the probabilities. Of a DUQ head the logarithms of its kernels."""
        check_fits(self.shape, data)
        inputs = as_tensor(data.inputs).to(self.device)
        return self._over_stacks(lambda stack, group: torch.cat(list(self._batches(stack.eval(), group, inputs)), dim=1).numpy())

    @checked
    def dropped_out(self, data: Data, passes: int) -> NDArray[np.float32]:
        """(lanes * passes, N, C): each lane's probabilities with other features left out in every pass, by the lane's own share."""
        check_fits(self.shape, data)
        check_least("passes", passes, 1)
        inputs = as_tensor(data.inputs).to(self.device)
        return self._over_stacks(lambda stack, group: self._passes(stack.eval(), group, inputs, passes)).reshape(
            -1, len(data), len(self.classes)
        )

    @torch.no_grad()
    def _over_stacks(self, of: Callable[[Stack, list[Lane]], NDArray[np.float32]]) -> NDArray[np.float32]:
        """What `of` says of each lane, (lanes, ...)."""
        width, parts = width_of(self.recipe.network, self.device), dict[int, NDArray[np.float32]]()
        lanes = [staged(lane, self.recipe, len(lane.value.then)) for lane in self.lanes]
        for rbf in (False, True):
            alike = [i for i, lane in enumerate(lanes) if (lane.value.head == "rbf") is rbf]
            for some in (alike[start : start + width] for start in range(0, len(alike), width)):
                group, states = [lanes[i] for i in some], [self.states[i] for i in some]
                stack = stacked(self.recipe, self.shape, self.classes, self.padded(group), self.padded(states))
                parts |= dict(zip(some, of(settle(stack, self.recipe.network, self.device), group), strict=True))
        return np.stack([parts[i] for i in range(len(lanes))])

    @torch.no_grad()
    def probabilities_of(self, stack: Stack, group: Sequence[Lane], data: Data, views: int = 0) -> NDArray[np.float32]:
        """(len(group), N, C) of the first lanes of a stack."""
        stack.eval()
        inputs = as_tensor(data.inputs).to(self.device)
        if not views:
            return self._softmax(stack, group, inputs)
        return sum(self._softmax(stack, group, self._view(inputs, view)) for view in range(views)) / np.float32(views)  # type: ignore[return-value]

    def _view(self, inputs: Tensor, view: int) -> Tensor:
        drawn = {name: torch.from_numpy(part).to(self.device) for name, part in draw(view, SCORING, len(inputs), self.recipe).items()}
        return augmented(inputs, drawn, self.recipe)

    def _softmax(self, stack: Stack, group: Sequence[Lane], inputs: Tensor) -> NDArray[np.float32]:
        return torch.cat([z.softmax(dim=-1) for z in self._batches(stack, group, inputs)], dim=1).numpy()

    def _batches(self, stack: Stack, group: Sequence[Lane], inputs: Tensor) -> Iterator[Tensor]:
        """Logits (len(group), B, C) of one batch after the other, on the host."""
        for features in self._features(stack, inputs):
            yield self._head(stack, group, features)

    def _features(self, stack: Stack, inputs: Tensor) -> Iterator[Tensor]:
        for batch in inputs.split(256):
            x = self.standardise(batch).repeat(1, stack.lanes, *[1] * (batch.ndim - 2))
            with precision(stack):
                features = stack.body(x)
            yield features

    def _head(self, stack: Stack, group: Sequence[Lane], features: Tensor) -> Tensor:
        scale = torch.tensor([lane.value.scale for lane in group], device=self.device).view(-1, 1, 1)
        with precision(stack):
            z = stack.head(features)
        return (scale * z.float()[: len(group)]).cpu()

    def _passes(self, stack: Stack, group: Sequence[Lane], inputs: Tensor, passes: int) -> NDArray[np.float32]:
        """(len(group), passes, N, C)."""
        share = torch.tensor([lane.value.dropout for lane in self.padded(list(group))], device=self.device).view(1, -1, 1)
        streams, parts = [stream(lane.seed, "dropout", SCORING) for lane in self.padded(list(group))], []
        for features in self._features(stack, inputs):
            size = (len(features), features.shape[1] // stack.lanes)
            drawn = (np.stack([rng.random(size, dtype=np.float32) for rng in streams]) for _ in range(passes))
            each = [dropped(features, torch.from_numpy(kept).to(self.device), share) for kept in drawn]
            parts.append(torch.stack([self._head(stack, group, some).softmax(dim=-1) for some in each], dim=1))
        return torch.cat(parts, dim=2).numpy()

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
