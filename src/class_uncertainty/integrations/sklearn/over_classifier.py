"""What estimators over a classifier share: the checks, the folds, and predictions for examples that were held out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _check_sample_weight, _num_samples, has_fit_parameter

from class_uncertainty.checks import check, check_least, shortly
from class_uncertainty.data.folding import FOLDS, stratified
from class_uncertainty.errors import InputError

MULTILABEL = "Multilabel and multioutput targets are not supported: give one class an example."

Codes = NDArray[np.int64]  # (N,) the place of each example's class in `classes`


@dataclass(frozen=True, eq=False)
class Labelled:
    """Examples with labels, and what is passed on with them."""

    X: Any
    y: NDArray
    classes: NDArray  # (C,)
    codes: Codes
    weights: NDArray[np.float64]  # (N,) 1 where none are given
    fit_params: dict[str, Any]  # of the classifier
    split_params: dict[str, Any]  # of the splitter

    @property
    def counts(self) -> NDArray[np.float64]:
        """(C,) the examples of each class, or the sum of their weights."""
        return np.bincount(self.codes, weights=self.weights).astype(np.float64)

    @property
    def examples(self) -> NDArray[np.int64]:
        """(C,) the examples of each class that have a weight."""
        return np.bincount(self.codes[self.weights > 0], minlength=len(self.classes))


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions for examples by classifiers that were trained without them."""

    p: NDArray[np.float64]  # (N, C), NaN where an example was never held out
    judged: NDArray[np.bool_]  # (N,) held out, of a class that the classifier knew, and of a weight above 0


class OverClassifier(MetaEstimatorMixin, BaseEstimator):
    """An estimator over a classifier, `estimator`, that is cross-validated by `cv` in `n_jobs` processes."""

    estimator: Any
    cv: Any
    n_jobs: int | None

    def get_metadata_routing(self) -> MetadataRouter:
        """What `fit` passes on: to the classifier's `fit`, and to the splitter's `split`."""
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            estimator=classifier_of(self.estimator), method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )
        return router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        inner = LogisticRegression() if self.estimator is None else self.estimator
        if hasattr(inner, "__sklearn_tags__") and not isinstance(inner, type):  # `fit` refuses others
            tags.input_tags = get_tags(inner).input_tags  # sparse, missing values, text: as it takes
        return tags

    def _labelled(
        self, X: Any, y: Any, sample_weight: Any = None, fit_params: dict[str, Any] | None = None
    ) -> Labelled:
        """The examples of a call of `fit`, once its arguments and the estimator's own are checked."""
        check(int | None, n_jobs=self.n_jobs)
        inner = classifier_of(self.estimator)
        X, y = indexable(X, y)
        classes, codes = encode_labels(y)
        given, routed = dict(fit_params or {}), Bunch(estimator=Bunch(fit={}), splitter=Bunch(split={}))
        if sample_weight is not None:
            given["sample_weight"] = sample_weight
        if given and _routes():
            routed = process_routing(self, "fit", **given)
        elif given:
            _check_groups(given, inner)
            if sample_weight is not None and not has_fit_parameter(inner, "sample_weight"):
                raise InputError(f"sample_weight is given, and {type(inner).__name__} takes none: leave it out.")
            routed.estimator.fit = given
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        for row in np.flatnonzero(weights < 0):
            raise InputError(f"sample_weight {row} is {weights[row]:g}: weights are numbers from 0.")
        for c in np.setdiff1d(np.arange(len(classes)), codes[weights > 0]):
            raise InputError(f"every example of class {classes.tolist()[c]!r} has the weight 0: leave the class out.")
        return Labelled(X, column_or_1d(y), classes, codes, weights, routed.estimator.fit, routed.splitter.split)

    def _out_of_fold(self, labelled: Labelled) -> OutOfFold:
        """Each example by a classifier of the other folds; the mean, where it is held out repeatedly."""
        inner, number = classifier_of(self.estimator), len(labelled.classes)
        pairs = folds(self.cv, labelled)
        predicted = Parallel(n_jobs=self.n_jobs)(delayed(_predicted)(inner, labelled, *pair) for pair in pairs)
        sums, times = np.zeros((len(labelled.y), number)), np.zeros(len(labelled.y))
        judged = labelled.weights > 0
        for (train, test), p in zip(pairs, predicted, strict=True):
            sums[test] += p
            times[test] += 1
            trained_classes = labelled.codes[train][labelled.weights[train] > 0]
            judged[test] &= np.isin(labelled.codes[test], trained_classes)
        with np.errstate(invalid="ignore"):
            return OutOfFold(sums / times[:, None], judged & (times > 0))


def _check_groups(given: dict[str, Any], inner: Any) -> None:
    """Refuse groups that would reach the classifier, which takes none, and never the splitter."""
    if "groups" in given and not has_fit_parameter(inner, "groups"):
        setting = "call sklearn.set_config(enable_metadata_routing=True)"
        advice = f"{setting} and give a cv that takes groups, as GroupKFold(5)"
        raise InputError(f"groups are given, and only metadata routing takes them to the splitter: {advice}.")


def classifier_of(estimator: Any) -> Any:
    """The given classifier, or logistic regression."""
    if estimator is None:
        default = LogisticRegression(max_iter=1000)
        return default.set_fit_request(sample_weight=True) if _routes() else default
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "predict_proba"):
        needs = (
            "a classifier with fit and predict_proba, as LogisticRegression() or CalibratedClassifierCV(LinearSVC())"
        )
        raise InputError(f"estimator is {shortly(estimator)}: it must be {needs}.")
    return estimator


def encode_labels(y: Any) -> tuple[NDArray, Codes]:
    """The classes in order, and the place of each label among them."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: give the label of each example.")
    if not _num_samples(y):
        raise InputError("there are 0 sample(s) while a minimum of 1 is required: give examples of two classes.")
    check_classification_targets(y)
    if type_of_target(y).startswith("multi") and type_of_target(y) != "multiclass":
        raise InputError(MULTILABEL)
    classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"there is only one class, {shortly(classes.tolist()[0])}: at least two are needed.")
    return classes, codes


def folds(cv: Any, labelled: Labelled) -> list[tuple[NDArray, NDArray]]:
    """(training, held-out) rows: of a splitter, or of so many folds by the package's own rule.

    A class is spread over the folds as evenly as possible, so one with fewer examples than folds is held out in some of
    them. The only example of a class is never held out: without it, no classifier would know the class.
    """
    if cv is not None and (isinstance(cv, bool) or not isinstance(cv, int | np.integer)):
        rows = np.zeros((len(labelled.y), 1))  # splitters look at the number of rows alone
        return list(check_cv(cv, labelled.y, classifier=True).split(rows, labelled.y, **labelled.split_params))
    number = FOLDS if cv is None else int(cv)
    check_least("cv", number, 2)
    fold, is_alone = stratified(labelled.codes, number), labelled.examples[labelled.codes] < 2
    held_out = [(fold == k) & ~is_alone for k in range(number)]
    return [(np.flatnonzero(~test), np.flatnonzero(test)) for test in held_out if test.any()]


def aligned(p: NDArray, seen_classes: NDArray, classes: NDArray) -> NDArray[np.float64]:
    """Probabilities of the classes that a classifier knows as columns of all classes, 0 for the others."""
    columns = np.zeros((len(p), len(classes)))
    columns[:, np.searchsorted(classes, seen_classes)] = p
    return columns


def _predicted(inner: Any, labelled: Labelled, train: NDArray, test: NDArray) -> NDArray[np.float64]:
    """(held-out, C)"""
    X_train, y_train = _safe_split(inner, labelled.X, labelled.y, train)
    X_test, _ = _safe_split(inner, labelled.X, labelled.y, test, train)
    fitted = clone(inner).fit(X_train, y_train, **_check_method_params(labelled.X, labelled.fit_params, train))
    return aligned(fitted.predict_proba(X_test), fitted.classes_, labelled.classes)


def _routes() -> bool:
    from sklearn import get_config

    return bool(get_config()["enable_metadata_routing"])
