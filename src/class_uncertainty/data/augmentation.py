"""Random crops and flips of whole batches, on the device, from offsets drawn before."""

import torch
from torch import Tensor
from torch.nn import functional as F


def crop(images: Tensor, offsets: Tensor, pad: int) -> Tensor:
    """Shift each image within a border of `pad` zeros: (M, channels, H, W), (M, 2) from 0 to 2 pad -> (M, channels, H, W)."""
    *_, height, width = images.shape
    windows = F.pad(images, (pad,) * 4).unfold(2, height, 1).unfold(3, width, 1)  # (M, channels, 2 pad + 1, 2 pad + 1, H, W)
    return windows[torch.arange(len(images), device=images.device), :, offsets[:, 0], offsets[:, 1]]


def flip(images: Tensor, mirrored: Tensor) -> Tensor:
    """Mirror the images (M, channels, H, W) where `mirrored` (M,) is true."""
    return images.where(~mirrored[:, None, None, None], images.flip(3))
