"""Naive networks that predict training examples: several with different seeds, on bootstraps or by folds, or one."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.estimation.estimate import Estimator, EstimatorOutput
from class_uncertainty.measures.uncertainty import predictive, row_blocks
from class_uncertainty.methods import named
from class_uncertainty.training import Lane

if TYPE_CHECKING:
    from torch import Tensor

    from class_uncertainty.training.fit_result import Fit

PASSES = 10  # of Monte Carlo dropout, through the last layer only: nearly free


def epoch_means(fitted: "Fit", train: Data, views: int) -> EstimatorOutput:
    """Means over the epochs of the probabilities and the entropy of each example; uniform where it was never drawn."""
    (sums,) = fitted.gathered
    return means_of(sums)


def means_of(sums: "dict[str, Tensor]") -> EstimatorOutput:
    """Of what `training.gathering` sums; overwritten in place, as the sums may fill half of the memory."""
    mean = sums["p"].numpy()[None]  # (1, N, C)
    seen, classes = np.maximum(sums["seen"].double().numpy(), 1), mean.shape[-1]
    for rows in row_blocks(len(seen)):
        p = mean[0, rows].astype(np.float64) / seen[rows, None]
        mean[0, rows] = np.where(p.sum(axis=1, keepdims=True) > 0, p, 1 / classes)
    entropy = np.where(sums["seen"].numpy() > 0, sums["entropy"].double().numpy() / seen, np.log(classes))
    total = predictive(mean)
    epistemic = np.maximum(total - entropy, 0.0)  # the epochs are the members
    return EstimatorOutput(mean, {"aleatoric": total - epistemic, "epistemic": epistemic})


def cycle_snapshots(fitted: "Fit", train: Data, views: int) -> EstimatorOutput:
    """One member for each cycle: the network at its end."""
    (taken,) = fitted.gathered
    return EstimatorOutput(np.stack([taken[f"p{cycle}"].numpy() for cycle in range(len(taken))]))


def dropout_probabilities(fitted: "Fit", train: Data, views: int) -> EstimatorOutput:
    """(PASSES, N, C): each pass drops other features."""
    return EstimatorOutput(fitted.dropped_out(train, PASSES))


def kernel_probabilities(fitted: "Fit", train: Data, views: int) -> EstimatorOutput:
    """K / sum K as probabilities, and 1 - max K as the score "kernel"."""
    from scipy.special import softmax

    log_kernels = fitted.logits(train)  # (1, N, C), at most 0
    uncertainty = -np.expm1(log_kernels[0].max(axis=-1).astype(np.float64))
    for rows in row_blocks(len(train)):
        log_kernels[0, rows] = softmax(log_kernels[0, rows].astype(np.float64), axis=-1)
    return EstimatorOutput(log_kernels, {"kernel": uncertainty})


def _cyclic(members: int, seed: int) -> list[Lane]:
    return [Lane(replace(named("cyclic"), cycles=members), seed, gather="snapshots")]


online = Estimator(
    "one naive training: means over its epochs of the training probabilities of each example, at no extra pass",
    lambda members, seed: [Lane("naive", seed, gather="online")],
    epoch_means,
    natural="true-class",
    scores=("aleatoric", "epistemic"),
    votes=1,
    views=False,
)
snapshot = Estimator(
    "one training whose learning rate falls once for each member, once an epoch at most: the network after each fall",
    _cyclic,
    cycle_snapshots,
    views=False,
    counted=lambda members, recipe: min(members, recipe.epochs),
)
mc_dropout = Estimator(
    f"one network with dropout before its last layer, {PASSES} stochastic passes",
    lambda members, seed: [Lane("dropout", seed)],
    dropout_probabilities,
    votes=PASSES,
    views=False,
)
duq = Estimator(
    "DUQ: one network with a centroid for each class and a gradient penalty; 1 - the kernel of the nearest",
    lambda members, seed: [Lane("duq", seed)],
    kernel_probabilities,
    natural="kernel",
    scores=("kernel",),
    votes=1,
    views=False,
)


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
