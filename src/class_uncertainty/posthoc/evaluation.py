"""How good the networks of several seeds are together: errors, confusions and calibration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.measures.uncertainty import check_labels, check_probabilities
from class_uncertainty.metrics import Outcomes, check_prior, decide, reliability, score, surprise
from class_uncertainty.text import amount_of

POINTS = 60  # of a curve at most
FIGURES = {"precision": "precision", "recall": "recall", "f1": "F1", "auc": "AUC"}  # fields of TwoClasses, in words
FIGURES |= {"average_precision": "average precision"}


@dataclass(frozen=True)
class Threshold:
    """What predicting the positive class from some probability on gives, in percent."""

    probability: float
    precision: float
    recall: float


@dataclass(frozen=True)
class TwoClasses:
    """How well the positive class, the rarer one in training, is found. In percent, means over the seeds."""

    positive: int
    precision: float  # of the examples that are predicted as positive; 0 where none is
    recall: float  # of the positive examples
    f1: float
    auc: float  # area under the ROC curve
    average_precision: float
    threshold: float | None  # the probability from which an example is predicted as positive; None if not known
    curve: tuple[Threshold, ...]  # of the first seed, from high probabilities to low ones


def two_classes(
    p: NDArray[np.float64],
    labels: NDArray[np.int64],
    counts: ArrayLike,
    costs: NDArray[np.float64] | None = None,
    decisions: NDArray[np.int64] | None = None,
) -> TwoClasses | None:
    """The TwoClasses of probabilities (S, N, C) on labels (N,), given training counts (C,).

    None unless there are two classes, and examples of both. With costs (2, 2) a prediction is the class of the least
    expected cost; decisions (S, N) stand in the place of such predictions, and do not tell the threshold.
    """
    if p.shape[2] != 2 or len(np.unique(labels)) != 2:
        return None
    first, second = np.asarray(counts).tolist()
    positive = 0 if first < second else 1
    is_positive, scores = labels == positive, p[:, :, positive]
    guesses = np.array([decide(of_seed, costs) for of_seed in p]) if decisions is None else decisions  # (S, N)
    decided = np.array([_precision_recall(of_seed == positive, is_positive) for of_seed in guesses])  # (S, 2)
    sums = decided.sum(axis=1)
    f1 = 2 * decided.prod(axis=1) / np.where(sums > 0, sums, 1)
    areas = [(roc_area(of_seed, is_positive), average_precision(of_seed, is_positive)) for of_seed in scores]
    precision, recall, mean_f1, auc, average = (100 * np.column_stack([decided, f1, areas]).mean(axis=0)).tolist()
    from_probability = threshold(costs, positive) if decisions is None else None
    thresholds, precisions, recalls = _points(scores[0], is_positive, POINTS)
    columns = (side.tolist() for side in (thresholds, 100 * precisions, 100 * recalls))
    curve = tuple(Threshold(*point) for point in zip(*columns, strict=True))
    return TwoClasses(positive, precision, recall, mean_f1, auc, average, from_probability, curve)


def roc_area(scores: NDArray[np.float64], is_positive: NDArray[np.bool_]) -> float:
    """P that a positive example has a higher score than another one, ties counted by half: Mann and Whitney's U."""
    from scipy.stats import rankdata

    positives = int(is_positive.sum())
    above = rankdata(scores)[is_positive].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(scores) - positives)))


def average_precision(scores: NDArray[np.float64], is_positive: NDArray[np.bool_]) -> float:
    """sum_t (recall_t - recall_t-1) precision_t over the thresholds t, from high to low."""
    _, precision, recall = _points(scores, is_positive, len(scores))
    return float(precision @ np.diff(recall, prepend=0))


def _precision_recall(predicted: NDArray[np.bool_], is_positive: NDArray[np.bool_]) -> tuple[float, float]:
    hits = (predicted & is_positive).sum()
    return hits / max(predicted.sum(), 1), hits / is_positive.sum()


def _points(scores: NDArray[np.float64], is_positive: NDArray[np.bool_], most: int) -> tuple[NDArray[np.float64], ...]:
    """(thresholds, precision, recall) at every score that occurs, or at so many that are equally far apart in rank."""
    order = np.argsort(-scores, kind="stable")
    hits, ends = np.cumsum(is_positive[order]), np.flatnonzero(np.diff(scores[order], append=-1))  # of equal scores
    if len(ends) > most:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, most).astype(int))]
    return scores[order][ends], hits[ends] / (ends + 1), hits[ends] / hits[-1]


def threshold(costs: NDArray[np.float64] | None, positive: int) -> float:
    """The probability of the positive class from which both predictions are expected to cost the same."""
    if costs is None:
        return 0.5
    other = 1 - positive
    false_alarm = costs[other, positive] - costs[other, other]
    missed = costs[positive, other] - costs[positive, positive]
    return float(false_alarm / (false_alarm + missed)) if false_alarm + missed > 0 else 0.5


@dataclass(frozen=True)
class Bin:
    """A bin of a reliability diagram: its share of the examples, their mean confidence and their accuracy, 0 to 1."""

    share: float
    confidence: float
    accuracy: float
    examples: int


@dataclass(frozen=True)
class Evaluation:
    """Errors in percent by seed, the mean confusion matrix, and calibration of the first seed, which is kept."""

    errors: tuple[float, ...]  # (S,) class means
    class_errors: tuple[tuple[float, ...], ...]  # (S, C), NaN for a class without examples
    worst: tuple[float, ...]  # (S,) mean error of the worst tenth of the classes
    # (C, C) percent of the row's class that is predicted as the column's, mean over the seeds; NaN without examples
    confusion: tuple[tuple[float, ...], ...]
    bins: tuple[Bin, ...]  # those that hold examples
    ece: float  # percent
    nll: float  # nats
    overall: tuple[float, ...]  # (S,) errors over all examples
    two: TwoClasses | None = None  # of two classes

    def __repr__(self) -> str:
        of = f"{amount_of(len(self.errors), 'seed', 'seeds')}, {len(self.confusion):,} classes"
        errors = f"class-mean error {np.mean(self.errors):.1f} %, worst tenth {np.mean(self.worst):.1f} %"
        return f"Evaluation({of}: {errors}, ECE {self.ece:.1f} %, NLL {self.nll:.3f})"

    @property
    def means(self) -> NDArray[np.float64]:
        """(C,) class errors, mean over the seeds."""
        return np.mean(self.class_errors, axis=0)


def evaluate_seeds(
    probabilities: Any,
    labels: ArrayLike,
    counts: ArrayLike,
    prior: ArrayLike | None = None,
    costs: NDArray[np.float64] | None = None,
) -> Evaluation:
    """The Evaluation of probabilities (S, N, C), one network a seed, on labels (N,), given training counts (C,).

    In bins, ECE and NLL an example weighs prior_y / n_y: by default every class weighs the same. With costs (C, C) the
    prediction is the class of the least expected cost.
    """
    p = check_probabilities(probabilities)
    seeds, examples, classes = p.shape
    labels = check_labels(labels, examples, classes)
    test_counts = np.bincount(labels, minlength=classes)
    if np.shape(counts) != (classes,):
        raise InputError(f"counts have the shape {np.shape(counts)}: there must be one for each of {classes} classes.")
    outcomes = [Outcomes.of(p_seed, labels, costs) for p_seed in p]
    scores = [score(of_seed, counts) for of_seed in outcomes]
    class_weights = check_prior(prior, classes)
    if not test_counts.all():
        class_weights = class_weights / class_weights[test_counts > 0].sum()
    test_counts = np.maximum(test_counts, 1)
    weights = (class_weights / test_counts)[labels]
    both = Outcomes.joined(outcomes)  # (S * N,)
    confusion = np.bincount(both.labels * classes + both.guesses, minlength=classes**2).reshape(classes, classes)
    shares = 100 * confusion / (seeds * test_counts[:, None])
    shares[confusion.sum(axis=1) == 0] = np.nan
    first = outcomes[0]
    is_right = first.guesses == labels
    bins = reliability(first.p_guess, is_right, weights)  # (at most BINS, 3)
    is_weighed = (weights > 0).astype(np.float64)
    sizes = np.rint(reliability(first.p_guess, is_right, is_weighed)[:, 0] * is_weighed.sum()).astype(int)
    return Evaluation(
        errors=tuple(seed_scores.error for seed_scores in scores),
        class_errors=tuple(seed_scores.class_errors for seed_scores in scores),
        worst=tuple(seed_scores.worst for seed_scores in scores),
        confusion=tuple(tuple(map(float, row)) for row in shares),
        bins=tuple(Bin(*row) for row in zip(*bins.T.tolist(), sizes.tolist(), strict=True)),
        ece=100 * float(bins[:, 0] @ np.abs(bins[:, 2] - bins[:, 1])),
        nll=float(weights @ surprise(first.p_label)),
        overall=tuple(seed_scores.top1_error for seed_scores in scores),
        two=two_classes(p, labels, counts, costs),
    )
