"""DistilledClassifier: the same as cu.fix, behind the calls of scikit-learn."""

import numpy as np
import pandas
import pytest
from optional import slow
from refusals import refused
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import class_uncertainty as cu
from class_uncertainty.integrations.sklearn import DistilledClassifier

RECIPE = cu.Recipe("linear", epochs=10, batch=16)
TINY = DistilledClassifier(recipe=RECIPE, candidates=["naive"], trainings=2)


@pytest.fixture(scope="module")
def wine():
    data = load_wine(as_frame=True)
    rows = np.r_[0:40, 59:80, 130:140]
    frame = data.data.iloc[rows, :4].reset_index(drop=True)
    return frame.assign(ground=np.array(["clay", "sand"])[rows % 2]), data.target_names[data.target[rows]]


def test_an_array_gives_what_fix_gives(wine):
    X, y = wine[0].iloc[:, :4].to_numpy(), np.unique(wine[1], return_inverse=True)[1]
    fixed = cu.fix(cu.Data(X, y), RECIPE, candidates=["naive"], trainings=2, seeds=1)
    model = clone(TINY).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), fixed.model.predict_proba(X))
    assert model.predict(X).tolist() == [int(name) for name in fixed.model.predict(X)]
    assert model.fix_.choice.step == fixed.choice.step


def test_a_table_with_text_and_gaps_and_labels_of_text(wine):
    frame, y = wine
    frame = frame.copy()
    frame.loc[::9, "ash"] = None
    model = clone(TINY).fit(frame, y)
    assert model.classes_.tolist() == ["class_0", "class_1", "class_2"]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert (model.predict(frame) == y).mean() > 0.6
    with refused("values are missing (ash"):
        clone(TINY).set_params(missing="refuse").fit(frame, y)
    named = frame.assign(y=1.0 + np.arange(len(y)) % 3)  # a column that is called as the label inside
    assert clone(TINY).fit(named, y).predict(named).shape == y.shape


def test_columns_of_numbers_can_be_names(wine):
    frame = pandas.DataFrame({"zip": np.arange(40) % 2 + 7000})
    model = clone(TINY).set_params(categorical=["zip"]).fit(frame, np.where(frame["zip"] == 7000, "a", "b"))
    assert model.predict(pandas.DataFrame({"zip": [7000, 7001]})).tolist() == ["a", "b"]


@slow
def test_it_is_a_step_of_a_pipeline_in_a_grid_search(wine):
    X, y = wine[0].iloc[:, :4].to_numpy(), wine[1]
    grid = {"distilledclassifier__goal": ["mean", "accuracy"]}
    search = GridSearchCV(make_pipeline(StandardScaler(), TINY), grid, cv=2).fit(X, y)
    assert set(search.predict(X)) <= set(y)


def test_groups_are_never_parted(wine):
    X, y = wine[0].iloc[:, :4].to_numpy(), wine[1]
    assert clone(TINY).fit(X, y, groups=np.arange(len(y)) // 2).predict(X).shape == y.shape
    with refused("2 groups", "5 folds"):
        clone(TINY).fit(X, y, groups=np.arange(len(y)) % 2)


def test_wrong_values_are_refused(wine):
    X, y = wine[0].iloc[:, :4].to_numpy(), wine[1]
    with refused("unknown goal 'maen'", "'mean'"):
        clone(TINY).set_params(goal="maen").fit(X, y)
    with refused("missing 'drop'", "there are refuse, fill"):
        clone(TINY).set_params(missing="drop").fit(X, y)
    with refused("class 'rare' has only one training example"):
        clone(TINY).fit(X, np.where(np.arange(len(y)) == 0, "rare", y))
    with refused("recipe is 'linear'", "Recipe"):
        clone(TINY).set_params(recipe="linear").fit(X, y)
