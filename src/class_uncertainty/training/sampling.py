"""Examples on the device. LaneSampler: which of them a lane draws in an epoch, and numbers for their augmentation."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.data import Data
from class_uncertainty.measures import Stats
from class_uncertainty.methods import Plan, plan
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.augment.crops import Drawn, draw
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.networks.classifier import Standardise
from class_uncertainty.training.stages import ResolvedStage
from class_uncertainty.training.streams import bootstrap, draw_order, stream

STUDENT_SEED = 2**63  # what students see: the same for all of them, and no lane's own seed
AVERAGING = 2**41  # the epoch of the streams that batch statistics of averaged weights are drawn by
STAGE_STREAMS = 2**20  # where the streams of a stage begin, counted from the stage before


@dataclass(frozen=True, eq=False)
class Examples:
    """Raw training examples on the device, and what standardises them."""

    inputs: Tensor  # uint8 images or float features
    labels: Tensor
    standardise: Standardise
    counts: Tensor  # of each class, (1, C), or (lanes, C) where lanes leave out examples


class LaneSampler:
    """The training examples that a lane draws from, with its random streams."""

    def __init__(self, lane: Lane, train: Data, stats: Stats | None, features: int) -> None:
        self.lane = lane
        self.indices = np.arange(len(train))
        if lane.fold:
            self.indices = np.setdiff1d(self.indices, fold_indices(train, lane.fold))
        if lane.bootstrap:
            self.indices = self.indices[bootstrap(stream(lane.seed, "bootstrap"), train.labels[self.indices])]
        self.labels = train.labels[self.indices]
        self.counts = np.bincount(self.labels, minlength=len(train.classes))
        self.stats = Stats.of(self.counts, stats)
        self.features = features if lane.value.dropout else 0

    def with_more(self, indices: NDArray[np.int64], labels: Tensor) -> "LaneSampler":
        """The same sampler with more examples to draw from; measures still see the counts without them."""
        more = copy(self)
        more.indices = np.concatenate([self.indices, indices])
        more.labels = labels.cpu().numpy()[more.indices]
        return more

    def draw(self, epoch: int, knobs: Plan, length: int, recipe: Recipe) -> Drawn:
        """The examples of an epoch and the numbers drawn for each: (length, ...)."""
        seed = STUDENT_SEED if self.lane.teaching else self.lane.seed
        order = draw_order(stream(seed, "order", epoch), self.labels, knobs.alpha, knobs.natural, length)
        numbers = draw(seed, epoch, length, recipe, self.lane.value.augment, self.features)
        return {"order": self.indices[order], **numbers}


def draw_epoch(
    samplers: Sequence[LaneSampler], stage: ResolvedStage, epoch: int, length: int, streams: int | None = None
) -> tuple[list[Plan], Drawn]:
    """The plans of the lanes in an epoch, and their draws stacked: (lanes, length, ...).

    Those of an augmentation are of the lanes that have it; full batches draw nothing. `streams` is the epoch of the
    random streams, if another.
    """
    recipe, number = stage.recipe, stage.number * STAGE_STREAMS + epoch if streams is None else streams
    plans = [plan(sampler.lane.value, sampler.stats, epoch, recipe.epochs) for sampler in samplers]
    if recipe.full_batch:
        return plans, {}
    drawn = [sampler.draw(number, knobs, length, recipe) for sampler, knobs in zip(samplers, plans, strict=True)]
    if any("dropout" in draws for draws in drawn):  # lanes without dropout draw no numbers for it
        width = max(sampler.features for sampler in samplers)
        drawn = [{"dropout": np.zeros((length, width), np.float32), **draws} for draws in drawn]
    names = dict.fromkeys(name for draws in drawn for name in draws)
    return plans, {name: np.stack([draws[name] for draws in drawn if name in draws]) for name in names}
