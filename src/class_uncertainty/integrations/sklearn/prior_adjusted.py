"""PriorAdjustedClassifier: a classifier whose probabilities are corrected for the classes' counts."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from class_uncertainty.checks import check
from class_uncertainty.errors import InputError
from class_uncertainty.integrations.sklearn.over_classifier import OverClassifier, aligned, classifier_of
from class_uncertainty.posthoc.adjustment import Adjustment, check_tau
from class_uncertainty.posthoc.calibration import fit_adjustment
from class_uncertainty.posthoc.priors import Prior, find_prior


class PriorAdjustedClassifier(ClassifierMixin, OverClassifier):
    """A classifier whose probabilities become p_c prior_c / N_c ** tau, renormalised.

    tau is chosen on predictions for examples that were held out. The classifier itself trains once more on all
    examples, unchanged.

    Parameters
    ----------
    estimator : classifier, optional
        Any with `predict_proba`; by default logistic regression.
    prior : array (C,), "equal" or "train"
        How frequent the classes are where the model is used, in the order of `classes_`.
    tau : float or "auto"
        How far to correct; "auto" takes the value with the lowest out-of-fold error under the prior.
    bias, temperature : bool
        Whether to fit one number a class around tau log N_c, and a temperature.
    cv : int, splitter or list of splits
        Folds; of a number, by the package's own stratified rule. Unused where nothing is to be fitted.
    n_jobs : int, optional
        Folds that train at the same time.

    Attributes
    ----------
    classes_ : array (C,)
    estimator_ : classifier
        Trained on all examples.
    adjustment_ : Adjustment
        What was chosen: `tau`, `bias`, `temperature`, `prior`.
    oof_ : array (N, C) or None
        Out-of-fold probabilities before the adjustment, NaN for an example that was never held out; None where nothing
        was fitted.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1], [2], [3], [2], [3]]), ["no", "no", "no", "no", "yes", "yes"]
    >>> model = PriorAdjustedClassifier(tau=1.0).fit(X, y)
    >>> model.estimator_.predict([[2.0]]), model.predict([[2.0]])
    (array(['no'], dtype='<U3'), array(['yes'], dtype='<U3'))
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        prior: Prior = "equal",
        tau: float | Literal["auto"] = "auto",
        bias: bool = False,
        temperature: bool = False,
        cv: Any = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.prior = prior
        self.tau = tau
        self.bias = bias
        self.temperature = temperature
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> "PriorAdjustedClassifier":
        """Train the classifier, and choose what to correct its probabilities by.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (N, D)
            As the classifier takes it.
        y : array (N,)
        sample_weight : array (N,), optional
            Goes to the classifier. The counts N_c are then sums of weights, and the held-out examples that tau is
            chosen on count by their weights.
        **fit_params
            Go to the classifier's `fit`.
        """
        check_tau(self.tau, or_auto=True)
        check(bool, bias=self.bias, temperature=self.temperature)
        labelled = self._labelled(X, y, sample_weight, fit_params)
        prior = find_prior(self.prior, labelled.counts)
        self.classes_, self.oof_ = labelled.classes, None
        if self.tau == "auto" or self.bias or self.temperature:
            unseen = self._out_of_fold(labelled)
            if not unseen.judged.any():
                needs = "tau='auto', a bias and a temperature need a class of two examples"
                raise InputError(f"no example can be held out: {needs}; give a number, as tau=1.")
            rows, self.oof_ = unseen.judged, unseen.p
            self.adjustment_ = fit_adjustment(
                unseen.p[rows],
                labelled.codes[rows],
                labelled.counts,
                tau=self.tau,
                prior=prior,
                bias=self.bias,
                temperature=self.temperature,
                weights=labelled.weights[rows],
            )
        else:
            self.adjustment_ = Adjustment.of(labelled.counts, self.tau, prior)
        inner = clone(classifier_of(self.estimator))
        self.estimator_ = inner.fit(labelled.X, labelled.y, **labelled.fit_params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(N, C): the corrected probabilities, for classes as frequent as the prior says."""
        check_is_fitted(self)
        p = aligned(self.estimator_.predict_proba(X), self.estimator_.classes_, self.classes_)
        return self.adjustment_(p)

    def predict(self, X: Any) -> NDArray:
        """(N,): the most probable class under the prior."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]
