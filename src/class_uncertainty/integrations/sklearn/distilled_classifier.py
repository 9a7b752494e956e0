"""DistilledClassifier: cu.fix() as an estimator, for arrays and DataFrames."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from class_uncertainty.checks import check, is_frame, take
from class_uncertainty.data import Data
from class_uncertainty.data.frames import table_of
from class_uncertainty.data.table_splits import TableOptions, encode_splits
from class_uncertainty.data.tabular import MISSING_POLICIES
from class_uncertainty.errors import unknown
from class_uncertainty.integrations.sklearn.over_classifier import Codes, encode_labels
from class_uncertainty.training import Recipe
from class_uncertainty.workflows.fix import fix

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
            "goal": self.goal,
            "deploy": self.deploy,
            "trainings": self.trainings,
            "candidates": self.candidates,
        }
        self.fix_ = fix(data, self.recipe, seeds=1, label_issues=False, device=self.device, progress=False, **how)
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
        return encode_splits(replace(table, columns=columns, missing=missing), None, options, [])[0]

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
