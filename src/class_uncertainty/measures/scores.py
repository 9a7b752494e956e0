"""From the probabilities of T members to how uncertain they are about each example, and about each class."""

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.boundary import Tensorlike, checked
from class_uncertainty.errors import InputError
from class_uncertainty.measures.stats import Vector

Probabilities = Tensorlike  # (T, N, C) NumPy array or tensor, float16 to float64
Scores = NDArray[np.float64]  # (N,)
BLOCK = 2**20  # probabilities that are looked at together


@checked
def predictive(p: Probabilities) -> Scores:
    """H[mean_t p_t] (Eq. 8), in nats."""
    return _in_blocks(lambda p: _entropy(p.mean(axis=0)), p)


@checked
def aleatoric(p: Probabilities) -> Scores:
    """mean_t H[p_t]: what is left when the members agree."""
    return _in_blocks(lambda p: _entropy(p).mean(axis=0), p)


@checked
def epistemic(p: Probabilities) -> Scores:
    """H[mean_t p_t] - mean_t H[p_t]: the mutual information, how far the members disagree."""
    return _in_blocks(lambda p: np.maximum(_entropy(p.mean(axis=0)) - _entropy(p).mean(axis=0), 0.0), p)


@checked
def kwon(p: Probabilities) -> tuple[Scores, Scores]:
    """Traces of Kwon et al.'s matrices, aleatoric and epistemic:

    A = mean_t [diag(p_t) - p_t p_t'] and E = mean_t (p_t - mean p)(p_t - mean p)'; A + E = diag(mean p) - mean p mean p'.
    """
    within = _in_blocks(lambda p: 1.0 - (p**2).sum(axis=-1).mean(axis=0), p)
    return within, _in_blocks(lambda p: ((p - p.mean(axis=0)) ** 2).sum(axis=-1).mean(axis=0), p)


def least_confidence(p: Probabilities) -> Scores:
    """1 - max_c of mean_t p_t."""
    return _in_blocks(lambda p: np.maximum(1.0 - p.mean(axis=0).max(axis=-1), 0.0), p)


def true_class(p: Probabilities, labels: Any) -> Scores:
    """1 - mean_t p_t of the example's own class: high where the members are wrong, however sure they are."""
    p, known, parts = _array(p), None, []
    for rows, block in checked_blocks(p):
        known = check_labels(labels, *p.shape[1:]) if known is None else known
        parts.append(block.mean(axis=0)[np.arange(block.shape[1]), known[rows]])
    return np.maximum(1.0 - np.concatenate(parts), 0.0)


def mean_guess(p: Probabilities) -> NDArray[np.int64]:
    """(N,) argmax_c of mean_t p_t: what the members say together."""
    return np.concatenate([block.mean(axis=0).argmax(axis=-1) for _, block in checked_blocks(p)])


@checked
def class_uncertainty(p: Probabilities, labels: Tensorlike, score: Callable[..., Scores] = predictive) -> Vector:
    """(1 / N_c) sum of u over the examples of class c (Eq. 9): (T, N, C), (N,) -> (C,), not normalised.

    `score` is a function of p, or of p and labels as the rows of SCORES are.
    """
    classes = np.shape(p)[-1] if np.ndim(p) == 3 else 0
    try:
        takes_labels = len(signature(score).parameters) > 1
    except ValueError:  # some functions in C have none
        takes_labels = False
    scores = np.asarray(score(p, labels) if takes_labels else score(p))
    if classes and scores.shape != np.shape(p)[1:2]:
        raise InputError(f"score gives an array of shape {scores.shape}: it must give one number for each of {np.shape(p)[1]} examples.")
    return class_means(scores, labels, classes)


def class_means(u: Scores, labels: Any, classes: int) -> Vector:
    """Mean of u (N,) over the examples of each class -> (C,)."""
    labels = check_labels(labels, len(u), classes)
    counts = np.bincount(labels, minlength=classes)
    if not counts.all():
        raise InputError(f"class {np.flatnonzero(counts == 0)[0]} has no examples: its uncertainty is not defined.")
    return np.bincount(labels, weights=u, minlength=classes) / counts


def check_probabilities(p: Probabilities) -> NDArray[np.float64]:
    """The same as float64 with rows that sum to 1, or one sentence that says what is wrong with them."""
    p = _array(p)
    _shape(p)
    return _checked(p, 0)


def checked_blocks(p: Probabilities) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """check_probabilities of some examples after the other, with their places: of all of p no copy is made."""
    p = _array(p)
    members, examples, classes = _shape(p)
    size = max(1, BLOCK // (members * classes))
    for start in range(0, examples, size):
        rows = slice(start, start + size)
        yield rows, _checked(p[:, rows], start)


def _in_blocks(score: Callable[[NDArray[np.float64]], Scores], p: Probabilities) -> Scores:
    """A score of every example; `score` is given some of them at a time."""
    return np.concatenate([score(block) for _, block in checked_blocks(p)])


def _shape(p: Any) -> tuple[int, int, int]:
    shape = tuple(p.shape)
    if len(shape) != 3:
        raise InputError(f"probabilities have shape {shape}: they need (members, examples, classes); for one member give p[None].")
    members, examples, classes = shape
    if not members or not examples or classes < 2:
        raise InputError(f"probabilities have shape {shape}: there must be a member, an example and two classes at least.")
    return members, examples, classes


def _checked(p: Any, first: int) -> NDArray[np.float64]:
    """Examples from the one numbered `first` on."""
    p, resolution = _as_float64(p)
    if not np.isfinite(p).all():
        t, n, _ = np.argwhere(~np.isfinite(p))[0]
        raise InputError(f"probabilities of member {t}, example {first + n} are not finite.")
    if (p < 0).any():
        t, n, c = np.argwhere(p < 0)[0]
        raise InputError(f"probability of member {t}, example {first + n}, class {c} is {p[t, n, c]:g}: it must not be negative.")
    sums = p.sum(axis=-1)
    off = np.abs(sums - 1) > max(1e-3, 4 * resolution)
    if off.any():
        t, n = np.argwhere(off)[0]
        raise InputError(
            f"probabilities of member {t}, example {first + n} sum to {sums[t, n]:g}: every row must sum to 1 (logits need a softmax)."
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


def _array(p: Probabilities) -> Any:
    """A NumPy array, or a tensor of the one type that NumPy does not have."""
    p = _detached(p)
    return p if _is_bfloat16(p) else np.asarray(p)


def _is_bfloat16(p: Any) -> bool:
    return "bfloat16" in str(getattr(p, "dtype", ""))


def _as_float64(p: Any) -> tuple[NDArray[np.float64], float]:
    """(p as float64, the resolution of the type it came in)."""
    if _is_bfloat16(p):
        return p.double().numpy(), 2.0**-7
    if p.dtype.kind != "f":
        raise InputError(f"probabilities are {p.dtype}: they must be floating point numbers.")
    return p.astype(np.float64), float(np.finfo(p.dtype).eps)


SCORES: dict[str, Callable[[Probabilities, Any], Scores]] = {  # (T, N, C), labels (N,) -> (N,)
    "predictive": lambda p, labels: predictive(p),
    "aleatoric": lambda p, labels: aleatoric(p),
    "epistemic": lambda p, labels: epistemic(p),
    "kwon-aleatoric": lambda p, labels: kwon(p)[0],
    "kwon-epistemic": lambda p, labels: kwon(p)[1],
    "least-confidence": lambda p, labels: least_confidence(p),
    "true-class": true_class,
}
