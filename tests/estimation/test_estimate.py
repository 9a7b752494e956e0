"""estimate(): what the members say, and what follows from it."""

import dataclasses

import numpy as np
import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.training.checkpoints import Checkpoints

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


def test_members_before_the_first_drop_are_the_same_training_cut_short(tmp_path):
    """Their probabilities are those of a training that is stopped there."""
    digits, recipe = cu.load("digits-lt:20"), cu.Recipe("small-conv", epochs=5, batch=32, drops=(0.6,), crop=1)

    def stop(news):
        if news.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cu.fit(digits.train, [cu.Lane("naive")], recipe=recipe, device="cpu", progress=stop, checkpoints=tmp_path, every=1)
    (file,) = tmp_path.iterdir()
    stopped = Checkpoints(tmp_path).load(file.stem)
    early = cu.estimate(digits.train, members=1, recipe=recipe, checkpoint="before-drop", device="cpu")
    late = cu.estimate(digits.train, members=1, recipe=recipe, device="cpu")
    assert np.abs(early.probabilities - late.probabilities).max() > 0.01
    fitted = cu.fit(digits.train, [cu.Lane("naive")], recipe=recipe.before_drop(), device="cpu")
    assert stopped.epoch == 2  # told of the third before it was kept
    again = cu.fit(digits.train, [cu.Lane("naive")], recipe=dataclasses.replace(recipe, epochs=2, drops=()), device="cpu")
    assert all(torch.equal(value, again.states[0][name]) for name, value in stopped.state.items())
    np.testing.assert_array_equal(early.probabilities, fitted.probabilities(digits.train))
    assert early.results[0].recipe.epochs == 3


def test_views_are_crops_and_flips_by_the_recipe():
    digits, recipe = cu.load("digits-lt:20"), cu.Recipe("small-conv", epochs=2, batch=32, crop=1, flip=True)
    plain, viewed, more = (
        cu.estimate(digits.train, members=2, recipe=recipe, views=views, device="cpu").probabilities for views in (0, 1, 2)
    )
    assert np.abs(viewed - plain).max() > 0.01
    assert np.abs(more - viewed).max() > 0.01
    np.testing.assert_allclose(more.sum(axis=-1), 1, rtol=1e-5)
    still = dataclasses.replace(recipe, crop=0, flip=False)
    without = [cu.estimate(digits.train, members=2, recipe=still, views=views, device="cpu").probabilities for views in (0, 1)]
    np.testing.assert_array_equal(*without)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"checkpoint": "best"}, "unknown checkpoint 'best'"), ({"views": -1}, "views is -1"), ({"views": 1.5}, "views is 1.5")],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(cu.InputError, match=message):
        cu.estimate(cu.load("digits-lt:20"), **options)
