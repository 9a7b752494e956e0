"""The networks of the ladder's steps, trained on all examples, or without each judged fold."""

from dataclasses import replace

import numpy as np
import pytest
from fix_plans import TRIES, fix_plan
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.workflows.alternatives import Alternatives, Gain, Trial
from class_uncertainty.workflows.fix_choice import choose_step
from class_uncertainty.workflows.fix_networks import train_networks
from class_uncertainty.workflows.search import search

ROW = cu.Candidate("cb-rs?rate=2")
MEAN = Goal("mean", np.full(10, 0.1))
FOLDS = [(k, 5) for k in range(5)]
PLAN = fix_plan(MEAN, [ROW], TRIES, seeds=2)
TRIED = Alternatives(Trial(2, Gain(1, 0), {"naive?rate=1": Gain(2, 0)}, {"naive?rate=1": 1.25}, 81, 5.0, 1.0))


@pytest.fixture(scope="module")
def context(digits):
    with open_context(digits, Settings(recipe=cu.Recipe("small-conv", epochs=1, batch=32))) as context:
        yield context


@pytest.fixture(scope="module")
def found(context):
    return search(context, PLAN, None)


@pytest.fixture(scope="module")
def student(context, found):
    choice = choose_step(context.train, found, TRIED, MEAN, "one", None)
    return train_networks(context, found, {None: choice}, PLAN, None)


def lanes(fitted: cu.Fit) -> list[tuple]:
    return [(lane.method, lane.seed, lane.rate(fitted.recipe), lane.fold, lane.teaching) for lane in fitted.lanes]


def seeds_by_fold(fitted: cu.Fit) -> dict[tuple[int, int] | None, list[int]]:
    return {fold: [lane.seed for lane in fitted.lanes if lane.fold == fold] for fold in (None, *FOLDS)}


def test_a_student_is_judged_beside_its_teachers_and_naive_networks(context, student):
    lr = context.recipe.lr
    assert student.choice.step == "student"
    assert student.baseline == cu.Candidate("naive")  # though it was no candidate
    assert lanes(student.naive) == [("naive", seed, lr, None, None) for seed in range(2)]
    assert lanes(student.of_all_examples(ROW)) == [("cb-rs", seed, 2 * lr, None, None) for seed in range(2)]
    teaching = student.choice.teaching
    assert lanes(student.students[None]) == [("naive", seed, lr, None, teaching) for seed in range(2)]


def test_steps_have_one_prediction_a_seed_and_an_ensemble_one(context, student):
    """Naive networks were no candidate here, so that nothing says how to adjust them."""
    p = student.predictions(context.dataset)
    shapes = {name: p_step.shape[0] for name, p_step in p.items()}
    assert shapes == {"naive": 2, "best single": 2, "ensemble": 1, "student": 2}
    taught = student.students[None].probabilities(context.dataset.test).astype(float) ** (1 / 1.25)
    assert p["student"] == pytest.approx(taught / taught.sum(axis=-1, keepdims=True))


def test_an_ensemble_trains_five_networks_whatever_the_seeds(context, found):
    choice = replace(choose_step(context.train, found, TRIED, MEAN, "one", None), step="ensemble")
    networks = train_networks(context, found, {None: choice}, replace(PLAN, seeds=1), None)
    assert [lane.seed for lane in networks.of_all_examples(ROW).lanes] == [0, 1, 2, 3, 4]
    assert networks.students == {}
    assert networks.predictions(context.dataset)["best single"].shape[0] == 1


def test_without_a_test_split_every_fold_has_networks_that_left_it_out(context):
    """And what is deployed has seen all of them, once."""
    by_folds = replace(context, dataset=cu.Dataset("digits", context.train))
    found = search(by_folds, PLAN, None)
    choices = {fold: choose_step(by_folds.train, found, TRIED, MEAN, "one", fold) for fold in (None, *FOLDS)}
    networks = train_networks(by_folds, found, choices, PLAN, None)
    judged = {fold: [0, 1] for fold in FOLDS}
    assert seeds_by_fold(networks.networks[networks.baseline]) == {None: [], **judged}
    assert seeds_by_fold(networks.networks[ROW]) == {None: [0], **judged}
    taught = {fold: lanes(fitted) for fold, fitted in networks.students.items()}
    assert {fold: [lane[1] for lane in of_fold] for fold, of_fold in taught.items()} == {None: [0], **judged}
    assert all({lane[3] for lane in of_fold} == {fold} for fold, of_fold in taught.items())
    stored = [result for result in context.store.results(by_folds.dataset.fingerprint) if result.folds]
    assert sorted(result.seed for result in stored) == [0, 1]
    p = networks.predictions(by_folds.dataset)
    assert {p_step.shape[1:] for p_step in p.values()} == {(len(context.train), 10)}


def test_a_network_that_diverges_is_refused_by_name(context, found):
    choice = choose_step(context.train, found, Alternatives(why_none="no reason"), MEAN, "one", None)
    lost = replace(choice, candidate=cu.Candidate("cb-rs?lr=1e30"))
    with refused("cb-rs of seed 0 diverged in epoch 1 at the learning rate 1e+30", "lower it"):
        train_networks(context, found, {None: lost}, PLAN, None)
