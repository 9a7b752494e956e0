"""Adjustments fitted to examples that the model never saw, and what they do to errors and calibration."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.boundary import Tensorlike, checked
from class_uncertainty.data import stratified
from class_uncertainty.errors import InputError
from class_uncertainty.measures.stats import Vector
from class_uncertainty.metrics import calibration_error, surprise, worst_tenth
from class_uncertainty.remedies.adjust import (
    TINY,
    Adjustment,
    badness,
    best_tau,
    check_judged,
    check_prior,
    log_prior,
    logarithms,
    losses,
    prior_weights,
)

SHRINKAGE = (np.inf, 100.0, 30.0, 10.0, 3.0, 1.0)  # lambda, from no bias of its own to nearly free
FOLDS = 5  # within the unseen examples, to choose lambda
BOUNDS = (0.05, 20.0)  # of a temperature
WRONG = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)  # shares of labels that may be: more would explain away what a model gets wrong

Logits = NDArray[np.float64]  # (N, C)
Probabilities = NDArray[np.float64]  # (N, C)
Labels = NDArray[np.int64]  # (N,)


@checked
def fit_adjustment(
    unseen: Tensorlike,
    labels: Tensorlike,
    counts: ArrayLike,
    *,
    tau: float | Literal["auto"] = "auto",
    prior: ArrayLike | None = None,
    bias: bool = False,
    temperature: bool = True,
) -> Adjustment:
    """The Adjustment that fits examples which the model never saw: their probabilities (N, C) and labels (N,), training counts (C,).

    `tau="auto"` is best_tau; `bias` fits one number a class around tau log N_c; `temperature` then makes the result as
    sure as it is right. All is for where classes are as frequent as `prior` says.
    """
    p, known = check_judged(unseen, labels)
    if np.shape(counts) != p.shape[1:]:
        raise InputError(
            f"counts have the shape {np.shape(counts)}, and the unseen probabilities are of {p.shape[1]} classes: give one a class."
        )
    found = Adjustment.of(counts, best_tau(p, known, counts, prior=prior) if tau == "auto" else tau, prior)
    logits = logarithms(p)
    if bias:
        used = found.prior[known] > 0
        found = replace(found, bias=_chosen_bias(logits[used], known[used], found.bias, found.prior))
    if temperature:
        found = replace(found, temperature=_best_temperature(logits - found.bias, known, found.prior))
    return found


def _chosen_bias(logits: Logits, labels: Labels, towards: Vector, prior: Vector) -> Vector:
    """The bias at the lambda that cross-validation within the examples likes best: by error, then by NLL, both under the prior."""
    from scipy.special import softmax

    part, weight, logits = stratified(labels, FOLDS), prior_weights(labels, prior), logits + log_prior(prior)
    lost = np.empty((len(SHRINKAGE), 2, len(labels)))
    for k in range(FOLDS):
        out = part == k
        for each, bias in zip(lost, _biases(logits[~out], labels[~out], towards, prior), strict=True):
            each[:, out] = losses(softmax(logits[out] - bias, axis=1), labels[out])
    chosen = min(range(len(SHRINKAGE)), key=lambda i: badness(lost[i], weight))
    return _biases(logits, labels, towards, prior)[chosen]


def _biases(logits: Logits, labels: Labels, towards: Vector, prior: Vector) -> list[Vector]:
    """argmin_b NLL under the prior of softmax(z - b) + lambda sum_c prior_c (b_c - towards_c) ** 2 / n_c, for each lambda.

    With equal priors that NLL listens to a class's two examples as much as to another's 500, though they say far less. 1 / n_c makes up
    for it: rare classes stay near `towards`, frequent ones go their way, as if each b_c were drawn from one normal distribution around it.
    Of classes without examples nothing is known: they keep `towards`, and the others are fitted among themselves.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    if not len(labels):
        return [towards] * len(SHRINKAGE)
    present, labels, per_class = np.unique(labels, return_inverse=True, return_counts=True)
    logits, weight, rows = logits[:, present], prior_weights(labels, prior[present]), np.arange(len(labels))
    of_class = np.bincount(labels, weights=weight)

    def loss(b: Vector, pull: Vector) -> tuple[float, Vector]:
        log_q, off = log_softmax(logits - b, axis=1), b - towards[present]
        return -weight @ log_q[rows, labels] + pull @ off**2, of_class - weight @ np.exp(log_q) + 2 * pull * off

    found = [towards]
    for strength in SHRINKAGE[1:]:
        pull, bias = strength * of_class / per_class, towards.copy()
        bias[present] = minimize(loss, found[-1][present], (pull,), method="L-BFGS-B", jac=True).x  # from the last: near already
        found.append(bias)
    return found


def clearly_best(said: Sequence[Probabilities], labels: Labels) -> int:
    """The place of the probabilities with the lowest class-mean error; 0 unless they beat the first by more than a standard error.

    With d_i = 1 where the first is wrong and the other right, -1 where it is the other way round: sum w_i d_i > sqrt(sum (w_i d_i) ** 2),
    each class weighing the same.
    """
    wrong = np.stack([p.argmax(axis=1) != labels for p in said]).astype(float)
    gains = prior_weights(labels, np.ones(said[0].shape[1])) * (wrong[0] - wrong)  # (k, N)
    best = int(gains.sum(axis=1).round(12).argmax())
    return best if round(gains[best].sum() - np.linalg.norm(gains[best]), 12) > 0 else 0


def _best_temperature(logits: Logits, labels: Labels, prior: Vector) -> float:
    """argmin_T min_e NLL of (1 - e) softmax(z / T + log prior) + e / C under that prior + (log T) ** 2 / 2n, the weights being worth n.

    A share e of the labels may be wrong: without it a few that a sure model contradicts would make it doubt everything. Below 1 it makes
    the model no surer than e = 0 would. The second term keeps a few examples that are all right from making it sure of anything.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import softmax

    weights = prior_weights(labels, prior)
    used = weights > 0
    weights, labels, logits = weights[used], labels[used], logits[used]
    worth, rows, shift = 1 / (weights @ weights), np.arange(len(labels)), log_prior(prior)

    def best(shares: Sequence[float]) -> float:
        def loss(log_t: float) -> float:
            q = softmax(logits / np.exp(log_t) + shift, axis=1)[rows, labels]
            return min(-weights @ np.log(np.maximum((1 - e) * q + e / len(prior), TINY)) for e in shares) + log_t**2 / (2 * worth)

        grid = np.log(np.geomspace(*BOUNDS, 16))  # there may be more than one valley
        lowest = int(np.argmin([loss(log_t) for log_t in grid]))
        around = grid[max(lowest - 1, 0)], grid[min(lowest + 1, len(grid) - 1)]
        return round(float(np.exp(minimize_scalar(loss, bounds=around, method="bounded").x)), 4)

    found = best(WRONG)
    return found if found >= 1 else max(found, min(best(WRONG[:1]), 1.0))


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How good probabilities are. Errors and ECE are in percent."""

    class_mean_error: float
    error: float  # top-1
    prior_error: float  # where classes are as frequent as the prior says
    worst: float  # mean error of the worst tenth of the classes
    ece: float  # under the prior
    nll: float  # under the prior, nats


def judge(probabilities: Any, labels: ArrayLike, prior: ArrayLike | None = None) -> Judged:
    """Probabilities (N, C) and labels (N,), which may lack classes -> Judged, calibration where classes are as frequent as `prior` says."""
    p, known = check_judged(probabilities, labels)
    weights = prior_weights(known, check_prior(prior, p.shape[1]))
    wrong = p.argmax(axis=1) != known
    per_class = np.bincount(known)
    errors = 100 * np.bincount(known, weights=wrong)[per_class > 0] / per_class[per_class > 0]
    return Judged(
        class_mean_error=float(errors.mean()),
        error=100 * float(wrong.mean()),
        prior_error=100 * float(weights @ wrong),
        worst=worst_tenth(errors),
        ece=calibration_error(p.max(axis=1), ~wrong, weights=weights),
        nll=float(weights @ surprise(p[np.arange(len(p)), known])),
    )
