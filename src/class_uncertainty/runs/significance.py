"""Is one method better than another, or is it the seeds? Paired t intervals of gains; almost stochastic order.

Almost stochastic order is by del Barrio et al. 2018 and Dror et al. 2019.
"""

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, check, check_least, take
from class_uncertainty.errors import InputError

ENOUGH = 5  # scores a side below which the bootstrap knows little
DRAWS = 1000
SIGNIFICANCE = 0.05  # probability that any test of a table errs
SAME = 1e-9  # points: differences of equal gains are rounded
LARGEST = 1e150  # of scores: their squares are finite too


class Epsilon(float):
    """epsilon_min as a number, with a warning where there were too few scores to trust it."""

    warning: str | None

    def __new__(cls, value: float, warning: str | None = None) -> "Epsilon":
        number = super().__new__(cls, value)
        number.warning = warning
        return number


def corrected_confidence(tests: int) -> float:
    """Of each of so many tests in one table (Bonferroni): 1 - 0.05 / tests."""
    return 1 - SIGNIFICANCE / max(tests, 1)


def paired_differences(errors: Mapping[int, float], others: Mapping[int, float]) -> NDArray[np.float64]:
    """(n,) errors of another method less these, of the seeds that both have."""
    seeds = sorted(errors.keys() & others.keys())
    return np.array([others[seed] - errors[seed] for seed in seeds], dtype=np.float64)


def tells_chance(differences: NDArray[np.float64]) -> bool:
    """Whether differences (n,) tell a gain from chance: two at least, which are not all the same."""
    return len(differences) > 1 and bool(np.ptp(differences) > SAME)


def gain_interval(differences: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """(low, high) of the mean of paired differences (n,): mean -+ t sd / sqrt(n), with t of n - 1 degrees of freedom.

    The rule of all gains between methods: a gain is clear if this interval, at `corrected_confidence`, does not hold 0.

    Examples
    --------
    >>> [round(end, 2) for end in gain_interval(np.array([1.0, 2.0, 3.0]), 0.95)]
    [-0.48, 4.48]
    """
    from scipy.special import stdtrit

    number = len(differences)
    reach = stdtrit(number - 1, (1 + confidence) / 2) * differences.std(ddof=1) / np.sqrt(number)
    mean = differences.mean()
    return float(mean - reach), float(mean + reach)


def aso(a: ArrayLike, b: ArrayLike, confidence: float = 0.95, seed: int = 0) -> Epsilon:
    """Test whether errors `a` are stochastically below errors `b`.

    epsilon_min = eps(a, b) - sqrt((n + m) / (n m)) sigma Phi^-1(1 - confidence), with a bootstrapped sigma, clipped to
    [0, 1].

    Parameters
    ----------
    a, b : array (n,) and (m,)
        Errors of two methods, one a run.
    confidence : float
        Of the test.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Epsilon
        A float: `a` is better where it is under 0.5; 0 is a full order, 1 none. Its `warning` is text where there are
        fewer than five runs.

    Examples
    --------
    >>> cu.aso([5.1, 5.0, 5.3, 4.9, 5.2], [6.0, 6.2, 5.9, 6.1, 6.3])
    0.0
    """
    check(Array, a=a, b=b)
    confidence = take(float, confidence=confidence)
    a, b = _scores("a", a), _scores("b", b)
    if not 0 < 1 - confidence < 1:
        raise InputError(f"confidence is {confidence:g}: it must lie between 0 and 1.")
    check_least("seed", seed, 0)
    fewest = min(a.shape[1], b.shape[1])
    advice = f"few scores ({fewest} on a side): at least {ENOUGH} are needed before this number means much"
    warning = advice if fewest < ENOUGH else None
    n, m = a.shape[1], b.shape[1]
    rng = np.random.default_rng(seed)
    size = np.sqrt(n * m / (n + m))
    ratio = _violation(a, b)[0]
    draws = _violation(rng.choice(a[0], (DRAWS, n)), rng.choice(b[0], (DRAWS, m)))
    sigma = np.std(size * (draws - ratio))
    epsilon = ratio - sigma * NormalDist().inv_cdf(1 - confidence) / size
    return Epsilon(float(np.clip(epsilon, 0, 1)), warning)


def _scores(name: str, values: ArrayLike) -> NDArray[np.float64]:
    refused = InputError(f"scores {name} must be finite numbers in one list, one a run.")
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise refused from None
    if scores.ndim != 1 or not len(scores) or not (np.abs(scores) < LARGEST).all():
        raise refused
    return scores[None]


def _violation(a: NDArray, b: NDArray) -> NDArray[np.float64]:
    """eps, the share of the integral of (F^-1 - G^-1)^2 where a's quantile is the higher error: (R, n), (R, m) -> (R,).

    Empirical quantile functions are steps at i/n and j/m, so the integrals are exact sums over the joint steps.
    """
    n, m = a.shape[1], b.shape[1]
    edges = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)  # in units of 1 / (n m)
    width = np.diff(edges, prepend=0)
    gap = np.sort(a, axis=1)[:, -(-edges // m) - 1] - np.sort(b, axis=1)[:, -(-edges // n) - 1]
    whole = (width * gap**2).sum(axis=1)
    violated = (width * np.maximum(gap, 0) ** 2).sum(axis=1)
    return np.where(whole > 0, violated / np.where(whole > 0, whole, 1), 1.0)  # equal scores: no order either way
