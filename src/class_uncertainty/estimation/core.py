"""Estimate: how uncertain networks are about training examples, and so about classes. Estimator: a way to get one."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.boundary import checked
from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import SCORES, Stats, Vector, class_means, normalise
from class_uncertainty.training import Lane, Result


@dataclass(frozen=True, eq=False)
class Scored:
    """What an estimator's networks say of the training examples."""

    probabilities: NDArray[np.float32]  # (T, N, C)
    own: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # scores (N,) by name that are more than a function of those


@dataclass(frozen=True)
class Estimator:
    """`lanes` says what to train for a number of members and a seed; `score` asks the trained lanes about the training examples.

    `score` takes a number of views too: above 0, an example's probabilities are means over so many random crops and flips. Estimators that
    cannot do that say so (`views`).
    """

    about: str
    lanes: Callable[[int, int], list[Lane]]
    score: Callable[[Any, Data, int], Scored]  # of a Fit; of None where there are no lanes
    natural: str = "predictive"  # the score it is read by, unless another is asked for
    scores: tuple[str, ...] = ()  # its own, that are not a function of its probabilities alone
    said: Callable[[int], int] = lambda members: members  # how many members are asked about each example
    fewest: int = 1  # members
    views: bool = True  # whether it can show examples cropped and mirrored
    effort: float = 1.0  # of one of its trainings, where a plain one is 1


@checked
@dataclass(frozen=True, eq=False)
class Estimate:
    """How uncertain the members are about each training example, and so about each class."""

    estimator: str
    probabilities: NDArray[np.float32]  # (T, N, C)
    labels: NDArray[np.int64]  # (N,)
    results: tuple[Result, ...] = ()  # the members' own, one each
    score: str = "predictive"  # of SCORES, or of `own`
    own: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    cost: float = 0.0  # in trainings of one network

    @checked
    def using(self, score: str) -> "Estimate":
        """The same networks read by another score."""
        if score not in (allowed := {**SCORES, **self.own}):
            raise unknown("score", score, allowed)
        return replace(self, score=score)

    @cached_property
    def uncertainty(self) -> NDArray[np.float64]:
        """(N,) uncertainty of each example, by the score (Eq. 8 where it is predictive)."""
        return self._by(self.score)

    @cached_property
    def raw(self) -> Vector:
        """(C,) class means (Eq. 9)."""
        return self._means(self.uncertainty)

    @property
    def mu(self) -> Vector:
        """(C,) class means, normalised to sum 1 (Eq. 10)."""
        if not self.raw.any():
            raise InputError(f"by {self.score!r} {self.estimator!r} is not uncertain about any example: choose another score.")
        return normalise(self.raw)

    @cached_property
    def epistemic_share(self) -> Vector | None:
        """(C,) how much of a class's predictive uncertainty is the members' disagreement, from 0 to 1; None where there is but one."""
        if len(self.probabilities) < 2 and "epistemic" not in self.own:
            return None
        shared, whole = self._means(self._by("epistemic")), self._means(self._by("predictive"))
        return np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0)

    @property
    def stats(self) -> Stats:
        """What methods need: counts and raw class uncertainties."""
        return Stats(np.bincount(self.labels, minlength=self.probabilities.shape[-1]), self.raw)

    @property
    def class_errors(self) -> Vector | None:
        """(C,) mean over the members of their errors, in percent; None where they were not judged."""
        judged = [result.class_errors for result in self.results if result.scores]
        return np.mean(judged, axis=0) if judged else None

    @property
    def judged(self) -> str:
        """Whose errors class_errors are: 'naive ', or '' where the networks trained otherwise."""
        return "naive " if all(result.method == "naive" for result in self.results) else ""

    def _by(self, score: str) -> NDArray[np.float64]:
        return self.own[score] if score in self.own else SCORES[score](self.probabilities, self.labels)

    def _means(self, u: NDArray[np.float64]) -> Vector:
        return class_means(u, self.labels, self.probabilities.shape[-1])
