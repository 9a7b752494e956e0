"""Uncertainty of each example and of each class, from the probabilities of T members."""

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import Tensorlike, check
from class_uncertainty.errors import InputError
from class_uncertainty.measures.measures import Vector

Probabilities = Tensorlike  # (T, N, C) NumPy array or tensor, float16 to float64
ExampleScores = NDArray[np.float64]  # (N,)
BLOCK = 2**20  # probabilities in memory as float64 at a time


def row_blocks(rows: int, size: int = 1024) -> Iterator[slice]:
    """Slices of at most `size` rows that cover all of them in order: no copy is made of everything at once."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def predictive(p: Probabilities) -> ExampleScores:
    """Predictive uncertainty: the entropy of the mean prediction, H[mean_t p_t] (Eq. 8).

    Parameters
    ----------
    p : array or tensor (T, N, C)
        Probabilities of T members for N examples.

    Returns
    -------
    array (N,)
        In nats.

    Examples
    --------
    >>> p = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    >>> cu.predictive(p).round(3)
    array([0.693, 0.693])
    """
    return _in_blocks(lambda p: _entropy(p.mean(axis=0)), p)


def aleatoric(p: Probabilities) -> ExampleScores:
    """Aleatoric uncertainty: the mean entropy of the members, mean_t H[p_t]. It remains when the members agree.

    Parameters
    ----------
    p : array or tensor (T, N, C)
        Probabilities of T members for N examples.

    Returns
    -------
    array (N,)
        In nats.

    Examples
    --------
    >>> p = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    >>> cu.aleatoric(p).round(3)
    array([0.   , 0.693])
    """
    return _in_blocks(lambda p: _entropy(p).mean(axis=0), p)


def epistemic(p: Probabilities) -> ExampleScores:
    """Epistemic uncertainty: how far the members disagree, H[mean_t p_t] - mean_t H[p_t] (mutual information).

    Parameters
    ----------
    p : array or tensor (T, N, C)
        Probabilities of T members for N examples.

    Returns
    -------
    array (N,)
        In nats.

    Examples
    --------
    >>> p = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    >>> cu.epistemic(p).round(3)
    array([0.693, 0.   ])
    """
    return _in_blocks(lambda p: np.maximum(_entropy(p.mean(axis=0)) - _entropy(p).mean(axis=0), 0.0), p)


def kwon(p: Probabilities) -> tuple[ExampleScores, ExampleScores]:
    """Aleatoric and epistemic uncertainty as variances: traces of the matrices of Kwon et al.

    A = mean_t [diag(p_t) - p_t p_t'] and E = mean_t (p_t - mean p)(p_t - mean p)', which sum to
    diag(mean p) - mean p mean p'.

    Parameters
    ----------
    p : array or tensor (T, N, C)
        Probabilities of T members for N examples.

    Returns
    -------
    aleatoric, epistemic : arrays (N,)

    Examples
    --------
    >>> aleatoric, epistemic = cu.kwon(np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]))
    >>> aleatoric, epistemic
    (array([0. , 0.5]), array([0.5, 0. ]))
    """
    within = _in_blocks(lambda p: 1.0 - (p**2).sum(axis=-1).mean(axis=0), p)
    return within, _in_blocks(lambda p: ((p - p.mean(axis=0)) ** 2).sum(axis=-1).mean(axis=0), p)


def kwon_predictive(p: Probabilities) -> ExampleScores:
    """1 - ||mean_t p_t||^2: the sum of Kwon et al.'s aleatoric and epistemic traces."""
    return _in_blocks(lambda p: np.maximum(1.0 - (p.mean(axis=0) ** 2).sum(axis=-1), 0.0), p)


def least_confidence(p: Probabilities) -> ExampleScores:
    """1 - max_c of mean_t p_t."""
    return _in_blocks(lambda p: np.maximum(1.0 - p.mean(axis=0).max(axis=-1), 0.0), p)


def true_class(p: Probabilities, labels: Any) -> ExampleScores:
    """1 - mean_t p_t of the true class: high where the members are wrong, however sure they are."""
    p, checked_labels, p_true = _array(p), None, []
    for rows, block in checked_blocks(p):
        checked_labels = check_labels(labels, *p.shape[1:]) if checked_labels is None else checked_labels
        p_true.append(block.mean(axis=0)[np.arange(block.shape[1]), checked_labels[rows]])
    return np.maximum(1.0 - np.concatenate(p_true), 0.0)


def class_uncertainty(p: Probabilities, labels: Tensorlike, score: Callable[..., ExampleScores] = predictive) -> Vector:
    """Mean uncertainty of the examples of each class, not normalised (Eq. 9).

    Parameters
    ----------
    p : array or tensor (T, N, C)
        Probabilities of T members for N examples.
    labels : array or tensor (N,)
        From 0 to C - 1; every class has an example.
    score : callable
        The uncertainty of examples: a function of p, or of p and labels as those of SCORES.

    Returns
    -------
    array (C,)

    Examples
    --------
    >>> p = np.array([[[0.9, 0.1], [0.5, 0.5]]])
    >>> cu.class_uncertainty(p, labels=[0, 1]).round(3)
    array([0.325, 0.693])
    """
    check(Tensorlike, p=p, labels=labels)
    check(Callable, score=score)
    classes = np.shape(p)[-1] if np.ndim(p) == 3 else 0
    try:
        takes_labels = len(signature(score).parameters) > 1
    except ValueError:  # some functions in C have none
        takes_labels = False
    scores = np.asarray(score(p, labels) if takes_labels else score(p))
    if classes and scores.shape != np.shape(p)[1:2]:
        raise InputError(f"score gives shape {scores.shape}: it must give one for each of {np.shape(p)[1]} examples.")
    return class_means(scores, labels, classes)


def class_means(u: ExampleScores, labels: Any, classes: int, weights: Vector | None = None) -> Vector:
    """Mean of u (N,) over the examples of each class, which may have weights (N,) -> (C,)."""
    labels = check_labels(labels, len(u), classes)
    counts = np.bincount(labels, weights, minlength=classes)
    if not counts.all():
        raise InputError(f"class {np.flatnonzero(counts == 0)[0]} has no examples: its uncertainty is not defined.")
    return np.bincount(labels, u if weights is None else u * weights, minlength=classes) / counts


def check_probabilities(p: Probabilities) -> NDArray[np.float64]:
    """Probabilities as float64 with rows that sum to 1; others are refused in one sentence."""
    p = _array(p)
    _shape(p)
    return _checked(p, 0)


def check_rows(p: Tensorlike) -> NDArray[np.float64]:
    """The same of one model's probabilities (N, C): refusals speak of examples only."""
    p = _array(p)
    shape = tuple(p.shape)
    if len(shape) != 2:
        raise InputError(f"probabilities have the shape {shape}: they need (examples, classes).")
    if not shape[0] or shape[1] < 2:
        raise InputError(f"probabilities have the shape {shape}: there must be an example and two classes.")
    return _checked(p[None], 0, has_members=False)[0]


def check_rows_or_members(p: Tensorlike) -> NDArray[np.float64]:
    """Probabilities (T, N, C), also from those (N, C) of one model."""
    p = _array(p)
    return check_rows(p)[None] if len(p.shape) == 2 else check_probabilities(p)


def checked_blocks(p: Probabilities) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """check_probabilities block by block, with the rows of each: no copy is made of all of p."""
    p = _array(p)
    members, examples, classes = _shape(p)
    for rows in row_blocks(examples, max(1, BLOCK // (members * classes))):
        yield rows, _checked(p[:, rows], rows.start)


def _in_blocks(score: Callable[[NDArray[np.float64]], ExampleScores], p: Probabilities) -> ExampleScores:
    """A score of every example, block by block."""
    return np.concatenate([score(block) for _, block in checked_blocks(p)])


def _shape(p: Any) -> tuple[int, int, int]:
    shape = tuple(p.shape)
    if len(shape) != 3:
        raise InputError(f"probabilities have shape {shape}: they need (members, examples, classes), as p[None] has.")
    members, examples, classes = shape
    if not members or not examples or classes < 2:
        raise InputError(f"probabilities have shape {shape}: there must be a member, an example and two classes.")
    return members, examples, classes


def _checked(p: Any, first: int, has_members: bool = True) -> NDArray[np.float64]:
    """As float64, with rows that sum to 1; the first example is the one numbered `first`."""

    def named(t: int, n: int) -> str:
        return f"member {t}, example {first + n}" if has_members else f"example {first + n}"

    if "bfloat16" in str(p.dtype):  # NumPy has no such type
        p, resolution = p.double().numpy(), 2.0**-7
    elif p.dtype.kind != "f":
        raise InputError(f"probabilities are {p.dtype}: they must be floating point numbers.")
    else:
        p, resolution = p.astype(np.float64), float(np.finfo(p.dtype).eps)
    if not np.isfinite(p).all():
        t, n, _ = np.argwhere(~np.isfinite(p))[0]
        raise InputError(f"probabilities of {named(t, n)} are not finite.")
    if (p < 0).any():
        t, n, c = np.argwhere(p < 0)[0]
        raise InputError(f"probability of {named(t, n)}, class {c} is {p[t, n, c]:g}: it must not be negative.")
    sums = p.sum(axis=-1)
    off = np.abs(sums - 1) > max(1e-3, 4 * resolution)
    if off.any():
        t, n = np.argwhere(off)[0]
        row = f"{named(t, n)} sum to {sums[t, n]:g}"
        raise InputError(f"probabilities of {row}: every row must sum to 1 (logits need a softmax).")
    return p / sums[..., None]


def check_labels(labels: Any, examples: int, classes: int) -> NDArray[np.int64]:
    """Labels as int64 (N,), each from 0 to C - 1."""
    check(Tensorlike, labels=labels)
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
    check(Tensorlike, probabilities=p)
    p = _detached(p)
    return p if "bfloat16" in str(getattr(p, "dtype", "")) else np.asarray(p)


SCORES: dict[str, Callable[[Probabilities, Any], ExampleScores]] = {  # (T, N, C), labels (N,) -> (N,)
    "predictive": lambda p, labels: predictive(p),
    "aleatoric": lambda p, labels: aleatoric(p),
    "epistemic": lambda p, labels: epistemic(p),
    "kwon-aleatoric": lambda p, labels: kwon(p)[0],
    "kwon-epistemic": lambda p, labels: kwon(p)[1],
    "kwon-predictive": lambda p, labels: kwon_predictive(p),
    "least-confidence": lambda p, labels: least_confidence(p),
    "true-class": true_class,
}
