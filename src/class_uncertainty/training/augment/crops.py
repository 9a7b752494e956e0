"""Random changes of a batch of images on the device: crops, flips, colours and mixtures."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.methods import MIXING
from class_uncertainty.training.augment.autoaugment import autoaugment, cutout, draw_holes, draw_policy
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.streams import stream

RATIO = 4 / 3  # a crop is at most so much wider than high, or higher than wide
GREY = (299, 587, 114)  # thousandths of red, green and blue in a grey pixel


def draw_boxes(rng: np.random.Generator, length: int, least: float) -> NDArray[np.float32]:
    """(length, 4): share of the area from `least` to 1, width over height, place down and place across from 0 to 1."""
    share, ratio, down, across = rng.random((4, length))
    area, shape = least + (1 - least) * share, RATIO ** (2 * ratio - 1)
    return np.stack([area, shape, down, across], axis=1).astype(np.float32)


def resized_crop(images: Tensor, boxes: Tensor, side: int | None) -> Tensor:
    """uint8 images (M, channels, H, W) cut to their boxes (M, 4), at (side, side), or at the size that they have.

    A box that is wider or higher than the image ends at its border.
    """
    *_, height, width = images.shape
    area, shape, down, across = boxes.unbind(1)
    high = (area * (height * width) / shape).sqrt().clamp(max=height) / height  # as shares of the image
    wide = (area * (height * width) * shape).sqrt().clamp(max=width) / width
    rows = _places(high, down, side or height)  # (M, side), from -1 to 1
    columns = _places(wide, across, side or width)
    grid = torch.stack(torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), dim=3)
    x = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return x.round().to(torch.uint8)


def _places(share: Tensor, start: Tensor, number: int) -> Tensor:
    """Centres of pixels in a part of the image: (M,) its share of the side, (M,) where it starts -> (M, number)."""
    centres = (torch.arange(number, device=share.device) + 0.5) / number
    return 2 * ((1 - share) * start)[:, None] + 2 * share[:, None] * centres - 1


def draw_jitter(rng: np.random.Generator, length: int, strength: float) -> NDArray[np.float32]:
    """(length, 3) factors of brightness, contrast and saturation, from 1 - strength to 1 + strength."""
    return (1 + strength * (2 * rng.random((length, 3)) - 1)).astype(np.float32)


def jitter(images: Tensor, factors: Tensor) -> Tensor:
    """uint8 images (M, channels, H, W) in other brightness, contrast and saturation, one after the other; (M, 3)."""
    bright, contrast, saturation = (factor.view(-1, 1, 1, 1) for factor in factors.unbind(1))
    x = _bytes(images * bright)
    grey = _grey(x)
    # whole numbers have one sum, wherever they lie in memory
    mean = (grey.to(torch.int64).sum((1, 2, 3), keepdim=True) / math.prod(grey.shape[1:])).float()
    x = _bytes(contrast * x + (1 - contrast) * mean)
    return _bytes(saturation * x + (1 - saturation) * _grey(x)) if x.shape[1] == len(GREY) else x


def _grey(x: Tensor) -> Tensor:
    """uint8 (M, 1, H, W); of other numbers of channels the first."""
    if x.shape[1] != len(GREY):
        return x[:, :1]
    red, green, blue = (weight * channel.to(torch.int32) for weight, channel in zip(GREY, x.unbind(1), strict=True))
    return ((red + green + blue + 500) // 1000).to(torch.uint8).unsqueeze(1)


def _bytes(x: Tensor) -> Tensor:
    return x.round().clamp(0, 255).to(torch.uint8)


# Remix: how much rarer a class must be, and the share below which an example gives its label away
KAPPA, TAU = 3.0, 0.5

Drawn = dict[str, NDArray]  # by name, (length, ...) each


def draw(seed: int, epoch: int, length: int, recipe: Recipe, augment: tuple[str, ...] = (), features: int = 0) -> Drawn:
    """The numbers of an epoch; `features` is how many dropout may leave out, 0 without dropout."""
    drawn: Drawn = {}
    if recipe.crop:
        drawn["shifts"] = stream(seed, "crop", epoch).integers(0, 2 * recipe.crop + 1, (length, 2))
    if recipe.flip:
        drawn["mirrored"] = stream(seed, "flip", epoch).random(length) < 0.5
    if recipe.resized_crop:
        drawn["boxes"] = draw_boxes(stream(seed, "resized crop", epoch), length, recipe.resized_crop)
    if recipe.jitter:
        drawn["colours"] = draw_jitter(stream(seed, "jitter", epoch), length, recipe.jitter)
    if "autoaugment" in augment:
        drawn |= draw_policy(stream(seed, "autoaugment", epoch), length)
    if "cutout" in augment:
        drawn |= draw_holes(stream(seed, "cutout", epoch), length)
    if MIXING & set(augment):
        drawn |= draw_pairs(stream(seed, "mixup", epoch), length, recipe.part)
    if features:
        drawn["dropout"] = stream(seed, "dropout", epoch).random((length, features), dtype=np.float32)
    return drawn


def draw_pairs(rng: np.random.Generator, length: int, batch: int) -> Drawn:
    """For each example its partner's place in the batch, and its own share: Beta(1, 1), one for a batch."""
    sizes = [rows.stop - rows.start for rows in row_blocks(length, batch)]
    shares = rng.random(len(sizes), dtype=np.float32)
    return {"partner": np.concatenate([rng.permutation(size) for size in sizes]), "mixed": np.repeat(shares, sizes)}


def crop(images: Tensor, offsets: Tensor, pad: int) -> Tensor:
    """Shift images (M, channels, H, W) within a border of `pad` zeros, by offsets (M, 2) from 0 to 2 pad."""
    *_, height, width = images.shape
    # (M, channels, 2 pad + 1, 2 pad + 1, H, W)
    windows = F.pad(images, (pad,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(len(images), device=images.device), :, offsets[:, 0], offsets[:, 1]]


def flip(images: Tensor, mirrored: Tensor) -> Tensor:
    """Mirror the images (M, channels, H, W) where `mirrored` (M,) is true."""
    return images.where(~mirrored[:, None, None, None], images.flip(3))


def augmented(x: Tensor, drawn: Mapping[str, Tensor], recipe: Recipe, side: int | None = None) -> Tensor:
    """Inputs (M, ...) augmented by what was drawn for them, (M, ...) each; `side` is that of the network's images."""
    if "shifts" in drawn:
        x = crop(x, drawn["shifts"], recipe.crop)
    if "boxes" in drawn:
        x = resized_crop(x, drawn["boxes"], side)
    if "mirrored" in drawn:
        x = flip(x, drawn["mirrored"])
    if "colours" in drawn:
        x = jitter(x, drawn["colours"])
    if "policy" in drawn:
        x = autoaugment(x, drawn["policy"], drawn["applied"], drawn["sign"])
    return cutout(x, drawn["holes"], min(x.shape[2:]) // 2) if "holes" in drawn else x


def mixed(x: Tensor, drawn: Mapping[str, Tensor]) -> Tensor:
    """share x_i + (1 - share) x_j: (lanes, B, ...), partner and share (lanes, B) -> (lanes, B, ...)."""
    share = drawn["mixed"].view(*drawn["mixed"].shape, *[1] * (x.ndim - 2))
    return share * x + (1 - share) * x[torch.arange(len(x), device=x.device)[:, None], drawn["partner"]]


def remixed(share: Tensor, count_i: Tensor, count_j: Tensor) -> Tensor:
    """The share of the label in Remix, from the counts of the classes of i and of j: (lanes, B) each.

    It is 0 where n_i / n_j >= KAPPA and share < TAU, and 1 where n_i / n_j <= 1 / KAPPA and 1 - share < TAU.
    """
    given = (count_i >= KAPPA * count_j) & (share < TAU)
    taken = (KAPPA * count_i <= count_j) & (1 - share < TAU)
    return torch.where(given, 0.0, torch.where(taken, 1.0, share))
