"""Predictions that another program has saved."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.readers.npz import read_arrays
from class_uncertainty.errors import InputError
from class_uncertainty.measures.uncertainty import check_labels, check_rows
from class_uncertainty.posthoc.adjustment import combined
from class_uncertainty.posthoc.priors import at_prior, find_prior

NAMES = ("probabilities", "logits", "labels", "counts")


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's probabilities for some examples, and what is known of them."""

    probabilities: NDArray  # (N, C) float32 or float64
    labels: NDArray[np.int64] | None = None  # (N,), -1 where one has none
    counts: NDArray | None = None  # (C,) of the training examples
    decided: NDArray[np.int64] | None = None  # (N,) the classes that the file decides on, where it says so
    costs: NDArray[np.float64] | None = None  # (C, C) that they were decided by, where it says so
    prior: NDArray[np.float64] | None = None  # (C,) that the probabilities hold for, where it is not that of training

    @property
    def for_training(self) -> NDArray:
        """(N, C) the probabilities for classes as frequent as in training."""
        if self.prior is None or self.counts is None:
            return self.probabilities
        return at_prior(self.probabilities, self.prior, find_prior("train", self.counts))

    @property
    def decisions(self) -> NDArray[np.int64]:
        return self.probabilities.argmax(axis=1) if self.decided is None else self.decided


def read_predictions(path: Path) -> Predictions:
    """From a .npy file of probabilities, or a .npz file with probabilities or logits and perhaps labels and counts.

    Members (T, N, C) are averaged geometrically: what is chosen on single networks suits that mean.
    """
    arrays = read_arrays(path, lambda loaded: _named_arrays(path, loaded))
    p = read_probabilities(path, arrays)
    try:
        labels = check_labels(arrays["labels"], *p.shape) if "labels" in arrays else None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Predictions(p, labels, arrays.get("counts"))


def read_probabilities(path: Path, arrays: Mapping[str, NDArray]) -> NDArray:
    """(N, C) from the probabilities or logits among the arrays of a file."""
    name = next((name for name in NAMES[:2] if name in arrays), None)
    if name is None:
        advice = f"save it with np.savez({path.name!r}, probabilities=p)"
        raise InputError(f"{path} has no array called probabilities or logits: {advice}.")
    array = arrays[name]
    if array.ndim not in (2, 3):
        allowed = "(examples, classes) or (members, examples, classes)"
        raise InputError(f"{path} has {name} of the shape {array.shape}: they need {allowed}.")
    try:
        p = array if name == "probabilities" else _softmax(array)
        p = combined(p) if p.ndim == 3 else check_rows(p)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return p.astype(np.result_type(array.dtype, np.float32))


def _named_arrays(path: Path, loaded: Any) -> dict[str, NDArray]:
    """The arrays of a .npz file with one of NAMES. A .npy file, or a single array of another name, is probabilities."""
    if isinstance(loaded, np.ndarray):
        return {NAMES[0]: loaded}
    arrays = {name: loaded[name] for name in NAMES if name in loaded.files}
    if not arrays and len(loaded.files) == 1:
        arrays = {NAMES[0]: loaded[loaded.files[0]]}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise InputError(f"{path} is no .npy or .npz file of numbers.")
    return arrays


def _softmax(logits: NDArray) -> NDArray[np.float64]:
    from scipy.special import softmax

    if logits.dtype.kind != "f" or not logits.size or not np.isfinite(logits).all():
        raise InputError("logits must be finite floating point numbers, one at least.")
    return softmax(logits.astype(np.float64), axis=-1)
