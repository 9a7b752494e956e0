"""Deterministic uncertainty quantification: one network, whose certainty is how near an example is to a class's centroid."""

from typing import TYPE_CHECKING

import numpy as np

from class_uncertainty.data import Data
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.training import DEARER, Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit


def kernels(fitted: "Fit", train: Data, views: int) -> Scored:
    """K / sum K as probabilities, and 1 - max K as a score of its own."""
    from scipy.special import softmax

    logs = fitted.logits(train).astype(np.float64)  # (1, N, C) log K, at most 0
    return Scored(softmax(logs, axis=-1).astype(np.float32), {"kernel": -np.expm1(logs[0].max(axis=-1))})


duq = Estimator(
    "DUQ: one network with a centroid for each class and a gradient penalty; 1 - the kernel of the nearest",
    lambda members, seed: [Lane("duq", seed)],
    kernels,
    natural="kernel",
    scores=("kernel",),
    said=lambda members: 1,
    views=False,
    effort=DEARER,
)
