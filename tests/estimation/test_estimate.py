"""estimate(): every row of ESTIMATORS keeps its contract, and what holds for all of them."""

import dataclasses

import numpy as np
import pytest
import torch
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest, estimates_from
from class_uncertainty.training.checkpoints import Checkpoints

pytest.register_assert_rewrite("estimation.checks")

from estimation.checks import CLASSES, EXCEPTIONS, RECIPE, digits, estimator_checks, found, verify  # noqa: E402

SAVED = "probabilities"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """What another program has saved: three members."""
    path = tmp_path_factory.mktemp("saved") / "p.npy"
    np.save(path, np.random.default_rng(0).dirichlet(np.ones(CLASSES), (3, len(digits().train))))
    return path


@pytest.mark.parametrize("name", cu.ESTIMATORS)
def test_contract(name, file):
    name = f"{name}:{file}" if name == SAVED else name
    for check in estimator_checks(name):
        verify(name, check)


def test_every_exception_names_a_row_and_a_check_of_it():
    names = [name for name in cu.ESTIMATORS if name != SAVED]
    held = {(name, check.__name__) for name in names for check in estimator_checks(name)}
    assert set(EXCEPTIONS) <= held
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize(
    ("name", "members", "cost"),
    [
        ("ensemble", 3, 3),
        ("bootstrap", 3, 3),
        ("out-of-fold", 1, 3),
        ("single", 1, 1),
        ("online", 1, 1),
        ("snapshot", 2, 1),  # of three there are as many as epochs
        ("mc-dropout", 10, 1),
    ],
)
def test_members_and_cost(name, members, cost):
    assert len(found(name).probabilities) == members
    assert found(name).cost == cost


def test_duq_is_one_network_that_costs_one_training_at_least():
    assert len(found("duq").probabilities) == 1
    assert found("duq").cost >= 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"estimator": "ensemblr"},
            "unknown estimator 'ensemblr': did you mean 'ensemble'? There are ensemble, bootstrap, out-of-fold,",
        ),
        ({"estimator": "ensemble:cb-rss"}, "unknown method 'cb-rss': did you mean 'cb-rs'?"),
        ({"estimator": "ensemble:ubrs"}, "method 'ubrs' needs class uncertainties before it trains"),
        ({"estimator": "single:cb-rs"}, "unknown estimator 'single:cb-rs'"),
        ({"estimator": ""}, "unknown estimator ''"),
        (
            {"estimator": "out-of-fold", "members": 1},
            "members is 1: for out-of-fold it must be a whole number from 2 to 1,000",
        ),
        ({"score": "kernel"}, "unknown score 'kernel'"),  # of duq alone
        (
            {"members": 3, "seed": 6, "recipe": cu.Recipe("small-conv", epochs=1, batch=32, lr=1e30)},
            "seed 6 diverged in epoch 1",
        ),
        ({"checkpoint": "best"}, "unknown checkpoint 'best'"),
        ({"views": -1}, "views is -1"),
        ({"views": 1.5}, "views is 1.5"),
    ],
)
def test_refusals(options, sentence):
    with refused(sentence):
        cu.estimate(digits().train, **options)


def test_estimates_that_train_together_are_those_that_train_alone():
    """In the order asked for, each with its own lanes, whatever stands beside it."""
    names = ("duq", "out-of-fold", "mc-dropout", "single", "snapshot", "online")
    requests = [EstimateRequest(name, 3) for name in names]
    lanes = [lane for request in requests for lane in request.lanes]
    fitted = cu.fit(digits().train, lanes, recipe=RECIPE, test=digits().test, device="cpu")
    together = estimates_from(digits().train, requests, fitted)
    assert [each.estimator for each in together] == list(names)
    for each in together:
        alone = found(each.estimator)
        assert np.array_equal(each.probabilities, alone.probabilities)
        assert [result.scores for result in each.results] == [result.scores for result in alone.results]
        assert (each.cost, each.score) == (alone.cost, alone.score)
        assert np.array_equal(each.uncertainty, alone.uncertainty)


def test_a_score_is_a_reading_of_the_same_networks():
    """By estimate(score=…) or by using() afterwards; the one that was there stays as it is."""
    here = found("ensemble")
    by_name = cu.estimate(digits(), members=3, recipe=RECIPE, score="true-class", device="cpu")
    own = 1 - here.probabilities.astype(np.float64).mean(axis=0)[np.arange(len(here.labels)), here.labels]
    np.testing.assert_allclose(by_name.uncertainty, own, atol=1e-6)
    assert by_name.score == "true-class"
    np.testing.assert_array_equal(here.using("true-class").raw, by_name.raw)
    assert here.score == "predictive"
    np.testing.assert_array_equal(here.uncertainty, cu.predictive(here.probabilities))


def test_without_a_test_split_members_are_not_judged():
    here = cu.estimate(digits().train, "single", recipe=RECIPE, device="cpu")
    assert here.class_errors is None
    assert np.array_equal(here.probabilities, found("single").probabilities)


def test_members_before_the_first_drop_are_the_same_training_cut_short(tmp_path):
    """Their probabilities are those of a training that is stopped there."""
    recipe = cu.Recipe("small-conv", epochs=5, batch=32, drops=(0.6,), crop=1)
    train = digits().train

    def stop(news):
        if news.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cu.fit(train, [cu.Lane("naive")], recipe=recipe, device="cpu", progress=stop, checkpoints=tmp_path, every=1)
    (file,) = tmp_path.iterdir()
    stopped = Checkpoints(tmp_path).load(file.stem)
    early = cu.estimate(train, members=1, recipe=recipe, checkpoint="before-drop", device="cpu")
    late = cu.estimate(train, members=1, recipe=recipe, device="cpu")
    assert np.abs(early.probabilities - late.probabilities).max() > 0.01
    fitted = cu.fit(train, [cu.Lane("naive")], recipe=recipe.before_drop(), device="cpu")
    assert stopped.epoch == 2  # told of the third before it was kept
    again = cu.fit(train, [cu.Lane("naive")], recipe=dataclasses.replace(recipe, epochs=2, drops=()), device="cpu")
    assert all(torch.equal(value, again.states[0][name]) for name, value in stopped.state.items())
    np.testing.assert_array_equal(early.probabilities, fitted.probabilities(train))
    assert early.results[0].recipe.epochs == 3


def test_views_are_crops_and_flips_by_the_recipe():
    train, recipe = digits().train, cu.Recipe("small-conv", epochs=2, batch=32, crop=1, flip=True)
    plain, viewed, more = (
        cu.estimate(train, members=2, recipe=recipe, views=views, device="cpu").probabilities for views in (0, 1, 2)
    )
    assert np.abs(viewed - plain).max() > 0.01
    assert np.abs(more - viewed).max() > 0.01
    np.testing.assert_allclose(more.sum(axis=-1), 1, rtol=1e-5)
    still = dataclasses.replace(recipe, crop=0, flip=False)
    without = [cu.estimate(train, members=2, recipe=still, views=views, device="cpu").probabilities for views in (0, 1)]
    np.testing.assert_array_equal(*without)
