"""How good the networks of several seeds are together: errors, confusions and calibration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError
from class_uncertainty.measures.scores import check_labels, check_probabilities
from class_uncertainty.metrics import Outcomes, check_prior, reliability, score, surprise
from class_uncertainty.posthoc.two_classes import TwoClasses, two_classes
from class_uncertainty.text import amount_of


@dataclass(frozen=True)
class Bin:
    """A bin of a reliability diagram: its share of the examples, their mean confidence and their accuracy, 0 to 1."""

    share: float
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Evaluation:
    """Errors in percent by seed, the mean confusion matrix, and calibration over all seeds."""

    errors: tuple[float, ...]  # (S,) class means
    class_errors: tuple[tuple[float, ...], ...]  # (S, C), NaN for a class without examples
    worst: tuple[float, ...]  # (S,) mean error of the worst tenth of the classes
    # (C, C) percent of the row's class that is predicted as the column's, mean over the seeds; 0 without examples
    confusion: tuple[tuple[float, ...], ...]
    bins: tuple[Bin, ...]  # those that hold examples
    ece: float  # percent
    nll: float  # nats
    overall: tuple[float, ...] = ()  # (S,) errors over all examples
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
    weights = np.tile((class_weights / test_counts)[labels], seeds) / seeds
    both = Outcomes.joined(outcomes)  # (S * N,)
    confusion = np.bincount(both.labels * classes + both.guesses, minlength=classes**2).reshape(classes, classes)
    bins = reliability(both.p_guess, both.guesses == both.labels, weights)  # (at most BINS, 3)
    return Evaluation(
        errors=tuple(seed_scores.error for seed_scores in scores),
        class_errors=tuple(seed_scores.class_errors for seed_scores in scores),
        worst=tuple(seed_scores.worst for seed_scores in scores),
        confusion=tuple(tuple(map(float, row)) for row in 100 * confusion / (seeds * test_counts[:, None])),
        bins=tuple(Bin(*map(float, row)) for row in bins),
        ece=100 * float(bins[:, 0] @ np.abs(bins[:, 2] - bins[:, 1])),
        nll=float(weights @ surprise(both.p_label)),
        overall=tuple(seed_scores.top1_error for seed_scores in scores),
        two=two_classes(p, labels, counts, costs),
    )
