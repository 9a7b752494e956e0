"""As many networks as folds, each without one: an example is judged only by the network that never saw it."""

from typing import TYPE_CHECKING

from class_uncertainty.data import Data
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.training import Lane
from class_uncertainty.training.folds import held_out, joined

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit


def unseen(fitted: "Fit", train: Data, views: int) -> Scored:
    """(1, N, C): each example's probabilities by the lane that left it out."""
    folds = [lane.fold for lane in fitted.lanes]
    said = [own[held_out(train, fold)] for own, fold in zip(fitted.probabilities(train, views), folds, strict=True) if fold]
    return Scored(joined(train, folds, said)[None])


out_of_fold = Estimator(
    "as many networks as folds, each without one: an example is judged by the one that never saw it",
    lambda members, seed: [Lane("naive", seed, fold=(k, members)) for k in range(members)],
    unseen,
    natural="true-class",
    fewest=2,
    said=lambda members: 1,
)
