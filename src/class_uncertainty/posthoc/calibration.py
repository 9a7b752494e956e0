"""Adjustments fitted to examples that the model never saw, and what they do to errors and calibration."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, Tensorlike, check
from class_uncertainty.data import stratified
from class_uncertainty.errors import InputError
from class_uncertainty.measures.measures import Vector
from class_uncertainty.metrics import TINY, check_prior, log_probabilities, prior_weights
from class_uncertainty.posthoc.adjustment import (
    Adjustment,
    best_tau,
    check_judged,
    check_tau,
    log_prior,
    losses,
    weighted_means,
)
from class_uncertainty.posthoc.goal import Goal, is_clear
from class_uncertainty.posthoc.intervals import normal_quantile

SHRINKAGE = (np.inf, 100.0, 30.0, 10.0, 3.0, 1.0)  # lambda, from no class bias to a nearly free one
FOLDS = 5  # within the unseen examples: what is chosen or adjusted on one is fitted to the others
BOUNDS = (0.05, 20.0)  # of a temperature
WRONG = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)  # shares of wrong labels: more would explain a model's errors away

Logits = NDArray[np.float64]  # (N, C)
Probabilities = NDArray[np.float64]  # (N, C)
Labels = NDArray[np.int64]  # (N,)


def fit_adjustment(
    unseen: Tensorlike,
    labels: Tensorlike,
    counts: ArrayLike,
    *,
    tau: float | Literal["auto"] = "auto",
    prior: ArrayLike | None = None,
    bias: bool = False,
    temperature: bool = True,
    goal: Goal | None = None,
    usual_tau: float | None = None,
    weights: ArrayLike | None = None,
) -> Adjustment:
    """Fit an Adjustment to examples that the model never saw.

    Parameters
    ----------
    unseen : array or tensor (N, C)
        The model's probabilities for examples that it was not trained on.
    labels : array or tensor (N,)
        Their classes.
    counts : array (C,)
        Training examples of each class.
    tau : float or "auto"
        How far to correct; "auto" takes the value with the lowest class-mean error.
    prior : array (C,), optional
        How frequent the classes are where the model is used; by default equally.
    bias : bool
        Whether to fit one number a class around tau log N_c.
    temperature : bool
        Whether to fit a temperature, so that the result is as sure as it is right.
    goal : Goal, optional
        What "auto" takes the best tau for, in the place of `prior`. Under unequal priors and with costs, decisions
        depend on the temperature: tau is fitted again once there is one, which is left out where that makes the value
        clearly worse, by a paired 95 % interval.
    usual_tau : float, optional
        What "auto" keeps unless another tau is better by more than a paired standard error.
    weights : array (N,), optional
        How much each example counts beside others of its class, from 0; by default all count alike.

    Returns
    -------
    Adjustment

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> cu.fit_adjustment(p, [0, 0, 1, 1], counts=[90, 10], temperature=False).tau
    0.55
    """
    check(Array, counts=counts)
    check_tau(tau, or_auto=True)
    check(bool, bias=bias, temperature=temperature)
    check(Goal | None, goal=goal)
    check(float | None, usual_tau=usual_tau)
    check(Array | None, weights=weights)
    p, labels = check_judged(unseen, labels)
    if np.shape(counts) != p.shape[1:]:
        shape = f"{np.shape(counts)}, and the unseen probabilities are of {p.shape[1]} classes"
        raise InputError(f"counts have the shape {shape}: give one a class.")
    if goal is not None and prior is not None:
        raise InputError("both a prior and a goal are given: a goal has a prior of its own, so give one of them.")
    goal = Goal("prior", check_prior(prior, p.shape[1])) if goal is None else goal
    example_weights = _check_weights(weights, len(labels))
    used = example_weights > 0
    judged = (p, labels, example_weights) = p[used], labels[used], example_weights[used]
    options: dict[str, Any] = {"goal": goal, "usual": usual_tau, "weights": example_weights}
    by_temperature = goal.costs is not None or np.ptp(goal.prior) > 1e-12  # whether that changes decisions
    if not (by_temperature and temperature and tau == "auto"):
        strength = best_tau(p, labels, counts, **options) if tau == "auto" else tau
        return _fitted(*judged, Adjustment.of(counts, strength, goal.prior), bias, temperature)

    def fitted_at(fixed: float) -> Adjustment:
        strength = best_tau(p, labels, counts, temperature=fixed, **options)
        best = _fitted(*judged, Adjustment.of(counts, strength, goal.prior), bias, temperature=False)
        return replace(best, temperature=fixed)

    plain = fitted_at(1.0)
    softened = fitted_at(_fitted(*judged, plain, False, temperature).temperature)
    loss, standard_error = goal.difference(softened(p), plain(p), labels, weights=example_weights)
    return plain if is_clear(loss, normal_quantile() * standard_error) else softened


def _check_weights(weights: ArrayLike | None, number: int) -> Vector:
    if weights is None:
        return np.ones(number)
    given = np.asarray(weights)
    if given.shape != (number,) or given.dtype.kind not in "biuf":
        raise InputError(
            f"weights are {given.dtype} of shape {given.shape}: give a number for each of {number} examples."
        )
    for i in np.flatnonzero(~(np.isfinite(given) & (given >= 0))):
        raise InputError(f"weight {i} is {given[i]:g}: weights are finite numbers from 0.")
    if not given.any():
        raise InputError("all weights are 0: one at least must be above 0.")
    return given.astype(np.float64) / float(given.max())  # in any unit: their sums stay finite


def _fitted(
    p: Probabilities, labels: Labels, weights: Vector, adjustment: Adjustment, bias: bool, temperature: bool
) -> Adjustment:
    """The adjustment with a bias, a temperature or both fitted."""
    logits = log_probabilities(p)
    if bias:
        used = adjustment.prior[labels] > 0
        fitted = _chosen_bias(logits[used], labels[used], weights[used], adjustment.bias, adjustment.prior)
        adjustment = replace(adjustment, bias=fitted)
    if temperature:
        fitted_temperature = _best_temperature(logits - adjustment.bias, labels, weights, adjustment.prior)
        adjustment = replace(adjustment, temperature=fitted_temperature)
    return adjustment


def cross_adjusted(
    probabilities: Tensorlike,
    labels: Tensorlike,
    counts: ArrayLike,
    goal: Goal,
    usual_tau: float | None = None,
    groups: NDArray[np.int64] | None = None,
) -> Probabilities:
    """(N, C) adjusted probabilities: each stratified part by the tau and temperature fitted to the other parts."""
    return cross_fitted(probabilities, labels, counts, goal, usual_tau, groups)[0]


def cross_fitted(
    probabilities: Tensorlike,
    labels: Tensorlike,
    counts: ArrayLike,
    goal: Goal,
    usual_tau: float | None = None,
    groups: NDArray[np.int64] | None = None,
    temperature: bool = True,
) -> tuple[Probabilities, tuple[float, ...]]:
    """What `cross_adjusted` returns, and the tau of each part; `temperature` says whether one is fitted too.

    No example is judged by what was fitted to it or, with groups (N,), to its group. Where the other parts have no
    example that counts under the prior, tau is the usual one, or 1, and the temperature 1.
    """
    p, labels = check_judged(probabilities, labels)
    codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
    parts = FOLDS if codes is None else min(FOLDS, int(codes.max()) + 1)
    part, adjusted, taus = stratified(labels, parts, groups=codes), np.empty_like(p), list[float]()
    usual = Adjustment.of(counts, 1.0 if usual_tau is None else usual_tau, goal.prior)
    for out in (part == k for k in np.unique(part)):
        has_weight = goal.prior[labels[~out]].any()
        rest = (p[~out], labels[~out], counts)
        options: dict[str, Any] = {"goal": goal, "usual_tau": usual_tau, "temperature": temperature}
        adjustment = fit_adjustment(*rest, **options) if has_weight else usual
        adjusted[out] = adjustment(p[out])
        taus.append(adjustment.tau)
    return adjusted, tuple(taus)


def _chosen_bias(logits: Logits, labels: Labels, weights: Vector, towards: Vector, prior: Vector) -> Vector:
    """The bias at the lambda with the lowest cross-validated error, then NLL, both under the prior."""
    from scipy.special import softmax

    fold, logits, under_prior = (
        stratified(labels, FOLDS),
        logits + log_prior(prior),
        prior_weights(labels, prior, weights),
    )
    fold_losses = np.empty((len(SHRINKAGE), 2, len(labels)))
    for k in range(FOLDS):
        out = fold == k
        biases = _biases(logits[~out], labels[~out], weights[~out], towards, prior)
        for at_lambda, bias in zip(fold_losses, biases, strict=True):
            at_lambda[:, out] = losses(softmax(logits[out] - bias, axis=1), labels[out])
    chosen = min(range(len(SHRINKAGE)), key=lambda i: weighted_means(fold_losses[i], under_prior))
    return _biases(logits, labels, weights, towards, prior)[chosen]


def _biases(logits: Logits, labels: Labels, weights: Vector, towards: Vector, prior: Vector) -> list[Vector]:
    """argmin_b NLL under the prior of softmax(z - b) + lambda sum_c prior_c (b_c - towards_c) ** 2 / n_c, by lambda.

    With equal priors that NLL weighs a class's two examples as much as another's 500, though they say far less. 1 / n_c
    makes up for it: rare classes stay near `towards`, frequent ones go their way, as if each b_c were drawn from one
    normal distribution around it; with weights, n_c is the effective number. Classes without examples keep `towards`;
    the others are fitted among themselves.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    if not len(labels):
        return [towards] * len(SHRINKAGE)
    present, labels = np.unique(labels, return_inverse=True)
    logits, weights, rows = logits[:, present], prior_weights(labels, prior[present], weights), np.arange(len(labels))
    class_weights = np.bincount(labels, weights=weights)
    effective = class_weights**2 / np.bincount(labels, weights=weights**2)

    def loss(b: Vector, pull: Vector) -> tuple[float, Vector]:
        log_q, off = log_softmax(logits - b, axis=1), b - towards[present]
        return -weights @ log_q[rows, labels] + pull @ off**2, class_weights - weights @ np.exp(log_q) + 2 * pull * off

    biases = [towards]
    for strength in SHRINKAGE[1:]:
        pull, bias, start = strength * class_weights / effective, towards.copy(), biases[-1][present]
        bias[present] = minimize(loss, start, (pull,), method="L-BFGS-B", jac=True).x
        biases.append(bias)
    return biases


def clearly_best(candidates: Sequence[Probabilities], labels: Labels) -> int:
    """The place of the candidate with the lowest class-mean error; 0 unless it beats the first by a standard error.

    With d_i what the first contributes by example i beyond the other, it must hold that sum d_i > sqrt(sum d_i ** 2).
    """
    goal = Goal("mean", check_prior(None, candidates[0].shape[1]))
    gains = [goal.difference(candidates[0], p, labels) for p in candidates]
    best = int(np.argmax([round(gain, 10) for gain, _ in gains]))
    return best if is_clear(*gains[best]) else 0


def _best_temperature(logits: Logits, labels: Labels, weights: Vector, prior: Vector) -> float:
    """argmin_T min_e NLL of (1 - e) softmax(z / T + log prior) + e / C under that prior + (log T) ** 2 / 2n.

    n is the effective number of examples. A share e of the labels may be wrong: otherwise a few mislabelled examples
    inflate the temperature. Below 1 the model becomes no surer than with e = 0. The second term keeps a few examples
    that are all right from making it sure of anything.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import softmax

    weights = prior_weights(labels, prior, weights)
    used = weights > 0
    weights, labels, logits = weights[used], labels[used], logits[used]
    effective, rows, shift = 1 / (weights @ weights), np.arange(len(labels)), log_prior(prior)

    def best(shares: Sequence[float]) -> float:
        def loss(log_t: float) -> float:
            q = softmax(logits / np.exp(log_t) + shift, axis=1)[rows, labels]
            nll = min(-weights @ np.log(np.maximum((1 - e) * q + e / len(prior), TINY)) for e in shares)
            return nll + log_t**2 / (2 * effective)

        grid = np.log(np.geomspace(*BOUNDS, 16))  # there may be more than one valley
        lowest = int(np.argmin([loss(log_t) for log_t in grid]))
        around = grid[max(lowest - 1, 0)], grid[min(lowest + 1, len(grid) - 1)]
        return round(float(np.exp(minimize_scalar(loss, bounds=around, method="bounded").x)), 4)

    temperature = best(WRONG)
    return temperature if temperature >= 1 else max(temperature, min(best(WRONG[:1]), 1.0))
