"""estimate(): what the members say, and what follows from it."""

import numpy as np
import pytest

import class_uncertainty as cu

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture(scope="module", params=cu.ESTIMATORS)
def estimate(request: pytest.FixtureRequest, digits: cu.Dataset) -> cu.Estimate:
    return cu.estimate(digits, request.param, members=3, recipe=RECIPE)


def test_contract(estimate: cu.Estimate, digits: cu.Dataset) -> None:
    """0 <= u <= log C; predictive = aleatoric + epistemic; means by class; mu sums to 1."""
    p, labels = estimate.probabilities, digits.train.labels
    assert p.shape == (3, len(labels), 10)
    assert (estimate.uncertainty >= 0).all()
    assert (estimate.uncertainty <= np.log(10) + 1e-12).all()
    np.testing.assert_allclose(estimate.uncertainty, cu.aleatoric(p) + cu.epistemic(p), atol=1e-12)
    for c in range(10):
        assert estimate.raw[c] == pytest.approx(estimate.uncertainty[labels == c].mean())
        assert estimate.epistemic_share[c] == pytest.approx(cu.epistemic(p)[labels == c].mean() / estimate.raw[c])
    assert estimate.mu.sum() == pytest.approx(1)
    assert np.array_equal(estimate.stats.counts, digits.train.counts)
    assert [result.scores is not None for result in estimate.results] == [True] * 3


def test_members_are_naive_lanes_of_consecutive_seeds(digits: cu.Dataset) -> None:
    found = cu.estimate(digits.train, members=2, recipe=RECIPE, seed=4)
    lanes = cu.fit(digits.train, [cu.Lane("naive", 4), cu.Lane("naive", 5)], recipe=RECIPE)
    assert np.array_equal(found.probabilities, lanes.probabilities(digits.train))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"estimator": "ensemblr"}, "unknown estimator 'ensemblr': did you mean 'ensemble'"),
        ({"members": 0}, "members is 0"),
        ({"members": 3, "seed": 6, "recipe": cu.Recipe("small-conv", epochs=1, batch=32, lr=1e30)}, "seed 6 diverged in epoch 0"),
    ],
)
def test_refusals(options: dict, sentence: str, digits: cu.Dataset) -> None:
    with pytest.raises(cu.InputError, match=sentence):
        cu.estimate(digits.train, **options)
