"""The one rule for priors: what probabilities stand for, and how they come to stand for another prior."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.measures.measures import Vector
from class_uncertainty.metrics import check_prior, log_probabilities
from class_uncertainty.posthoc.goal import frequencies

PRIORS = {"train": "classes as frequent as in training", "equal": "equally frequent classes"}
GIVEN = "classes as frequent as the prior says"

Prior = ArrayLike | Literal["train", "equal"]


def find_prior(prior: Prior, counts: ArrayLike) -> Vector:
    """(C,) of sum 1: the frequencies of training examples, equal ones, or those that are given."""
    if isinstance(prior, str) and prior == "train":
        return frequencies(counts)
    return check_prior(None if isinstance(prior, str) else prior, len(np.asarray(counts)))


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
