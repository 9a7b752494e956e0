"""The networks of the ladder's steps, trained on all examples, or without each judged fold."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.workflows.choose_step import choose_step
from class_uncertainty.workflows.ladder_networks import Networks, cooled, predictions, train_ladder
from class_uncertainty.workflows.search import Search, search
from class_uncertainty.workflows.search_plan import SearchPlan
from class_uncertainty.workflows.trial import Gain, Trial

ROW = cu.Candidate("cb-rs?rate=2")
MEAN = Goal("mean", np.full(10, 0.1))
PLAN = SearchPlan(1, 1, 1, 5, 2, True)
TRIAL = Trial(2, Gain(1, 0), {"naive?rate=1": Gain(2, 0)}, {"naive?rate=1": 1.25}, 81, 5.0, 1.0)


@pytest.fixture(scope="module")
def context(digits: cu.Dataset) -> Iterator[Context]:
    with open_context(digits, Settings(recipe=cu.Recipe("small-conv", epochs=1, batch=32))) as context:
        yield context


@pytest.fixture(scope="module")
def found(context: Context) -> Search:
    return search(context, [ROW], PLAN, MEAN, None)


@pytest.fixture(scope="module")
def student(context: Context, found: Search) -> tuple[cu.Choice, Networks]:
    choice = choose_step(context, found, TRIAL, MEAN, "one", None)
    return choice, train_ladder(context, found, {None: choice}, PLAN, 2, None, MEAN)


def lanes(fitted: cu.Fit) -> list[tuple]:
    return [(lane.method, lane.seed, lane.rate(fitted.recipe), lane.fold, lane.teaching) for lane in fitted.lanes]


def test_a_student_is_judged_beside_its_teachers_and_naive_networks(
    context: Context, student: tuple[cu.Choice, Networks]
) -> None:
    choice, networks = student
    lr = context.recipe.lr
    assert choice.step == "student"
    assert networks.baseline == cu.Candidate("naive")  # though it was no candidate
    assert lanes(networks.naive[None]) == [("naive", seed, lr, None, None) for seed in range(2)]
    assert lanes(networks.best[None]) == [("cb-rs", seed, 2 * lr, None, None) for seed in range(2)]
    assert lanes(networks.students[None]) == [("naive", seed, lr, None, choice.teaching) for seed in range(2)]


def test_steps_have_one_prediction_a_seed_and_an_ensemble_one(
    context: Context, found: Search, student: tuple[cu.Choice, Networks]
) -> None:
    """Naive networks were no candidate here, so that nothing says how to adjust them."""
    choice, networks = student
    p = predictions(context, found, {None: choice}, networks, MEAN, 2)
    shapes = {name: p_step.shape[0] for name, p_step in p.items()}
    assert shapes == {"naive": 2, "best single": 2, "ensemble": 1, "student": 2}
    taught = networks.students[None].probabilities(context.dataset.test).astype(float) ** (1 / 1.25)
    assert p["student"] == pytest.approx(taught / taught.sum(axis=-1, keepdims=True))


def test_an_ensemble_trains_five_networks_whatever_the_seeds(context: Context, found: Search) -> None:
    choice = replace(choose_step(context, found, TRIAL, MEAN, "one", None), step="ensemble")
    networks = train_ladder(context, found, {None: choice}, PLAN, 1, None, MEAN)
    assert [lane.seed for lane in networks.best[None].lanes] == [0, 1, 2, 3, 4]
    assert networks.students == {}
    assert predictions(context, found, {None: choice}, networks, MEAN, 1)["best single"].shape[0] == 1


def test_without_a_test_split_every_fold_has_networks_that_left_it_out(
    context: Context, student: tuple[cu.Choice, Networks]
) -> None:
    """And what is deployed has seen all of them, once."""
    by_folds = replace(context, dataset=cu.Dataset("digits", context.train))
    found, folds = search(by_folds, [ROW], PLAN, MEAN, None), [(k, 5) for k in range(5)]
    choices = {fold: choose_step(by_folds, found, TRIAL, MEAN, "one", fold) for fold in (None, *folds)}
    networks = train_ladder(by_folds, found, choices, PLAN, 2, None, MEAN)
    assert list(networks.naive) == folds
    for fits in (networks.best, networks.students):
        assert set(fits) == {None, *folds}
        assert [len(fits[fold].lanes) for fold in (None, *folds)] == [1, 2, 2, 2, 2, 2]
        assert all({lane.fold for lane in fits[fold].lanes} == {fold} for fold in fits)
    stored = [result for result in context.store.results(by_folds.dataset.fingerprint) if result.folds]
    assert sorted(result.seed for result in stored) == [0, 1]
    p = predictions(by_folds, found, choices, networks, MEAN, 2)
    assert {p_step.shape[1:] for p_step in p.values()} == {(len(context.train), 10)}


def test_a_student_keeps_only_its_temperature(student: tuple[cu.Choice, Networks]) -> None:
    choice, _ = student
    left = cooled(choice)
    assert (left.bias.tolist(), left.temperature) == ([0.0] * 10, 1.25)
    assert np.ptp(choice.adjustment.bias) > 0 or choice.tau == 0
    assert np.array_equal(left.prior, choice.adjustment.prior)


def test_a_network_that_diverges_is_refused_by_name(context: Context, found: Search) -> None:
    choice = choose_step(context, found, "no reason", MEAN, "one", None)
    lost = replace(choice, candidate=cu.Candidate("cb-rs?lr=1e30"))
    with refused("cb-rs of seed 0 diverged in epoch 1 at the learning rate 1e+30", "lower it"):
        train_ladder(context, found, {None: lost}, PLAN, 1, None, MEAN)
