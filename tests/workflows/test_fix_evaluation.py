"""From trained networks to a FixReport."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from fix_plans import fix_plan

import class_uncertainty as cu
from class_uncertainty.posthoc.calibration import cross_adjusted
from class_uncertainty.posthoc.fix_report import FixReport, Step
from class_uncertainty.posthoc.goal import Goal, parse_goal
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.workflows import fix_choice
from class_uncertainty.workflows import fix_plan as planning
from class_uncertainty.workflows.alternatives import Gain
from class_uncertainty.workflows.fix_evaluation import _keeps_naive, _note, _witnesses
from class_uncertainty.workflows.search import Evidence, Search

RECIPE = cu.Recipe("small-conv", epochs=3, batch=32, crop=1, flip=False)
ROWS = ["naive", "cb-rs?rate=2"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("reported") / "runs.sqlite") as store:
        yield store


@pytest.fixture(scope="module")
def report(store, digits):
    return cu.fix(digits, recipe=RECIPE, candidates=ROWS, seeds=2, deploy="ensemble", store=store).report


def step(report: FixReport, name: str) -> Step:
    return next(one for one in report.ladder if one.name == name)


def test_steps_are_compared_with_the_best_single_network(report, digits):
    """On the examples of all folds, which no network that speaks of them has seen: values, gains and their errors."""
    train = digits.train
    order = np.concatenate([fold_indices(train, (k, 5)) for k in range(5)])
    labels, wrong, plain = train.labels[order], {}, {}
    weights, goal = 10 / np.bincount(labels)[labels], parse_goal("mean", digits.classes, train.counts)
    for method, lr in (("naive", RECIPE.lr), ("cb-rs", 2 * RECIPE.lr)):
        fitted = cu.fit(train, [cu.Lane(method, 0, lr, (k, 5)) for k in range(5)], recipe=RECIPE)
        p = fitted.out_of_fold(train)[order].astype(float)
        plain[method] = weights * (p.argmax(axis=1) != labels)
        usual = 1.0 if method == "naive" else 0.0  # resampling acts on the counts
        adjusted = cross_adjusted(p, labels, train.counts, goal, usual_tau=usual)
        wrong[method] = weights * (adjusted.argmax(axis=1) != labels)
    assert report.method == "cb-rs?rate=2"
    assert step(report, "naive").unseen == pytest.approx(plain["naive"].sum())
    assert step(report, "adjusted").unseen == pytest.approx(wrong["naive"].sum())
    assert step(report, "best single").unseen == pytest.approx(wrong["cb-rs"].sum())
    for name, contributions in (("naive", plain["naive"]), ("adjusted", wrong["naive"])):
        gains = wrong["cb-rs"] - contributions
        assert step(report, name).gain == pytest.approx(gains.sum())
        assert step(report, name).gain_error == pytest.approx(np.sqrt((gains**2).sum()))
    assert step(report, "best single").gain is None
    assert step(report, "ensemble").unseen is None  # it was tried on one fold
    assert step(report, "ensemble").gain is not None


def test_trainings_are_those_that_led_to_a_step(report):
    """Two candidates on five folds; then one, or five for an ensemble, after a trial of five."""
    trial = 4  # more networks on the first fold
    trainings = {one.name: one.trainings for one in report.ladder}
    networks = 5 if report.step == "ensemble" else 2  # of which two were judged
    assert trainings == {"naive": 1, "adjusted": 6, "best single": 11, "ensemble": 10 + trial + networks}
    assert report.cost == {"best single": 11 + trial, "ensemble": 10 + trial + 5}[report.step]
    seconds = {one.name: one.seconds for one in report.ladder}
    searched = sum(row.seconds for rung in report.rungs for row in rung.rows)
    assert searched < seconds["best single"] < seconds["ensemble"]
    of_naive = sum(row.seconds for rung in report.rungs for row in rung.rows if row.candidate == "naive")
    assert seconds["adjusted"] == pytest.approx(seconds["naive"] + of_naive)


def test_sizes_are_of_all_networks_of_a_step(report):
    one = step(report, "naive").parameters
    assert [(each.networks, each.parameters) for each in report.ladder if each.name != "ensemble"] == [(1, one)] * 3
    together = step(report, "ensemble")
    assert together.parameters == together.networks * one > one


def test_calibration_is_one_number_for_a_fix_for_predictions_and_for_an_audit_of_them(store, digits, tmp_path):
    fixed = cu.fix(digits, recipe=RECIPE, candidates=["naive"], trainings=2, seeds=2, store=store)
    np.savez(tmp_path / "test.npz", x=digits.test.inputs, y=np.array(digits.classes)[digits.test.labels])
    predicted = cu.predict(fixed, tmp_path / "test.npz")
    audit = cu.audit(
        predicted.truth,
        predicted.probabilities,
        predicted.classes,
        decisions=predicted.labels,
        made_for=predicted.prior,
    )
    expected = pytest.approx([fixed.after.ece, fixed.after.nll], rel=1e-4)
    assert [predicted.scores.ece, predicted.scores.nll] == expected
    assert [audit.figures.ece, audit.figures.nll] == expected


def test_calibration_is_by_the_prior_of_the_goal(store, digits):
    """Of the same naive networks, under two goals."""
    by_goal = {}
    for goal in ("mean", "overall"):
        by_goal[goal] = cu.fix(
            digits, recipe=RECIPE, candidates=["naive"], goal=goal, trainings=2, seeds=1, store=store
        ).report.before
    assert by_goal["mean"].errors == by_goal["overall"].errors  # class means, whatever the goal
    p = (
        cu.fit(digits.train, [cu.Lane("naive", 0, RECIPE.lr)], recipe=RECIPE)
        .probabilities(digits.test)[0]
        .astype(float)
    )
    labels, counts = digits.test.labels, digits.train.counts
    nll = -np.log(p[np.arange(len(p)), labels])
    means = np.array([nll[labels == c].mean() for c in range(10)])
    assert by_goal["mean"].nll == pytest.approx(means.mean(), rel=1e-4)
    assert by_goal["overall"].nll == pytest.approx(means @ counts / counts.sum(), rel=1e-4)


def test_a_finalist_that_learns_nothing_does_not_speak_of_labels(store, digits):
    labels = digits.train.labels.copy()
    flipped = np.flatnonzero(labels == 0)[:6]
    labels[flipped] = 1
    dataset = cu.Dataset("flipped", cu.Data(digits.train.inputs, labels, digits.classes), digits.test)
    rows = (["cb-rs?rate=2"], ["cb-rs?rate=2", "cb-rs?rate=1e-6"])
    alone, beside = (cu.fix(dataset, recipe=RECIPE, candidates=names, seeds=1, store=store).report for names in rows)
    assert [issue.index for issue in alone.label_issues] == [issue.index for issue in beside.label_issues]
    assert (alone.witnesses, beside.witnesses) == (1, 1)
    assert {issue.index for issue in alone.label_issues} & set(flipped)


def test_labels_of_tables_are_checked_where_that_is_asked_for(store, rng):
    truth = np.repeat([0, 1], 100)
    labels = truth.copy()
    labels[[3, 150]] = 1 - labels[[3, 150]]
    data, recipe = cu.Data(rng.normal(4 * truth[:, None], 1, (200, 3)), labels), cu.Recipe("mlp", epochs=4, batch=32)
    usual, asked = (
        cu.fix(data, recipe=recipe, candidates=["naive"], seeds=1, label_issues=label_issues, store=store).report
        for label_issues in (None, True)
    )
    assert (usual.label_issues, usual.witnesses) == ((), None)
    assert "Labels were not checked, which --label-issues does (in Python label_issues=True)." in usual.note
    assert {issue.index for issue in asked.label_issues} == {3, 150}
    assert asked.witnesses == 1
    assert "not checked" not in asked.note


def test_witnesses_speak_for_classes_as_frequent_as_in_training(rng):
    """p_c f_c / prior_c, renormalised, in the order of the training examples."""
    train = cu.Data(np.zeros((20, 1)), np.repeat([0, 1, 2], [12, 5, 3]))
    p, places, prior = rng.dirichlet([1, 1, 1], 20), rng.permutation(20), np.array([0.2, 0.5, 0.3])
    one = Evidence(cu.Candidate("naive"), cast(Fit, None), places, train.labels[places], p, p, 1.0)
    expected = p * train.counts / train.counts.sum() / prior
    with open_context(train, Settings(recipe=cu.Recipe("linear", 1, 8))) as context:
        witnesses = _witnesses(context, Search(one, (one,), (), {}), Goal("mean", prior))
    np.testing.assert_allclose(witnesses[0][places], expected / expected.sum(axis=1, keepdims=True))


def test_the_report_says_what_was_done(report, digits):
    assert (report.data, report.goal, report.aim, report.unit) == (digits.name, "mean", "class-mean error", "%")
    assert (report.seeds, report.allowed, report.lr) == (2, 20, RECIPE.lr)
    assert report.counts == tuple(digits.train.counts)
    assert report.note.startswith("Before: naive networks at the learning rate 0.1. All was chosen out-of-fold, and ")
    assert "judged on 597 test examples" in report.note
    assert report.note.endswith("The network of seed 0 is kept.")
    assert "A fold is judged" not in report.note


def test_every_plan_has_a_report_of_its_own(store, report, digits):
    """A later fix of the same trainings takes the place of the earlier; the last comes last."""
    before = len(store.fix_reports(digits.fingerprint))
    again = cu.fix(digits, recipe=RECIPE, candidates=ROWS, seeds=2, deploy="ensemble", store=store).report
    assert again == report
    assert len(store.fix_reports(digits.fingerprint)) == before
    other = cu.fix(digits, recipe=RECIPE, candidates=ROWS, seeds=2, trainings=3, store=store).report
    assert len(store.fix_reports(digits.fingerprint)) == before + 1
    assert store.fix_reports(digits.fingerprint)[-1] == other != report


@pytest.mark.parametrize("grouped", [True, False])
def test_groups_that_intervals_allow_for_are_said(digits, grouped):
    train = digits.train
    data = cu.Data(train.inputs, train.labels, train.classes, groups=np.arange(len(train)) if grouped else None)
    plan = fix_plan(parse_goal("mean", digits.classes, train.counts))
    with open_context(data, Settings(recipe=RECIPE)) as context:
        note = _note(context, cu.Candidate("naive"), plan, averages_kinds=False, witnesses=0)
    assert ("Intervals and verdicts allow for groups whose examples err alike." in note) == grouped


@pytest.mark.parametrize(
    ("step", "candidate", "goal", "tau", "temperature", "kept"),
    [
        ("naive", "naive", "overall", 0.0, 1.0, True),
        ("adjusted", "naive", "mean", 0.0, 1.5, True),  # less sure, and of the same class
        ("adjusted", "naive", "mean", 0.5, 1.0, False),
        ("adjusted", "naive", "overall", 1.0, 1.0, True),  # counts are taken out, and the same frequencies put in
        ("adjusted", "naive", "overall", 0.0, 1.0, False),
        ("adjusted", "naive", "cost", 1.0, 1.0, True),
        ("adjusted", "naive", "cost", 1.5, 1.5, False),  # expected costs change with the temperature
        ("adjusted", "naive?rate=4", "mean", 0.0, 1.0, False),
        ("best single", "cb-rs", "mean", 0.0, 1.0, False),
        ("ensemble", "naive", "mean", 0.0, 1.0, False),
    ],
)
def test_a_naive_network_is_kept_where_no_decision_changes(step, candidate, goal, tau, temperature, kept):
    counts, costs = np.array([90, 10]), np.array([[0.0, 1], [5, 0]]) if goal == "cost" else None
    prior = np.full(2, 0.5) if goal == "mean" or step == "naive" else counts / 100
    adjustment = replace(cu.Adjustment.of(counts, tau, prior), temperature=temperature)
    choice = cu.Choice(cu.Candidate(candidate), adjustment, step=step)
    assert _keeps_naive(choice, cu.Candidate("naive"), Goal(goal, prior, costs)) == kept


def test_with_equal_counts_the_naive_network_is_kept_as_it_is():
    recipe = cu.Recipe("small-conv", epochs=1, batch=64)
    fixed = cu.fix(cu.load("digits"), recipe=recipe, candidates=["naive"], trainings=2, seeds=1)
    assert (fixed.report.step, fixed.report.tau, fixed.report.keeps_naive) == ("adjusted", 0, True)


@pytest.fixture
def worse_without_a_fold(monkeypatch):
    """From the call on, a student is chosen, and worse than naive training on folds that it was not chosen on."""

    def begin(kept: str) -> None:
        values = {"chosen": 9.0, "adjusted": 4.0 if kept == "adjusted" else 5.0, "naive": 5.0}
        monkeypatch.setattr(planning, "MIN_FOLD_EXAMPLES", 1)
        monkeypatch.setattr(Gain, "is_clear", True)
        monkeypatch.setattr(fix_choice, "_values", lambda *_: values)

    return begin


SLOW = "naive?rate=0.01"  # which is far behind
SEARCH = 10  # two candidates on five folds
TRIAL = 2 + 2 + 1  # two more networks on the first fold, two students, and what three teachers say: a third each
DROPPED = [  # candidates, what is kept, trainings that led to each step, steps with a gain over the best single network
    ((SLOW, "cb-rs?rate=2"), "naive", {"naive": 1, "adjusted": 6}, set()),
    ((SLOW, "cb-rs?rate=2"), "adjusted", {"naive": 1, "adjusted": 6}, set()),
    ((SLOW, "naive?rate=2"), "naive", {"naive": 1, "adjusted": 11}, {"naive"}),
    (
        (SLOW, "naive?rate=2"),
        "adjusted",
        {"naive": 1, "adjusted": 11, "ensemble": SEARCH + TRIAL + 3},
        {"naive", "ensemble"},
    ),
]


@pytest.mark.parametrize(("rows", "kept", "trainings", "gaining"), DROPPED)
def test_a_student_that_gives_way_to_naive_training_is_paid_for_and_not_shown(
    store, digits, worse_without_a_fold, rows, kept, trainings, gaining
):
    """Steps that do not rest on the search leave it out, and so does every step of one network the trial."""
    worse_without_a_fold(kept)
    fixed = cu.fix(digits, recipe=RECIPE, candidates=rows, goal="overall", seeds=1, store=store)
    report, ladder = fixed.report, {one.name: one for one in fixed.report.ladder}
    assert {name: one.trainings for name, one in ladder.items()} == pytest.approx(trainings)
    assert report.cost == pytest.approx(SEARCH + TRIAL + 1)
    assert {name for name, one in ladder.items() if one.gain is not None} == gaining
    assert [name for name, one in ladder.items() if one.kept] == [kept] == [report.step]
    assert report.method == report.candidate == (rows[1] if rows[1].startswith("naive") else SLOW)
    assert report.why.startswith("Naive training")
    assert (report.tau == 0) == (kept == "naive")
    assert ladder[kept].unseen is not None
    assert report.after == ladder[kept].judged
