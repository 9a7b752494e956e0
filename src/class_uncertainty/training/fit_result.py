"""LaneOutcome: a lane that has ended. Fit: trained lanes, as results, probabilities and plain networks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.checks import check_least, check_place, take
from class_uncertainty.data import Data, check_fits
from class_uncertainty.data.examples import Embedding
from class_uncertainty.data.table import Column
from class_uncertainty.errors import InputError
from class_uncertainty.io import scratch_array
from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.metrics import Outcomes
from class_uncertainty.text import amount_of
from class_uncertainty.training import Lane, Recipe, Result
from class_uncertainty.training.augment.crops import Drawn, augmented, draw
from class_uncertainty.training.checkpoints import LaneState
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.networks.classifier import Classifier, Ensemble, Standardise
from class_uncertainty.training.networks.layers import drop_features
from class_uncertainty.training.networks.network_table import find_network, sealed
from class_uncertainty.training.networks.stack import Stack, State, precision, to_device
from class_uncertainty.training.recipe import TREES
from class_uncertainty.training.stages import staged
from class_uncertainty.training.streams import stream

NEVER = -1e30  # added to the logit of a class that cannot be: finite, where the logarithm of its prior is not


class Correction(Protocol):
    """What softmax(z / temperature + shift) needs to be known of an Adjustment, which a later stage makes."""

    @property
    def temperature(self) -> float: ...
    @property
    def shift(self) -> NDArray[np.float64]: ...  # (C,), -inf for a class that cannot be


def averaged(networks: Sequence[Classifier], costs: NDArray | None = None) -> Ensemble:
    """Networks with adjustments of their own as one."""
    return Ensemble(networks, costs=costs_of(costs)).eval()


def shift_of(adjustment: Correction | None) -> Tensor | None:
    """(C,) what is added to the logits."""
    return None if adjustment is None else torch.tensor(np.maximum(adjustment.shift, NEVER), dtype=torch.float32)


def costs_of(costs: NDArray | None) -> Tensor | None:
    """(C, C) as a network keeps them."""
    return None if costs is None else torch.tensor(costs, dtype=torch.float32)


def as_tensor(inputs: NDArray) -> Tensor:
    """A tensor without a copy where possible: pixels may be a file mapped into memory."""
    usable = inputs.flags.writeable and min(inputs.strides) >= 0  # torch has no strides backwards, as in bgr[:, ::-1]
    return torch.from_numpy(inputs if usable else np.array(inputs))


def standardising(train: Data, network: str) -> Standardise:
    """By the mean and deviation of each channel or column: the network's, or the data's as given or measured.

    Constant columns are only shifted.
    """
    row = find_network(network)
    if network in TREES:  # they only compare
        return Standardise(torch.zeros(train.shape), torch.ones(train.shape))
    about = row.own.preprocessing if row.own and train.is_images else {}
    if "mean" in about:
        mean, std = (255 * np.asarray(about[name]) for name in ("mean", "std"))
    else:
        mean, std = map(np.asarray, train.statistics or train.measured_statistics())
    shape = (-1, 1, 1) if train.is_images else (-1,)
    deviation = np.where(std > 0, std, 1)
    shift, scale = (torch.tensor(value, dtype=torch.float32).view(shape) for value in (mean, deviation))
    return Standardise(shift, scale, about.get("size"))


SCORING = 2**40  # the epoch of streams that no training draws from
BATCH = 256  # examples of a forward pass

Batches = Iterator[tuple[slice, NDArray[np.float32]]]  # rows of the data, and what lanes predict for them


@dataclass(frozen=True)
class LaneOutcome:
    """A lane at the end of its last stage."""

    place: int  # among the lanes of fit()
    keys: list[str]  # of its checkpoints, a stage each; the first says all that its result depends on
    lane: LaneState
    result: Result
    unseen: Outcomes | None = None  # on the training examples in the fold that the lane left out


Done = Callable[[LaneOutcome], None]  # called for each lane when its stack ends, in the order in which stacks end


def width_of(recipe: Recipe, device: str) -> int:
    """The lanes of a stack: exactly so many on a CPU, at most on other devices. What is fitted is alone."""
    network = find_network(recipe.network)
    return 1 if recipe.is_fitted else network.width if device == "cpu" else network.widest


@dataclass(eq=False)
class Fit:
    """Trained lanes: their results, their probabilities on any data, and each as a plain network.

    Attributes
    ----------
    recipe : Recipe
    shape : tuple of int
        Of one input.
    classes : tuple of str
    lanes, states, results, keys : lists
        Each lane, its parameters and statistics, its Result, and the key of all that its result depends on.
    unseen : list
        Outcomes on the fold that each lane left out, where no test split was given.
    gathered : list
        What each lane gathered (`Lane.gather`).
    device : str
    standardise : Module
        What is applied to raw inputs.
    encoding : tuple of Column or None
        Of the table that features come from.
    embedding : Embedding or None
        Of the images that features come from.
    scratch : Path or None
        The folder for arrays that are too large for memory; the system's temporary folder if None.

    Examples
    --------
    >>> data = cu.load("digits-lt:20")
    >>> lanes = [cu.Lane("naive"), cu.Lane("cb-rs")]
    >>> fitted = cu.fit(data.train, lanes, recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    >>> fitted.probabilities(data.test).shape
    (2, 597, 10)
    >>> fitted.module(1).training
    False
    """

    recipe: Recipe
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    lanes: list[Lane]
    device: str
    standardise: Standardise
    states: list[State] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    unseen: list[Outcomes | None] = field(default_factory=list)
    gathered: list[State] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    encoding: tuple[Column, ...] | None = None
    embedding: Embedding | None = None
    scratch: Path | None = None

    def __repr__(self) -> str:
        lanes = amount_of(len(self.lanes), "lane", "lanes")
        return f"Fit({lanes} of {self.recipe.network!r}, {len(self.classes):,} classes, inputs {self.shape})"

    @classmethod
    def untrained(cls, train: Data, lanes: Sequence[Lane], recipe: Recipe, device: str, scratch: Path | None) -> "Fit":
        """Lanes that are to be trained on these examples."""
        recipe, standardise = sealed(recipe), standardising(train, recipe.network).to(device)
        about = (recipe, train.shape, train.classes, list(lanes), device, standardise)
        return cls(*about, encoding=train.encoding, embedding=train.embedding, scratch=scratch)

    def trained(self, outcomes: Sequence[LaneOutcome]) -> "Fit":
        """The same lanes with what became of them."""
        ended = sorted(outcomes, key=lambda outcome: outcome.place)
        states, gathered = [outcome.lane.state for outcome in ended], [outcome.lane.gathered for outcome in ended]
        results, unseen = [outcome.result for outcome in ended], [outcome.unseen for outcome in ended]
        keys = [outcome.keys[0] for outcome in ended]
        return replace(self, states=states, results=results, unseen=unseen, gathered=gathered, keys=keys)

    def pick(self, lanes: Sequence[Lane]) -> "Fit":
        """These of the lanes."""
        return self.take([self.lanes.index(lane) for lane in lanes])

    def take(self, places: Sequence[int]) -> "Fit":
        """The lanes at these places."""
        places = take(list[int], places=places)
        for place in places:
            check_place("lane", place, len(self.states))
        by_lane = ("lanes", "states", "results", "unseen", "gathered", "keys")
        taken: dict[str, Any] = {name: [getattr(self, name)[i] for i in places] for name in by_lane}
        return replace(self, **taken)

    def padded(self, items: list) -> list:
        """On a CPU, filled up with the first to the width of a stack, which never depends on the number of lanes."""
        width = width_of(self.recipe, self.device) if self.device == "cpu" else 0
        return items + items[:1] * (width - len(items))

    def probabilities(self, data: Data, views: int = 0) -> NDArray[np.float32]:
        """(lanes, N, C); with `views`, means over so many random crops and flips, the same for every lane."""
        check_fits(self.shape, data)
        check_least("views", views, 0)
        return self._filled(data, lambda stack, group: self.batches(stack, group, data, views))

    def logits(self, data: Data) -> NDArray[np.float32]:
        """(lanes, N, C), scaled: softmax gives the probabilities. A DUQ head gives logarithms of its kernels."""
        check_fits(self.shape, data)
        inputs = as_tensor(data.inputs).to(self.device)
        logits = scratch_array((len(self.lanes), len(data), len(self.classes)), self.scratch)
        for places, group, stack in self._stacks():
            for rows, batch in self._logits(stack, group, inputs):
                logits[places, rows] = batch
        return logits

    def out_of_fold(self, data: Data, views: int = 0) -> NDArray[np.float32]:
        """(N, C): the probabilities of each training example by the lane that left it out."""
        check_fits(self.shape, data)
        check_least("views", views, 0)
        if not all(lane.fold for lane in self.lanes):
            raise InputError("a lane has seen every example: out-of-fold lanes each leave a fold out.")
        out_of_fold = scratch_array((len(data), len(self.classes)), self.scratch)
        left_out = [np.isin(np.arange(len(data)), fold_indices(data, lane.fold)) for lane in self.lanes if lane.fold]
        if not np.logical_or.reduce(left_out).all():
            raise InputError("some examples were left out by no lane: there must be a lane for every fold.")
        for places, group, stack in self._stacks():
            for rows, batch in self.batches(stack, group, data, views):
                for place, p in zip(places, batch, strict=True):
                    unseen = left_out[place][rows]
                    out_of_fold[rows][unseen] = p[unseen]
        return out_of_fold

    def dropped_out(self, data: Data, passes: int) -> NDArray[np.float32]:
        """(lanes * passes, N, C): each pass drops other features, by the dropout of the lane's method."""
        check_fits(self.shape, data)
        check_least("passes", passes, 1)
        passes = take(int, passes=passes)
        inputs = as_tensor(data.inputs).to(self.device)
        return self._filled(data, lambda stack, group: self._passes(stack, group, inputs, passes), passes)

    def _filled(self, data: Data, of: Callable[[Stack, list[Lane]], Batches], passes: int = 1) -> NDArray[np.float32]:
        """(lanes * passes, N, C), filled with the batches that `of` gives."""
        filled = scratch_array((len(self.lanes), passes, len(data), len(self.classes)), self.scratch)
        for places, group, stack in self._stacks():
            for rows, batch in of(stack, group):
                filled[places, :, rows] = batch.reshape(len(places), passes, -1, len(self.classes))
        return filled.reshape(-1, len(data), len(self.classes))

    def _stacks(self) -> Iterator[tuple[list[int], list[Lane], Stack]]:
        """All lanes as stacks: (places, lanes, stack)."""
        width = width_of(self.recipe, self.device)
        lanes = [staged(lane, self.recipe, len(lane.value.then)) for lane in self.lanes]
        for rbf in (False, True):
            alike = [i for i, lane in enumerate(lanes) if (lane.value.head == "rbf") is rbf]
            for rows in row_blocks(len(alike), width):
                places = alike[rows]
                group, states = [lanes[i] for i in places], [self.states[i] for i in places]
                stack = Stack(self.recipe, self.shape, self.classes, self.padded(group), self.padded(states))
                yield places, group, to_device(stack, self.device)

    def batches(self, stack: Stack, group: Sequence[Lane], data: Data, views: int = 0) -> Batches:
        """Probabilities (len(group), B, C) of the first lanes of a stack, one batch after the other."""
        inputs = as_tensor(data.inputs).to(self.device)
        drawn: list[Drawn | None] = [draw(view, SCORING, len(inputs), self.recipe) for view in range(views)]
        logits = [self._logits(stack, group, inputs, view) for view in drawn or [None]]
        for batches in zip(*logits, strict=True):
            p = [torch.from_numpy(z).softmax(dim=-1).numpy() for _, z in batches]
            yield batches[0][0], sum(p) / np.float32(views) if views else p[0]  # type: ignore[misc]

    @torch.no_grad()
    def _logits(self, stack: Stack, group: Sequence[Lane], inputs: Tensor, drawn: Drawn | None = None) -> Batches:
        """(len(group), B, C), on the host."""
        scale = self._scale(group)
        for rows, features in self._features(stack, inputs, drawn):
            with precision(stack):
                z = stack.head(features)
            z = z.float().view(-1, *z.shape[-2:])  # trees have no axis of lanes
            yield rows, (scale * z[: len(group)]).cpu().numpy()

    @torch.no_grad()
    def _features(self, stack: Stack, inputs: Tensor, drawn: Drawn | None = None) -> Iterator[tuple[slice, Tensor]]:
        """The features of one batch after the other; with `drawn`, of images that are cropped and mirrored."""
        stack.eval()
        for rows in row_blocks(len(inputs), BATCH):
            batch = inputs[rows]
            if drawn is not None:
                numbers = {name: torch.from_numpy(part[rows]).to(self.device) for name, part in drawn.items()}
                batch = augmented(batch, numbers, self.recipe, self.standardise.side)
            x = self.standardise(batch).repeat(1, stack.lanes, *[1] * (batch.ndim - 2))
            with precision(stack):
                features = stack.body(x)
            yield rows, features

    def _scale(self, group: Sequence[Lane]) -> Tensor:
        return torch.tensor([lane.value.scale for lane in group], device=self.device).view(-1, 1, 1)

    @torch.no_grad()
    def _passes(self, stack: Stack, group: Sequence[Lane], inputs: Tensor, passes: int) -> Batches:
        """(len(group), passes, B, C)."""
        lanes, scale = self.padded(list(group)), self._scale(group)
        share = torch.tensor([lane.value.dropout for lane in lanes], device=self.device).view(1, -1, 1)
        streams = [stream(lane.seed, "dropout", SCORING) for lane in lanes]
        for rows, features in self._features(stack, inputs):
            size = (len(features), features.shape[1] // stack.lanes)
            p = []
            for _ in range(passes):
                drawn = torch.from_numpy(np.stack([rng.random(size, dtype=np.float32) for rng in streams]))
                left = drop_features(features, drawn.to(self.device), share)
                with precision(stack):
                    z = stack.head(left)
                p.append((scale * z.float()[: len(group)]).cpu().softmax(dim=-1))
            yield rows, torch.stack(p, dim=1).numpy()

    def module(self, i: int) -> Classifier:
        """Lane i as a plain network in evaluation mode: raw inputs in, logits out."""
        return self.adjusted_module(i, None)

    def adjusted_module(self, i: int, adjustment: Correction | None, costs: NDArray | None = None) -> Classifier:
        """Lane i whose softmax is the adjusted probabilities; with `costs` (C, C) they decide by the least cost."""
        check_place("lane", i, len(self.states))
        lane = self.lanes[i]
        return self.plain(staged(lane, self.recipe, len(lane.value.then)), self.states[i], adjustment, costs)

    def ensemble_module(self, adjustment: Correction, costs: NDArray | None = None) -> Ensemble:
        """All lanes as one network: the geometric mean of their probabilities, adjusted."""
        networks = [self.module(i) for i in range(len(self.lanes))]
        return Ensemble(networks, 1 / adjustment.temperature, shift_of(adjustment), costs_of(costs)).eval()

    def plain(
        self, lane: Lane, state: State, adjustment: Correction | None = None, costs: NDArray | None = None
    ) -> Classifier:
        """A lane in that state, likewise."""
        head = self.recipe.network if self.recipe.is_trees else lane.value.head
        scale = lane.value.scale / (adjustment.temperature if adjustment else 1)
        about = (self.recipe.network, self.shape, self.classes, head, scale, self.encoding)
        module = Classifier(*about, shift_of(adjustment), costs_of(costs), self.embedding)
        state = {f"preprocess.{name}": value.cpu() for name, value in self.standardise.named_buffers()} | state
        state |= dict(module.named_buffers(recurse=False))
        module.load_state_dict({name: value for name, value in state.items() if name in module.state_dict()})
        return module.eval()
