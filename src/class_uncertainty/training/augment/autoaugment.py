"""AutoAugment's policy for CIFAR-10 (Cubuk et al. 2019) and Cutout (DeVries and Taylor 2017) for whole batches.

All numbers are drawn before. Pixels equal Pillow's, to the last bit on a CPU and on CUDA. Where published versions
differ, this is what DRO-LT trains with, a copy of DeepVoltaire's port: pixels from outside are grey 128, a shear is
bicubic, other moves take the nearest pixel, and a rotation is always counter-clockwise. Nothing here waits for the
device, so a CUDA graph can hold it: every operation runs on every image, with numbers that change nothing where it is
not wanted.
"""

import math
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

FILL = 128
# A sub-policy: two operations one after the other, each with its probability and its magnitude from 0 to 9.
# fmt: off
POLICIES = (
    (("invert", 0.1, 7), ("contrast", 0.2, 6)), (("rotate", 0.7, 2), ("translateX", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)), (("shearY", 0.5, 8), ("translateY", 0.7, 9)),
    (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)), (("shearY", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)), (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 5), ("equalize", 0.5, 1)), (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translateX", 0.5, 8)), (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
    (("translateY", 0.4, 3), ("sharpness", 0.2, 6)), (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 3)), (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 8), ("equalize", 0.6, 4)), (("color", 0.9, 9), ("equalize", 0.6, 6)),
    (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)), (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)), (("translateY", 0.9, 9), ("translateY", 0.7, 9)),
    (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)), (("equalize", 0.8, 8), ("invert", 0.1, 3)),
    (("translateY", 0.7, 9), ("autocontrast", 0.9, 1)),
)
# fmt: on
PROBABILITIES = np.array([[probability for _, probability, _ in pair] for pair in POLICIES])  # (25, 2)
RANGES = {  # what magnitudes 0 and 9 stand for; other operations have none
    "shearY": (0, 0.3),
    **dict.fromkeys(("translateX", "translateY"), (0, 150 / 331)),  # of the width or the height
    "rotate": (0, 30),  # degrees
    **dict.fromkeys(("color", "contrast", "sharpness", "brightness"), (0, 0.9)),  # of the factor from 1
    "posterize": (8, 4),  # bits
    "solarize": (256, 0),  # the darkest level that is inverted
}
AFFINE = ("xx", "xy", "x", "yx", "yy", "y")  # where a pixel comes from: xx * column + xy * row + x, and so its row
NEUTRAL: dict[str, float] = {
    "shear": 0,
    **dict(zip(AFFINE, (1, 0, 0, 0, 1, 0), strict=True)),
    **{"factor": 1, "grey": 0, "mean": 0, "smooth": 0},  # a blend with a poorer image: one of three, or black
    **{"bin": 1, "threshold": 256, "stretch": 0, "equalise": 0},  # a table of grey levels
}


def draw_policy(rng: np.random.Generator, length: int) -> dict[str, NDArray]:
    """For each image a sub-policy (length,); for its two operations (length, 2) whether they apply, and their sign."""
    policy = rng.integers(0, len(POLICIES), length)
    applied = rng.random((length, 2)) < PROBABILITIES[policy]
    return {"policy": policy, "applied": applied, "sign": rng.random((length, 2)) < 0.5}


def draw_holes(rng: np.random.Generator, length: int) -> dict[str, NDArray]:
    """The centre of a hole in each image, in shares of the height and the width: (length, 2).

    Drawn in single precision: what is rounded to it later may become 1.
    """
    return {"holes": rng.random((length, 2), dtype=np.float32)}


def autoaugment(images: Tensor, policy: Tensor, applied: Tensor, sign: Tensor) -> Tensor:
    """Apply the draws of `draw_policy`, (M,) and (M, 2), to uint8 images (M, channels, H, W) of 1 or 3 channels."""
    rows = _table(images.shape[2], images.shape[3], images.device)
    for step in range(2):
        chosen = (4 * policy + 2 * step + sign[:, step]).masked_fill(~applied[:, step], len(rows) - 1)
        numbers = dict(zip(NEUTRAL, rows[chosen][..., None, None, None].unbind(1), strict=True))  # each (M, 1, 1, 1)
        if any(pair[step][0] == "shearY" for pair in POLICIES):  # the dearest operation, never a second one
            images = _sheared(images, numbers)
        images = _relevelled(_blended(_moved(images, numbers), numbers), numbers)
    return images


def cutout(images: Tensor, holes: Tensor, size: int = 16) -> Tensor:
    """A black square in each image (M, channels, H, W) around the centre in `holes` (M, 2); an odd `size` loses one."""
    masks = []
    for share, length in zip(holes.unbind(1), images.shape[2:], strict=True):
        distance = torch.arange(length, device=images.device) - (share * length).long()[:, None]  # (M, length)
        masks.append((distance >= -(size // 2)) & (distance < size // 2))
    return images.masked_fill(masks[0][:, None, :, None] & masks[1][:, None, None, :], 0)


@cache
def _table(height: int, width: int, device: torch.device) -> Tensor:
    """The numbers of every sub-policy, operation and sign, in this order, and NEUTRAL at the end: (101, numbers).

    Copied to the device at the first call, which must come before a graph is captured.
    """
    operations = [(name, magnitude) for pair in POLICIES for name, _, magnitude in pair]
    rows = [_numbers(*operation, sign, height, width) for operation in operations for sign in (1, -1)]
    # Pillow's precision, which MPS lacks: there a level may be off by one
    real = torch.float32 if device.type == "mps" else torch.float64
    return torch.tensor([list(row.values()) for row in [*rows, NEUTRAL]], dtype=real).to(device)


def _numbers(operation: str, magnitude: int, sign: int, height: int, width: int) -> dict[str, float]:
    """An operation as what differs from NEUTRAL."""
    value = float(np.linspace(*RANGES.get(operation, (0, 0)), 10)[magnitude])
    changes: dict[str, dict[str, float]] = {
        "shearY": {"shear": sign * value},
        "translateX": {"x": sign * value * width},
        "translateY": {"y": sign * value * height},
        "rotate": _rotation(value, height, width),
        "color": {"factor": 1 + sign * value, "grey": 1},
        "contrast": {"factor": 1 + sign * value, "mean": 1},
        "sharpness": {"factor": 1 + sign * value, "smooth": 1},
        "brightness": {"factor": 1 + sign * value},
        "posterize": {"bin": 2 ** (8 - round(value))},
        "solarize": {"threshold": value},
        "invert": {"threshold": 0},
        "autocontrast": {"stretch": 1},
        "equalize": {"equalise": 1},
    }
    return NEUTRAL | changes[operation]


def _rotation(degrees: float, height: int, width: int) -> dict[str, float]:
    """Counter-clockwise about the middle, rounded to 16 binary places as by Pillow."""

    def fixed(number: float) -> float:
        return math.floor(number * 65536 + 0.5) / 65536

    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    across, down = 0.5 - width / 2, 0.5 - height / 2  # of the first pixel's centre from the middle
    x = fixed(cos * across - sin * down + width / 2) - (fixed(cos) + fixed(-sin)) / 2
    y = fixed(sin * across + cos * down + height / 2) - (fixed(sin) + fixed(cos)) / 2
    return dict(zip(AFFINE, (fixed(cos), fixed(-sin), x, fixed(sin), fixed(cos), y), strict=True))


def _sheared(images: Tensor, numbers: dict[str, Tensor]) -> Tensor:
    """Columns shifted by `shear` pixels from each to the next, bicubic between the rows."""
    column, row = _centres(images, numbers["shear"].dtype)
    y = numbers["shear"] * column + row  # (M, 1, H, W)
    start = (y - 0.5).floor()
    between = y - 0.5 - start
    around = torch.arange(-1, 3, device=images.device)[:, None, None]
    rows = (start + around).clamp(0, len(row) - 1).long()  # (M, 4, H, W)
    sources = rows[:, None].expand(-1, images.shape[1], -1, -1, -1)
    taken = images[:, :, None].expand_as(sources).gather(3, sources).to(torch.int16)  # which holds differences
    above, here, below, last = taken.unbind(2)
    slopes = (below - above, 2 * (above - here) + below - last, here - above + last - below)
    cubed = here + between * (slopes[0] + between * (slopes[1] + between * slopes[2]))
    return cubed.clamp(0, 255).to(torch.uint8).masked_fill((y < 0) | (y >= len(row)), FILL)


def _moved(images: Tensor, numbers: dict[str, Tensor]) -> Tensor:
    """Each pixel from the nearest one to where the affine map says."""
    column, row = _centres(images, numbers["x"].dtype)
    x = (numbers["xx"] * column + numbers["xy"] * row + numbers["x"]).floor().long()  # (M, 1, H, W)
    y = (numbers["yx"] * column + numbers["yy"] * row + numbers["y"]).floor().long()
    places = y.clamp(0, len(row) - 1) * len(column) + x.clamp(0, len(column) - 1)
    taken = images.flatten(2).gather(2, places.flatten(2).expand(-1, images.shape[1], -1)).view_as(images)
    return taken.masked_fill((x < 0) | (x >= len(column)) | (y < 0) | (y >= len(row)), FILL)


def _centres(images: Tensor, real: torch.dtype) -> tuple[Tensor, Tensor]:
    """Of the pixels' columns (W,) and rows (H, 1)."""
    height, width = (torch.arange(length, dtype=real, device=images.device) + 0.5 for length in images.shape[2:])
    return width, height[:, None]


def _blended(images: Tensor, numbers: dict[str, Tensor]) -> Tensor:
    """Between a poorer image, or beyond, and the image: factor 1 is the image."""
    pixels, grey = images.float(), _grey(images)
    mean = (2 * grey.sum((1, 2, 3), keepdim=True) + grey[0].numel()) // (2 * grey[0].numel())  # rounded
    to_grey, to_mean, to_smooth, factor = (numbers[name].float() for name in ("grey", "mean", "smooth", "factor"))
    poorer = to_grey * grey + to_mean * mean + to_smooth * _smooth(pixels)
    blended = poorer + factor * (pixels - poorer)  # in single precision, then truncated: as Pillow
    return blended.clamp(0, 255).to(torch.uint8)


def _grey(images: Tensor) -> Tensor:
    """(M, 1, H, W) whole numbers: the luma of three channels, by Pillow's weights; one channel is grey already."""
    if images.shape[1] == 1:
        return images.int()
    red, green, blue = images.int().split(1, dim=1)
    return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16


def _smooth(pixels: Tensor) -> Tensor:
    """Means of 3 x 3 pixels in which the middle one counts five times; those at the border stay."""
    summed = F.avg_pool2d(pixels, 3, stride=1, padding=1, divisor_override=1) + 4 * pixels
    smooth = pixels.clone()
    smooth[..., 1:-1, 1:-1] = (summed / 13 + 0.5).floor()[..., 1:-1, 1:-1]
    return smooth


def _relevelled(images: Tensor, numbers: dict[str, Tensor]) -> Tensor:
    """Every grey level through a table of the image's channel: (M, channels, 256)."""
    pixels, levels = images.flatten(2).long(), torch.arange(256, device=images.device)
    numbers = {name: column[..., 0] for name, column in numbers.items()}  # (M, 1, 1)
    low, high = pixels.amin(2, keepdim=True), pixels.amax(2, keepdim=True)
    spread = (high - low).clamp(min=1).to(numbers["stretch"].dtype)
    # a tensor of 255: for a plain number torch multiplies by the reciprocal, which rounds differently
    scale = torch.full_like(spread, 255) / spread
    stretched = (levels * scale - low * scale).clamp(0, 255).where(high > low, levels)
    counts = pixels.new_zeros(*pixels.shape[:2], 256, dtype=torch.int32)
    counts.scatter_add_(2, pixels, torch.ones_like(pixels, dtype=torch.int32))
    share = (pixels.shape[2] - counts.gather(2, high)) // 255  # pixels to a level, without those of the brightest
    before = counts.cumsum(2) - counts
    equalised = ((share // 2 + before) // share.clamp(min=1)).clamp(max=255).where(share > 0, levels)
    fewer = levels - levels % numbers["bin"].long()  # posterised
    # solarised; inverted where no level is below
    table = torch.where(levels >= numbers["threshold"], 255 - fewer, fewer)
    table = stretched.where(numbers["stretch"] > 0, equalised.where(numbers["equalise"] > 0, table))
    return table.to(torch.uint8).gather(2, pixels).view_as(images)
