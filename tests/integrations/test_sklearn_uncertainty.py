"""ClassUncertainty by hand, and the counts and weights that follow from it."""

import numpy as np
import pandas
import pytest
from refusals import refused
from scipy import sparse
from scipy.stats import entropy
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import class_uncertainty as cu
from class_uncertainty.integrations.sklearn import ClassUncertainty, SamplingStrategy, UncertaintySampler
from class_uncertainty.integrations.sklearn.uncertainty import class_shares, resampled_counts

P = np.array([[0.9, 0.1], [0.7, 0.3], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
LABELS = np.array(["cat", "cat", "cat", "cat", "dog", "dog"])


class Given(ClassifierMixin, BaseEstimator):
    """Its probabilities are its inputs."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.asarray(X)


class Weighted(Given):
    """It takes weights, and ignores them."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


def test_class_means_of_the_true_class_by_hand():
    measured = ClassUncertainty(Given()).fit(P, LABELS)
    np.testing.assert_allclose(measured.uncertainty_, [(0.1 + 0.3 + 0.2 + 0.4) / 4, (0.3 + 0.5) / 2], rtol=1e-6)
    np.testing.assert_allclose(measured.mu_, [0.25 / 0.65, 0.4 / 0.65], rtol=1e-6)
    np.testing.assert_allclose(measured.oof_, P)
    assert measured.counts_.tolist() == [4, 2]
    weights = measured.class_weight_  # Eq. 11: they sum to the number of classes
    np.testing.assert_allclose([weights["cat"], weights["dog"]], [2 * 0.25 / 0.65, 2 * 0.4 / 0.65], rtol=1e-6)


def test_predictive_uncertainty_is_scipy_s_entropy():
    measured = ClassUncertainty(Given(), uncertainty="predictive").fit(P, LABELS)
    each = entropy(P, axis=1)
    np.testing.assert_allclose(measured.uncertainty_, [each[:4].mean(), each[4:].mean()], rtol=1e-6)


def test_examples_are_judged_by_classifiers_that_never_saw_them():
    """A tree knows its own examples by heart."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), random.integers(0, 3, 60)
    tree = DecisionTreeClassifier(random_state=0)
    assert clone(tree).fit(X, y).score(X, y) == 1
    assert ClassUncertainty(tree).fit(X, y).uncertainty_.min() > 0.3


def test_a_class_without_doubt_counts_a_hundredth_and_no_doubt_at_all_is_equal():
    sure = np.where(P > 0.45, 1.0, 0.0) / np.where(P > 0.45, 1.0, 0.0).sum(axis=1, keepdims=True)
    measured = ClassUncertainty(Given()).fit(sure, LABELS)
    assert measured.uncertainty_.tolist() == [0, 0.25]
    np.testing.assert_allclose(measured.mu_, [0.0025 / 0.2525, 0.25 / 0.2525])
    certain = ClassUncertainty(Given()).fit(np.eye(2)[(LABELS == "dog").astype(int)], LABELS)
    assert certain.mu_.tolist() == [0.5, 0.5]


def test_fewer_examples_than_folds_are_enough_and_one_is_not():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 2)), np.array([0] * 7 + [1] * 3 + [2] * 2)
    assert np.isfinite(ClassUncertainty(LogisticRegression(), cv=5).fit(X, y).oof_).all()
    with refused("class '2' has only one example", "needs two"):
        ClassUncertainty(GaussianNB()).fit(X[:11], y[:11])
    with refused("2 classes have only one example", "b (1), c (1)"):
        ClassUncertainty(GaussianNB()).fit(X[:5], list("aaabc"))


def test_folds_that_never_hold_out_a_class_are_refused():
    with refused("cv never holds out", "'dog'"):
        ClassUncertainty(Given(), cv=[([1, 2, 3, 4, 5], [0])]).fit(P, LABELS)


def test_wrong_parameters_are_refused():
    with refused("uncertainty 'predictve'", "did you mean 'predictive'?"):
        ClassUncertainty(Given(), uncertainty="predictve").fit(P, LABELS)
    with refused("n_jobs is 'all'", "whole number"):
        ClassUncertainty(Given(), n_jobs="all").fit(P, LABELS)
    measured = ClassUncertainty(Given()).fit(P, LABELS)
    with refused("sampling 'same-size'", "over-sampling"):
        measured.sampling_strategy("same-size")
    with refused("method 'cb' does not resample", "ubrs"):
        measured.sampling_strategy(method="cb")


@pytest.mark.parametrize(
    ("sampling", "wanted"), [("over-sampling", [20, 60]), ("under-sampling", [4, 12]), ("same-size", [8, 24])]
)
def test_counts_follow_the_shares(sampling, wanted):
    """Shares of 1 : 3 from 20 and 12 examples."""
    alpha = class_shares("ubrs", cu.Stats([20, 12], [0.1, 0.3]))
    np.testing.assert_allclose(alpha, [0.25, 0.75])
    assert resampled_counts(alpha, np.array([20, 12]), sampling).tolist() == wanted


def test_the_largest_remainders_are_rounded_up():
    """Hamilton's rule by hand: 2.8, 3.3 and 3.9 of 10 examples."""
    alpha = np.array([0.28, 0.33, 0.39])
    assert resampled_counts(alpha, np.array([6, 3, 1]), "same-size").tolist() == [3, 3, 4]


def test_examples_of_weight_0_are_not_measured():
    weights = np.array([1, 0, 1, 1, 1, 1])
    measured = ClassUncertainty(Weighted(), cv=2).fit(P, LABELS, sample_weight=weights)
    np.testing.assert_allclose(measured.uncertainty_, [(0.1 + 0.2 + 0.4) / 3, (0.3 + 0.5) / 2], rtol=1e-6)
    assert measured.counts_.tolist() == [3, 2]


def test_class_means_are_weighted():
    measured = ClassUncertainty(Weighted()).fit(P, LABELS, sample_weight=[2, 0.5, 1, 1, 3, 1])
    cat, dog = (0.1 * 2 + 0.3 * 0.5 + 0.2 + 0.4) / 4.5, (0.3 * 3 + 0.5) / 4
    np.testing.assert_allclose(measured.uncertainty_, [cat, dog], rtol=1e-6)


def test_an_example_is_not_judged_where_its_class_had_weight_0_in_training():
    folds = [([1, 4, 5], [0, 2]), ([0, 2, 5], [3, 4]), ([0, 1, 4], [5])]  # the first knows no cat but one of weight 0
    measured = ClassUncertainty(Weighted(), cv=folds).fit(P, LABELS, sample_weight=[1, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(measured.uncertainty_, [0.4, (0.3 + 0.5) / 2], rtol=1e-6)


def test_strength_0_changes_nothing_and_half_is_half_way():
    stats = cu.Stats([20, 10], [0.1, 0.3])
    for sampling in ("over-sampling", "under-sampling", "same-size"):
        assert resampled_counts(class_shares("ubrs", stats, 0.0), np.array([20, 10]), sampling).tolist() == [20, 10]
    np.testing.assert_allclose(class_shares("ubrs", stats, 0.5), [(2 / 3 + 1 / 4) / 2, (1 / 3 + 3 / 4) / 2])
    with refused("strength is 2", "0 to 1"):
        class_shares("ubrs", stats, 2)


def test_a_strategy_counts_the_labels_that_it_is_given():
    strategy = ClassUncertainty(Given()).fit(P, LABELS).sampling_strategy(method="cb-rs")
    assert strategy(["cat"] * 7 + ["dog"] * 3) == {"cat": 7, "dog": 7}
    assert SamplingStrategy(np.array([0, 1]), np.array([0.2, 0.2]), "under-sampling")([0] * 9 + [1] * 4) == {0: 4, 1: 4}
    with refused("'emu'", "not measured"):
        strategy(["cat", "emu"])


RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(60, 2)), np.repeat(["a", "b", "c"], [40, 15, 5])


def test_it_draws_by_the_uncertainty_of_its_own_examples():
    sampler = UncertaintySampler(GaussianNB(), sampling="over-sampling", random_state=0)
    X_drawn, y_drawn = sampler.fit_resample(X, Y)
    mu = ClassUncertainty(GaussianNB()).fit(X, Y).mu_
    np.testing.assert_array_equal(sampler.measured_.mu_, mu)
    counts = np.array([(y_drawn == c).sum() for c in "abc"])
    assert dict(zip("abc", counts.tolist(), strict=True)) == sampler.sampling_strategy_
    np.testing.assert_allclose(counts / counts.sum(), mu, atol=2 / counts.sum())
    np.testing.assert_array_equal(X_drawn, X[sampler.sample_indices_])
    assert set(sampler.sample_indices_) == set(range(60))


@pytest.mark.parametrize("sampling", ["same-size", "over-sampling", "under-sampling"])
def test_every_example_of_a_class_is_there_equally_often_up_to_one(sampling):
    sampler = UncertaintySampler(method="cb-rs", sampling=sampling, random_state=0).fit(X, Y)
    times = np.bincount(sampler.sample_indices_, minlength=60)
    assert all(np.ptp(times[c == Y]) <= 1 for c in "abc")
    sizes = {"same-size": 20, "over-sampling": 40, "under-sampling": 5}
    assert sampler.sampling_strategy_ == dict.fromkeys("abc", sizes[sampling])
    assert sampler.measured_ is None


def test_the_random_state_draws():
    drawn = [UncertaintySampler(method="cb-rs", random_state=seed).fit(X, Y).sample_indices_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert drawn[0].tolist() != drawn[2].tolist()


def test_what_is_given_comes_back_as_its_kind():
    sampler = UncertaintySampler(method="cb-rs", random_state=0)
    frame, series = sampler.fit_resample(pandas.DataFrame(X, columns=["u", "v"]), pandas.Series(Y, name="kind"))
    assert frame.columns.tolist() == ["u", "v"]
    assert (series.name, frame.index.tolist(), series.index.tolist()) == ("kind", list(range(60)), list(range(60)))
    matrix, _ = sampler.fit_resample(sparse.csr_matrix(X), Y)
    np.testing.assert_array_equal(matrix.toarray(), frame.to_numpy())
    rows, labels = sampler.fit_resample(X.tolist(), Y.tolist())
    assert (isinstance(rows, list), isinstance(labels, list)) == (True, True)


def test_what_a_sampler_refuses():
    with refused("sampling 'oversampling'", "did you mean 'over-sampling'?"):
        UncertaintySampler(method="cb-rs", sampling="oversampling").fit_resample(X, Y)
    with refused("method 'naive' does not resample"):
        UncertaintySampler(method="naive").fit_resample(X, Y)
    with refused("unknown method 'ubsr'", "'ubrs'"):
        UncertaintySampler(method="ubsr").fit_resample(X, Y)
    with refused("class 'c' has only one example"):
        UncertaintySampler(GaussianNB()).fit_resample(X[:56], Y[:56])
    with refused("Multilabel"):
        UncertaintySampler().fit_resample(X, np.ones((60, 2), dtype=int))
