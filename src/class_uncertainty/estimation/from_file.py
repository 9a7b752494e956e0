"""Probabilities that another program saved."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.data.readers.npz import read_arrays
from class_uncertainty.errors import InputError
from class_uncertainty.estimation.estimate import Estimator, EstimatorOutput
from class_uncertainty.io import scratch_array
from class_uncertainty.measures.scores import checked_blocks

NAME = "probabilities"


def read(path: str, train: Data) -> NDArray[np.float32]:
    """(T, N, C) from a .npy or .npz file of (N, C) or (T, N, C), with a row for each training example in order."""
    if not path:
        raise InputError(f"estimator {NAME!r} names no file: give {NAME}:FILE, a .npy or .npz file.")
    array = read_arrays(path, lambda loaded: _array(path, loaded), f"give {NAME}:FILE, a .npy or .npz file")
    p = array[None] if array.ndim == 2 else array
    if p.ndim != 3 or p.shape[1:] != (len(train), len(train.classes)):
        allowed = f"({len(train)}, {len(train.classes)}), or several members of that"
        raise InputError(f"{path} has the shape {array.shape}: it must have (training examples, classes) = {allowed}.")
    probabilities = scratch_array(p.shape)
    for rows, block in checked_blocks(p):
        probabilities[:, rows] = block
    return probabilities


def _array(path: str, loaded: Any) -> NDArray:
    """The array of a .npy file; of a .npz file the one called "probabilities", or its only one."""
    if isinstance(loaded, np.ndarray):
        return loaded
    name = NAME if NAME in loaded.files else loaded.files[0] if len(loaded.files) == 1 else None
    if name is None:
        raise InputError(f"{path} has arrays {', '.join(loaded.files) or 'none'}: one must be called {NAME}.")
    array = loaded[name]
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is no .npy or .npz file of numbers.")
    return array


def file_estimator(path: str) -> Estimator:
    """An estimator that trains nothing: its probabilities are in the file."""

    def from_file(fitted: None, train: Data, views: int) -> EstimatorOutput:
        return EstimatorOutput(read(path, train))

    about = f"what another program has saved: {NAME}:FILE, a .npy or .npz file with a row for each training example"
    return Estimator(about, lambda members, seed: [], from_file, views=False)
