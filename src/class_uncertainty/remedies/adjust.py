"""Probabilities corrected for the classes' counts: a model of any framework, none of its weights needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.boundary import Tensorlike, checked
from class_uncertainty.errors import InputError
from class_uncertainty.measures.scores import check_labels, check_probabilities
from class_uncertainty.measures.stats import Stats, Vector

GRID = tuple(round(0.05 * i, 2) for i in range(41))  # 0 to 2
TINY = 1e-30  # of a probability: 0 has no logarithm


@checked
@dataclass(frozen=True, eq=False)
class Adjustment:
    """softmax((log p - bias) / temperature + log prior).

    Of a model's logits z it is an affine map, which its last layer can absorb: softmax(z / temperature + shift).
    """

    bias: Vector  # (C,) tau log N_c, or what was fitted in its place
    prior: Vector  # (C,) how frequent the classes are where the model is used
    tau: float = 1.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bias", np.asarray(self.bias, dtype=np.float64))
        if self.bias.ndim != 1 or len(self.bias) < 2 or not np.isfinite(self.bias).all():
            raise InputError("bias must be finite numbers, one for each of at least two classes.")
        object.__setattr__(self, "prior", check_prior(self.prior, len(self.bias)))
        _check_tau(self.tau)
        if not np.isfinite(self.temperature) or self.temperature <= 0:
            raise InputError(f"temperature is {self.temperature!r}: it must be a finite number above 0.")

    @classmethod
    @checked
    def of(cls, counts: ArrayLike, tau: float = 1.0, prior: ArrayLike | None = None) -> "Adjustment":
        """The bias tau log N_c at the temperature 1."""
        known = Stats(counts).counts
        _check_tau(tau)
        with np.errstate(over="ignore"):
            bias = tau * np.log(known)
        if not np.isfinite(bias).all():
            raise InputError(f"tau is {tau!r}: tau log N must be finite numbers.")
        return cls(bias, check_prior(prior, len(known)), float(tau))

    @property
    def shift(self) -> Vector:
        """log prior - bias / temperature."""
        return log_prior(self.prior) - self.bias / self.temperature

    @checked
    def __call__(self, probabilities: Tensorlike) -> Any:
        """(..., C), a NumPy array or a tensor -> the same kind and type."""
        from scipy.special import softmax

        given = probabilities if hasattr(probabilities, "detach") else np.asarray(probabilities)
        shape = tuple(given.shape)
        if not shape or shape[-1] != len(self.bias):
            raise InputError(
                f"probabilities have the shape {shape}, and counts are of {len(self.bias)} classes: the last axis must be the classes."
            )
        rows = check_probabilities(given.reshape(1, -1, shape[-1]))[0] if np.prod(shape) else np.zeros((0, shape[-1]))
        adjusted = softmax(logarithms(rows) / self.temperature + self.shift, axis=-1).reshape(shape)
        return adjusted.astype(given.dtype) if isinstance(given, np.ndarray) else given.new_tensor(adjusted)


@checked
def adjust(probabilities: Tensorlike, counts: ArrayLike, tau: float = 1.0, prior: ArrayLike | None = None) -> Any:
    """p_c prior_c / N_c ** tau, renormalised: (..., C), a NumPy array or a tensor -> the same kind and type.

    At tau 1 a model that learnt p(y | x) under the counts' prior now gives it under `prior`, by default equal for every class.
    """
    return Adjustment.of(counts, tau, prior)(probabilities)


def best_tau(
    probabilities: Any, labels: ArrayLike, counts: ArrayLike, grid: Sequence[float] = GRID, prior: ArrayLike | None = None
) -> float:
    """The tau of the grid with the lowest error on examples that the model never saw; of equals the lowest NLL.

    Probabilities (N, C) of such examples, as an out-of-fold estimate has them, and their labels (N,). Both are weighted so that classes are
    as frequent as `prior` says, by default equally: a class mean.
    """
    p, labels = check_judged(probabilities, labels)
    if not len(grid):
        raise InputError("the grid of tau is empty: give one value at least.")
    log_p, tried = logarithms(p), [Adjustment.of(counts, tau, prior) for tau in grid]
    if len(tried[0].bias) != p.shape[1]:
        raise InputError(f"counts are of {len(tried[0].bias)} classes, and probabilities of {p.shape[1]}: give one a class.")
    weight = prior_weights(labels, tried[0].prior)
    errors = [round(float(weight @ ((log_p + each.shift).argmax(axis=1) != labels)), 12) for each in tried]
    tied = [i for i, error in enumerate(errors) if error == min(errors)]
    return grid[min(tied, key=lambda i: badness(losses(tried[i](p), labels), weight))]


def check_judged(probabilities: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities as float64 (N, C) and labels as int64 (N,)."""
    given = probabilities if hasattr(probabilities, "detach") else np.asarray(probabilities)
    if given.ndim != 2:
        raise InputError(f"probabilities have the shape {tuple(given.shape)}: they need (examples, classes).")
    p = check_probabilities(given[None])[0]
    return p, check_labels(labels, *p.shape)


def check_prior(prior: ArrayLike | None, classes: int) -> Vector:
    """(C,) of sum 1; without one every class is equally frequent."""
    try:
        wanted = np.full(classes, 1 / classes) if prior is None else np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        wanted = np.empty(0)
    if wanted.shape != (classes,) or not np.isfinite(wanted).all() or (wanted < 0).any() or abs(wanted.sum() - 1) > 1e-3:
        raise InputError(f"prior must be {classes} probabilities that sum to 1, one a class.")
    return wanted / wanted.sum()


def log_prior(prior: Vector) -> Vector:
    """-inf of a class that cannot be."""
    with np.errstate(divide="ignore"):
        return np.log(prior)


def logarithms(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """log p, finite."""
    return np.log(np.maximum(p, TINY))


def losses(p: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(2, N): 1 where the guess is wrong, and -log p of the label."""
    return np.stack([p.argmax(axis=1) != labels, -logarithms(p[np.arange(len(p)), labels])])


def badness(lost: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float]:
    """(error, NLL) of (2, N) losses, weighted."""
    error, nll = (round(float(weight @ each), 12) for each in lost)  # where nothing differs but the last bit, the first is taken
    return error, nll


def prior_weights(labels: NDArray[np.int64], prior: Vector) -> Vector:
    """(N,) prior_y / n_y, of sum 1: what is weighted so, is as it would be under that prior. A class without examples is left out."""
    weights = prior[labels] / np.bincount(labels)[labels]
    if not weights.sum():
        raise InputError("the prior is 0 for every class that these examples have: give one that allows some of them.")
    return weights / weights.sum()


def _check_tau(tau: Any) -> None:
    if isinstance(tau, bool) or not isinstance(tau, int | float | np.number) or not np.isfinite(tau) or tau < 0:
        raise InputError(f"tau is {tau!r}: it must be a finite number from 0.")
