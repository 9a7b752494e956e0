"""What one training says of its examples on the way: while it goes, or at the end of each cycle of its learning rate."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from class_uncertainty.data import Data
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.measures import predictive
from class_uncertainty.methods import named
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from class_uncertainty.training.fitted import Fit

BLOCK = 1024  # examples that are divided at a time


def averaged(fitted: "Fit", train: Data, views: int) -> Scored:
    """Means over the epochs of each example's probabilities, and of its entropy, as it was trained on."""
    (sums,) = fitted.gathered
    seen = np.maximum(sums["seen"].double().numpy(), 1)
    mean = sums["p"].numpy()[None]  # (1, N, C); the sums become means where they are: they may fill half of the memory
    for rows in (slice(start, start + BLOCK) for start in range(0, len(seen), BLOCK)):
        p = mean[0, rows].astype(np.float64) / seen[rows, None]
        mean[0, rows] = np.where(p.sum(axis=1, keepdims=True) > 0, p, 1 / len(train.classes))  # of what was never drawn nothing is known
    entropy = np.where(sums["seen"].numpy() > 0, sums["entropy"].double().numpy() / seen, np.log(len(train.classes)))
    whole = predictive(mean)
    apart = np.maximum(whole - entropy, 0.0)  # the epochs are the members
    return Scored(mean, {"aleatoric": whole - apart, "epistemic": apart})


def snapshots(fitted: "Fit", train: Data, views: int) -> Scored:
    """A member for each cycle: the network as it was at its end."""
    (taken,) = fitted.gathered
    return Scored(np.stack([taken[f"p{cycle}"].numpy() for cycle in range(len(taken))]))


online = Estimator(
    "one naive training: means over its epochs of what it said of each example as it was trained on it, at no extra pass",
    lambda members, seed: [Lane("naive", seed, gather="online")],
    averaged,
    natural="true-class",
    scores=("aleatoric", "epistemic"),
    said=lambda members: 1,
    views=False,
)
snapshot = Estimator(
    "one training whose learning rate falls as many times as there are members, once an epoch at most: the network after each fall",
    lambda members, seed: [Lane(replace(named("cyclic"), cycles=members), seed, gather="snapshots")],
    snapshots,
    views=False,
)
