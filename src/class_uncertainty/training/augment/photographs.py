"""What is usual for photographs: crops of random size and shape, scaled to the network's input, and colour jitter."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

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
