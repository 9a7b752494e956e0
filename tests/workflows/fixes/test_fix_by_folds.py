"""Fixes without a test split, of tables and of embeddings; and input that is refused."""

import csv
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from refusals import refused
from sklearn.datasets import load_wine
from watching import Watched, no_training
from workflows.fixes.by_hand import FOLDS, ROWS, class_errors_of, errors_of, softmax_of, unseen_of

import class_uncertainty as cu
from class_uncertainty.posthoc.calibration import cross_adjusted
from class_uncertainty.posthoc.goal import parse_goal
from class_uncertainty.posthoc.priors import measured_prior
from class_uncertainty.runs import Store
from class_uncertainty.training import default_recipe
from class_uncertainty.training.candidate import default_candidates
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows import fix_networks


def test_without_a_test_split_folds_judge_what_was_chosen_without_them(wine, tmp_path):
    recipe, rows = default_recipe(wine, epochs=10), ["naive", "naive?rate=0.01"]
    dataset = cu.Dataset("wine", wine)
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(dataset, recipe=recipe, candidates=rows, seeds=2, label_issues=True, store=store)
        results = store.results(dataset.fingerprint)
    assert {result.seed: result.error for result in results} == pytest.approx(dict(enumerate(fix.before.errors)))
    assert {result.folds for result in results} == {5}
    p, labels = unseen_of(wine, recipe, "naive")
    of_fold, temperatures = np.repeat(np.arange(5), [len(fold_indices(wine, fold)) for fold in FOLDS]), []
    before, after = [], []
    for k, fold in enumerate(FOLDS):
        networks = cu.fit(wine, [cu.Lane("naive", seed, recipe.lr, fold) for seed in range(2)], recipe=recipe)
        judged = networks.probabilities(wine.take(fold_indices(wine, fold))).astype(float)
        adjustment = cu.fit_adjustment(p[of_fold != k], labels[of_fold != k], wine.counts, usual_tau=1.0)
        temperatures.append(adjustment.temperature)
        before.append(judged)
        after.append(adjustment(judged))
    assert fix.before.errors == errors_of(np.concatenate(before, axis=1), labels)
    assert fix.after.errors == errors_of(np.concatenate(after, axis=1), labels)
    assert class_errors_of(fix, wine) == pytest.approx(fix.before.class_errors[0])  # in the order of the data
    assert len(set(temperatures)) > 1  # or it could have been chosen for all folds at once
    assert fix.choice.tau == 1
    for words in ("judged by 5 folds", "best on the other folds", "step that is kept is decided on", "fewer than 250"):
        assert words in fix.report.note + fix.report.why
    assert 3 in [issue.index for issue in fix.report.label_issues]
    whole = cu.fit(wine, [cu.Lane("naive", 0, recipe.lr)], recipe=recipe).probabilities(wine)[0].astype(float)
    assert softmax_of(fix, wine.inputs) == pytest.approx(fix.choice.adjustment(whole), abs=1e-4)
    assert fix.report.cost == 11


@pytest.mark.parametrize(("row", "why"), [("forest&trees=10", "of one kind"), ("logistic", "heads that train")])
def test_a_table_model_beside_a_network_is_neither_averaged_nor_taught(row, why, tmp_path, rng):
    """And trees, which know their own examples by heart, say on unseen ones what prior they stand for."""
    inputs = rng.normal(size=(1500, 4)).astype(np.float32)
    data = cu.Data(inputs, (inputs[:, 0] + rng.normal(size=1500) > 1).astype(int))
    candidate, network = cu.Candidate(f"naive?recipe={row}"), cu.Recipe("mlp", epochs=1, batch=64)
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(data, recipe=network, candidates=[candidate], trainings=30, seeds=1, store=store)
    assert why in fix.choice.why
    assert fix.module.purpose is not None
    if fix.choice.candidate.recipe(network).is_trees:
        p, labels = unseen_of(data, candidate.recipe(network), "naive")
        adjusted = cross_adjusted(p, labels, data.counts, parse_goal("mean", data.classes, data.counts), usual_tau=1.0)
        assert fix.module.purpose.prior == pytest.approx(measured_prior(adjusted, labels, [0.5, 0.5]), abs=1e-6)


@pytest.mark.usefixtures("every_gain_is_clear")
def test_a_student_is_judged_by_folds(wine):
    """Where a fold is judged, all of its teachers have left it out."""
    recipe = default_recipe(wine, epochs=4)
    fix = cu.fix(wine, recipe=recipe, candidates=["naive"], seeds=1)
    assert fix.choice.step == "student"
    p, labels = unseen_of(wine, recipe, "naive")
    of_fold, judged = np.repeat(np.arange(5), [len(fold_indices(wine, fold)) for fold in FOLDS]), []
    for k, fold in enumerate(FOLDS):
        teachers = cu.fit(wine, [cu.Lane("naive", seed, recipe.lr, fold) for seed in range(5)], recipe=recipe)
        tau = cu.fit_adjustment(p[of_fold != k], labels[of_fold != k], wine.counts, usual_tau=1.0).tau
        lane = cu.Lane("naive", 0, fix.choice.student.rate * recipe.lr, fold, teaching=cu.Teaching(tau=tau))
        student = cu.fit(wine, [lane], recipe=recipe, teachers=teachers)
        judged.append(student.probabilities(wine.take(fold_indices(wine, fold))))
    assert fix.after.errors == errors_of(np.concatenate(judged, axis=1), labels)


def test_no_network_is_trained_twice(tmp_path, rng):
    """80 rows of a CSV table without a test split: folds judge, and the same networks choose and are judged."""
    with open(tmp_path / "t.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("length", "width", "label"))
        for label, number in (("a", 45), ("b", 25), ("c", 10)):
            rows.writerows((*rng.normal(ord(label), 1, 2).round(3), label) for _ in range(number))
    dataset, watched = cu.load(f"csv:{tmp_path / 't.csv'}"), Watched()
    recipe = default_recipe(dataset.train, epochs=2)
    how = {"seeds": 2, "deploy": "ensemble", "store": tmp_path / "runs.sqlite", "progress": watched}
    cu.fix(dataset, recipe=recipe, candidates=["naive", "cb-rs"], **how)
    lanes = Counter(repr(lane) for lane in watched.lanes)
    assert {lane for lane, times in lanes.items() if times > 1} == set()
    assert sum(watched.announced) == len(lanes) > 20


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"budget": 5.0}, ["budget", "store"]),
        ({"seeds": 0}, ["seeds is 0"]),
        ({"deploy": "two"}, ["unknown deploy 'two'", "one, ensemble"]),
        ({"goal": "means"}, ["unknown goal 'means'", "'mean'"]),
        ({"candidates": ["cb-rz"]}, ["unknown method 'cb-rz'", "'cb-rs'"]),
        ({"trainings": 0}, ["trainings is 0", "above 0"]),
        ({"trainings": float("nan")}, ["trainings is nan"]),
        ({"trainings": 1.9, "candidates": ["naive"]}, ["trainings is 1.9", "takes 2 at least"]),
        ({"trainings": 3, "candidates": ["naive?epochs=8"]}, ["trainings is 3", "takes 4 at least"]),
        ({"trainings": 6.9, "candidates": ["naive", "ubrw"]}, ["takes 7 at least", "5 measure class uncertainties"]),
    ],
)
def test_bad_input_is_refused_before_training(digits, recipe, options, parts):
    with refused(*parts):
        cu.fix(digits, recipe=recipe, progress=no_training, **options)


def test_a_class_of_one_example_cannot_be_judged(digits, recipe):
    train = digits.train
    places = np.concatenate([np.flatnonzero(train.labels != 9), np.flatnonzero(train.labels == 9)[:1]])
    with refused("class '9'", "at least two"):
        cu.fix(train.take(places), recipe=recipe, progress=no_training)


def test_repeats_that_diverge_do_not_count(store, digits, recipe, monkeypatch):
    """Networks for the ± only: the kept one is that of seed 0."""
    original = fix_networks.fit_networks

    def losing(*given: Any) -> dict[cu.Candidate, cu.Fit]:
        fits = original(*given)
        for fitted in fits.values():
            fitted.results = [replace(one, diverged=1) if one.seed == 1 else one for one in fitted.results]
        return fits

    monkeypatch.setattr(fix_networks, "fit_networks", losing)
    fix = cu.fix(digits, recipe=recipe, candidates=ROWS[:2], seeds=3, trainings=3, store=store)
    assert len(fix.before.errors) == len(fix.after.errors) == 2
    whole = cu.fit(digits.train, [cu.Lane("naive", seed, recipe.lr) for seed in (0, 2)], recipe=recipe)
    assert fix.before.errors == errors_of(whole.probabilities(digits.test), digits.test.labels)


def test_embeddings_are_fixed_by_heads_that_converge(tmp_path):
    """All of their rows are judged on all folds, no student is tried, and every seed gives the same network."""
    wine = load_wine()
    data = cu.Data(wine.data, wine.target)
    heads = replace(RECIPES["embeddings"], epochs=12)
    fixed = cu.fix(data, recipe=heads, store=tmp_path / "runs.sqlite")
    rows = {row.name for row in default_candidates(data, heads)}
    assert {row.candidate for row in fixed.report.rungs[-1].rows} == rows
    assert fixed.report.rungs[-1].folds == 5
    assert fixed.report.cost == 5 * len(rows) + 1
    assert "converge" in fixed.choice.why
    assert fixed.report.note.startswith("Before: naive networks. ")  # no learning rate changes them
    assert len(set(fixed.after.errors)) == len(set(fixed.before.errors)) == 1
    again = cu.fix(data, recipe=heads, store=tmp_path / "runs.sqlite", progress=no_training)
    assert again.after.errors == fixed.after.errors
