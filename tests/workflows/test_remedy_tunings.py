"""How remedies are made: tau and the temperatures, chosen on examples that the choosing networks never saw."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_fit
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training import default_recipe
from class_uncertainty.training.folds import FOLDS, Fold, fold_indices, judged_examples, judged_folds, judged_labels
from class_uncertainty.training.stages import distillation_cost
from class_uncertainty.workflows import ladder, remedy_rows
from class_uncertainty.workflows.ladder import Tuning
from class_uncertainty.workflows.remedy_rows import choose_adjustments, choose_teaching, trial_cost, trial_members


@pytest.fixture(scope="module")
def context(tmp_path_factory, digits):
    recipe = default_recipe(digits.train, epochs=2)
    with open_context(
        digits, Settings(recipe=recipe, store=tmp_path_factory.mktemp("choose") / "runs.sqlite")
    ) as context:
        yield context


@pytest.fixture(scope="module")
def by_folds(context, digits):
    return replace(context, dataset=cu.Dataset("no-test", digits.train))


@pytest.fixture(scope="module")
def estimate(context):
    (estimate,) = load_or_estimate(context, [EstimateRequest("out-of-fold", 3)])
    return estimate


@pytest.fixture(scope="module")
def members(context, estimate):
    return load_or_fit(context, trial_members(context, 3, None))


def test_what_is_judged(context, by_folds, digits):
    assert judged_folds(context.dataset) == [None]
    assert judged_examples(context.dataset, None) is digits.test
    assert np.array_equal(judged_labels(context.dataset), digits.test.labels)
    folds = judged_folds(by_folds.dataset)
    assert folds == [(k, FOLDS) for k in range(FOLDS)]
    order = np.concatenate([fold_indices(digits.train, fold) for fold in folds])
    assert sorted(order) == list(range(len(digits.train)))
    assert np.array_equal(judged_labels(by_folds.dataset), digits.train.labels[order])
    assert np.array_equal(
        judged_examples(by_folds.dataset, folds[2]).inputs, digits.train.inputs[fold_indices(digits.train, folds[2])]
    )


def test_tau_of_a_fold_is_chosen_without_it(by_folds, estimate):
    train, p = by_folds.train, estimate.probabilities[0]
    tunings = choose_adjustments(by_folds, None, estimate, [None, (1, FOLDS)])
    rest = np.setdiff1d(np.arange(len(train)), fold_indices(train, (1, FOLDS)))
    for fold, places in ((None, np.arange(len(train))), ((1, FOLDS), rest)):
        expected = cu.fit_adjustment(p[places], train.labels[places], train.counts)
        adjustment = tunings[fold].adjustment
        assert (adjustment.tau, adjustment.temperature) == (expected.tau, expected.temperature)
        assert tunings[fold].teaching == cu.Teaching(tau=expected.tau, temperature=2.0)
        assert tunings[fold].cooling == 1


def test_without_an_out_of_fold_estimate_tau_is_one(context):
    (tuning,) = choose_adjustments(context, 0.3, None, [None]).values()
    assert (tuning.tau, tuning.adjustment.temperature, tuning.candidate.lr(context.recipe)) == (1.0, 1.0, 0.3)


def students_that_say(answers: dict[float, np.ndarray], diverged: set[float] = frozenset()):
    """A teach() whose students give these answers (N, C) about all training examples."""

    def taught(context: Context, tunings: list[Tuning], seeds: list[int], fold: Fold, *_: object, **__: object):
        temperatures = [tuning.teaching.temperature for tuning in tunings]
        places = fold_indices(context.train, fold)
        return SimpleNamespace(
            results=[SimpleNamespace(diverged=1 if t in diverged else None) for t in temperatures],
            probabilities=lambda data: np.stack([answers[t][places] for t in temperatures]),
        )

    return taught


def test_how_to_teach_is_chosen_on_what_students_say_of_unseen_examples(
    context, by_folds, estimate, members, monkeypatch
):
    """For a fold, on the others alone."""
    train = context.train
    right = 0.9 * np.eye(10)[train.labels] + 0.01
    wrong = np.roll(right, 1, axis=1)
    judged = fold_indices(train, (1, FOLDS))
    right_there = wrong.copy()
    right_there[judged] = right[judged]
    tunings = choose_adjustments(context, None, estimate, [None])

    monkeypatch.setattr(remedy_rows, "teach", students_that_say({2.0: wrong, 4.0: right}))
    choice = choose_teaching(context, tunings, members)[None]
    assert (choice.tau, choice.teaching.temperature) == (tunings[None].tau, 4.0)
    assert choice.cooling < 0.7  # of probabilities that are always right, and say 0.91

    monkeypatch.setattr(remedy_rows, "teach", students_that_say({2.0: right, 4.0: right}))
    assert choose_teaching(context, tunings, members)[None].teaching.temperature == 2.0

    folds = [(0, FOLDS), (1, FOLDS), None]
    tunings = choose_adjustments(by_folds, None, estimate, folds)
    monkeypatch.setattr(remedy_rows, "teach", students_that_say({2.0: wrong, 4.0: right_there}))
    by_fold = choose_teaching(by_folds, tunings, members)
    assert [by_fold[fold].teaching.temperature for fold in folds] == [4.0, 2.0, 4.0]
    for fold, rest in (((1, FOLDS), np.setdiff1d(np.arange(len(train)), judged)), (None, np.arange(len(train)))):
        answers = (wrong if fold else right_there)[rest]
        expected = cu.fit_adjustment(answers, train.labels[rest], train.counts, tau=0.0).temperature
        assert by_fold[fold].cooling == pytest.approx(expected)
    assert by_fold[1, FOLDS].cooling > 1.1 * by_fold[None].cooling


def test_a_temperature_at_which_a_student_diverged_is_not_considered(context, estimate, members, monkeypatch):
    """Where all are lost, nothing changes."""
    right = 0.9 * np.eye(10)[context.train.labels] + 0.01
    answers = {2.0: np.roll(right, 1, axis=1), 4.0: right}
    tunings = choose_adjustments(context, None, estimate, [None])
    monkeypatch.setattr(remedy_rows, "teach", students_that_say(answers, diverged={4.0}))
    assert choose_teaching(context, tunings, members)[None].teaching.temperature == 2.0
    monkeypatch.setattr(remedy_rows, "teach", students_that_say(answers, diverged={2.0, 4.0}))
    assert choose_teaching(context, tunings, members) is tunings


def test_one_student_of_one_fold_that_diverged_is_enough(context, estimate, members, monkeypatch):
    """By networks that the store gives back as diverged."""
    tunings = choose_adjustments(context, None, estimate, [None])
    choose_teaching(context, tunings, members)
    lost, get_network = {4.0: (1, 3), 2.0: (0, 3)}, Store.get_network

    def diverged(store: Store, key: str):
        network = get_network(store, key)
        if network and lost.get(network[0].plan.get("temperature")) == network[0].fold:
            return replace(network[0], diverged=1), network[1]
        return network

    monkeypatch.setattr(Store, "get_network", diverged)
    assert choose_teaching(context, tunings, members) is tunings
    del lost[2.0]
    choice = choose_teaching(context, tunings, members)[None]
    assert choice.teaching.temperature == 2.0
    assert choice.cooling != 1


def test_students_on_trial_learn_as_students_do(context, estimate, members, monkeypatch):
    """Each is taught by the member that has left the same fold out, at the students' learning rate."""
    (tuning,) = choose_adjustments(context, 0.25 * context.recipe.lr, estimate, [None]).values()
    calls = []

    def spy(context: Context, lanes: list[cu.Lane], teachers: cu.Fit, what: str) -> cu.Fit:
        calls.append((lanes, teachers))
        return load_or_fit(context, lanes, teachers=teachers, what=what)

    monkeypatch.setattr(ladder, "load_or_fit", spy)
    choose_teaching(context, {None: tuning}, members)
    assert [teachers.lanes for _, teachers in calls] == [[lane] for lane in trial_members(context, 3, None)]
    lr = tuning.learner.lr(context.recipe)
    for lanes, teachers in calls:
        assert {(lane.fold, lane.seed, lane.lr) for lane in lanes} == {(teachers.lanes[0].fold, 0, lr)}
        taught = [(lane.teaching.tau, lane.teaching.temperature) for lane in lanes]
        assert taught == [(tuning.tau, 2.0), (tuning.tau, 4.0)]


def test_students_are_tried_on_as_many_examples_as_it_takes(context, by_folds, monkeypatch):
    """405 digits and three members: each has left 135 out. Four examples have four folds."""
    for examples, number in ((1, 1), (135, 1), (136, 2), (271, 3), (9999, 3)):
        monkeypatch.setattr(remedy_rows, "TRIAL_EXAMPLES", examples)
        assert trial_members(context, 3, 0.2) == [cu.Lane("naive", 0, 0.2, fold=(k, 3)) for k in range(number)]
        assert len(trial_members(by_folds, 3, None)) == 3
        assert trial_cost(context, 3) == pytest.approx(2 * number * (distillation_cost(1) - 1))
    data = cu.Data(np.arange(4.0)[:, None], [0, 0, 1, 1])
    few = replace(context, dataset=cu.Dataset("few", data, data))
    assert [lane.fold for lane in trial_members(few, 5, None)] == [(k, 5) for k in range(4)]
