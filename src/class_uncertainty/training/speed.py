"""How fast a device trains: a few steps of full stacks, timed."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from class_uncertainty.data import Data
from class_uncertainty.training.fit import fit, is_small
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.lane import Epoch, Lane
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.shared_epochs import Turn
from class_uncertainty.training.stages import naive_passes

STEPS = 4  # of an epoch; the first epoch also prepares the program, so the second is timed
FIXED_LANES = 4  # a stack on a GPU takes as long as if it had so many lanes more
FEWER = 10  # times: so many trees tell how long all will take
SHARE = 0.05  # of the training: timing more than that does not pay


@dataclass(frozen=True)
class Speed:
    """Seconds of a stack of `width` lanes for one naive training, where `at_once` stacks train side by side."""

    seconds: float
    width: int = 1
    at_once: int = 1
    padded: bool = True  # whether a stack of fewer lanes takes as long

    def estimate(self, turns: Iterable[Turn]) -> float:
        """Seconds of naive trainings, given as the numbers of those that train together, and how much of each."""
        return self.seconds * sum(share * self._rounds(lanes) for lanes, share in turns)

    def _rounds(self, lanes: int) -> float:
        """How often a full stack would train in the same time."""
        full, rest = divmod(lanes, self.width)
        if self.padded:
            return -(-(full + (rest > 0)) // self.at_once)
        return full + ((rest + FIXED_LANES) / (self.width + FIXED_LANES) if rest else 0.0)


def images_per_second(train: Data, recipe: Recipe, device: str) -> float:
    """Training examples a second, over all lanes of a stack. Labels are made up: only the time counts."""
    return _timed(train, recipe, device, width_of(recipe, device))[-1].speed


def measured_speed(train: Data, recipe: Recipe, device: str, networks: int) -> Speed | None:
    """The speed at which so many networks will train; None where timing it takes more than a SHARE of that.

    Heads on full batches converge after a number of epochs that only a whole training tells.
    """
    width, padded = width_of(recipe, device), device == "cpu"
    at_once = torch.get_num_threads() if is_small(recipe, train.shape, device) else 1
    if recipe.is_fitted:
        if networks * SHARE < 1:
            return None
        fewer = max(1, recipe.trees // FEWER) if recipe.is_trees else 0
        if fewer:  # the first fit also imports what fits trees
            fit(train, [Lane("naive")], recipe=replace(recipe, trees=1), device=device)
        began, times = time.perf_counter(), recipe.trees / fewer if fewer else 1.0
        fit(train, [Lane("naive")], recipe=replace(recipe, trees=fewer), device=device)
        return Speed(times * (time.perf_counter() - began), width, at_once, padded)
    passes = naive_passes(recipe, train)
    if 2 * STEPS * recipe.batch * width * at_once > SHARE * networks * passes:
        return None
    epochs = _timed(train, recipe, device, width * at_once)
    slowest = max(epochs[-at_once:], key=lambda epoch: epoch.seconds)
    return Speed(passes * width / slowest.speed, width, at_once, padded)


def _timed(train: Data, recipe: Recipe, device: str, lanes: int) -> list[Epoch]:
    """What stacks tell of their epochs; all seconds come last."""
    number = min(len(train), STEPS * recipe.batch)
    few = Data(train.inputs[:number], np.arange(number) % 2)
    epochs: list[Epoch] = []
    naive = [Lane("naive", seed) for seed in range(lanes)]
    fit(few, naive, recipe=replace(recipe, epochs=2), device=device, progress=epochs.append)
    return sorted(epochs, key=lambda epoch: epoch.epoch)
