"""One network that trained with dropout before its last layer, asked many times with other features left out."""

from typing import TYPE_CHECKING

from class_uncertainty.data import Data
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit

PASSES = 10  # through the last layer only: nearly free


def passes(fitted: "Fit", train: Data, views: int) -> Scored:
    return Scored(fitted.dropped_out(train, PASSES))


mc_dropout = Estimator(
    f"one network with dropout before its last layer, asked {PASSES} times",
    lambda members, seed: [Lane("dropout", seed)],
    passes,
    said=lambda members: PASSES,
    views=False,
)
