"""UncertaintySampler: what is drawn, and from what."""

import numpy as np
import pandas
import pytest
from refusals import refused
from scipy import sparse
from sklearn.naive_bayes import GaussianNB

from class_uncertainty.integrations.sklearn import ClassUncertainty, UncertaintySampler

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


def test_wrong_parameters_are_refused():
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
