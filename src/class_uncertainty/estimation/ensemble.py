"""Naive networks that predict training examples: several with different seeds, on bootstraps or by folds, or one."""

from functools import partial
from typing import TYPE_CHECKING

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.estimation.estimate import Estimator, EstimatorOutput
from class_uncertainty.methods import named
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fit_result import Fit


def all_probabilities(fitted: "Fit", train: Data, views: int) -> EstimatorOutput:
    """The probabilities of every lane for every example."""
    return EstimatorOutput(fitted.probabilities(train, views))


def unseen_probabilities(fitted: "Fit", train: Data, views: int) -> EstimatorOutput:
    """(1, N, C): the probabilities of each example by the lane that left it out."""
    return EstimatorOutput(fitted.out_of_fold(train, views)[None])


def _trained_by(method: str, members: int, seed: int) -> list[Lane]:
    return [Lane(method, seed + t) for t in range(members)]


def ensemble_of(method: str) -> Estimator:
    """The deep ensemble, of networks that are trained by a method that needs no class uncertainties itself."""
    if named(method).uses_uncertainty:
        needed = f"method {method!r} needs class uncertainties before it trains"
        raise InputError(f"estimator 'ensemble:{method}': {needed}; choose one by counts, as in ensemble:cb-rs.")
    about = f"networks trained by {method} that differ by their seed"
    return Estimator(about, partial(_trained_by, method), all_probabilities)


def _bootstrapped(members: int, seed: int) -> list[Lane]:
    return [Lane("naive", seed + t, bootstrap=True) for t in range(members)]


def _by_folds(members: int, seed: int) -> list[Lane]:
    return [Lane("naive", seed, fold=(k, members)) for k in range(members)]


ensemble = Estimator(
    "deep ensemble: naive networks that differ by their seed (the paper's); ensemble:METHOD trains them by a method",
    partial(_trained_by, "naive"),
    all_probabilities,
)
bootstrap = Estimator(
    "the same, each on a bootstrap: every class resampled with replacement to its own size",
    _bootstrapped,
    all_probabilities,
)
single = Estimator("one naive network", lambda members, seed: [Lane("naive", seed)], all_probabilities, votes=1)
out_of_fold = Estimator(
    "as many networks as folds, each without one: an example is judged by the one that never saw it",
    _by_folds,
    unseen_probabilities,
    natural="true-class",
    fewest=2,
    votes=1,
    counted=lambda members, recipe: members,
)
