"""From probabilities and labels to errors, their spread over the classes, and calibration. Errors are in percent."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

MANY, FEW = 100, 20  # training examples: many-shot is over MANY, few-shot under FEW, medium what lies between
BINS = 15  # of the expected calibration error


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How well one network does. The groups that no class falls into are None."""

    error: float  # top-1
    class_mean_error: float
    class_errors: tuple[float, ...]
    many: float | None
    medium: float | None
    few: float | None
    worst: float  # mean error of the worst tenth of the classes
    spread: float  # standard deviation of the class errors
    nll: float  # nats
    ece: float  # percent


@dataclass(frozen=True, eq=False)
class Outcomes:
    """All that scores look at, of each example: (N,) its label, the first guess, and the probabilities of both."""

    labels: NDArray[np.int64]
    guesses: NDArray[np.int64]
    p_label: NDArray[np.float64]
    p_guess: NDArray[np.float64]

    @classmethod
    def of(cls, probabilities: NDArray, labels: NDArray[np.int64]) -> "Outcomes":
        """Of probabilities (N, C)."""
        p, rows = np.asarray(probabilities), np.arange(len(labels))
        guesses = p.argmax(axis=1)
        return cls(labels, guesses, p[rows, labels].astype(np.float64), p[rows, guesses].astype(np.float64))

    @classmethod
    def joined(cls, parts: "Sequence[Outcomes]") -> "Outcomes":
        """One part after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def take(self, order: NDArray[np.int64]) -> "Outcomes":
        return Outcomes(*(getattr(self, field.name)[order] for field in fields(self)))


def evaluate(probabilities: NDArray, labels: NDArray[np.int64], counts: ArrayLike) -> Scores:
    """Probabilities (N, C), labels (N,) with every class in them, training counts (C,) -> Scores."""
    return score(Outcomes.of(probabilities, labels), counts)


def score(outcomes: Outcomes, counts: ArrayLike) -> Scores:
    """Outcomes (N,) with every class among the labels, training counts (C,) -> Scores."""
    counts, labels = np.asarray(counts), outcomes.labels
    classes, wrong = len(counts), outcomes.guesses != labels
    errors = 100 * np.bincount(labels, weights=wrong, minlength=classes) / np.bincount(labels, minlength=classes)
    return Scores(
        error=100 * float(wrong.mean()),
        class_mean_error=float(errors.mean()),
        class_errors=tuple(map(float, errors)),
        many=_group(errors[counts > MANY]),
        medium=_group(errors[(counts <= MANY) & (counts >= FEW)]),
        few=_group(errors[counts < FEW]),
        worst=worst_tenth(errors),
        spread=float(errors.std()),
        nll=float(surprise(outcomes.p_label).mean()),
        ece=calibration_error(outcomes.p_guess, ~wrong),
    )


def worst_tenth(errors: NDArray) -> float:
    """The mean of the worst tenth of the classes, of one at least."""
    tenth = -(-len(errors) // 10)
    return float(np.sort(errors)[-tenth:].mean())


def surprise(p: NDArray) -> NDArray:
    """-log p in nats; of 0, as large as float32 has it."""
    return -np.log(np.maximum(p, np.finfo(np.float32).tiny))


def rank_correlation(a: ArrayLike, b: ArrayLike, given: ArrayLike | None = None) -> float | None:
    """Spearman's rho of a and b; with `given`, of what is left of their ranks once `given`'s are taken out by least squares.

    None where nothing is left to correlate: a side is constant, or is ranked as `given` is.
    """
    from scipy.stats import rankdata

    ranks = [rankdata(values) for values in (a, b)]
    ranks = [rank - rank.mean() for rank in ranks]
    if given is not None:
        known = rankdata(given)
        known = known - known.mean()
        if known.any():
            ranks = [rank - known * (rank @ known) / (known @ known) for rank in ranks]
    sizes = [np.sqrt(rank @ rank) for rank in ranks]
    if min(sizes) < 1e-9 * len(ranks[0]):
        return None
    return float(np.clip(ranks[0] @ ranks[1] / (sizes[0] * sizes[1]), -1, 1))


def _group(errors: NDArray) -> float | None:
    return float(errors.mean()) if len(errors) else None


def calibration_error(confidence: NDArray, correct: NDArray, bins: int = BINS, weights: NDArray | None = None) -> float:
    """sum_b (n_b / n) |accuracy_b - confidence_b| over equal bins of (0, 1], in percent; n counts examples, or adds up their weights."""
    weights = np.ones(len(confidence)) if weights is None else weights
    gaps = np.bincount(_bin(confidence, bins), weights=weights * (correct - confidence), minlength=bins)
    return 100 * float(np.abs(gaps).sum() / weights.sum())


def reliability(confidence: NDArray, correct: NDArray, weights: NDArray | None = None, bins: int = BINS) -> NDArray[np.float64]:
    """(share, mean confidence, accuracy) of each bin of the calibration error that holds anything, from low to high: (at most bins, 3)."""
    weights = np.ones(len(confidence)) if weights is None else weights
    which = _bin(confidence, bins)
    size, sure, right = (np.bincount(which, weights=weights * part, minlength=bins) for part in (1, confidence, correct))
    held = size > 0
    return np.stack([size[held] / weights.sum(), sure[held] / size[held], right[held] / size[held]], axis=1)


def _bin(confidence: NDArray, bins: int) -> NDArray[np.int64]:
    """The equal bin of (0, 1] that each falls into; 0 falls into the first."""
    return np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
