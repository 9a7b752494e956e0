"""Goal: what is best for whom, as a number that examples with labels measure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures.measures import Stats, Vector
from class_uncertainty.metrics import check_prior, decide, errors_by_class, prior_weights, worst_classes
from class_uncertainty.posthoc.cost_files import check_cost_file, check_costs, read_costs
from class_uncertainty.posthoc.prediction_files import read_numbers
from class_uncertainty.text import enumerated

GOALS = ("mean", "worst", "accuracy", "cost:FILE.csv", "prior:FILE")
NAMED = 5  # classes in a refusal

Matrix = NDArray[np.float64]  # (C, C)
Labels = NDArray[np.int64]  # (N,)


@dataclass(frozen=True, eq=False)
class Goal:
    """What a network is to be good at. A lower value is better.

    The value is sum_i w_i loss_i, with w_i = prior_y / n_y for an example of class y, of which there are n_y. The loss
    is 100 for a wrong prediction, or what the prediction costs. Classes without examples are left out.

    Attributes
    ----------
    name : str
        As typed: 'mean', 'worst', 'accuracy', 'cost:FILE' or 'prior:FILE'.
    prior : array (C,)
        How frequent the classes are where the network is used; of sum 1.
    costs : array (C, C), optional
        What it costs to predict the class of the column for an example of the class of the row.
    only_worst : bool
        Whether only the worst tenth of the classes counts: those with the highest errors of what is judged.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> parse_goal("mean", ["a", "b"], [2, 1]).value(p, np.array([0, 0, 1]))
    50.0
    """

    name: str
    prior: Vector
    costs: Matrix | None = None
    only_worst: bool = False

    def __post_init__(self) -> None:
        classes = len(np.atleast_1d(self.prior))
        object.__setattr__(self, "prior", check_prior(self.prior, classes))
        if self.costs is not None:
            object.__setattr__(self, "costs", check_costs(self.costs, classes))

    @property
    def unit(self) -> str:
        """Of the value."""
        return "%" if self.costs is None else ""

    @property
    def weighs_by_frequency(self) -> bool:
        """Whether classes count as naive training weighs them: for 'accuracy' and costs."""
        return self.name.partition(":")[0] in ("accuracy", "cost")

    def describe(self) -> str:
        """The value in words, to stand inside a sentence."""
        kind, _, file = self.name.partition(":")
        return {
            "mean": "class-mean error",
            "worst": "mean error of the worst tenth of the classes",
            "accuracy": "error on classes as frequent as in training",
            "cost": "mean cost at the training prior",
        }.get(kind, f"error under the prior of {file}")

    @property
    def mistakes(self) -> Vector:
        """(C,) the loss of a wrong prediction beyond that of the right one, for an example of each class: a mean."""
        classes = len(self.prior)
        if self.costs is None:
            return np.full(classes, 100.0)
        return np.abs(self.costs - np.diag(self.costs)[:, None]).sum(axis=1) / max(classes - 1, 1)

    def decide(self, p: NDArray) -> Labels:
        """(N, C) -> (N,): the most probable class or, with costs, the one of the least expected cost."""
        return decide(p, self.costs)

    def contributions(self, p: NDArray, labels: Labels, weights: Vector | None = None) -> NDArray[np.float64]:
        """(N,) whose sum is the value: in percent or, with costs, the mean cost of an example."""
        return self.contributions_of(self.decide(p), labels, weights)

    def contributions_of(self, guesses: Labels, labels: Labels, weights: Vector | None = None) -> NDArray[np.float64]:
        """The same for predicted classes (N,)."""
        return self._weights(guesses, labels, weights) * self.losses(guesses, labels)

    def value(self, p: NDArray, labels: Labels) -> float:
        """How far probabilities (N, C) are from the goal, by labels (N,)."""
        return float(self.contributions(p, labels).sum())

    def standard_error(self, p: NDArray, labels: Labels, groups: Labels | None = None) -> float:
        """Of the value, if other examples of the same classes had been drawn: sqrt(sum_c w_c ** 2 s_c ** 2 / n_c).

        s_c ** 2 is the variance of the losses within class c, over n_c - 1. A class of one example has none: it takes
        the variance over all classes under the prior, which for errors is that of a Bernoulli variable of the mean
        rate. Which classes are the worst is taken as given. With groups (N,) it is the root of the sum over them of
        the square of sum_i w_i (loss_i - the mean of its class), and no less.
        """
        guesses = self.decide(p)
        losses, weights = self.losses(guesses, labels), self._weights(guesses, labels)
        over_all = prior_weights(labels, self.prior)
        pooled = max(float(over_all @ losses**2 - (over_all @ losses) ** 2), 0.0)  # rounding may go below it
        examples = np.bincount(labels, minlength=len(self.prior))
        means = np.bincount(labels, losses, minlength=len(self.prior)) / np.maximum(examples, 1)
        squares = np.bincount(labels, (losses - means[labels]) ** 2, minlength=len(self.prior))
        variances = np.where(examples > 1, squares / np.maximum(examples - 1, 1), pooled)
        alone = float(np.sqrt(weights**2 @ variances[labels]))
        if groups is None:
            return alone
        return max(alone, paired_sum(weights * (losses - means[labels]), groups)[1])

    def difference(
        self, p_a: NDArray, p_b: NDArray, labels: Labels, groups: Labels | None = None, weights: Vector | None = None
    ) -> tuple[float, float]:
        """(value of a - value of b, its paired standard error): sum_i d_i and sqrt(sum_i d_i ** 2).

        d_i is the difference of both contributions of an example or, with groups (N,), of all examples of a group.
        """
        a, b = (self.contributions(p, labels, weights) for p in (p_a, p_b))
        return paired_sum(a - b, groups)

    def losses(self, guesses: Labels, labels: Labels) -> NDArray[np.float64]:
        """(N,) 100 for a wrong prediction or, with costs, what the prediction costs."""
        return 100.0 * (guesses != labels) if self.costs is None else self.costs[labels, guesses]

    def _weights(self, guesses: Labels, labels: Labels, weights: Vector | None = None) -> NDArray[np.float64]:
        """(N,) of sum 1."""
        if not self.only_worst:
            return prior_weights(labels, self.prior, weights)
        errors = errors_by_class(guesses != labels, labels, len(self.prior), weights)
        present = np.flatnonzero(~np.isnan(errors))
        counted = np.isin(np.arange(len(errors)), present[worst_classes(errors[present])])
        return prior_weights(labels, self.prior * counted, weights)


def value_digits(unit: str) -> int:
    """Decimals of a goal's values, by their unit: costs have none."""
    return 2 if unit == "%" else 3


def check_goal(text: str) -> tuple[str, str]:
    """The kind of a goal, and the file that it names or ""; refuses a goal and a file that there are not."""
    kind, colon, file = text.partition(":")
    if kind not in {goal.partition(":")[0] for goal in GOALS} or (colon and kind not in ("cost", "prior")):
        raise unknown("goal", text, GOALS)
    if kind in ("cost", "prior") and not file:
        raise InputError(f"the goal {text!r} names no file: write {GOALS[3] if kind == 'cost' else GOALS[4]}.")
    if kind == "cost":
        check_cost_file(file)
    if kind == "prior":
        read_numbers(file, f"goal {text!r}: the prior")
    return kind, file


def parse_goal(text: str, classes: Sequence[str], counts: ArrayLike) -> Goal:
    """The goal of that name, with its file read.

    Costs are met at the frequencies of the training data, as errors are with 'accuracy'.

    Parameters
    ----------
    text : str
        'mean', 'worst', 'accuracy', 'cost:FILE.csv' or 'prior:FILE'.
    classes : sequence of str
    counts : array (C,)
        Training examples of each class.
    """
    kind, file = check_goal(text)
    if kind == "prior":
        try:
            return Goal(text, check_prior(read_numbers(file, "the prior"), len(classes)))
        except InputError as error:
            raise InputError(f"goal {text!r}: {error}") from None
    if kind == "cost":
        return Goal(text, frequencies(counts), read_costs(file, classes))
    prior = frequencies(counts) if kind == "accuracy" else check_prior(None, len(classes))
    return Goal(text, prior, only_worst=kind == "worst")


def paired_sum(differences: NDArray[np.float64], groups: Labels | None = None) -> tuple[float, float]:
    """The sum of paired differences (N,), and its standard error: sum_i d_i and sqrt(sum_i d_i ** 2).

    With groups (N,) of examples that err alike, d_i is the sum over a group.
    """
    independent = differences if groups is None else np.bincount(groups, differences)
    return float(differences.sum()), float(np.linalg.norm(independent))


def is_clear(gain: float, standard_error: float) -> bool:
    """Whether a gain is more than its standard error, rounded so that the last bits decide nothing."""
    return round(gain - standard_error, 10) > 0


def frequencies(counts: ArrayLike) -> Vector:
    """How frequent the classes are in training: the prior of 'train' and of the goal 'accuracy'."""
    checked_counts = Stats(counts).counts
    return checked_counts / checked_counts.sum()


def adjusts(counts: ArrayLike, goal: Goal) -> bool:
    """Whether an adjustment can change a decision: not where neither the counts nor the prior tell classes apart."""
    return bool(np.ptp(np.asarray(counts)) > 0 or np.ptp(goal.prior) > 1e-12)


def check_judgeable(counts: ArrayLike, classes: Sequence[str], goal: Goal) -> None:
    """Refuse examples that cannot judge a goal: each class that it counts needs two, one to choose on, one to judge."""
    few = (np.asarray(counts) < 2) & (goal.prior > 0)
    if few.any():
        names = [repr(classes[c]) for c in np.flatnonzero(few).tolist()]
        named = enumerated(names, NAMED)
        subject = f"class {named} has" if len(names) == 1 else f"the classes {named} have"
        needs = f"to judge the goal {goal.name!r}, every class needs 2 at least"
        raise InputError(f"{subject} fewer than 2 examples: {needs}.")
