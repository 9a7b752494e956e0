"""Embedding: where features come from when a frozen network made them of images. Pictures: those images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Triple = tuple[float, float, float]
VIEWS = (1, 10)  # the fewest and the most that features are means over


@dataclass(frozen=True)
class Embedding:
    """A backbone by its name, a hash of its code and weights, and what it does to images before they pass through.

    Images are scaled so that the shorter side has `size` pixels, cropped at the centre, divided by 255, and
    standardised by `mean` and `std`. Features are means over so many `views`.
    """

    backbone: str
    weights: str
    size: int
    images: tuple[int, int] = (0, 0)  # (H, W) that images are read at
    mean: Triple = (0.485, 0.456, 0.406)  # of ImageNet
    std: Triple = (0.229, 0.224, 0.225)
    views: int = 1
    transform: str = ""  # a hash of the code that replaces all of this preprocessing


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images that examples are shown by, read from a memory-mapped file when they are shown."""

    images: NDArray[np.uint8]  # (M, channels, H, W)
    rows: NDArray[np.int64]  # (N,) the image of each example

    @classmethod
    def of(cls, images: NDArray) -> "Pictures":
        return cls(images, np.arange(len(images)))

    def __getitem__(self, i: int) -> NDArray[np.uint8]:
        return self.images[self.rows[i]]

    def take(self, indices: NDArray) -> "Pictures":
        return Pictures(self.images, self.rows[indices])
