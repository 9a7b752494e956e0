"""From probabilities and labels to errors, their spread over the classes, and calibration. Errors are in percent."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, check, check_number
from class_uncertainty.errors import InputError

MANY, FEW = 100, 20  # training examples: many-shot is over MANY, few-shot under FEW, medium-shot between them
BINS = 15  # of the expected calibration error
TINY = 1e-30  # the floor of a probability: 0 has no logarithm


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How well one network does: errors and ECE in percent, NLL in nats. A group without classes is None."""

    error: float  # mean of the class errors
    top1_error: float  # over all examples
    class_errors: tuple[float, ...]  # NaN for a class without examples
    many: float | None
    medium: float | None
    few: float | None
    worst: float  # mean error of the worst tenth of the classes
    spread: float  # standard deviation of the class errors
    nll: float
    ece: float
    prior_error: float | None = None  # where classes are as frequent as a given prior says

    def __post_init__(self) -> None:
        check_number("error", self.error, "a number from 0 to 100", lambda error: 0 <= error <= 100)

    def __repr__(self) -> str:
        errors = f"class-mean error {self.error:.1f} %, overall {self.top1_error:.1f} %, worst tenth {self.worst:.1f} %"
        return f"Scores({len(self.class_errors):,} classes: {errors}, ECE {self.ece:.1f} %, NLL {self.nll:.3f})"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """All that scores depend on: for each example (N,) its label, the prediction, and the probabilities of both."""

    labels: NDArray[np.int64]
    guesses: NDArray[np.int64]
    p_label: NDArray[np.float64]
    p_guess: NDArray[np.float64]

    @classmethod
    def of(cls, probabilities: NDArray, labels: NDArray[np.int64], costs: NDArray | None = None) -> "Outcomes":
        """Of probabilities (N, C); with costs (C, C), of decisions by the least expected cost."""
        p, rows = np.asarray(probabilities), np.arange(len(labels))
        guesses = decide(p, costs)
        return cls(labels, guesses, p[rows, labels].astype(np.float64), p[rows, guesses].astype(np.float64))

    @classmethod
    def joined(cls, parts: "Sequence[Outcomes]") -> "Outcomes":
        """One part after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def take(self, order: NDArray[np.int64]) -> "Outcomes":
        return Outcomes(*(getattr(self, field.name)[order] for field in fields(self)))


def evaluate(
    probabilities: NDArray, labels: NDArray[np.int64], counts: ArrayLike, prior: ArrayLike | None = None
) -> Scores:
    """Scores of probabilities (N, C) against labels (N,), given training counts (C,).

    With a `prior` (C,), calibration and `prior_error` are for classes that are as frequent as it says.
    """
    return score(Outcomes.of(probabilities, labels), counts, prior)


def score(outcomes: Outcomes, counts: ArrayLike, prior: ArrayLike | None = None) -> Scores:
    """The same from outcomes (N,). Classes without examples are left out of every mean."""
    counts, labels, wrong = np.asarray(counts), outcomes.labels, outcomes.guesses != outcomes.labels
    errors = errors_by_class(wrong, labels, len(counts))
    present = ~np.isnan(errors)
    weights = None if prior is None else prior_weights(labels, check_prior(prior, len(counts)))
    surprises = surprise(outcomes.p_label)
    return Scores(
        error=float(errors[present].mean()),
        top1_error=100 * float(wrong.mean()),
        class_errors=tuple(map(float, errors)),
        many=_group(errors[present & (counts > MANY)]),
        medium=_group(errors[present & (counts <= MANY) & (counts >= FEW)]),
        few=_group(errors[present & (counts < FEW)]),
        worst=worst_tenth(errors[present]),
        spread=float(errors[present].std()),
        nll=float(surprises.mean() if weights is None else weights @ surprises),
        ece=calibration_error(outcomes.p_guess, ~wrong, weights=weights),
        prior_error=None if weights is None else 100 * float(weights @ wrong),
    )


def decide(p: NDArray, costs: NDArray | None = None) -> NDArray[np.int64]:
    """(N, C) -> (N,): the most probable class, or the one j of the least expected cost sum_c p_c costs_cj.

    Rows need not sum to 1; without costs, logarithms do as well.
    """
    return p.argmax(axis=1) if costs is None else (p @ costs).argmin(axis=1)


def mean_cost(
    guesses: NDArray[np.int64], labels: NDArray[np.int64], costs: NDArray, weights: NDArray[np.float64] | None = None
) -> float:
    """Of an example, by predictions and labels (N,): costs (C, C) of predicting the column's class for the row's."""
    return float(np.average(costs[labels, guesses], weights=weights))


def errors_by_class(
    wrong: NDArray, labels: NDArray[np.int64], classes: int, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(C,) in percent from (N,), true where a prediction is wrong; NaN for a class without examples."""
    examples, errors = np.bincount(labels, weights, minlength=classes), np.full(classes, np.nan)
    present, counted = examples > 0, wrong if weights is None else wrong * weights
    errors[present] = (100 * np.bincount(labels, counted, minlength=classes))[present] / examples[present]
    return errors


def precisions_by_class(guesses: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """(C,) percent of the predictions of each class that are right; NaN for a class that is never predicted."""
    return 100 - errors_by_class(guesses != labels, guesses, classes)


def worst_classes(errors: NDArray) -> NDArray[np.int64]:
    """The places of the worst tenth of the classes, at least of one, the worst last; of equals the first ones."""
    return np.argsort(-errors, kind="stable")[: -(-len(errors) // 10)][::-1]


def worst_tenth(errors: NDArray) -> float:
    """The mean error of the worst tenth of the classes."""
    return float(errors[worst_classes(errors)].mean())


def log_probabilities(p: NDArray) -> NDArray:
    """log p, finite: probabilities are at least TINY."""
    return np.log(np.maximum(p, TINY))


def surprise(p: NDArray) -> NDArray:
    """-log p in nats."""
    return -log_probabilities(p)


def check_prior(prior: ArrayLike | None, classes: int) -> NDArray[np.float64]:
    """(C,) of sum 1; without a prior every class is equally frequent."""
    check(Array | None, prior=prior)
    try:
        p = np.full(classes, 1 / classes) if prior is None else np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        p = np.empty(0)
    if p.shape != (classes,) or not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1) > 1e-3:
        given = f", and there are {len(p)} of sum {p.sum():.4g}" if p.ndim == 1 and len(p) else ""
        raise InputError(f"prior must be {classes} probabilities that sum to 1, one a class{given}.")
    return p / p.sum()


def prior_weights(
    labels: NDArray[np.int64], prior: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(N,) prior_y / n_y, of sum 1: a mean with these weights is the mean under that prior, absent classes left out.

    With weights (N,) above 0, n_y is their sum in class y, and an example counts by its own.
    """
    in_class = np.bincount(labels, weights)[labels]
    # a quotient of weights, which is at most 1: a prior over weights next to 0 overflows
    under_prior = prior[labels] / in_class if weights is None else prior[labels] * (weights / in_class)
    if not under_prior.sum():
        raise InputError("the prior is 0 for every class that these examples have: give one that allows some of them.")
    return under_prior / under_prior.sum()


def rank_correlation(a: ArrayLike, b: ArrayLike, given: ArrayLike | None = None) -> float | None:
    """Spearman's rho of a and b; with `given`, of their ranks' residuals after regression on the ranks of `given`.

    None where nothing is left to correlate: a side is constant, or is ranked as `given` is.
    """
    from scipy.stats import rankdata

    ranks = [rankdata(values) for values in (a, b)]
    ranks = [rank - rank.mean() for rank in ranks]
    if given is not None:
        control = rankdata(given)
        control = control - control.mean()
        if control.any():
            ranks = [rank - control * (rank @ control) / (control @ control) for rank in ranks]
    norms = [np.sqrt(rank @ rank) for rank in ranks]
    if min(norms) < 1e-9 * len(ranks[0]):
        return None
    return float(np.clip(ranks[0] @ ranks[1] / (norms[0] * norms[1]), -1, 1))


def _group(errors: NDArray) -> float | None:
    return float(errors.mean()) if len(errors) else None


def calibration_error(confidence: NDArray, correct: NDArray, bins: int = BINS, weights: NDArray | None = None) -> float:
    """sum_b (n_b / n) |accuracy_b - confidence_b| over equal bins of (0, 1], in percent.

    n counts examples, or adds up their weights.
    """
    weights = np.ones(len(confidence)) if weights is None else weights
    gaps = np.bincount(_bin(confidence, bins), weights=weights * (correct - confidence), minlength=bins)
    return 100 * float(np.abs(gaps).sum() / weights.sum())


def reliability(
    confidence: NDArray, correct: NDArray, weights: NDArray | None = None, bins: int = BINS
) -> NDArray[np.float64]:
    """(share, mean confidence, accuracy) of each bin that holds examples, from low to high: (at most bins, 3)."""
    weights = np.ones(len(confidence)) if weights is None else weights
    index, columns = _bin(confidence, bins), (1, confidence, correct)
    size, sure, right = (np.bincount(index, weights=weights * column, minlength=bins) for column in columns)
    used = size > 0
    return np.stack([size[used] / weights.sum(), sure[used] / size[used], right[used] / size[used]], axis=1)


def _bin(confidence: NDArray, bins: int) -> NDArray[np.int64]:
    """The equal bin of (0, 1] that each confidence falls into; 0 falls into the first."""
    return np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
