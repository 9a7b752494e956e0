"""Pure functions Data -> Data, and the one stratified split that all lanes share."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data.core import Data
from class_uncertainty.errors import InputError


def long_tail(data: Data, ratio: float, seed: int = 0) -> Data:
    """N_c = N / ratio ** (c / (C - 1)), truncated (Eq. 13); class order kept.

    With seed 0 these are the examples LDAM-DRW and Bag-of-Tricks keep, so the generator is the one they use.
    """
    if not np.isfinite(ratio) or ratio < 1:
        raise InputError(f"imbalance ratio is {ratio:g}: it must be 1 (balanced) or more.")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}: it must be a whole number from 0 to 2 ** 32 - 1.")
    if len(data.classes) < 2:
        raise InputError(f"there is one class only, {data.classes[0]!r}: a long tail needs at least two.")
    classes, largest = len(data.classes), int(np.min(data.counts))
    counts = [int(largest * (1 / ratio) ** (c / (classes - 1))) for c in range(classes)]
    if counts[-1] < 2:
        raise InputError(
            f"imbalance ratio {ratio:g} leaves class {data.classes[-1]!r} {counts[-1]} of {largest} examples: it needs two at least."
        )
    random = np.random.RandomState(seed)
    kept = []
    for c, count in enumerate(counts):
        members = np.flatnonzero(data.labels == c)
        random.shuffle(members)
        kept.append(members[:count])
    return data.take(np.concatenate(kept))


def stratified(labels: ArrayLike, parts: int, seed: int = 0) -> NDArray[np.int64]:
    """(N,) which of `parts` each example belongs to, every class spread as evenly as it can be."""
    labels = np.asarray(labels)
    random = np.random.default_rng([seed, parts, 0xF01D])  # not the numbers of any lane
    part = np.empty(len(labels), dtype=np.int64)
    start = 0
    for c in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == c))
        part[members] = (start + np.arange(len(members))) % parts  # going on where the last class ended keeps the parts equal
        start += len(members)
    return part
