"""TrainingTime: how long lanes take to train on this device, for budgets and plans."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from class_uncertainty.data import Data
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.fit import fit
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.shared_epochs import spared_epochs
from class_uncertainty.training.stages import lane_cost, naive_passes

STEPS = 4  # of an epoch; the first epoch also prepares the program, so the second is timed
FIXED_LANES = 4  # a stack on a GPU takes as long as if it had so many lanes more


@dataclass(eq=False)
class TrainingTime:
    """How long lanes take by one recipe: at the speed of a few timed steps, later by what lanes have taken."""

    recipe: Recipe
    device: str
    speed: float | None = None  # images a second, over all lanes of a full stack; None until it is needed

    def images(self, lanes: Sequence[Lane], train: Data) -> float:
        """Image passes of lanes that train together."""
        trainings = sum(lane_cost(lane, self.recipe, train) for lane in lanes)
        spared = spared_epochs(lanes, self.recipe) / self.recipe.epochs
        return (trainings - spared) * naive_passes(self.recipe, train)

    def seconds(self, lanes: int, images: float, train: Data) -> float:
        """Of so many lanes with these image passes in all: a stack that is not full is slower than one that is."""
        if self.speed is None:
            self.speed = images_per_second(train, self.recipe, self.device)
        width = width_of(self.recipe, self.device)
        stacks = full_stacks(lanes, width, is_padded=self.device == "cpu")
        return stacks * width / self.speed * images / lanes

    def seconds_of(self, lanes: Sequence[Lane], train: Data) -> float:
        """Of lanes that train together."""
        return self.seconds(len(lanes), self.images(lanes, train), train)

    def learn(self, lanes: Sequence[Lane], train: Data, seconds: float) -> None:
        """Go by what lanes have taken from now on, if the speed matters: other programs may share the device."""
        if self.speed is not None:
            self.speed *= self.seconds_of(lanes, train) / seconds


def full_stacks(lanes: int, width: int, is_padded: bool) -> float:
    """How many full stacks train in the time that so many lanes take; padded stacks all take as long as a full one."""
    full, rest = divmod(lanes, width)
    if not rest:
        return full
    if is_padded:
        return full + 1
    return full + (rest + FIXED_LANES) / (width + FIXED_LANES)


def images_per_second(train: Data, recipe: Recipe, device: str) -> float:
    """Training examples a second, over all lanes of a stack. Labels are made up: only the time counts."""
    number = min(len(train), STEPS * recipe.batch)
    few = Data(train.inputs[:number], np.arange(number) % 2)
    lanes = [Lane("naive", seed) for seed in range(width_of(recipe, device))]
    epochs: list[Epoch] = []
    fit(few, lanes, recipe=replace(recipe, epochs=2), device=device, progress=epochs.append)
    return epochs[-1].speed
