"""How far shares of a few examples can be trusted: intervals, and tests of whether two of them differ."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.05  # intervals hold the truth, and no test errs, with at least about 1 - LEVEL

HANDFUL = 10  # test examples: a class with fewer says little

Numbers = NDArray[np.float64]


def level_of_all(examples: ArrayLike, level: float = LEVEL) -> float:
    """The level of each class's interval at which those of all judged classes hold at once: Bonferroni's.

    Judged are classes with a HANDFUL of their examples (C,).
    """
    judged = int(np.count_nonzero(np.asarray(examples) >= HANDFUL))
    return level / max(judged, 1)


def share_interval(part: ArrayLike, whole: ArrayLike, level: float = LEVEL) -> tuple[Numbers, Numbers]:
    """(low, high) in percent of a share part / whole: Clopper and Pearson's exact interval, elementwise.

    The bounds are quantiles of Beta distributions, which are defined between whole numbers, too: `part` may be a mean
    over seeds. Of no examples at all, the share lies between 0 and 100 %.
    """
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64))
    rest = n - k
    low = np.where(k > 0, betaincinv(np.where(k > 0, k, 1), rest + 1, level / 2), 0.0)
    high = np.where(rest > 0, betaincinv(k + 1, np.where(rest > 0, rest, 1), 1 - level / 2), 1.0)
    return 100 * low, 100 * high


def change_interval(
    better: ArrayLike, worse: ArrayLike, examples: ArrayLike, level: float = LEVEL
) -> tuple[Numbers, Numbers]:
    """(low, high) in percentage points of a paired change (worse - better) / examples, elementwise.

    `better` examples were wrong and are right, `worse` ones the other way round. Bonett and Price's interval: that of
    Wald after one example is added to either side, which keeps its level for few examples, too.
    """
    b, w = (np.asarray(values, dtype=np.float64) for values in (better, worse))
    low, high = loss_interval(w - b, w + b, examples, 1.0, level)
    return 100 * np.maximum(low, -1), 100 * np.minimum(high, 1)


def loss_interval(
    total: ArrayLike, squares: ArrayLike, examples: ArrayLike, mistake: ArrayLike, level: float = LEVEL
) -> tuple[Numbers, Numbers]:
    """(low, high) of a mean paired change of losses, from the sums of changes and of their squares, elementwise.

    Bonett and Price's interval for losses of any size: what is added to either side is one `mistake`.
    """
    s, q, n, m = (np.asarray(values, dtype=np.float64) for values in (total, squares, examples, mistake))
    change = s / (n + 2)
    reach = normal_quantile(level) * np.sqrt(((q + 2 * m**2) / (n + 2) - change**2) / (n + 2))
    return change - reach, change + reach


def interval_of_mean(
    values: ArrayLike, low: ArrayLike, high: ArrayLike, weights: ArrayLike
) -> tuple[float, float, float]:
    """(mean, low, high) of independent values with weights of sum 1, from the interval of each.

    Zou and Donner's: each distance to a bound is the root of the summed squares of the weighted ones.
    """
    x, bottom, top, w = (np.asarray(numbers, dtype=np.float64) for numbers in (values, low, high, weights))
    mean = float(w @ x)
    return mean, mean - float(np.linalg.norm(w * (x - bottom))), mean + float(np.linalg.norm(w * (top - x)))


def mean_interval(part: ArrayLike, whole: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """(low, high) in percent of the mean of shares part_c / whole_c, by its normal `mean_reach`."""
    mean, reach = 100 * float(np.mean(np.divide(part, whole))), mean_reach(part, whole, level)
    return max(mean - reach, 0.0), min(mean + reach, 100.0)


def mean_reach(part: ArrayLike, whole: ArrayLike, level: float = LEVEL) -> float:
    """How far the interval of a mean of shares part_c / whole_c reaches, in percentage points.

    Half an example is added to either side of each share: classes that are all right do not make the mean certain.
    """
    k, n = (np.asarray(values, dtype=np.float64) for values in (part, whole))
    shares = (k + 0.5) / (n + 1)
    return 100 * normal_quantile(level) * float(np.sqrt((shares * (1 - shares) / n).sum())) / len(n)


def difference_interval(
    part: ArrayLike, whole: ArrayLike, earlier_part: ArrayLike, earlier_whole: ArrayLike, level: float = LEVEL
) -> tuple[Numbers, Numbers]:
    """(low, high) in percentage points of part / whole - earlier_part / earlier_whole, of different examples.

    Newcombe's hybrid score interval (his method 10), elementwise.
    """
    a, a_low, a_high = _wilson(part, whole, level)
    b, b_low, b_high = _wilson(earlier_part, earlier_whole, level)
    low = a - b - np.sqrt((a - a_low) ** 2 + (b_high - b) ** 2)
    high = a - b + np.sqrt((a_high - a) ** 2 + (b - b_low) ** 2)
    return 100 * low, 100 * high


def _wilson(part: ArrayLike, whole: ArrayLike, level: float) -> tuple[Numbers, Numbers, Numbers]:
    """The share, and Wilson's score interval of it, from 0 to 1."""
    k, n, z = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64), normal_quantile(level)
    centre, spread = k + z**2 / 2, z * np.sqrt(k * (n - k) / n + z**2 / 4)
    return k / n, (centre - spread) / (n + z**2), (centre + spread) / (n + z**2)


def normal_quantile(level: float = LEVEL) -> float:
    """The z that a standard normal variable exceeds, on either side, with the probability `level`."""
    from scipy.special import ndtri

    return -float(ndtri(level / 2))


def changed(before: Numbers, after: Numbers, labels: NDArray[np.int64], classes: int) -> tuple[Numbers, Numbers]:
    """(C,) examples that got better, and that got worse: from how wrong each one (N,) is, 0 to 1, before and after."""
    better, worse = (np.maximum(gain, 0) for gain in (before - after, after - before))
    return sum_by_class(better, labels, classes), sum_by_class(worse, labels, classes)


def sum_by_class(values: Numbers, labels: NDArray[np.int64], classes: int) -> Numbers:
    """(C,) sums of values (N,) over the examples of each class."""
    return np.bincount(labels, weights=values, minlength=classes).astype(np.float64)


def worse_than_rest(
    wrong: ArrayLike, examples: ArrayLike, effects: Numbers | float = 1.0, rest_effects: Numbers | float = 1.0
) -> Numbers:
    """(C,) P that a class has no fewer errors if it were as hard as all others together: Fisher's exact test.

    Counts of a class and of the others are divided by their design effects first. What is then no whole number, as
    means over seeds, is rounded in favour of the class.
    """
    from scipy.stats import hypergeom

    k, n = np.asarray(wrong, dtype=np.float64), np.asarray(examples, dtype=np.float64)
    of_class, of_rest = np.floor(k / effects + 1e-9), np.ceil((k.sum() - k) / rest_effects - 1e-9)
    size, rest = np.ceil(n / effects - 1e-9), np.maximum(np.floor((n.sum() - n) / rest_effects + 1e-9), of_rest)
    return np.asarray(hypergeom.sf(of_class - 1, size + rest, of_class + of_rest, size), dtype=np.float64)


def at_least(part: ArrayLike, whole: ArrayLike, share: float) -> Any:
    """P(X >= part) of a binomial X of `whole` trials, defined between whole numbers, too."""
    from scipy.special import betainc

    k, n = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.where(k > 0, betainc(np.where(k > 0, k, 1), n - k + 1, share), 1.0)


def holm(p: ArrayLike) -> Numbers:
    """(C,) p values of C tests, corrected by Holm: below a level, no test at all errs with more than that level."""
    given = np.asarray(p, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1)), 1)
    return corrected


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
    """(C,) exact 95 % intervals of the errors (C,) of classes, in percent; NaN without examples.

    `wrong` is how wrong each example (N,) is. Where that is not known, a group counts as one example.
    """
    effects = design_effects(np.zeros(len(labels)) if wrong is None else wrong, labels, classes, groups)
    examples = np.bincount(labels, minlength=classes)
    independent = examples / effects
    ends = np.stack(share_interval(np.nan_to_num(np.asarray(errors)) / 100 * independent, independent), axis=1)
    ends[examples == 0] = np.nan
    return tuple((low, high) for low, high in ends.tolist())


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
