"""Estimate: how uncertain networks are about training examples, and so about classes. Estimator: a way to get one."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import check
from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import SCORES, Stats, Vector, class_means, normalise
from class_uncertainty.text import amount_of
from class_uncertainty.training import Lane, Recipe, Result


@dataclass(frozen=True, eq=False)
class EstimatorOutput:
    """What the networks of an estimator predict for the training examples."""

    probabilities: NDArray[np.float32]  # (T, N, C)
    # (N,) by name: scores that are no function of the probabilities
    extra_scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimator:
    """A way to estimate uncertainty.

    `lanes` gives what to train for a number of members and a seed. `score` lets the trained lanes, a Fit, predict the
    training examples; its last argument is a number of views: above 0, probabilities are means over so many random
    crops and flips.
    """

    about: str
    lanes: Callable[[int, int], list[Lane]]
    score: Callable[[Any, Data, int], EstimatorOutput]  # of None in place of a Fit where there are no lanes
    natural: str = "predictive"  # the default score
    scores: tuple[str, ...] = ()  # the names of its extra scores
    votes: int | None = None  # predictions of each example; None: one a member
    fewest: int = 1  # members
    views: bool = True  # whether it takes views
    # the members of an estimate, of those that were asked for, where they are not its votes: folds, or few epochs
    counted: Callable[[int, Recipe], int] | None = None


@dataclass(frozen=True, eq=False)
class Estimate:
    """How uncertain the members are about each training example, and so about each class.

    Attributes
    ----------
    estimator : str
        A key of ESTIMATORS.
    probabilities : array (T, N, C)
        What the members predict for the training examples.
    labels : array (N,)
    results : tuple of Result
        The results of the members.
    score : str
        The score by which examples are uncertain, a key of SCORES or of `extra_scores`.
    extra_scores : dict
        (N,) each: scores of the estimator that are no function of the probabilities.
    cost : float
        In trainings of one network.
    uncertainty : array (N,)
        Of each example, by the score.
    raw, mu : arrays (C,)
        Class means of the uncertainty (Eq. 9), and the same normalised to sum 1 (Eq. 10).
    epistemic_share : array (C,) or None
    stats : Stats
        What methods need.
    class_errors : array (C,) or None
        Errors of the members in percent.
    members, networks : int
        How many predict, snapshots and folds included, and how many were trained.

    Examples
    --------
    >>> p = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.9, 0.1], [0.5, 0.5]]], dtype=np.float32)
    >>> estimate = cu.Estimate("ensemble", p, labels=np.array([0, 1]))
    >>> estimate.mu.round(3)
    array([0.319, 0.681])
    >>> estimate.using("least-confidence").uncertainty.round(3)
    array([0.1, 0.5])
    """

    estimator: str
    probabilities: NDArray[np.float32]
    labels: NDArray[np.int64]
    results: tuple[Result, ...] = ()
    score: str = "predictive"
    extra_scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    cost: float = 0.0

    def __repr__(self) -> str:
        members, examples, classes = self.probabilities.shape
        of = f"{amount_of(members, 'member', 'members')}, {examples:,} examples, {classes:,} classes"
        return f"Estimate({self.estimator!r}, {of}, score {self.score!r})"

    def using(self, score: str) -> "Estimate":
        """The same networks read by another score."""
        check(str, score=score)
        if score not in (allowed := {**SCORES, **self.extra_scores}):
            raise unknown("score", score, allowed)
        return replace(self, score=score)

    @cached_property
    def uncertainty(self) -> NDArray[np.float64]:
        """(N,) uncertainty of each example, by the score (Eq. 8 where it is predictive)."""
        return self._scored(self.score)

    def _scored(self, score: str) -> NDArray[np.float64]:
        extra = self.extra_scores.get(score)
        return SCORES[score](self.probabilities, self.labels) if extra is None else extra

    @cached_property
    def raw(self) -> Vector:
        """(C,) class means (Eq. 9)."""
        return class_means(self.uncertainty, self.labels, self.probabilities.shape[-1])

    @property
    def mu(self) -> Vector:
        """(C,) class means, normalised to sum 1 (Eq. 10)."""
        if not self.raw.any():
            raise InputError(f"by score {self.score!r} {self.estimator!r} is certain of every example: choose another.")
        return normalise(self.raw)

    @cached_property
    def epistemic_share(self) -> Vector | None:
        """(C,) the members' disagreement as a share of the predictive uncertainty; None where nothing disagrees."""
        scores, classes = (self._scored("epistemic"), self._scored("predictive")), self.probabilities.shape[-1]
        return share_of(*(class_means(score, self.labels, classes) for score in scores))

    @property
    def stats(self) -> Stats:
        """What methods need: counts and raw class uncertainties."""
        return Stats(np.bincount(self.labels, minlength=self.probabilities.shape[-1]), self.raw)

    @property
    def class_errors(self) -> Vector | None:
        """(C,) mean over the members of their errors, in percent; None where they were not evaluated."""
        errors = [result.class_errors for result in self.results if result.class_errors]
        return np.mean(errors, axis=0) if errors else None

    @property
    def members(self) -> int:
        """How many predict an example or, if one does, how many were trained: snapshots count, and folds."""
        votes = len(self.probabilities)
        return votes if votes > 1 else max(len(self.results), 1)

    @property
    def networks(self) -> int:
        """How many were trained; of probabilities from a file, how many predicted."""
        return len(self.results) or len(self.probabilities)

    @property
    def judged(self) -> str:
        """Whose errors class_errors are: 'naive ', or '' where the networks trained otherwise."""
        return "naive " if all(result.method == "naive" for result in self.results) else ""


@dataclass(frozen=True)
class Diverged:
    """What stands in place of an estimate if the loss of a member was no longer finite."""

    estimator: str
    seed: int
    divergence: str  # of its result

    def __str__(self) -> str:
        return f"{self.estimator}: the member of seed {self.seed} {self.divergence}"


def share_of(part: Vector, total: Vector) -> Vector | None:
    """(C,) part / total; 0 where both are, and None where the part is 0 of every class."""
    if not part.any():
        return None
    return np.divide(part, total, out=np.zeros_like(part), where=total > 0)


def read_by(estimate: Estimate | Diverged, score: str | None) -> Estimate:
    """The estimate by that score, or by its own; one that diverged is refused."""
    if isinstance(estimate, Diverged):
        raise InputError(f"{estimate}: lower the learning rate.")
    return estimate.using(score) if score else estimate
