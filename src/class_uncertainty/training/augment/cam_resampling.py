"""CAM-based resampling (Bag of Tricks, Zhang et al. 2021): classes filled up with images whose foreground was moved.

The foreground, by class activation maps, moves over the same image. Everything is drawn beforehand, on the host;
foregrounds and pastes are then functions of whole batches, on any device.

It differs from the released code on purpose, unless `released` is asked for:
- There the box of the foreground ends at its second row and column, where a loop stops too early. Here it is the whole
  box, so that objects turn about their centre and a translation leaves none outside.
- There pixels count as moved where they are not zero, so that the original shows through black objects. Here the moved
  mask decides.
- There the moved background replaces the place of the foreground. Here only the foreground moves.

It always differs in these: maps are of whole images, not of cropped ones, and by the network of the last epoch, not by
the best on the test images; pixels are those of the nearest neighbour, not interpolated; and no image becomes a JPEG.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.training.networks.bodies import ResNet
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.custom_body import OwnBody
from class_uncertainty.training.sampling import Examples
from class_uncertainty.training.streams import stream

ROTATE, TRANSLATE, FLIP = KINDS = range(3)
ANGLES = (-45, 45)  # degrees, without the last
SCALES = (80, 120)  # per cent, without the last
SHARE = 0.75  # of a map's mean: what has less is background
AT_ONCE = 1024  # images

Images = tuple[Tensor, Tensor]  # and their labels


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

    def __getitem__(self, rows: slice) -> "Pastes":
        return Pastes(*(getattr(self, field.name)[rows] for field in fields(self)))


def wanted(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Images to make of each class (C,): they bring it to max(N) + min(N), so that each class gets some."""
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
    """Where the activation is at least 3/4 of its mean: (M, h, w) -> bool (M, H, W), never empty.

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
    """Whole pixels, uniform among those that keep first..last within the image; all (M,)."""
    shifts = length - (last - first)
    return torch.minimum((drawn * shifts).floor(), shifts - 1) - first  # a draw just below 1 may be rounded to it


def _first_two(hits: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second position that is true, or the first twice: (M, length) -> (M,), (M,)."""
    first, last = _reach(hits)
    later = torch.arange(hits.shape[1], device=hits.device) > first[:, None]
    return first, torch.minimum(_reach(hits & later)[0], last)


def _sources(mask: Tensor, pastes: Pastes, released: bool) -> tuple[Tensor, Tensor]:
    """Row and column that each pixel of a moved image comes from: both (M, H, W), of whole numbers.

    All kinds are one affine map, inverted. Sines are the host's and no sum is over pixels: every device gives the same.
    """
    (_, height, width), device = mask.shape, mask.device
    turns, shifts, flips = (torch.from_numpy(pastes.kind == kind).to(device) for kind in KINDS)

    def placed(values: NDArray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(device)

    along = placed(np.cos(np.deg2rad(pastes.angle)) * 100 / pastes.scale).where(turns, 1)
    across = placed(np.sin(np.deg2rad(pastes.angle)) * 100 / pastes.scale).where(turns, 0)
    ends = _first_two if released else _reach
    (top, bottom), (left, right) = ends(mask.any(2)), ends(mask.any(1))
    down = _shift(top, bottom, height, placed(pastes.v)).where(shifts, 0)
    aside = _shift(left, right, width, placed(pastes.u)).where(shifts, 0)
    y0, x0 = (top + bottom) / 2, ((left + right) / 2).where(~flips, (width - 1) / 2)  # a flip is of the whole image

    y = torch.arange(height, device=device)[None, :, None] - y0[:, None, None]  # (M, H, 1)
    x = torch.arange(width, device=device)[None, None, :] - x0[:, None, None]  # (M, 1, W)
    along, across, mirror = along[:, None, None], across[:, None, None], along.where(~flips, -1)[:, None, None]
    rows = across * x + along * y + (y0 - down)[:, None, None]
    columns = mirror * x - across * y + (x0 - aside)[:, None, None]
    return (rows + 0.5).floor().long(), (columns + 0.5).floor().long()


def paste(images: Tensor, foreground: Tensor, pastes: Pastes, released: bool = False) -> Tensor:
    """Each image (M, channels, H, W) with its foreground (M, H, W) moved over it; elsewhere it stays as it was.

    With `released`, the moved image also fills the place that the foreground had, and its zeros are transparent.
    """
    *_, channels, height, width = images.shape
    rows, columns = _sources(foreground, pastes, released)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    at = (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)).flatten(1)  # (M, H W)
    moved = foreground.flatten(1).gather(1, at).view_as(inside)
    taken = images.flatten(2).gather(2, at[:, None].expand(-1, channels, -1)).view_as(images)
    if released:
        return taken.where((inside & (moved | foreground))[:, None] & (taken != 0), images)
    return taken.where((inside & moved)[:, None], images)


@torch.no_grad()
def activation_maps(module: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    """sum_k w_yk f_k of the class y of each image, not augmented: (N, channels, H, W), (N,) -> (N, h, w)."""
    head, body, parts = module.head, module.body, []
    assert isinstance(head, nn.Linear)
    assert isinstance(body, ResNet | OwnBody | nn.Sequential)
    features: Callable[[Tensor], Tensor] = body[:-2] if isinstance(body, nn.Sequential) else body.maps  # before pooling
    for x, y in zip(images.split(AT_ONCE), labels.split(AT_ONCE), strict=True):
        parts.append(torch.einsum("ndhw,nd->nhw", features(module.preprocess(x)), head.weight[y]))
    return torch.cat(parts)


def generated(
    module: Classifier, examples: Examples, indices: NDArray, counts: NDArray, seed: int, released: bool = False
) -> Images:
    """Images that bring each class to max(N) + min(N), and their labels, made of the examples at `indices`."""
    device = examples.labels.device
    chosen = torch.from_numpy(indices).to(device)
    images, labels = examples.inputs[chosen], examples.labels[chosen]
    pastes = draw_pastes(stream(seed, "paste"), labels.cpu().numpy(), counts)
    masks = foreground(activation_maps(module, images, labels), (images.shape[2], images.shape[3]))
    sources = torch.from_numpy(pastes.source).to(device)
    blocks = row_blocks(len(pastes), AT_ONCE)
    made = [paste(images[sources[rows]], masks[sources[rows]], pastes[rows], released) for rows in blocks]
    return torch.cat(made), labels[sources]


def filled_up(examples: Examples, made: Sequence[Images]) -> tuple[Examples, list[NDArray[np.int64]]]:
    """The examples with the images made for some lanes behind them, and the positions of those of each lane."""
    inputs = torch.cat([examples.inputs, *(images for images, _ in made)])
    labels = torch.cat([examples.labels, *(new for _, new in made)])
    starts = np.cumsum([len(examples.labels), *(len(new) for _, new in made)])
    return replace(examples, inputs=inputs, labels=labels), [np.arange(a, b) for a, b in pairwise(starts)]
