"""scikit-learn estimators around a classifier: PriorAdjusted, Distilled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from class_uncertainty.checks import check, check_least, is_frame, shortly, take
from class_uncertainty.data import Data
from class_uncertainty.data.finding import Finding, notice_findings
from class_uncertainty.data.folding import FOLDS, stratified
from class_uncertainty.data.frames import table_of
from class_uncertainty.data.table_splits import TableOptions, encode_splits
from class_uncertainty.data.tabular import MISSING_POLICIES
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.posthoc.adjustment import Adjustment, check_tau
from class_uncertainty.posthoc.calibration import fit_adjustment
from class_uncertainty.posthoc.priors import Prior, find_prior
from class_uncertainty.training import Recipe
from class_uncertainty.workflows.fix import fix

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


LABEL = "y"  # the column of classes beside those of X, with underscores until no other has its name


class DistilledClassifier(ClassifierMixin, BaseEstimator):
    """The classifier that `cu.fix` trains and chooses, adjusted for the classes' counts, as one estimator.

    Every random number follows from a fixed seed, so the same data give the same classifier. Nothing is written.

    Parameters
    ----------
    goal, deploy, trainings, candidates, recipe, device
        As in `cu.fix`.
    categorical : sequence of str
        Columns of a DataFrame that hold numbers and mean names.
    missing : str
        Of a DataFrame, missing values are "fill"ed (median, or a category of their own) or "refuse"d.

    Attributes
    ----------
    classes_ : array (C,)
    fix_ : Fix
        The report, the choice and the network.

    Examples
    --------
    >>> X, y = np.random.default_rng(0).normal(size=(60, 2)), np.repeat(["cat", "dog"], [45, 15])
    >>> recipe = cu.Recipe("linear", epochs=5, batch=16)
    >>> model = DistilledClassifier(recipe=recipe, candidates=["naive"], trainings=2).fit(X + (y == "dog")[:, None], y)
    >>> model.predict([[-1.0, -1.0]])
    array(['cat'], dtype='<U3')
    """

    def __init__(
        self,
        *,
        goal: str = "mean",
        deploy: str | None = None,
        trainings: float | None = None,
        candidates: Sequence[Any] | None = None,
        recipe: Recipe | None = None,
        categorical: Sequence[str] = (),
        missing: str = "fill",
        device: str | None = None,
    ) -> None:
        self.goal = goal
        self.deploy = deploy
        self.trainings = trainings
        self.candidates = candidates
        self.recipe = recipe
        self.categorical = categorical
        self.missing = missing
        self.device = device

    def fit(self, X: Any, y: Any, groups: Any = None) -> "DistilledClassifier":
        """Train what `cu.fix` chooses.

        Parameters
        ----------
        X : array (N, D) of numbers, or a DataFrame of pandas, polars or Arrow
        y : array (N,)
            Every class needs two examples.
        groups : array (N,), optional
            What each example belongs to, as a patient: folds never part a group.
        """
        categorical = take(list[str], categorical=self.categorical)
        check(str, missing=self.missing)
        if self.missing not in MISSING_POLICIES[:2]:
            raise unknown("missing", self.missing, MISSING_POLICIES[:2])
        self.classes_, codes = encode_labels(y)
        data = self._table(X, codes, categorical) if is_frame(X) else self._array(X, codes)
        names = tuple(str(name) for name in self.classes_)
        data = replace(data, classes=names, label=None, groups=None if groups is None else column_or_1d(groups))
        how: dict[str, Any] = {
            "recipe": self.recipe,
            "goal": self.goal,
            "deploy": self.deploy,
            "trainings": self.trainings,
            "candidates": self.candidates,
        }
        self.fix_ = fix(data, seeds=1, label_issues=False, device=self.device, progress=False, **how)
        return self

    def _array(self, X: Any, codes: Codes) -> Data:
        X = validate_data(self, X)
        check_consistent_length(X, codes)
        return Data(X, codes)

    def _table(self, X: Any, codes: Codes, categorical: Sequence[str]) -> Data:
        validate_data(self, X, skip_check_array=True)
        table, label = table_of(X), LABEL
        check_consistent_length(np.empty(len(table)), codes)
        while label in table.names:
            label += "_"
        columns, missing = table.columns | {label: codes}, table.missing | {label: np.zeros(len(codes), dtype=bool)}
        options = TableOptions(label, categorical=list(categorical), missing=self.missing)
        noticed = list[Finding]()
        data, _ = encode_splits(replace(table, columns=columns, missing=missing), None, options, [], noticed)
        notice_findings(noticed)
        return data

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(N, C): probabilities for classes that are about as frequent as the goal says."""
        checked = self._checked(X)
        return self.fix_.model.predict_proba(checked)

    def predict(self, X: Any) -> NDArray:
        """(N,): the most probable class or, with costs, the one of the least expected cost."""
        checked = self._checked(X)
        places = {name: place for place, name in enumerate(self.fix_.model.classes_.tolist())}
        return self.classes_[[places[name] for name in self.fix_.model.predict(checked).tolist()]]

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        if is_frame(X) and self.fix_.module.encoding is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
            return X
        return validate_data(self, X, reset=False)
