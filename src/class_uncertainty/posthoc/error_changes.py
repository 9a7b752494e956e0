"""What a fix brings and what it costs: changes of errors on the same test examples, with 95 % intervals."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.metrics import prior_weights
from class_uncertainty.posthoc.goal import Goal, paired_sum
from class_uncertainty.posthoc.intervals import (
    HANDFUL,
    LEVEL,
    change_interval,
    changed,
    design_effects,
    error_intervals,
    interval_of_mean,
    level_of_all,
    loss_interval,
    paired_reach,
    sum_by_class,
)
from class_uncertainty.text import decimal

NEEDED = 0.5  # of a gain: where classes with a HANDFUL bring more, the gain hangs on them


@dataclass(frozen=True)
class ErrorChange:
    """In percentage points, or of a mean cost, with its interval; below 0 where the error or the cost falls."""

    change: float
    low: float
    high: float

    @property
    def is_clear_rise(self) -> bool:
        return self.low > 0

    @property
    def is_clear_fall(self) -> bool:
        return self.high < 0

    @property
    def is_clear(self) -> bool:
        """Whether the interval does not hold 0."""
        return self.is_clear_rise or self.is_clear_fall


@dataclass(frozen=True)
class Price:
    """Changes from before to after. The intervals are for other test examples of the same classes, not other seeds."""

    examples: tuple[int, ...]  # (C,) test examples
    overall: ErrorChange  # over all test examples
    mean: ErrorChange  # of the class-mean error
    classes: tuple[ErrorChange, ...]  # (C,), NaN for a class without examples
    together: tuple[ErrorChange, ...]  # (C,) the same with intervals that hold for all judged classes at once
    before: tuple[tuple[float, float], ...]  # (C,) intervals of the errors before
    after: tuple[tuple[float, float], ...]  # and of those after
    has_groups: bool = False  # whether the examples come in groups, which the intervals allow for
    goal: ErrorChange | None = None  # of what the goal measures, if that is neither the class-mean error nor the worst

    def __repr__(self) -> str:
        mean, overall = (decimal(change.change, 1, "+") for change in (self.mean, self.overall))
        return f"Price({len(self.classes):,} classes: class-mean error {mean} points, overall {overall})"

    @property
    def is_clear(self) -> NDArray[np.bool_]:
        """(C,) whether a judged class changes clearly: by chance that names any with at most about 5 %."""
        clear = [change.is_clear for change in self.together]
        return np.array(clear) & (np.array(self.examples) >= HANDFUL)

    @property
    def handful(self) -> "Handful | None":
        """The classes with a HANDFUL of test examples, where they bring more than NEEDED of the class-mean gain."""
        few = [c for c, examples in enumerate(self.examples) if 0 < examples < HANDFUL]
        judged = sum(examples > 0 for examples in self.examples)
        points = -sum(self.classes[c].change for c in few) / max(judged, 1)
        if self.mean.change >= 0 or points <= -NEEDED * self.mean.change:
            return None
        return Handful(points, len(few), sum(self.examples[c] for c in few))


@dataclass(frozen=True)
class Handful:
    """What classes with few test examples contribute to the gain in class-mean error."""

    points: float
    classes: int
    examples: int  # of all of them


def price(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    labels: NDArray[np.int64],
    classes: int,
    groups: NDArray[np.int64] | None = None,
) -> Price:
    """The Price, from how wrong each example is (N,) before and after: the share of seeds that are.

    The intervals of classes and of all examples are Bonett and Price's; that of the mean combines those of the classes.
    Those that hold together are corrected for the number of judged classes, by Bonferroni. Errors have Clopper and
    Pearson's.
    With groups (N,) the counts are divided by design effects, and the mean's is at least as wide as that of groups.
    """
    examples = np.bincount(labels, minlength=classes)
    better, worse = changed(before, after, labels, classes)
    effects = design_effects(after - before, labels, classes, groups)
    effect = design_effects(after - before, np.zeros_like(labels), 1, groups).item()
    by_class = list(zip(better.tolist(), worse.tolist(), examples.tolist(), effects.tolist(), strict=True))
    changes = tuple(_change(*numbers) for numbers in by_class)
    level = level_of_all(examples)
    together = tuple(_change(*numbers, level) for numbers in by_class)
    weights = (examples > 0) / np.count_nonzero(examples)
    mean = change_of_mean(changes, weights)
    mean = _allowing_for(groups, mean, 100 * (after - before) * weights[labels] / examples[labels])
    mean = replace(mean, low=max(mean.low, -100.0), high=min(mean.high, 100.0))
    overall = _change(float(better.sum()), float(worse.sum()), len(labels), effect)
    errors = (100 * sum_by_class(side, labels, classes) / np.maximum(examples, 1) for side in (before, after))
    sides = zip(errors, (before, after), strict=True)
    ends_before, ends_after = (error_intervals(*side, labels, classes, groups) for side in sides)
    return Price(
        examples=tuple(examples.tolist()),
        overall=overall,
        mean=mean,
        classes=changes,
        together=together,
        before=ends_before,
        after=ends_after,
        has_groups=groups is not None,
    )


def goal_change(
    goal: Goal,
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    labels: NDArray[np.int64],
    groups: NDArray[np.int64] | None = None,
) -> ErrorChange:
    """Of a goal's value, from the losses (N,) of the examples before and after; groups as in `price`."""
    classes, change = len(goal.prior), after - before
    effects = design_effects(change, labels, classes, groups)
    examples = np.bincount(labels, minlength=classes)
    total, squares = (sum_by_class(values, labels, classes) for values in (change, change**2))
    ends = loss_interval(total / effects, squares / effects, examples / effects, goal.mistakes)
    weights = sum_by_class(prior_weights(labels, goal.prior), labels, classes)
    changed_by = ErrorChange(*interval_of_mean(total / np.maximum(examples, 1), *ends, weights))
    return _allowing_for(groups, changed_by, change * prior_weights(labels, goal.prior))


def _allowing_for(groups: NDArray[np.int64] | None, change: ErrorChange, parts: NDArray[np.float64]) -> ErrorChange:
    """With an interval at least as wide as that of groups, which may hold several classes; parts (N,) sum to it."""
    if groups is None:
        return change
    reach = paired_reach(groups) * paired_sum(parts, groups)[1]
    return replace(change, low=min(change.low, change.change - reach), high=max(change.high, change.change + reach))


def change_of_mean(changes: Sequence[ErrorChange], weights: NDArray[np.float64]) -> ErrorChange:
    """Of the mean of class errors with weights (C,) of sum 1, 0 where unknown, from the changes of the classes."""
    values, low, high = map(np.nan_to_num, zip(*map(astuple, changes), strict=True))
    return ErrorChange(*interval_of_mean(values, low, high, weights))


def _change(better: float, worse: float, examples: int, effect: float, level: float = LEVEL) -> ErrorChange:
    """The change of a class; NaN without examples."""
    if not examples:
        return ErrorChange(np.nan, np.nan, np.nan)
    low, high = change_interval(better / effect, worse / effect, examples / effect, level)
    return ErrorChange(100 * (worse - better) / examples, float(low), float(high))
