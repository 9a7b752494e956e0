"""SVHN, cropped digits, from train_32x32.mat and test_32x32.mat."""

from pathlib import Path

import numpy as np

from class_uncertainty.data.cache import Decoding
from class_uncertainty.errors import InputError

DIGITS = tuple("0123456789")


def find(root: Path, split: str) -> Path | None:
    file = root / f"{split}_32x32.mat"
    return file if file.is_file() else None


def decoding(file: Path) -> Decoding:
    """X (32, 32, 3, N) and y (N, 1), where 10 stands for the digit 0."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(file, variable_names=("X", "y"))
        pixels, labels = content["X"], content["y"].ravel()
    except (MatReadError, ValueError, LookupError, TypeError, OSError, EOFError, NotImplementedError) as error:
        raise InputError(f"{file} is damaged or not the original ({type(error).__name__}: {error}).") from error
    if pixels.dtype != np.uint8 or pixels.shape[:3] != (32, 32, 3) or pixels.shape[3:] != labels.shape or labels.dtype.kind not in "iuf":
        raise InputError(f"{file} holds X {pixels.shape} {pixels.dtype} and y {labels.shape}: it is not the original.")
    outside = np.flatnonzero(~np.isin(labels, np.arange(1, 11)))
    if len(outside):
        raise InputError(f"{file} has the label {labels[outside[0]]} in row {outside[0]}: labels run from 1 to 10.")
    return Decoding(labels.astype(np.int64) % 10, DIGITS, (3, 32, 32), iter([pixels.transpose(3, 2, 0, 1)]))
