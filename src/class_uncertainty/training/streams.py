"""Random streams: a function of the seed, the purpose and the epoch, and of nothing else."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

Indices = NDArray[np.int64]
STREAMS: tuple[str, ...]  # only ever added to: a stream is known by its place
STREAMS = ("initialisation", "order", "crop", "flip", "bootstrap", "dropout", "autoaugment", "cutout", "mixup", "paste")
STREAMS += ("network", "resized crop", "jitter")
BLOCK = 2**17  # draws at a time
GUIDE = 8  # cells of the unit interval for each class, at least: in at most one of 8, a draw needs a search


def stream(seed: int, purpose: str, epoch: int = 0) -> np.random.Generator:
    """The random numbers of a lane for one purpose in one epoch."""
    return np.random.default_rng([seed, STREAMS.index(purpose), epoch])


class Grouped(NamedTuple):
    """The positions of examples, class after class."""

    positions: Indices  # (N,)
    counts: Indices  # (C,)
    starts: Indices  # (C,) where the positions of a class begin

    @classmethod
    def of(cls, labels: Indices, classes: int) -> "Grouped":
        counts = np.bincount(labels, minlength=classes)
        narrow = labels.astype(np.uint16) if len(counts) <= 2**16 else labels  # NumPy sorts these by radix
        return cls(np.argsort(narrow, kind="stable"), counts, np.cumsum(counts) - counts)


def draw_order(rng: np.random.Generator, labels: Indices, alpha: NDArray, natural: bool, length: int) -> Indices:
    """`length` positions among the labels (N,): permutations at rest, else a class by alpha, then one of it (Eq. 3)."""
    if natural:
        return permutations(rng, len(labels), length)
    return draw_by_class(rng, Grouped.of(labels, len(alpha)), alpha, length)


def permutations(rng: np.random.Generator, size: int, length: int) -> Indices:
    """The first `length` positions of permutations behind one another."""
    rounds = -(-length // size)
    orders = [rng.permutation(size) for _ in range(rounds)]
    return (orders[0] if rounds == 1 else np.concatenate(orders))[:length]


def draw_by_class(rng: np.random.Generator, grouped: Grouped, alpha: NDArray, length: int) -> Indices:
    """`length` positions: a class by alpha (C,), then one of it, with replacement."""
    bounds, by_class, within = np.cumsum(alpha)[:-1], rng.random(length), rng.random(length)
    cells = GUIDE * 2 ** len(alpha).bit_length()  # a power of 2: a number times it is exact
    guide = np.searchsorted(bounds, np.arange(cells + 1) / cells, side="right")
    order = np.empty(length, dtype=np.int64)
    for start in range(0, length, BLOCK):  # in blocks that a cache holds
        rows = slice(start, start + BLOCK)
        cell = (by_class[rows] * cells).astype(np.int64)
        drawn, last = guide[cell], guide[cell + 1]  # (BLOCK,) classes; in most cells there is only one
        unsure = np.flatnonzero(drawn != last)
        drawn[unsure] = np.searchsorted(bounds, by_class[rows][unsure], side="right")
        place = (within[rows] * grouped.counts[drawn]).astype(np.int64)
        order[rows] = grouped.positions[grouped.starts[drawn] + place]
    return order


def bootstrap(rng: np.random.Generator, labels: Indices) -> Indices:
    """Positions (N,) of a resample with replacement that keeps the size of every class."""
    by_class, counts = np.argsort(labels, kind="stable"), np.bincount(labels)
    sizes, starts = np.repeat(counts, counts), np.repeat(np.cumsum(counts) - counts, counts)
    return by_class[starts + (rng.random(len(labels)) * sizes).astype(np.int64)]


def initial_state(module: nn.Module, seed: int) -> dict[str, NDArray[np.float32]]:
    """He's normal for convolutions, torch's uniform for linear layers, one and zero for batch norm."""
    rng, state = stream(seed, "initialisation"), {}
    for prefix, layer in module.named_modules():
        for name, parameter in layer.named_parameters(prefix, recurse=False):
            shape = tuple(parameter.shape)
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                state[name] = np.full(shape, name.endswith("weight"), dtype=np.float32)
                continue
            inputs = np.prod(layer.get_parameter("weight").shape[1:])
            is_conv = isinstance(layer, nn.Conv2d)
            values = rng.standard_normal(shape) * np.sqrt(2) if is_conv else rng.uniform(-1, 1, shape)
            state[name] = (values / np.sqrt(inputs)).astype(np.float32)
    return state
