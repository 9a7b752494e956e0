"""Goal: what is best for whom, as a number that examples with labels measure; costs and priors come from files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data.readers.csv_file import read_rows
from class_uncertainty.data.readers.npz import read_arrays
from class_uncertainty.data.spec import split_argument
from class_uncertainty.data.table import LARGEST
from class_uncertainty.errors import InputError, MachineFault, nearest, unknown
from class_uncertainty.io import check_regular, near, parse_json
from class_uncertainty.measures.measures import Stats, Vector
from class_uncertainty.metrics import check_prior, decide, errors_by_class, prior_weights, worst_classes
from class_uncertainty.text import enumerated

GOALS = ("mean", "worst", "overall", "cost:FILE.csv", "prior:FILE")
NAMED = 5  # classes in a refusal

Matrix = NDArray[np.float64]  # (C, C)
Labels = NDArray[np.int64]  # (N,)
Rows = Sequence[Sequence[str]]  # cells as text


@dataclass(frozen=True, eq=False)
class Goal:
    """What a network is to be good at. A lower value is better.

    The value is sum_i w_i loss_i, with w_i = prior_y / n_y for an example of class y, of which there are n_y. The loss
    is 100 for a wrong prediction, or what the prediction costs. Classes without examples are left out.

    Attributes
    ----------
    name : str
        As typed: 'mean', 'worst', 'overall', 'cost:FILE' or 'prior:FILE'.
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
        """Whether classes count as naive training weighs them: for 'overall' and costs."""
        return self.name.partition(":")[0] in ("overall", "cost")

    def describe(self) -> str:
        """The value in words, to stand inside a sentence."""
        kind, _, file = self.name.partition(":")
        return {
            "mean": "class-mean error",
            "worst": "mean error of the worst tenth of the classes",
            "overall": "overall error at the training prior",
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


def check_goal(text: str) -> None:
    """Refuse a goal, and a file, that there are not."""
    kind, file = split_argument("goal", text, GOALS)
    if kind == "cost":
        check_cost_file(file)
    if kind == "prior":
        read_numbers(file, f"goal {text!r}: the prior")


def parse_goal(text: str, classes: Sequence[str], counts: ArrayLike) -> Goal:
    """The goal of that name, with its file read.

    Costs are met at the frequencies of the training data, as errors are with 'overall'.

    Parameters
    ----------
    text : str
        'mean', 'worst', 'overall', 'cost:FILE.csv' or 'prior:FILE'.
    classes : sequence of str
    counts : array (C,)
        Training examples of each class.
    """
    kind, file = split_argument("goal", text, GOALS)
    if kind == "prior":
        try:
            return Goal(text, check_prior(read_numbers(file, "the prior"), len(classes)))
        except InputError as error:
            raise InputError(f"goal {text!r}: {error}") from None
    if kind == "cost":
        return Goal(text, frequencies(counts), read_costs(file, classes))
    prior = frequencies(counts) if kind == "overall" else check_prior(None, len(classes))
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
    """How frequent the classes are in training: the prior of 'train' and of the goal 'overall'."""
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


def read_costs(path: str | Path, classes: Sequence[str]) -> NDArray[np.float64]:
    """(C, C) from a CSV file, a row for each true class and a column for each predicted one.

    Class names may stand above, on the left or both, in any order; without names the order is that of `classes`.
    """
    path, size = check_cost_file(path), len(classes)
    rows = [[cell.strip() for cell in row] for row in read_rows(path)[0]]
    above, left, hint = len(rows) == size + 1, len(rows[0]) == size + 1, _missing(rows, classes)
    if (len(rows) - above, len(rows[0]) - left) != (size, size):
        raise InputError(f"{path} has {len(rows)} rows of {len(rows[0])} cells{hint}: {_allowed(size)}.")
    cells = [row[left:] for row in rows[above:]]
    true = _order(path, [row[0] for row in rows[above:]], classes) if left else np.arange(size)
    predicted = _order(path, rows[0][left:], classes) if above else np.arange(size)
    costs = np.array(
        [[_number(cell, f"{path} has {cell!r} for a cost{hint}: {_allowed(size)}.") for cell in row] for row in cells]
    )
    try:
        return check_costs(costs[np.ix_(true, predicted)], size, classes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def check_cost_file(path: str | Path) -> Path:
    """The path of a file that exists."""
    path = Path(path)
    if not os.path.exists(path):  # a name may be too long for path.exists()
        allowed = "costs are a CSV file with a row for each class and a column for each prediction"
        raise InputError(f"{path} does not exist{near(path)}: {allowed}.")
    return path


def check_costs(costs: ArrayLike, size: int, classes: Sequence[str] = ()) -> NDArray[np.float64]:
    """(C, C) finite numbers from 0, of which some wrong prediction costs more than 0, and no right one the most."""
    try:
        matrix = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape != (size, size):
        raise InputError(f"costs have the shape {matrix.shape}: {_allowed(size)}.")
    names = [repr(name) for name in classes] or [str(c) for c in range(size)]
    for bad, allowed in ((~(np.abs(matrix) <= LARGEST), "finite in 32 bits"), (matrix < 0, "at least 0")):
        if bad.any():
            i, j = np.argwhere(bad)[0]
            cost = f"the cost of predicting class {names[j]} for class {names[i]} is {matrix[i, j]:g}"
            raise InputError(f"{cost}: every cost must be {allowed}.")
    wrong = matrix[~np.eye(size, dtype=bool)].reshape(size, size - 1)
    if not wrong.any():
        raise InputError("every wrong prediction costs 0: one at least must cost more.")
    if (gains := np.flatnonzero(np.diag(matrix) > wrong.max(axis=1))).size:
        c = gains[0]
        right = f"the right prediction of class {names[c]} costs {matrix[c, c]:g}, and a wrong one {wrong[c].max():g}"
        raise InputError(f"{right} at most: give what predictions cost, not what they gain.")
    return matrix


def _allowed(size: int) -> str:
    return f"the costs of {size} classes are {size} x {size} numbers, with or without class names above and on the left"


def _missing(rows: Rows, classes: Sequence[str]) -> str:
    """' and no class 'x'' where there are names of other classes above or on the left."""
    names = {*rows[0], *(row[0] for row in rows)}
    absent = [name for name in classes if name.strip() not in names]
    return f" and no class {absent[0]!r}" if 0 < len(absent) < len(classes) else ""


def _order(path: Path, names: Sequence[str], classes: Sequence[str]) -> NDArray[np.int64]:
    """Where each class stands among the names."""
    stripped = [name.strip() for name in classes]
    for name in names:
        if name not in stripped:
            raise unknown(f"class in {path}", name, classes)
        if names.count(name) > 1:
            absent = next(name for name in classes if name.strip() not in names)
            raise InputError(f"{path} has class {name!r} twice, and no class {absent!r}: give each once.")
    return np.array([names.index(name) for name in stripped])


def _number(cell: str, refusal: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(refusal) from None


def read_numbers(text: str, option: str, alternatives: str = "") -> Vector:
    """'500,60,7' or a file of numbers, one a class: .npy, .json with a list, or text with commas or one number a line.

    `alternatives` is what else the option takes, for the refusal.
    """
    try:
        return _parse(text) if _is_numbers(text) else _read(text)
    except FileNotFoundError:
        allowed = f"{alternatives}numbers with commas between them, or a file of numbers that exists"
        near = nearest(text, filter(None, alternatives.split(", ")))
        must = f"did you mean {near!r}? It must" if near else "it must"
        raise InputError(f"{option} is {text!r}: {must} be {allowed}.") from None
    except OSError as error:
        raise MachineFault(f"{text} could not be read: {error.strerror or error}.") from error
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):  # of text, of JSON, and of bytes that are neither
        raise InputError(f"{text} is no file of numbers: give one number a class.") from None


def _is_numbers(text: str) -> bool:
    try:
        return len(_parse(text)) > 0 and not os.path.isfile(text)
    except ValueError:
        return False


def _parse(text: str) -> Vector:
    return np.array([float(part) for part in text.replace(",", " ").split()])


def _read(path: str) -> Vector:
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: give a file of numbers, one a class.")
    if path.endswith(".npy"):
        return np.asarray(read_arrays(path, lambda loaded: loaded), dtype=np.float64)
    if not path:
        raise FileNotFoundError  # which Path would take for this folder
    check_regular(Path(path))
    text = Path(path).read_text(encoding="utf-8-sig")
    return np.array(parse_json(text), dtype=np.float64) if path.endswith(".json") else _parse(text)
