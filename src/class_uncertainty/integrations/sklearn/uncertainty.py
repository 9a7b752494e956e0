"""Uncertainty of classes for scikit-learn: measured by cross-validation, or as a sampler."""

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from class_uncertainty.checks import check, check_number, shortly
from class_uncertainty.data.dataset import few_words
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import Estimate
from class_uncertainty.integrations.sklearn.classifiers import MULTILABEL, Codes, Labelled, OverClassifier
from class_uncertainty.measures import SCORES, Stats, Vector, class_means, normalise
from class_uncertainty.methods import METHODS, Method, named, plan

SAMPLINGS = ("same-size", "over-sampling", "under-sampling")
ROUNDING = 1e-9

Counts = NDArray[np.int64]  # (C,)


def resampling_method(name: str) -> Method:
    """The method of that name, if it draws classes by another rule than their frequency."""
    check(str, method=name)
    method = named(name)
    if method.alpha is None:
        rows = ", ".join(row for row, value in METHODS.items() if value.alpha)
        raise InputError(f"method {name!r} does not resample: give one that acts on alpha, as {rows}.")
    return method


def class_shares(name: str, stats: Stats, strength: float = 1.0) -> Vector:
    """(C,) alpha of the method: at strength 0 the frequencies of the classes, at 1 the method's own (Eq. 3)."""
    check_number("strength", strength, "a number from 0 to 1", lambda value: 0 <= value <= 1)
    knob = resampling_method(name).alpha
    assert knob is not None
    return plan(Method(alpha=replace(knob, ramp=lambda epoch, epochs: float(strength))), stats, 0, 1).alpha


def resampled_counts(alpha: Vector, counts: Counts, sampling: str) -> Counts:
    """(C,) in the proportions of alpha, one at least.

    "same-size" has as many examples as before, "over-sampling" the fewest without removing one, "under-sampling" the
    most without repeating one.
    """
    check(str, sampling=sampling)
    if sampling not in SAMPLINGS:
        raise unknown("sampling", sampling, SAMPLINGS)
    if sampling == "over-sampling":
        wanted = np.ceil(alpha * (counts / alpha).max() - ROUNDING)
        return np.maximum(wanted.astype(np.int64), counts)
    if sampling == "under-sampling":
        wanted = np.floor(alpha * (counts / alpha).min() + ROUNDING)
        return np.clip(wanted.astype(np.int64), 1, counts)
    exact = alpha * counts.sum()
    wanted = np.maximum(np.floor(exact + ROUNDING), 1).astype(np.int64)
    left = max(int(counts.sum() - wanted.sum()), 0)
    wanted[np.argsort(wanted - exact, kind="stable")[:left]] += 1  # the largest remainders
    return wanted


@dataclass(frozen=True, eq=False)
class SamplingStrategy:
    """A `sampling_strategy` for samplers of imbalanced-learn: from labels to the count of each class.

    `ClassUncertainty.sampling_strategy` makes one.

    Attributes
    ----------
    classes : array (C,)
    uncertainty : array (C,)
        Of each class, above 0.
    sampling : str
        "over-sampling" or "under-sampling", as the sampler does.
    method : str
        A method that resamples, as 'ubrs' or 'ubrs@mix'.
    strength : float
        From 0, nothing, to 1, the shares of the method.

    Examples
    --------
    >>> SamplingStrategy(np.array(["cat", "dog"]), np.array([0.1, 0.3]))(["cat"] * 20 + ["dog"] * 10)
    {'cat': 20, 'dog': 60}
    """

    classes: NDArray
    uncertainty: Vector
    sampling: str = "over-sampling"
    method: str = "ubrs"
    strength: float = 1.0

    def __call__(self, y: Any) -> dict[Any, int]:
        """The number of examples that each class is to have."""
        present, counts = np.unique(np.asarray(y), return_counts=True)
        if len(others := np.setdiff1d(present, self.classes)):
            raise InputError(
                f"class {shortly(others.tolist()[0])} was not measured: measure class uncertainty on all classes."
            )
        uncertainty = self.uncertainty[np.searchsorted(self.classes, present)]
        alpha = class_shares(self.method, Stats(counts, uncertainty), self.strength)
        return dict(zip(present.tolist(), resampled_counts(alpha, counts, self.sampling).tolist(), strict=True))


LEAST = 0.01  # of the most uncertain class: what a class without any doubt is weighted by


class ClassUncertainty(OverClassifier):
    """Class uncertainty of any classifier: the mean uncertainty of a class's examples when they are held out (Eq. 9).

    Parameters
    ----------
    estimator : classifier, optional
        Any with `predict_proba`; by default logistic regression.
    uncertainty : str
        Of an example, a key of SCORES: "true-class" (1 - p of the label, the default of the estimator 'out-of-fold')
        or "predictive" (the entropy of Eq. 8), for instance.
    cv : int, splitter or list of splits
        Folds; of a number, by the package's own stratified rule. Every class needs two examples.
    n_jobs : int, optional
        Folds that train at the same time.

    Attributes
    ----------
    classes_ : array (C,)
    counts_ : array (C,)
        Examples of each class, or sums of their weights.
    oof_ : array (N, C)
        Out-of-fold probabilities, NaN for an example that was never held out.
    uncertainty_ : array (C,)
        Class means of the uncertainty.
    mu_ : array (C,)
        The same normalised to sum 1 (Eq. 10). A class without any doubt counts with a hundredth of the largest
        uncertainty, since at 0 no method would ever draw it; without doubt about any class, all are equal.
    stats_ : Stats
        What methods of this package need: `counts_` and the uncertainties that `mu_` is made of.
    class_weight_ : dict
        Weights by class uncertainty (Eq. 11, the method 'ubrw'), for `class_weight` of other classifiers.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1], [2], [3], [8], [9]]), [0, 0, 1, 1, 2, 2]
    >>> measured = ClassUncertainty(cv=2).fit(X, y)
    >>> measured.mu_.argmax(), measured.oof_.shape
    (np.int64(1), (6, 3))
    """

    def __init__(
        self, estimator: Any = None, *, uncertainty: str = "true-class", cv: Any = 5, n_jobs: int | None = None
    ) -> None:
        self.estimator = estimator
        self.uncertainty = uncertainty
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> "ClassUncertainty":
        """Cross-validate the classifier, and measure.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (N, D)
            As the classifier takes it.
        y : array (N,)
        sample_weight : array (N,), optional
            Goes to the classifier; `counts_` are then sums of weights, and class means are weighted by them.
        **fit_params
            Go to the classifier's `fit`.
        """
        return self._measure(self._labelled(X, y, sample_weight, fit_params))

    def _measure(self, labelled: Labelled) -> "ClassUncertainty":
        check(str, uncertainty=self.uncertainty)
        if self.uncertainty not in SCORES:
            raise unknown("uncertainty", self.uncertainty, SCORES)
        validate_data(self, labelled.X, skip_check_array=True)
        _check_examples(labelled)
        unseen = self._out_of_fold(labelled)
        rows, number = unseen.judged, len(labelled.classes)
        if len(absent := np.flatnonzero(np.bincount(labelled.codes[rows], minlength=number) == 0)):
            name = labelled.classes.tolist()[absent[0]]
            raise InputError(
                f"cv never holds out an example of class {name!r} with another to learn from: give others."
            )
        p, codes = unseen.p[rows].astype(np.float32)[None], labelled.codes[rows]
        estimate = Estimate("out-of-fold", p, codes, score=self.uncertainty)
        self.classes_, self.counts_, self.oof_ = labelled.classes, labelled.counts, unseen.p
        raw = class_means(estimate.uncertainty, codes, number, labelled.weights[rows])
        self.uncertainty_ = raw
        positive = np.maximum(raw, LEAST * raw.max()) if raw.any() else np.ones(number)
        self.stats_, self.mu_ = Stats(self.counts_, positive), normalise(positive)
        class_weights = plan(named("ubrw"), self.stats_, 0, 1).weight
        self.class_weight_ = dict(zip(self.classes_.tolist(), class_weights.tolist(), strict=True))
        return self

    def sampling_strategy(
        self, sampling: str = "over-sampling", method: str = "ubrs", strength: float = 1.0
    ) -> SamplingStrategy:
        """A `sampling_strategy` for samplers of imbalanced-learn, as in `SMOTE(sampling_strategy=...)`.

        Parameters
        ----------
        sampling : str
            "over-sampling" or "under-sampling", as the sampler does.
        method : str
            A method that resamples, as 'ubrs' or 'ubrs@mix'.
        strength : float
            From 0, nothing, to 1, the shares of the method.
        """
        check_is_fitted(self)
        if sampling not in SAMPLINGS[1:]:
            raise unknown("sampling", str(sampling), SAMPLINGS[1:])
        resampling_method(method)
        uncertainty = np.asarray(self.stats_.uncertainty)
        return SamplingStrategy(self.classes_, uncertainty, sampling, method, strength)


def _check_examples(labelled: Labelled) -> None:
    """Refuse a class of one example: held out, nobody knows its class; learnt from, nobody can be asked about it."""
    if len(few := np.flatnonzero(labelled.examples < 2)):
        names = [str(name) for name in labelled.classes]
        given = few_words(names, labelled.examples, few, {1: "only one example"}, "only one example")
        raise InputError(f"{given}: every class needs two, one to hold out and one to learn from; leave it out.")


class UncertaintySampler(OneToOneFeatureMixin, OverClassifier):
    """Resample training examples by class uncertainty, as a step of imbalanced-learn's pipelines.

    A class that is to have fewer examples loses some at random. One that is to have more has each of them equally
    often, up to one. Uncertainty is measured on what is given alone: in a pipeline, on the training folds.

    Parameters
    ----------
    estimator : classifier, optional
        Whose uncertainty counts: any with `predict_proba`; by default logistic regression.
    method : str
        A method that resamples: 'ubrs' (by class uncertainty), 'ubrs@mix' (and by the counts), 'cb-rs' (all classes
        equally often, for which nothing is measured), and others.
    sampling : str
        "same-size", "over-sampling" (no example is lost) or "under-sampling" (none is repeated).
    strength : float
        From 0, nothing changes, to 1, the shares of the method.
    uncertainty, cv, n_jobs
        As in `ClassUncertainty`.
    random_state : int, RandomState or None
        Draws the examples.

    Attributes
    ----------
    sampling_strategy_ : dict
        The number of examples that each class has afterwards.
    sample_indices_ : array
        The rows that were drawn, in order.
    measured_ : ClassUncertainty or None
        None where the method needs no uncertainty.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1], [2], [3], [4], [5]]), np.array([0, 0, 0, 0, 1, 1])
    >>> sampler = UncertaintySampler(method="cb-rs", random_state=0)
    >>> sampler.fit_resample(X, y)[1]
    array([0, 0, 0, 1, 1, 1])
    >>> sampler.sampling_strategy_
    {0: 3, 1: 3}
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "ubrs",
        sampling: str = "same-size",
        strength: float = 1.0,
        uncertainty: str = "true-class",
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.sampling = sampling
        self.strength = strength
        self.uncertainty = uncertainty
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "UncertaintySampler":
        """Measure, and draw: `fit_resample` without its return value."""
        self.fit_resample(X, y)
        return self

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The resampled examples and their labels, each of the kind that was given.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (N, D)
        y : array (N,), or (N, C) of zeros and a one in each row
        """
        labelled, random = self._labelled(X, _flat(y)), check_random_state(self.random_state)
        validate_data(self, labelled.X, skip_check_array=True)
        knob = resampling_method(self.method).alpha
        self.measured_ = None
        if knob is not None and knob.measure.uses_uncertainty:
            how = {"uncertainty": self.uncertainty, "cv": self.cv, "n_jobs": self.n_jobs}
            self.measured_ = ClassUncertainty(self.estimator, **how)._measure(labelled)
        stats = self.measured_.stats_ if self.measured_ else Stats(labelled.counts)
        counts = labelled.examples
        wanted = resampled_counts(class_shares(self.method, stats, self.strength), counts, self.sampling)
        self.sampling_strategy_ = dict(zip(labelled.classes.tolist(), wanted.tolist(), strict=True))
        self.sample_indices_ = _drawn(labelled.codes, wanted, random)
        return _rows(labelled.X, self.sample_indices_), _rows(y, self.sample_indices_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if "imblearn" not in sys.modules:
            return tags
        from imblearn.utils._tags import InputTags, SamplerTags, Tags  # it asks for tags of its own

        inputs = {name: getattr(tags.input_tags, name) for name in type(tags.input_tags).__slots__}
        return Tags(
            estimator_type="sampler",
            target_tags=tags.target_tags,
            input_tags=InputTags(**inputs, dataframe=True),
            sampler_tags=SamplerTags(sample_indices=True),
        )


def _flat(y: Any) -> Any:
    """(N,) labels, also of one-hot rows."""
    if y is None or type_of_target(y) != "multilabel-indicator":
        return None if y is None else column_or_1d(y)
    rows = np.asarray(y)
    if (rows.sum(axis=1) != 1).any():
        raise InputError(MULTILABEL)
    return rows.argmax(axis=1)


def _drawn(codes: Codes, wanted: NDArray[np.int64], random: np.random.RandomState) -> NDArray[np.int64]:
    """The rows in order, `wanted` of each class: all equally often, and at random which ones once more."""
    drawn = list[NDArray[np.int64]]()
    for c, number in enumerate(wanted.tolist()):
        members = np.flatnonzero(codes == c)
        times, rest = divmod(number, len(members))
        drawn += [np.repeat(members, times), random.permutation(members)[:rest]]
    return np.sort(np.concatenate(drawn))


def _rows(values: Any, indices: NDArray[np.int64]) -> Any:
    """Of any container; a repeated row of pandas has an index of its own."""
    rows = _safe_indexing(values, indices)
    return rows.reset_index(drop=True) if hasattr(rows, "reset_index") else rows
