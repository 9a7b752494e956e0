"""How likely each label is to be wrong: a model of label noise, fitted to what networks say of examples unseen by them.

The true class k of an example follows q_k, a log-linear pool of M sources, z = sum_m a_m log p_m + b, q = softmax(z),
and the label i was then written down with probability flips[k, i]. Weights a, biases b and flips are fitted to the
labels: a calibrated classifier that explains them needs no flips, so clean data has few or no issues. A label is
wrong with probability 1 - q_i flips[i, i] / sum_k q_k flips[k, i].
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Tensorlike, check
from class_uncertainty.data import stratified
from class_uncertainty.errors import InputError
from class_uncertainty.measures.uncertainty import check_labels, check_rows, check_rows_or_members
from class_uncertainty.posthoc.goal import is_clear, paired_sum
from class_uncertainty.text import amount_of

LEAST = 1e-6  # probabilities below it count as it: a softmax in float16 has zeros
START = 0.02  # share of wrong labels that the fit starts from
ALIKE = 0.5  # of the mean rate of all pairs: where the median is no lower, noise is symmetric
LITTLE = -2.0  # logarithm of the weight that further sources start from
ROUNDS, STEPS = 100, 2  # of expectation and maximisation, and of L-BFGS in each
FITTED, EACH = 10**6, 20  # probabilities that a model is fitted to, or so many examples a class; more examples wait
SETTLED = 1e-3  # largest change of a probability in the last round


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """Which labels are probably wrong.

    Attributes
    ----------
    p_wrong : array (N,)
        Probability that the label is wrong.
    guesses : array (N,)
        The likeliest class other than the label.
    probabilities : array (N, C)
        Of the classes, by what was seen of the example alone: the label is not considered.
    flips : array (C, C)
        Probability that an example of a class (row) is labelled as another (column).
    labels : array (N,)

    Examples
    --------
    >>> labels = np.repeat([0, 1], 50)
    >>> p = np.where(labels[:, None] == 0, [0.9999, 0.0001], [0.0001, 0.9999])
    >>> p[7] = 0.0001, 0.9999
    >>> noise = cu.label_noise(p, labels)
    >>> noise.ranked, noise.guesses[7]
    (array([7]), np.int64(1))
    """

    p_wrong: NDArray[np.float64]
    guesses: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    flips: NDArray[np.float64]
    labels: NDArray[np.int64]

    def __repr__(self) -> str:
        issues = amount_of(int(self.is_issue.sum()), "label is", "labels are")
        return f"LabelNoise({len(self.labels):,} examples, {len(self.flips):,} classes: {issues} probably wrong)"

    @property
    def is_issue(self) -> NDArray[np.bool_]:
        """(N,) where the label is more likely wrong than right.

        Where that holds for half of a class or more, the networks do not know the class, and none of it is listed.
        """
        likely, classes = self.p_wrong > 0.5, len(self.flips)
        counts = np.bincount(self.labels, minlength=classes)
        return likely & (2 * np.bincount(self.labels, weights=likely, minlength=classes) < counts)[self.labels]

    @property
    def ranked(self) -> NDArray[np.int64]:
        """The issues, the clearest first."""
        issues = np.flatnonzero(self.is_issue)
        return issues[np.argsort(-self.p_wrong[issues], kind="stable")]


def label_noise(probabilities: ArrayLike, labels: ArrayLike, others: Sequence[ArrayLike] = ()) -> LabelNoise:
    """Find labels that are probably wrong, from probabilities of examples that their networks never saw.

    Parameters
    ----------
    probabilities : array (N, C) or (T, N, C)
        Out-of-fold, of one network or of several, for classes as frequent as they are among the labels.
    labels : array (N,)
        Whole numbers from 0 to C - 1.
    others : sequence of arrays (N, C)
        Further sources that did not see an example's label, such as shares of its neighbours. Each gets a weight.

    Returns
    -------
    LabelNoise

    Notes
    -----
    Wrong labels are taken to be of any other class alike, unless a rate for each pair of classes predicts the labels
    of held-out halves clearly better and the rates are far apart: where the median pair has half of the mean rate or
    more, what few pairs have beyond it are mistakes of the networks.

    Examples
    --------
    >>> p = np.where(np.arange(60)[:, None] < 30, [0.9, 0.1], [0.1, 0.9])
    >>> cu.label_noise(p, (np.arange(60) >= 30).astype(int)).ranked
    array([], dtype=int64)
    """
    check(list[Tensorlike], others=others)
    p = check_rows_or_members(probabilities)
    labels = check_labels(labels, *p.shape[1:])
    sources = [_logs(p).mean(axis=0)]
    for other in others:
        if np.shape(other) != p.shape[1:]:
            raise InputError(f"a further source has shape {np.shape(other)}: it needs {p.shape[1:]}.")
        sources.append(_logs(check_rows(other)))
    logs = np.stack(sources)
    classes = p.shape[2]
    part = stratified(labels, -(-len(labels) // max(FITTED // classes, EACH * classes))) == 0
    fitted = _chosen(logs[:, part], labels[part])
    q = fitted.classes(logs)
    joint = q * fitted.flips[:, labels].T
    rows, total = np.arange(len(labels)), joint.sum(axis=1)
    right = joint[rows, labels] / total
    joint[rows, labels] = -1
    return LabelNoise(1 - right, joint.argmax(axis=1), q, fitted.flips, labels)


@dataclass(frozen=True, eq=False)
class _Model:
    """z = sum_m a_m log p_m + bias, and the flips."""

    weights: NDArray[np.float64]  # (M,) log a
    bias: NDArray[np.float64]  # (C,)
    flips: NDArray[np.float64]  # (C, C)

    def classes(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, C) from log p (M, N, C)."""
        from scipy.special import softmax

        pool = sum(weight * source for weight, source in zip(np.exp(self.weights), logs, strict=True))
        return softmax(pool + self.bias, axis=1)

    def likelihood(self, logs: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) log p of the labels."""
        return np.log((self.classes(logs) * self.flips[:, labels].T).sum(axis=1))


def _chosen(logs: NDArray[np.float64], labels: NDArray[np.int64]) -> _Model:
    """Symmetric noise, or a rate for each pair where rates are far apart and clearly better on held-out halves."""
    _, examples, classes = logs.shape
    if examples >= classes**2:  # otherwise there are more pairs than examples
        by_pairs = _fit(logs, labels, by_pairs=True)
        if not _are_alike(by_pairs.flips):
            gains = _held_out(logs, labels, by_pairs=True) - _held_out(logs, labels, by_pairs=False)
            if is_clear(*paired_sum(gains)):
                return by_pairs
    return _fit(logs, labels, by_pairs=False)


def _are_alike(flips: NDArray[np.float64]) -> bool:
    """Whether the median pair of classes has a rate near the mean: of two in the middle, the lower one counts."""
    rates = flips[~np.eye(len(flips), dtype=bool)]
    return bool(np.quantile(rates, 0.5, method="lower") >= ALIKE * rates.mean())


def _fit(logs: NDArray[np.float64], labels: NDArray[np.int64], by_pairs: bool) -> _Model:
    """Maximum a posteriori by generalised expectation maximisation.

    Before anything is seen, b and log a are normal with variance 1: networks are calibrated, log a_1 is 0 on average,
    and further sources count for little, LITTLE. With a rate for each pair, the flips of a class have C examples of
    symmetric noise beforehand.
    """
    sources, examples, classes = logs.shape
    model = _Model(_expected_weights(sources), np.zeros(classes), _symmetric(START, classes))
    p_right, rows = np.zeros(examples), np.arange(examples)
    for _ in range(ROUNDS):
        model = _calibrated(model, logs, labels)
        joint = model.classes(logs) * model.flips[:, labels].T
        joint /= joint.sum(axis=1, keepdims=True)
        before, p_right = p_right, joint[rows, labels]
        expected = _symmetric(float(1 - p_right.mean()), classes)
        if by_pairs:
            written = np.stack([np.bincount(labels, column, minlength=classes) for column in joint.T])  # k labelled i
            expected = written + classes * expected
            expected /= expected.sum(axis=1, keepdims=True)
        model = replace(model, flips=expected)
        if np.abs(p_right - before).max() < SETTLED:
            break
    return model


def _calibrated(model: _Model, logs: NDArray[np.float64], labels: NDArray[np.int64]) -> _Model:
    """A few steps of L-BFGS on weights and biases, with the flips as they are."""
    from scipy.optimize import minimize

    sources, written = len(logs), model.flips[:, labels].T

    def loss_and_gradient(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        trial = _Model(values[:sources], values[sources:], model.flips)
        q = trial.classes(logs)
        joint = q * written
        total = joint.sum(axis=1, keepdims=True)
        slope = q - joint / total  # of -log p by z
        by_weight = np.exp(trial.weights) * [(slope * source).sum() for source in logs]
        away = values - prior
        return float(away @ away / 2 - np.log(total).sum()), np.concatenate([by_weight, slope.sum(axis=0)]) + away

    prior, start = np.append(_expected_weights(sources), 0 * model.bias), np.append(model.weights, model.bias)
    bounds = [(-7.0, 3.0)] * sources + [(None, None)] * len(model.bias)  # no weight overflows
    best = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}).x
    return replace(model, weights=best[:sources], bias=best[sources:])


def _held_out(logs: NDArray[np.float64], labels: NDArray[np.int64], by_pairs: bool) -> NDArray[np.float64]:
    """(N,) log p of the labels of each half by the model that was fitted to the other."""
    half, likelihood = stratified(labels, 2), np.zeros(len(labels))
    for k in (0, 1):
        seen, unseen = half != k, half == k
        model = _fit(logs[:, seen], labels[seen], by_pairs)
        likelihood[unseen] = model.likelihood(logs[:, unseen], labels[unseen])
    return likelihood


def _expected_weights(sources: int) -> NDArray[np.float64]:
    return np.array([0.0, *[LITTLE] * (sources - 1)])


def _symmetric(rate: float, classes: int) -> NDArray[np.float64]:
    """(C, C) where so many labels are wrong, and any wrong class is as likely as another."""
    rate = max(rate, 1e-9)
    return np.where(np.eye(classes, dtype=bool), 1 - rate, rate / (classes - 1))


def _logs(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(p, LEAST))
