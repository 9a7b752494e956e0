"""How many independent examples the examples of groups are worth: patients, customers or videos err alike.

Korn and Graubard divide counts by a design effect, and use the exact intervals of what is left.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.posthoc.intervals import LEVEL, normal_quantile, share_interval, sum_by_class

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]  # (N,) from 0


def design_effects(values: Numbers, labels: Codes, classes: int, groups: Codes | None, level: float = LEVEL) -> Numbers:
    """(C,) what counts of each class are divided by, from how wrong each example is, or how that changes (N,).

    The variance of a class's mean over groups as sampled, over that of as many independent examples: the larger of the
    one measured in this class and 1 + (m - 1) rho, where m is the size of the group of a typical example and rho the
    correlation of two examples of one group and class, over all classes. Where no class has any spread, nothing speaks
    against a rho of 1. Quantiles of Student's t make up for few groups: of one group nothing is known, and its effect
    is infinite. Without groups, or where each has one example, effects are 1.
    """
    if groups is None:
        return np.ones(classes)
    pair_labels, sizes, sums, squares = _by_group(values, labels, classes, groups)

    def by_class(of_pairs: Numbers) -> Numbers:
        return sum_by_class(of_pairs, pair_labels, classes)

    examples, number = by_class(sizes), by_class(np.ones_like(sizes))  # number: of groups
    at_least_one, spread = np.maximum(examples, 1), by_class(squares)
    weight = float(by_class(sizes**2 - sizes) @ (spread / at_least_one))
    rho = float(by_class(sums**2 - squares).sum()) / weight if weight > 0 else 1.0
    pooled = 1 + (by_class(sizes**2) / at_least_one - 1) * min(max(rho, 0.0), 1.0)
    # m / (m - 1) sum_g s_g ** 2 / n ** 2, over the variance of n independent examples
    independent = spread * at_least_one * np.maximum(number - 1, 1)
    measured = np.divide(
        by_class(sums**2) * number * (examples - 1), independent, where=spread > 0, out=np.ones(classes)
    )
    few = (t_quantile(number - 1, level) / t_quantile(np.maximum(examples - 1, 1), level)) ** 2
    return np.where(number < examples, np.maximum(np.maximum(measured, pooled), 1.0) * few, 1.0)


def error_intervals(
    errors: ArrayLike, wrong: Numbers | None, labels: Codes, classes: int, groups: Codes | None
) -> tuple[tuple[float, float], ...]:
    """(C,) exact 95 % intervals of the errors (C,) of classes, in percent; NaN, of no examples, from 0 to 100.

    `wrong` is how wrong each example (N,) is. Where that is not known, a group counts as one example.
    """
    effects = design_effects(np.zeros(len(labels)) if wrong is None else wrong, labels, classes, groups)
    independent = np.bincount(labels, minlength=classes) / effects
    low, high = share_interval(np.nan_to_num(np.asarray(errors)) / 100 * independent, independent)
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def design_effects_of_rest(
    values: Numbers, labels: Codes, classes: int, groups: Codes | None, level: float = LEVEL
) -> Numbers:
    """(C,) the same of all examples of other classes, together."""
    if groups is None:
        return np.ones(classes)
    effects = np.ones(classes)
    for c in range(classes):
        rest = labels != c
        if rest.any():
            together = np.zeros(rest.sum(), dtype=np.int64)
            effects[c] = design_effects(values[rest], together, 1, groups[rest], level).item()
    return effects


def t_quantile(freedom: NDArray | int, level: float = LEVEL) -> Numbers:
    """Student's t in the place of `normal_quantile`; infinite without a degree of freedom."""
    from scipy.special import stdtrit

    freedom = np.asarray(freedom, dtype=np.float64)
    return np.where(freedom >= 1, stdtrit(np.maximum(freedom, 1), 1 - level / 2), np.inf)


def paired_reach(groups: Codes | None, level: float = LEVEL) -> float:
    """Standard errors that an interval reaches to either side: of the normal distribution or, with groups, of t."""
    return normal_quantile(level) if groups is None else float(t_quantile(len(np.unique(groups)) - 1, level))


def _by_group(values: Numbers, labels: Codes, classes: int, groups: Codes) -> tuple[Codes, Numbers, Numbers, Numbers]:
    """Of each group and class that occur together: the class, examples, the sum of deviations, and of their squares."""
    means = sum_by_class(values, labels, classes) / np.maximum(np.bincount(labels, minlength=classes), 1)
    deviations = values - means[labels]
    pairs, place, sizes = np.unique(groups * classes + labels, return_inverse=True, return_counts=True)
    sums, squares = (sum_by_class(values, place, len(pairs)) for values in (deviations, deviations**2))
    return pairs % classes, sizes.astype(np.float64), sums, squares
