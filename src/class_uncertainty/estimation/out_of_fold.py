"""As many networks as folds, each without one: an example is judged only by the network that never saw it."""

from typing import TYPE_CHECKING

from class_uncertainty.data import Data
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit


def unseen(fitted: "Fit", train: Data, views: int) -> Scored:
    """(1, N, C): each example's probabilities by the lane that left it out."""
    return Scored(fitted.out_of_fold(train, views)[None])


out_of_fold = Estimator(
    "as many networks as folds, each without one: an example is judged by the one that never saw it",
    lambda members, seed: [Lane("naive", seed, fold=(k, members)) for k in range(members)],
    unseen,
    natural="true-class",
    fewest=2,
    said=lambda members: 1,
)
