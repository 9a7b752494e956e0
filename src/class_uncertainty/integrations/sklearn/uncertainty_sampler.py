"""UncertaintySampler: training examples drawn again, so that uncertain classes are more frequent."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from class_uncertainty.errors import InputError
from class_uncertainty.integrations.sklearn.class_shares import class_shares, resampled_counts, resampling_method
from class_uncertainty.integrations.sklearn.over_classifier import MULTILABEL, Codes, OverClassifier
from class_uncertainty.integrations.sklearn.uncertainty_meter import ClassUncertainty
from class_uncertainty.measures import Stats


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
