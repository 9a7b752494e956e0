"""How fast a device trains, for budgets: a few steps of a full stack, timed."""

from dataclasses import replace

import numpy as np

from class_uncertainty.data import Data
from class_uncertainty.training.fit import fit
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.lane import Epoch, Lane
from class_uncertainty.training.recipe import Recipe

STEPS = 4  # of an epoch; the first epoch also prepares the program, so the second is timed
FIXED_LANES = 4  # a stack on a GPU takes as long as if it had so many lanes more


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
