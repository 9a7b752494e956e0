"""Probabilities corrected for the classes' counts: a model of any framework, none of its weights needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, Tensorlike, check, check_fields, check_number
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures.measures import Stats, Vector
from class_uncertainty.measures.uncertainty import check_labels, check_probabilities, check_rows
from class_uncertainty.metrics import check_prior, log_probabilities, prior_weights
from class_uncertainty.posthoc.goal import Goal, is_clear, paired_sum
from class_uncertainty.training.lane import MEANS

GRID = tuple(round(0.05 * i, 2) for i in range(41))  # 0 to 2


@dataclass(frozen=True, eq=False)
class Adjustment:
    """A correction of probabilities: softmax((log p - bias) / temperature + log prior).

    On a model's logits z it is an affine map, which the last layer can absorb: softmax(z / temperature + shift).

    Attributes
    ----------
    bias : array (C,)
        tau log N_c, or what was fitted in its place.
    prior : array (C,)
        How frequent the classes are where the model is used.
    tau, temperature : float
        How far to correct for the counts, and how much to soften.

    Examples
    --------
    >>> cu.Adjustment.of(counts=[90, 10])(np.array([[0.9, 0.1]])).round(3)
    array([[0.5, 0.5]])
    """

    bias: Vector
    prior: Vector
    tau: float = 1.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check(Array, bias=self.bias)
        bias = np.asarray(self.bias)
        if bias.dtype.kind not in "biuf" or bias.ndim != 1 or len(bias) < 2 or not np.isfinite(bias).all():
            raise InputError("bias must be finite numbers, one for each of at least two classes.")
        object.__setattr__(self, "bias", np.asarray(bias, dtype=np.float64))
        object.__setattr__(self, "prior", check_prior(self.prior, len(self.bias)))
        check_fields(self, "tau", "temperature")
        check_tau(self.tau)
        check_number("temperature", self.temperature, "a finite number above 0", lambda value: 0 < value < np.inf)

    def __repr__(self) -> str:
        return f"Adjustment({len(self.bias):,} classes, tau {self.tau:g}, temperature {self.temperature:.3g})"

    @classmethod
    def of(cls, counts: ArrayLike, tau: float = 1.0, prior: ArrayLike | None = None) -> "Adjustment":
        """The bias tau log N_c at the temperature 1."""
        checked_counts = Stats(counts).counts
        check_tau(tau)
        with np.errstate(over="ignore"):
            bias = tau * np.log(checked_counts)
        if not np.isfinite(bias).all():
            raise InputError(f"tau is {tau!r}: tau log N must be finite numbers.")
        return cls(bias, check_prior(prior, len(checked_counts)), float(tau))

    @property
    def shift(self) -> Vector:
        """log prior - bias / temperature."""
        return log_prior(self.prior) - self.bias / self.temperature

    def __call__(self, probabilities: Tensorlike) -> Any:
        """(..., C), a NumPy array or a tensor -> the same kind and type."""
        from scipy.special import softmax

        check(Tensorlike, probabilities=probabilities)
        given = probabilities if hasattr(probabilities, "detach") else np.asarray(probabilities)
        shape = tuple(given.shape)
        if not shape or shape[-1] != len(self.bias):
            classes = f"counts are of {len(self.bias)} classes"
            raise InputError(f"probabilities have the shape {shape}, and {classes}: the last axis must be the classes.")
        rows = check_rows(given.reshape(-1, shape[-1])) if np.prod(shape) else np.zeros((0, shape[-1]))
        adjusted = softmax(log_probabilities(rows) / self.temperature + self.shift, axis=-1).reshape(shape)
        return adjusted.astype(given.dtype) if isinstance(given, np.ndarray) else given.new_tensor(adjusted)


def adjust(probabilities: Tensorlike, counts: ArrayLike, tau: float = 1.0, prior: ArrayLike | None = None) -> Any:
    """Correct probabilities for the class counts: p_c prior_c / N_c ** tau, renormalised.

    At tau 1 a model that learnt p(y | x) under the counts' prior gives it under `prior`.

    Parameters
    ----------
    probabilities : array or tensor (..., C)
        A model's softmax.
    counts : array (C,)
        Training examples of each class.
    tau : float
        How far to correct.
    prior : array (C,), optional
        How frequent the classes are where the model is used; by default equally.

    Returns
    -------
    array or tensor (..., C)
        Of the kind and type that was given.

    Examples
    --------
    >>> cu.adjust(np.array([0.9, 0.1]), counts=[90, 10]).round(3)
    array([0.5, 0.5])
    """
    return Adjustment.of(counts, tau, prior)(probabilities)


def best_tau(
    probabilities: Any,
    labels: ArrayLike,
    counts: ArrayLike,
    grid: Sequence[float] = GRID,
    prior: ArrayLike | None = None,
    goal: Goal | None = None,
    temperature: float = 1.0,
    usual: float | None = None,
    weights: Vector | None = None,
) -> float:
    """The tau of the grid with the lowest error on examples that the model never saw; of equals the lowest NLL.

    Probabilities are (N, C), as an out-of-fold estimate has them, labels (N,). Both criteria are weighted so that
    classes are as frequent as `prior` says, by default equally. With a goal, its value takes the place of the error,
    its prior that of `prior`, and its decision that of the likeliest class; the temperature may change decisions.
    With equal counts every tau does the same, and the first is returned. A `usual` tau is kept unless another is better
    by more than a paired standard error. An example counts by its weight (N,), all of which are above 0.
    """
    p, labels = check_judged(probabilities, labels)
    if not len(grid):
        raise InputError("the grid of tau is empty: give one value at least.")
    grid = grid if usual is None else list(dict.fromkeys((*grid, usual)))
    prior = prior if goal is None else goal.prior
    first = Adjustment.of(counts, grid[0], prior)
    candidates = _on_grid(tuple(Stats(counts).counts), tuple(grid), tuple(first.prior), temperature)
    classes = len(first.bias)
    if classes != p.shape[1]:
        raise InputError(f"counts are of {classes} classes, and probabilities of {p.shape[1]}: give one a class.")
    goal = Goal("prior", candidates[0].prior) if goal is None else goal
    under_prior = prior_weights(labels, goal.prior, weights)
    if not np.ptp(Stats(counts).counts):
        return grid[0]
    decisions = list(_decisions(log_probabilities(p) / temperature, candidates, goal))
    values = [round(float(goal.contributions_of(guesses, labels, weights).sum()), 10) for guesses in decisions]
    tied = [i for i, value in enumerate(values) if value == min(values)]
    best = min(tied, key=lambda i: weighted_means(losses(candidates[i](p), labels), under_prior)[1])
    if usual is not None:
        gains = np.subtract(*(goal.contributions_of(decisions[i], labels, weights) for i in (grid.index(usual), best)))
        best = best if is_clear(*paired_sum(gains)) else grid.index(usual)
    return grid[best]


@lru_cache(maxsize=64)  # the same for all examples that are left out in turn
def _on_grid(
    counts: tuple[float, ...], grid: tuple[float, ...], prior: tuple[float, ...], temperature: float
) -> list[Adjustment]:
    adjustments = []
    for tau in grid:
        adjustments.append(replace(Adjustment.of(counts, tau, prior), temperature=temperature))
    return adjustments


def _decisions(scaled: NDArray, candidates: Sequence[Adjustment], goal: Goal) -> Iterator[NDArray[np.int64]]:
    """(N,) for each candidate, from log p / T (N, C). No softmax is taken: its divisor changes no decision."""
    if goal.costs is None:
        yield from (goal.decide(scaled + adjustment.shift) for adjustment in candidates)
        return
    p = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    for adjustment in candidates:
        yield goal.decide(p * np.exp(adjustment.shift - adjustment.shift.max()))


def check_judged(probabilities: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities as float64 (N, C) and labels as int64 (N,)."""
    p = check_rows(probabilities)
    return p, check_labels(labels, *p.shape)


def log_prior(prior: Vector) -> Vector:
    """-inf of a class that cannot be."""
    with np.errstate(divide="ignore"):
        return np.log(prior)


def losses(p: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(2, N): 1 where the prediction is wrong, and -log p of the label."""
    return np.stack([p.argmax(axis=1) != labels, -log_probabilities(p[np.arange(len(p)), labels])])


def weighted_means(example_losses: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, float]:
    """(error, NLL) of losses (2, N), rounded so that the last bit decides nothing."""
    error, nll = (round(float(weights @ values), 12) for values in example_losses)
    return error, nll


def check_tau(tau: Any, or_auto: bool = False) -> None:
    """Refuse anything but a strength of the adjustment or, where it may be chosen, "auto"."""
    if or_auto and isinstance(tau, str) and tau == "auto":
        return
    allowed = "a finite number from 0, or 'auto'" if or_auto else "a finite number from 0"
    check_number("tau", tau, allowed, lambda number: 0 <= number < np.inf)


def combined(probabilities: Any, mean: str = "geometric") -> NDArray[np.float64]:
    """The members' mean (T, N, C) -> (N, C): of their probabilities, or of the logarithms and renormalised.

    The geometric mean stays as sure as one member, so a tau or a temperature that suits one suits all together.
    """
    from scipy.special import softmax

    if mean not in MEANS:
        raise unknown("mean", mean, MEANS)
    p = check_probabilities(probabilities)
    return p.mean(axis=0) if mean == "arithmetic" else softmax(log_probabilities(p).mean(axis=0), axis=-1)
