"""From the probabilities of T members to how uncertain they are about each example, and about each class."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.boundary import Tensorlike, checked
from class_uncertainty.errors import InputError
from class_uncertainty.measures.stats import Vector

Probabilities = Tensorlike  # (T, N, C) NumPy array or tensor, float16 to float64
Scores = NDArray[np.float64]  # (N,)


@checked
def predictive(p: Probabilities) -> Scores:
    """H[mean_t p_t] (Eq. 8), in nats."""
    return _entropy(check_probabilities(p).mean(axis=0))


@checked
def aleatoric(p: Probabilities) -> Scores:
    """mean_t H[p_t]: what is left when the members agree."""
    return _entropy(check_probabilities(p)).mean(axis=0)


@checked
def epistemic(p: Probabilities) -> Scores:
    """H[mean_t p_t] - mean_t H[p_t]: the mutual information, how far the members disagree."""
    p = check_probabilities(p)
    return np.maximum(_entropy(p.mean(axis=0)) - _entropy(p).mean(axis=0), 0.0)


@checked
def kwon(p: Probabilities) -> tuple[Scores, Scores]:
    """Traces of Kwon et al.'s matrices, aleatoric and epistemic:

    A = mean_t [diag(p_t) - p_t p_t'] and E = mean_t (p_t - mean p)(p_t - mean p)'; A + E = diag(mean p) - mean p mean p'.
    """
    p = check_probabilities(p)
    return 1.0 - (p**2).sum(axis=-1).mean(axis=0), ((p - p.mean(axis=0)) ** 2).sum(axis=-1).mean(axis=0)


def least_confidence(p: Probabilities) -> Scores:
    """1 - max_c of mean_t p_t."""
    return np.maximum(1.0 - check_probabilities(p).mean(axis=0).max(axis=-1), 0.0)


def true_class(p: Probabilities, labels: Any) -> Scores:
    """1 - mean_t p_t of the example's own class: high where the members are wrong, however sure they are."""
    mean = check_probabilities(p).mean(axis=0)
    labels = check_labels(labels, *mean.shape)
    return np.maximum(1.0 - mean[np.arange(len(mean)), labels], 0.0)


@checked
def class_uncertainty(p: Probabilities, labels: Tensorlike, score: Callable[..., Scores] = predictive) -> Vector:
    """(1 / N_c) sum of u over the examples of class c (Eq. 9): (T, N, C), (N,) -> (C,), not normalised.

    `score` is a function of p, or of p and labels as the rows of SCORES are.
    """
    if not callable(score):
        raise InputError(f"score is {score!r}: give a function, as predictive, aleatoric or epistemic.")
    classes = np.shape(p)[-1] if np.ndim(p) == 3 else 0
    return class_means(score(p, labels) if len(signature(score).parameters) > 1 else score(p), labels, classes)


def class_means(u: Scores, labels: Any, classes: int) -> Vector:
    """Mean of u (N,) over the examples of each class -> (C,)."""
    labels = check_labels(labels, len(u), classes)
    counts = np.bincount(labels, minlength=classes)
    if not counts.all():
        raise InputError(f"class {np.flatnonzero(counts == 0)[0]} has no examples: its uncertainty is not defined.")
    return np.bincount(labels, weights=u, minlength=classes) / counts


def check_probabilities(p: Probabilities) -> NDArray[np.float64]:
    """The same as float64 with rows that sum to 1, or one sentence that says what is wrong with them."""
    p, resolution = _as_float64(p)
    if p.ndim != 3:
        raise InputError(f"probabilities have shape {p.shape}: they need (members, examples, classes); for one member give p[None].")
    members, examples, classes = p.shape
    if not members or not examples or classes < 2:
        raise InputError(f"probabilities have shape {p.shape}: there must be a member, an example and two classes at least.")
    if not np.isfinite(p).all():
        t, n, _ = np.argwhere(~np.isfinite(p))[0]
        raise InputError(f"probabilities of member {t}, example {n} are not finite.")
    if (p < 0).any():
        t, n, c = np.argwhere(p < 0)[0]
        raise InputError(f"probability of member {t}, example {n}, class {c} is {p[t, n, c]:g}: it must not be negative.")
    sums = p.sum(axis=-1)
    off = np.abs(sums - 1) > max(1e-3, 4 * resolution)
    if off.any():
        t, n = np.argwhere(off)[0]
        raise InputError(
            f"probabilities of member {t}, example {n} sum to {sums[t, n]:g}: every row must sum to 1 (logits need a softmax)."
        )
    return p / sums[..., None]


def check_labels(labels: Any, examples: int, classes: int) -> NDArray[np.int64]:
    """Labels as int64 (N,), each from 0 to C - 1."""
    if "bfloat16" in str(getattr(labels, "dtype", "")):  # NumPy has no such type
        raise InputError(f"labels are {labels.dtype}: they must be whole numbers from 0 to {classes - 1}.")
    labels = np.asarray(_detached(labels))
    if labels.shape != (examples,):
        raise InputError(f"labels have shape {labels.shape}: there must be one for each of {examples} examples.")
    if labels.dtype.kind not in "iu":
        raise InputError(f"labels are {labels.dtype}: they must be whole numbers from 0 to {classes - 1}.")
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(outside):
        raise InputError(f"label of example {outside[0]} is {labels[outside[0]]}: labels run from 0 to {classes - 1}.")
    return labels.astype(np.int64)


def _entropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """-sum p log p over the last axis, 0 log 0 = 0."""
    return (p * -np.log(np.where(p > 0, p, 1.0))).sum(axis=-1) + 0.0  # + 0.0: no minus before a zero


def _detached(values: Any) -> Any:
    return values.detach().cpu() if hasattr(values, "detach") else values


def _as_float64(p: Probabilities) -> tuple[NDArray[np.float64], float]:
    """(p as float64, the resolution of the type it came in)."""
    p = _detached(p)
    if "bfloat16" in str(getattr(p, "dtype", "")):  # NumPy has no such type
        return p.double().numpy(), 2.0**-7
    array = np.asarray(p)
    if array.dtype.kind != "f":
        raise InputError(f"probabilities are {array.dtype}: they must be floating point numbers.")
    return array.astype(np.float64), float(np.finfo(array.dtype).eps)


SCORES: dict[str, Callable[[Probabilities, Any], Scores]] = {  # (T, N, C), labels (N,) -> (N,)
    "predictive": lambda p, labels: predictive(p),
    "aleatoric": lambda p, labels: aleatoric(p),
    "epistemic": lambda p, labels: epistemic(p),
    "kwon-aleatoric": lambda p, labels: kwon(p)[0],
    "kwon-epistemic": lambda p, labels: kwon(p)[1],
    "least-confidence": lambda p, labels: least_confidence(p),
    "true-class": true_class,
}
