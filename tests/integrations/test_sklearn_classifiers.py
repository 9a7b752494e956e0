"""PriorAdjustedClassifier against closed forms, and against scikit-learn's own cross-validation."""

import numpy as np
import pandas
import pytest
from joblib import parallel_config
from optional import slow
from refusals import refused
from scipy import sparse
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import class_uncertainty as cu
from class_uncertainty.integrations.sklearn import DistilledClassifier, PriorAdjustedClassifier
from class_uncertainty.posthoc.adjustment import GRID

MEANS = np.array([0.0, 2.0, 3.0])


class KnownGaussians(ClassifierMixin, BaseEstimator):
    """Bayes' rule for classes of one variance at MEANS, as frequent as the labels."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.prior_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        return posterior(X, self.prior_)


def posterior(X, prior):
    joint = norm.pdf(X, loc=MEANS[: len(prior)]) * prior
    return joint / joint.sum(axis=1, keepdims=True)


def tailed(counts=(40, 12, 6), seed=0):
    """Overlapping classes of the iris flowers."""
    X, y = load_iris(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(y == c)[:count] for c, count in enumerate(counts)])
    return X[rows] + np.random.default_rng(seed).normal(scale=0.8, size=(len(rows), 4)), y[rows]


@pytest.mark.parametrize("prior", ["equal", "train", (0.2, 0.3, 0.5)], ids=str)
def test_at_tau_1_it_is_bayes_rule_under_the_prior(prior):
    y = np.repeat([0, 1, 2], [70, 20, 10])
    X = MEANS[y][:, None] + np.random.default_rng(0).normal(size=(100, 1))
    wanted = {"equal": [1 / 3] * 3, "train": [0.7, 0.2, 0.1]}.get(prior, prior) if isinstance(prior, str) else prior
    model = PriorAdjustedClassifier(KnownGaussians(), tau=1.0, prior=prior).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), posterior(X, np.array(wanted)), rtol=1e-9)
    assert model.oof_ is None


def test_equal_priors_move_the_boundary_to_the_middle():
    y = np.repeat(["a", "b"], [95, 5])
    model = PriorAdjustedClassifier(KnownGaussians(), tau=1.0).fit(np.zeros((100, 1)), y)
    assert model.predict([[0.99], [1.01]]).tolist() == ["a", "b"]
    assert model.estimator_.predict_proba([[1.01]])[0, 0] > 0.9


def test_out_of_fold_probabilities_are_scikit_learn_s():
    X, y = tailed()
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = PriorAdjustedClassifier(GaussianNB(), cv=folds).fit(X, y)
    np.testing.assert_array_equal(model.oof_, cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba"))


def test_tau_has_the_lowest_out_of_fold_error_of_the_grid():
    X, y = tailed()
    model = PriorAdjustedClassifier(GaussianNB(), cv=StratifiedKFold(3)).fit(X, y)
    p = cross_val_predict(GaussianNB(), X, y, cv=StratifiedKFold(3), method="predict_proba")
    scores = {tau: balanced_accuracy_score(y, (p / np.bincount(y) ** tau).argmax(axis=1)) for tau in GRID}
    assert scores[model.adjustment_.tau] == max(scores.values())
    assert max(scores.values()) > scores[0.0]  # or nothing would have been chosen


def test_a_temperature_and_a_bias_are_fitted():
    X, y = tailed()
    plain, fitted = (PriorAdjustedClassifier(GaussianNB(), bias=on, temperature=on).fit(X, y) for on in (False, True))
    assert plain.adjustment_.temperature == 1.0 != fitted.adjustment_.temperature
    np.testing.assert_allclose(plain.adjustment_.bias, plain.adjustment_.tau * np.log(np.bincount(y)))


def test_a_class_with_fewer_examples_than_folds_has_a_say():
    X, y = tailed((20, 10, 2))
    model = PriorAdjustedClassifier(GaussianNB(var_smoothing=0.1), cv=5).fit(X, y)
    assert np.isfinite(model.oof_).all()
    assert (model.oof_[y == 2, 2] > 0).all()  # the other example was learnt


def test_the_only_example_of_a_class_is_learnt_and_never_held_out():
    X, y = tailed((20, 10, 1))
    model = PriorAdjustedClassifier(KNeighborsClassifier(1), cv=5).fit(X, y)
    assert np.isnan(model.oof_).all(axis=1).tolist() == (y == 2).tolist()
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict(X[y == 2]).tolist() == [2]
    np.testing.assert_allclose(model.adjustment_.bias, model.adjustment_.tau * np.log([20, 10, 1]))
    others = PriorAdjustedClassifier(KNeighborsClassifier(3), cv=5).fit(X[y < 2], y[y < 2])
    again = PriorAdjustedClassifier(KNeighborsClassifier(3), cv=5).fit(X, y)
    assert again.adjustment_.prior.tolist() == [1 / 3] * 3
    assert others.oof_.shape == (30, 2)


def test_without_a_class_of_two_examples_nothing_can_be_fitted():
    with refused("no example can be held out", "tau=1"):
        PriorAdjustedClassifier(KNeighborsClassifier(1)).fit([[0.0], [1.0]], ["a", "b"])
    model = PriorAdjustedClassifier(KNeighborsClassifier(1), tau=1).fit([[0.0], [1.0]], ["a", "b"])
    assert model.predict([[0.9]]).tolist() == ["b"]


def test_weights_count_as_repetitions():
    X, y = tailed()
    weights = np.random.default_rng(1).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    weighted = PriorAdjustedClassifier(GaussianNB(), tau=1.0).fit(X, y, sample_weight=weights)
    repeated = PriorAdjustedClassifier(GaussianNB(), tau=1.0).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)


def test_tau_is_chosen_by_the_weighted_error():
    """By brute force, over the out-of-fold predictions; with equal weights another tau would be chosen."""
    X, y = tailed()
    weights = np.random.default_rng(5).exponential(size=len(y)) ** 3
    model = PriorAdjustedClassifier(GaussianNB()).fit(X, y, sample_weight=weights)
    counts = np.bincount(y, weights)

    def scores(by):
        guesses = ((model.oof_ / counts**tau).argmax(axis=1) for tau in GRID)
        return [round(balanced_accuracy_score(y, guessed, sample_weight=by), 9) for guessed in guesses]

    chosen, weighted, alike = GRID.index(model.adjustment_.tau), scores(weights), scores(None)
    assert weighted[chosen] == max(weighted)
    assert alike[chosen] < max(alike)


def test_examples_of_weight_0_have_no_say():
    X, y = tailed()
    folds = [(np.flatnonzero(np.arange(len(y)) % 2 == k), np.flatnonzero(np.arange(len(y)) % 2 != k)) for k in (0, 1)]
    weights = np.ones(len(y))
    weights[[0, 41, 53]] = 0
    one = PriorAdjustedClassifier(GaussianNB(), cv=folds).fit(X, y, sample_weight=weights)
    wrong = y.copy()
    wrong[[0, 41, 53]] = [1, 2, 0]
    other = PriorAdjustedClassifier(GaussianNB(), cv=folds).fit(X, wrong, sample_weight=weights)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_groups_without_metadata_routing_are_refused():
    X, y = tailed()
    with refused("groups are given", "sklearn.set_config(enable_metadata_routing=True)", "GroupKFold(5)"):
        PriorAdjustedClassifier(GaussianNB(), cv=GroupKFold(3)).fit(X, y, groups=np.arange(len(y)) % 6)


def test_metadata_are_routed_to_the_classifier_and_the_splitter():
    X, y = tailed()
    weights, groups = np.linspace(1, 2, len(y)), np.arange(len(y)) % 6
    with config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        model = PriorAdjustedClassifier(inner, cv=GroupKFold(3)).fit(X, y, sample_weight=weights, groups=groups)
    splits = list(GroupKFold(3).split(X, y, groups))
    same = PriorAdjustedClassifier(GaussianNB(), cv=splits).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))


def test_a_grid_search_over_a_pipeline():
    X, y = tailed()
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = PriorAdjustedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), cv=3)
    grid = {"estimator__logisticregression__C": [0.1, 1.0], "tau": [0.0, "auto"], "prior": ["equal"]}
    search = GridSearchCV(model, grid, scoring="balanced_accuracy", cv=2).fit(pandas.DataFrame(X), names)
    assert search.best_params_["tau"] == "auto"
    assert set(search.predict(pandas.DataFrame(X))) <= set(names)


def test_a_table_with_text_and_missing_values():
    X, y = tailed()
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(city=np.array(["Oslo", "Rome"])[np.arange(len(y)) % 2])
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = PriorAdjustedClassifier(make_pipeline(encoder, GaussianNB()), cv=3).fit(frame, y)
    assert model.feature_names_in_.tolist() == [*"abcd", "city"]
    gaps = np.where(np.arange(len(y)) % 7 == 0, np.nan, X[:, 0])
    trees = HistGradientBoostingClassifier(max_iter=5)
    assert PriorAdjustedClassifier(trees, cv=2).fit(np.c_[gaps, X], y).predict_proba(np.c_[gaps, X]).shape == (58, 3)


def test_sparse_input_and_folds_in_parallel():
    X, y = tailed()
    forest = RandomForestClassifier(5, random_state=0)
    alone = PriorAdjustedClassifier(forest, cv=3).fit(sparse.csr_matrix(X), y)
    with parallel_config(backend="threading"):
        together = PriorAdjustedClassifier(forest, cv=3, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(alone.oof_, together.oof_)


def test_a_classifier_that_is_trained_already():
    X, y = tailed()
    trained = GaussianNB().fit(X[::2], y[::2])
    model = PriorAdjustedClassifier(FrozenEstimator(trained)).fit(X[1::2], y[1::2])
    np.testing.assert_allclose(model.oof_, trained.predict_proba(X[1::2]))
    assert model.estimator_.estimator is trained


def test_it_can_be_shown_before_it_is_refused():
    assert "LinearSVC" in PriorAdjustedClassifier(LinearSVC())._repr_html_()


@slow
def test_folds_in_processes_of_their_own():
    X, y = tailed()
    alone, together = (PriorAdjustedClassifier(GaussianNB(), cv=3, n_jobs=n).fit(X, y) for n in (None, 2))
    np.testing.assert_array_equal(alone.oof_, together.oof_)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"estimator": LinearSVC()}, ["estimator is LinearSVC()", "predict_proba"]),
        ({"estimator": LogisticRegression}, ["the class LogisticRegression", "LogisticRegression()"]),
        ({"tau": "cv"}, ["tau is 'cv'", "'auto'"]),
        ({"tau": -1.0}, ["tau is -1.0", "from 0"]),
        ({"prior": "test"}, ["prior is 'test'", "'train' or 'equal'"]),
        ({"prior": [0.5, 0.5]}, ["prior must be 3 probabilities", "there are 2"]),
        ({"bias": 1}, ["bias is 1", "True or False"]),
        ({"cv": 1}, ["cv is 1", "from 2"]),
    ],
    ids=str,
)
def test_a_wrong_parameter_is_refused_when_it_is_used(given, parts):
    with refused(*parts):
        PriorAdjustedClassifier(**given).fit(*tailed())


def test_wrong_examples_are_refused():
    X, y = tailed()
    model = PriorAdjustedClassifier(KNeighborsClassifier())
    with refused("sample_weight is given", "KNeighborsClassifier takes none"):
        model.fit(X, y, sample_weight=np.ones(len(y)))
    with refused("only one class"):
        model.fit(X, np.zeros(len(y)))
    with refused("sample_weight 3 is -1", "from 0"):
        PriorAdjustedClassifier(GaussianNB()).fit(X, y, sample_weight=np.where(np.arange(len(y)) == 3, -1, 1))
    with refused("every example of class 2 has the weight 0"):
        PriorAdjustedClassifier(GaussianNB()).fit(X, y, sample_weight=(y < 2).astype(float))


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
    fixed = cu.fix(cu.Data(X, y), recipe=RECIPE, candidates=["naive"], trainings=2, seeds=1)
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
    grid = {"distilledclassifier__goal": ["mean", "overall"]}
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
    with refused("missing 'drop'", "there are fill, refuse"):
        clone(TINY).set_params(missing="drop").fit(X, y)
    with refused("class 'rare' has only one training example"):
        clone(TINY).fit(X, np.where(np.arange(len(y)) == 0, "rare", y))
    with refused("recipe is 'linear'", "Recipe"):
        clone(TINY).set_params(recipe="linear").fit(X, y)
