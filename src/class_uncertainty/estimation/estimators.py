"""ESTIMATORS, the table, and estimate(), which turns member probabilities into class uncertainties."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import Stats, Vector, class_means, epistemic, normalise, predictive
from class_uncertainty.training import Lane, Recipe, Result, default_recipe

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit


@dataclass(frozen=True, eq=False)
class Estimate:
    """How uncertain the members are about each training example, and so about each class."""

    estimator: str
    probabilities: NDArray[np.float32]  # (T, N, C)
    labels: NDArray[np.int64]  # (N,)
    results: tuple[Result, ...] = ()  # the members' own, one each

    @cached_property
    def uncertainty(self) -> NDArray[np.float64]:
        """(N,) predictive uncertainty of each example (Eq. 8)."""
        return predictive(self.probabilities)

    @cached_property
    def raw(self) -> Vector:
        """(C,) class means (Eq. 9)."""
        return class_means(self.uncertainty, self.labels, self.probabilities.shape[-1])

    @property
    def mu(self) -> Vector:
        """(C,) class means, normalised to sum 1 (Eq. 10)."""
        return normalise(self.raw)

    @cached_property
    def epistemic_share(self) -> Vector:
        """(C,) how much of a class's uncertainty is the members' disagreement, from 0 to 1."""
        shared = class_means(epistemic(self.probabilities), self.labels, self.probabilities.shape[-1])
        return np.divide(shared, self.raw, out=np.zeros_like(shared), where=self.raw > 0)

    @property
    def stats(self) -> Stats:
        """What methods need: counts and raw class uncertainties."""
        return Stats(np.bincount(self.labels, minlength=self.probabilities.shape[-1]), self.raw)


@dataclass(frozen=True)
class Estimator:
    """`lanes` says what to train for a number of members and a seed; `score` makes (T, N, C) of the trained lanes and a number of views."""

    about: str
    lanes: Callable[[int, int], list[Lane]]
    score: Callable[["Fit", Data, int], NDArray[np.float32]]


MOST = 1000  # members
CHECKPOINTS: dict[str, Callable[[Recipe], Recipe]] = {"last": lambda recipe: recipe, "before-drop": Recipe.before_drop}

ESTIMATORS: dict[str, Estimator] = {
    "ensemble": Estimator(
        "deep ensemble: naive lanes that differ by their seed, all scoring every training example",
        lambda members, seed: [Lane("naive", seed + t) for t in range(members)],
        lambda fitted, train, views: fitted.probabilities(train, views),
    ),
}


def lanes_of(estimator: str, members: int, seed: int) -> list[Lane]:
    """What an estimator trains."""
    if estimator not in ESTIMATORS:
        raise unknown("estimator", estimator, ESTIMATORS)
    if not isinstance(members, Integral) or isinstance(members, bool) or not 1 <= members <= MOST:
        raise InputError(f"members is {members}: it must be a whole number from 1 to {MOST:,}.")
    return ESTIMATORS[estimator].lanes(members, seed)


def estimate(
    data: Data | Dataset,
    estimator: str = "ensemble",
    members: int = 5,
    recipe: Recipe | None = None,
    seed: int = 0,
    *,
    checkpoint: str = "last",
    views: int = 0,
    **fit_options: Any,
) -> Estimate:
    """Train the estimator's lanes and score the training examples.

    They are scored as they are, or by the mean over `views` random crops and flips; by members that trained to their `last` epoch, or to
    the one `before-drop`, the first drop of the learning rate. `fit_options` go to fit(): device, progress, done and so on. With a
    Dataset the members are also judged on its test split.
    """
    from class_uncertainty.training.loop import fit

    lanes = lanes_of(estimator, members, seed)
    if checkpoint not in CHECKPOINTS:
        raise unknown("checkpoint", checkpoint, CHECKPOINTS)
    if not isinstance(views, Integral) or views < 0:
        raise InputError(f"views is {views!r}: it must be a whole number from 0.")
    train, test = (data.train, data.test) if isinstance(data, Dataset) else (data, None)
    recipe = CHECKPOINTS[checkpoint](recipe or default_recipe(train))
    fitted = fit(train, lanes, recipe=recipe, test=test, **fit_options)
    for result in fitted.results:
        if result.diverged is not None:
            raise InputError(f"the member of seed {result.seed} diverged in epoch {result.diverged}: lower the learning rate.")
    return Estimate(estimator, ESTIMATORS[estimator].score(fitted, train, int(views)), train.labels, tuple(fitted.results))
