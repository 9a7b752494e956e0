"""The one rule for priors: which one probabilities stand for, and how they come to stand for another."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import shortly
from class_uncertainty.errors import InputError
from class_uncertainty.measures.measures import Vector
from class_uncertainty.metrics import check_prior, log_probabilities
from class_uncertainty.posthoc.goal import frequencies

PRIORS = {"train": "classes as frequent as in training", "equal": "equally frequent classes"}
GIVEN = "classes as frequent as the prior says"
OWN = "goal"  # the prior that a model's probabilities hold for, and that its goal counts classes by

Prior = ArrayLike | Literal["train", "equal"]


def find_prior(prior: Prior, counts: ArrayLike) -> Vector:
    """(C,) of sum 1: the frequencies of training examples, equal ones, or those that are given."""
    frequent = frequencies(counts)
    if isinstance(prior, str) and prior not in PRIORS:
        raise InputError(f"prior is {shortly(prior)}: it must be 'train' or 'equal', or a probability of each class.")
    if isinstance(prior, str):
        return frequent if prior == "train" else check_prior(None, len(frequent))
    return check_prior(prior, len(frequent))


def at_prior(probabilities: NDArray, made_for: ArrayLike, prior: ArrayLike) -> NDArray:
    """Probabilities (N, C) that hold under one prior, under another: p_c prior_c / made_for_c, renormalised.

    By Bayes' rule, p(c | x) is proportional to p(x | c) prior_c, and only the second factor changes. A class that
    `made_for` rules out has no probability to start from: it keeps 0.

    Examples
    --------
    >>> at_prior(np.array([[0.5, 0.5], [0.2, 0.8]]), made_for=[0.5, 0.5], prior=[0.9, 0.1]).round(3)
    array([[0.9  , 0.1  ],
           [0.692, 0.308]])
    """
    from scipy.special import softmax

    start, end = np.asarray(made_for, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    if np.array_equal(start, end):
        return probabilities
    shift = np.full(len(end), -np.inf)
    possible = (start > 0) & (end > 0)
    if not possible.any():
        raise InputError("the prior is 0 for every class that the model can predict: give one that allows some.")
    shift[possible] = np.log(end[possible]) - np.log(start[possible])
    return softmax(log_probabilities(probabilities) + shift, axis=-1).astype(probabilities.dtype)


def measured_prior(p: NDArray, labels: NDArray[np.int64], start: ArrayLike) -> Vector:
    """The prior that a model's probabilities (N, C) of its training examples stand for, by their labels (N,).

    argmin_m NLL of p_c f_c / m_c, renormalised, + sum_c (log m_c - log start_c) ** 2 / 2, with f the frequencies of the
    labels: at the minimum, the mean probability of a class is nearly its frequency. Examples that the model has learnt
    by heart say nothing about m, which then stays at `start`: what was aimed at. Classes without examples keep `start`
    too; the others are fitted among themselves.

    Examples
    --------
    >>> p = np.array([[0.4, 0.6], [0.7, 0.3]]).repeat(500, axis=0)
    >>> labels = np.arange(1000) % 10 // 8  # a fifth
    >>> measured_prior(p, labels, [0.5, 0.5]).round(2)
    array([0.53, 0.47])
    """
    from scipy.optimize import minimize

    aimed = np.asarray(start, dtype=np.float64)
    if not aimed.all():
        return aimed
    present, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    log_p, frequent = log_probabilities(p).astype(np.float64)[:, present], frequencies(counts)
    at_start = np.log(frequent / aimed[present])
    shift = minimize(shift_loss, at_start, (at_start, log_p, codes), method="L-BFGS-B", jac=True).x
    fitted, prior = frequent * np.exp(shift.min() - shift), aimed.copy()
    prior[present] = fitted / fitted.sum() * (1 - np.delete(aimed, present).sum())
    return prior


def shift_loss(
    shift: Vector, at_start: Vector, log_p: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[float, Vector]:
    """What `measured_prior` minimises, at shift = log f - log m, and its gradient; every class has a label."""
    from scipy.special import log_softmax

    log_q, off = log_softmax(log_p + shift, axis=1), shift - at_start
    nll = -log_q[np.arange(len(labels)), labels].sum()
    return off @ off / 2 + nll, off + np.exp(log_q).sum(axis=0) - np.bincount(labels)
