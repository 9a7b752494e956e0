"""Images made for CAM-based sampling (Bag of Tricks, Zhang et al. 2021): the foreground moves, and is pasted over the same picture.

All is drawn beforehand, on the host; foregrounds and pastes are then functions of whole batches, on any device.

It differs from the released code on purpose. The foreground's box there ends at the second row and column with foreground, where a loop
stops too early: here it is the whole box, so that objects turn about their centre and a translation leaves none outside. Pixels count as
moved there where they are not zero, so that the original shines through black objects: here the moved mask decides. Where the foreground
was, the code also takes the moved background: here only foreground moves. Pixels are those of the nearest neighbour, not interpolated.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

ROTATE, TRANSLATE, FLIP = KINDS = range(3)
ANGLES = (-45, 45)  # degrees, without the last
SCALES = (80, 120)  # per cent, without the last
SHARE = 0.75  # of a map's mean: what has less is background


@dataclass(frozen=True, eq=False)
class Pastes:
    """What is drawn for each of M images to make; all arrays are (M,)."""

    source: NDArray[np.int64]  # position in the training set
    kind: NDArray[np.int64]  # ROTATE (and scale), TRANSLATE or FLIP
    angle: NDArray[np.int64]  # degrees, counterclockwise
    scale: NDArray[np.int64]  # per cent
    u: NDArray[np.float32]  # where the foreground's box goes from the left, 0, to the right, 1
    v: NDArray[np.float32]  # the same from the top to the bottom

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, part: slice) -> "Pastes":
        return Pastes(*(getattr(self, each.name)[part] for each in fields(self)))


def wanted(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Images to make of each class (C,): all come to the largest and the smallest count together, so that each class gets some."""
    return counts.max() + counts.min() - counts


def draw_pastes(rng: np.random.Generator, labels: NDArray[np.int64], counts: NDArray[np.int64]) -> Pastes:
    """Class after class, sources uniform within it; labels (N,), counts (C,) none of which is zero."""
    classes = np.repeat(np.arange(len(counts)), wanted(counts))
    by_class, starts, length = np.argsort(labels, kind="stable"), np.cumsum(counts) - counts, len(classes)
    return Pastes(
        source=by_class[starts[classes] + rng.integers(0, counts[classes])],
        kind=rng.integers(0, len(KINDS), length),
        angle=rng.integers(*ANGLES, length),
        scale=rng.integers(*SCALES, length),
        u=rng.random(length, dtype=np.float32),
        v=rng.random(length, dtype=np.float32),
    )


def foreground(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Where a class's activation is 3/4 of its mean or more: (M, h, w) -> bool (M, H, W), never empty; all, where a map is constant.

    The maps become bytes before and after they are resized, as in the released code.
    """
    low, high = maps.float().amin((1, 2), keepdim=True), maps.float().amax((1, 2), keepdim=True)
    span = (high - low).where(high > low, 1)
    levels = ((maps.float() - low) / span * 255).floor()
    resized = F.interpolate(levels[:, None], size, mode="bilinear", align_corners=False)[:, 0].round()
    return resized >= SHARE * resized.mean((1, 2), keepdim=True)


def _reach(hits: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last position that is true: (M, length) -> (M,), (M,)."""
    length, positions = hits.shape[1], torch.arange(hits.shape[1], device=hits.device)
    return positions.where(hits, length).amin(1), positions.where(hits, -1).amax(1)


def _shift(first: Tensor, last: Tensor, length: int, drawn: Tensor) -> Tensor:
    """Whole pixels, uniform among those that keep first..last within the picture; all (M,)."""
    shifts = length - (last - first)
    return torch.minimum((drawn * shifts).floor(), shifts - 1) - first  # a draw just below 1 may have been rounded to it


def _sources(mask: Tensor, kind: NDArray, angle: NDArray, scale: NDArray, u: NDArray, v: NDArray) -> tuple[Tensor, Tensor]:
    """Row and column that each pixel of a moved picture comes from, where there is one: both (M, H, W), of whole numbers.

    All three kinds are one affine map, inverted. Sines are the host's and no sum is over pixels, so that every device gives the same.
    """
    (_, height, width), device = mask.shape, mask.device
    turns, shifts, flips = (torch.from_numpy(kind == each).to(device) for each in KINDS)

    def placed(values: NDArray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(device)

    along = placed(np.cos(np.deg2rad(angle)) * 100 / scale).where(turns, 1)
    across = placed(np.sin(np.deg2rad(angle)) * 100 / scale).where(turns, 0)
    (top, bottom), (left, right) = _reach(mask.any(2)), _reach(mask.any(1))
    down = _shift(top, bottom, height, placed(v)).where(shifts, 0)
    aside = _shift(left, right, width, placed(u)).where(shifts, 0)
    y0, x0 = (top + bottom) / 2, ((left + right) / 2).where(~flips, (width - 1) / 2)  # a flip is of the whole picture

    y = torch.arange(height, device=device)[None, :, None] - y0[:, None, None]  # (M, H, 1)
    x = torch.arange(width, device=device)[None, None, :] - x0[:, None, None]  # (M, 1, W)
    along, across, mirror = along[:, None, None], across[:, None, None], along.where(~flips, -1)[:, None, None]
    rows = across * x + along * y + (y0 - down)[:, None, None]
    columns = mirror * x - across * y + (x0 - aside)[:, None, None]
    return (rows + 0.5).floor().long(), (columns + 0.5).floor().long()


def paste(images: Tensor, foreground: Tensor, kind: NDArray, angle: NDArray, scale: NDArray, u: NDArray, v: NDArray) -> Tensor:
    """Each picture with its own foreground moved over it; elsewhere it stays as it was.

    (M, channels, H, W), bool (M, H, W), and (M,) of each draw -> (M, channels, H, W).
    """
    *_, channels, height, width = images.shape
    rows, columns = _sources(foreground, kind, angle, scale, u, v)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    at = (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)).flatten(1)  # (M, H W)
    moved = inside & foreground.flatten(1).gather(1, at).view_as(inside)
    taken = images.flatten(2).gather(2, at[:, None].expand(-1, channels, -1)).view_as(images)
    return taken.where(moved[:, None], images)
