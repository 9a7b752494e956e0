"""Random streams: a function of the seed, the purpose and the epoch, and of nothing else."""

import numpy as np
from numpy.typing import NDArray
from torch import nn

Indices = NDArray[np.int64]
STREAMS: tuple[str, ...]  # only ever added to: a stream is known by its place
STREAMS = ("initialisation", "order", "crop", "flip", "bootstrap", "dropout", "autoaugment", "cutout", "mixup", "paste")
STREAMS += ("network", "resized crop", "jitter")


def stream(seed: int, purpose: str, epoch: int = 0) -> np.random.Generator:
    """The random numbers of a lane for one purpose in one epoch."""
    return np.random.default_rng([seed, STREAMS.index(purpose), epoch])


def draw_order(rng: np.random.Generator, labels: Indices, alpha: NDArray, natural: bool, length: int) -> Indices:
    """`length` positions among the labels (N,): permutations at rest, else a class by alpha, then one of it (Eq. 3)."""
    if natural:
        rounds = -(-length // len(labels))
        return np.concatenate([rng.permutation(len(labels)) for _ in range(rounds)])[:length]
    by_class = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=len(alpha))
    drawn = np.searchsorted(np.cumsum(alpha)[:-1], rng.random(length), side="right")  # (length,) classes
    within = (rng.random(length) * counts[drawn]).astype(np.int64)
    return by_class[(np.cumsum(counts) - counts)[drawn] + within]


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
