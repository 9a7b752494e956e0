"""Deterministic uncertainty quantification: one network, whose certainty is how near an example is to a class's centroid."""

from typing import TYPE_CHECKING

import numpy as np

from class_uncertainty.data import Data
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.training import DEARER, Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit

BLOCK = 1024  # examples whose kernels become probabilities at a time


def kernels(fitted: "Fit", train: Data, views: int) -> Scored:
    """K / sum K as probabilities, and 1 - max K as a score of its own."""
    from scipy.special import softmax

    logs = fitted.logits(train)  # (1, N, C) log K, at most 0
    score = -np.expm1(logs[0].max(axis=-1).astype(np.float64))
    for rows in (slice(start, start + BLOCK) for start in range(0, len(train), BLOCK)):
        logs[0, rows] = softmax(logs[0, rows].astype(np.float64), axis=-1)
    return Scored(logs, {"kernel": score})


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
