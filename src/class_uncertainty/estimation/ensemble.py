"""Networks that are asked about every training example: several that differ by their seed, or by their data too, or one."""

from typing import TYPE_CHECKING

from class_uncertainty.data import Data
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit


def everything(fitted: "Fit", train: Data, views: int) -> Scored:
    """Every lane on every example."""
    return Scored(fitted.probabilities(train, views))


ensemble = Estimator(
    "deep ensemble: naive networks that differ by their seed (the paper's)",
    lambda members, seed: [Lane("naive", seed + t) for t in range(members)],
    everything,
)
bootstrap = Estimator(
    "the same, each on a bootstrap: every class resampled with replacement to its own size",
    lambda members, seed: [Lane("naive", seed + t, bootstrap=True) for t in range(members)],
    everything,
)
single = Estimator("one naive network", lambda members, seed: [Lane("naive", seed)], everything, said=lambda members: 1)
