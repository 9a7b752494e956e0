"""What happens to a batch before a network sees it, from numbers drawn before: a recipe's crop and flip, a method's augmentations."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from class_uncertainty.data.augmentation import crop, flip
from class_uncertainty.data.autoaugment import autoaugment, cutout, draw_holes, draw_policy
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.streams import stream

KAPPA, TAU = 3.0, 0.5  # Remix: how much rarer a class must be, and the share below which an example gives its label away

Drawn = dict[str, NDArray]  # by name, (length, ...) each


def draw(seed: int, epoch: int, length: int, recipe: Recipe, augment: tuple[str, ...] = (), features: int = 0) -> Drawn:
    """The numbers of an epoch; `features` is how many of them dropout may leave out, 0 where it does not."""
    drawn: Drawn = {}
    if recipe.crop:
        drawn["shifts"] = stream(seed, "crop", epoch).integers(0, 2 * recipe.crop + 1, (length, 2))
    if recipe.flip:
        drawn["mirrored"] = stream(seed, "flip", epoch).random(length) < 0.5
    if "autoaugment" in augment:
        drawn |= draw_policy(stream(seed, "autoaugment", epoch), length)
    if "cutout" in augment:
        drawn |= draw_holes(stream(seed, "cutout", epoch), length)
    if {"mixup", "remix"} & set(augment):
        drawn |= draw_pairs(stream(seed, "mixup", epoch), length, recipe.batch)
    if features:
        drawn["kept"] = stream(seed, "dropout", epoch).random((length, features), dtype=np.float32)
    return drawn


def draw_pairs(rng: np.random.Generator, length: int, batch: int) -> Drawn:
    """For each example its partner's place in the batch, and its own share: Beta(1, 1), one for a batch."""
    sizes = [min(batch, length - start) for start in range(0, length, batch)]
    shares = rng.random(len(sizes), dtype=np.float32)
    return {"partner": np.concatenate([rng.permutation(size) for size in sizes]), "mixed": np.repeat(shares, sizes)}


def augmented(x: Tensor, drawn: Mapping[str, Tensor], recipe: Recipe) -> Tensor:
    """(M, ...) as they are -> the same, with whatever was drawn for them, (M, ...) each."""
    if "shifts" in drawn:
        x = crop(x, drawn["shifts"], recipe.crop)
    if "mirrored" in drawn:
        x = flip(x, drawn["mirrored"])
    if "policy" in drawn:
        x = autoaugment(x, drawn["policy"], drawn["applied"], drawn["sign"])
    return cutout(x, drawn["holes"], min(x.shape[2:]) // 2) if "holes" in drawn else x


def mixed(x: Tensor, drawn: Mapping[str, Tensor]) -> Tensor:
    """share x_i + (1 - share) x_j: (lanes, B, ...), partner and share (lanes, B) -> (lanes, B, ...)."""
    share = drawn["mixed"].view(*drawn["mixed"].shape, *[1] * (x.ndim - 2))
    return share * x + (1 - share) * x[torch.arange(len(x), device=x.device)[:, None], drawn["partner"]]


def remixed(share: Tensor, mine: Tensor, theirs: Tensor) -> Tensor:
    """The label's share in Remix: 0 where n_i / n_j >= KAPPA and share < TAU, 1 where n_i / n_j <= 1 / KAPPA and 1 - share < TAU.

    share, and how many training examples the classes of i and of j have: (lanes, B) each.
    """
    given = (mine >= KAPPA * theirs) & (share < TAU)
    taken = (KAPPA * mine <= theirs) & (1 - share < TAU)
    return torch.where(given, 0.0, torch.where(taken, 1.0, share))
