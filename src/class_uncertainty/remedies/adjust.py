"""Probabilities corrected for the classes' counts: a model of any framework, none of its weights needed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.measures.scores import check_labels, check_probabilities
from class_uncertainty.measures.stats import Stats

GRID = tuple(round(0.05 * i, 2) for i in range(41))  # 0 to 2
TINY = 1e-30  # of a probability: what is exactly 0 stays last, however rare its class


def adjust(probabilities: Any, counts: ArrayLike, tau: float = 1.0, prior: ArrayLike | None = None) -> Any:
    """p_c prior_c / N_c ** tau, renormalised: (..., C), a NumPy array or a tensor -> the same kind and type.

    At tau 1 a model that learnt p(y | x) under the counts' prior now gives it under `prior`, by default equal for every class.
    """
    from scipy.special import softmax

    shift = _shift(counts, tau, prior)  # (C,)
    shape = tuple(np.shape(probabilities))
    if not shape or shape[-1] != len(shift):
        raise InputError(
            f"probabilities have the shape {shape}, and counts are of {len(shift)} classes: the last axis must be the classes."
        )
    rows = check_probabilities(probabilities.reshape(1, -1, shape[-1]))[0] if np.prod(shape) else np.zeros((0, shape[-1]))
    adjusted = softmax(np.log(np.maximum(rows, TINY)) + shift, axis=-1).reshape(shape)
    if hasattr(probabilities, "detach"):
        return probabilities.new_tensor(adjusted)
    return adjusted.astype(np.asarray(probabilities).dtype)


def best_tau(probabilities: Any, labels: ArrayLike, counts: ArrayLike, grid: Sequence[float] = GRID) -> float:
    """The tau of the grid with the lowest class-mean error on examples that the model never saw; of equals the lowest class-mean NLL.

    Probabilities (N, C) of such examples, as an out-of-fold estimate has them, and their labels (N,).
    """
    p = check_probabilities(np.asarray(probabilities)[None])[0]
    labels = check_labels(labels, *p.shape)
    if not len(grid):
        raise InputError("the grid of tau is empty: give one value at least.")
    return min(grid, key=lambda tau: _badness(adjust(p, counts, tau), labels))


def _badness(p: NDArray[np.float64], labels: NDArray[np.int64]) -> tuple[float, float]:
    """(class-mean error, class-mean NLL)."""
    per_class = np.bincount(labels, minlength=p.shape[1])
    weight = 1 / (np.count_nonzero(per_class) * per_class[labels])  # each class that occurs counts the same
    nll = -np.log(np.maximum(p[np.arange(len(p)), labels], TINY))
    return float(round(weight @ (p.argmax(axis=1) != labels), 12)), float(weight @ nll)


def _shift(counts: ArrayLike, tau: float, prior: ArrayLike | None) -> NDArray[np.float64]:
    """log prior_c - tau log N_c."""
    known = Stats(counts).counts
    if isinstance(tau, bool) or not isinstance(tau, int | float | np.number) or not np.isfinite(tau) or tau < 0:
        raise InputError(f"tau is {tau!r}: it must be a finite number from 0.")
    wanted = np.full(len(known), 1 / len(known)) if prior is None else np.asarray(prior, dtype=np.float64)
    if wanted.shape != known.shape or not np.isfinite(wanted).all() or (wanted < 0).any() or abs(wanted.sum() - 1) > 1e-3:
        raise InputError(f"prior must be {len(known)} probabilities that sum to 1, one a class.")
    return np.log(np.maximum(wanted, TINY)) - tau * np.log(known)
