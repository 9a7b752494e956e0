"""Handwritten digits that come with scikit-learn: nothing to download."""

import numpy as np

from class_uncertainty.data.examples import Data
from class_uncertainty.data.readers.svhn import DIGITS
from class_uncertainty.data.spec import DataSpec, Splits

PER_CLASS = 120  # for training, of 174 to 183; the others, 54 to 63 per class, are the test split


def digits(spec: DataSpec) -> Splits:
    """Handwritten digits that come with scikit-learn: 8×8 grey images, always split the same way."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    data = Data(images, bunch.target, DIGITS)
    order = np.random.RandomState(0).permutation(len(data))
    kept = np.sort(np.concatenate([order[data.labels[order] == c][:PER_CLASS] for c in range(10)]))
    return data.take(kept), data.take(np.setdiff1d(np.arange(len(data)), kept))
