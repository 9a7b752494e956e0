"""Real handwritten digits that come with scikit-learn: 8 x 8 grey images, nothing to download."""

import numpy as np

from class_uncertainty.data.core import Data

TRAIN_PER_CLASS = 120  # of 174 to 183; the rest, 54 to 63 a class, is the test split


def digits() -> tuple[Data, Data]:
    """(train, test), split once and for all."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    data = Data(images, bunch.target, tuple(str(d) for d in range(10)))
    order = np.random.RandomState(0).permutation(len(data))
    rank = np.empty(len(data), dtype=np.int64)  # the how-manieth of its class, in random order
    for c in range(10):
        members = order[data.labels[order] == c]
        rank[members] = np.arange(len(members))
    return data.take(np.flatnonzero(rank < TRAIN_PER_CLASS)), data.take(np.flatnonzero(rank >= TRAIN_PER_CLASS))
