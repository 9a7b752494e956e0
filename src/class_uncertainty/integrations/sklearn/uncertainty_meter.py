"""ClassUncertainty: how uncertain a classifier is about each class, by cross-validation."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from class_uncertainty.checks import check
from class_uncertainty.data.dataset import few_words
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import Estimate
from class_uncertainty.integrations.sklearn.class_shares import SAMPLINGS, SamplingStrategy, resampling_method
from class_uncertainty.integrations.sklearn.over_classifier import Labelled, OverClassifier
from class_uncertainty.measures import SCORES, Stats, class_means, normalise
from class_uncertainty.methods import named, plan

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
