"""Goals, candidates that are dropped, findings and label issues, and what is stored for the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from watching import no_training
from workflows.fixes.by_hand import (
    ROWS,
    class_errors_of,
    class_mean_error,
    errors_of,
    fold_order,
    softmax_of,
    unseen_of,
)

import class_uncertainty as cu
from class_uncertainty.posthoc.calibration import cross_adjusted
from class_uncertainty.posthoc.diagnosis import BY_COST, diagnose
from class_uncertainty.posthoc.goal import parse_goal
from class_uncertainty.posthoc.label_issues import label_issues
from class_uncertainty.reporting.stored_views import stored_results
from class_uncertainty.runs import Store
from class_uncertainty.training.recipe import RECIPES


def test_measuring_is_counted(store, digits, recipe):
    """Five naive networks that each leave a fold out, before the search and the last training."""
    fix = cu.fix(digits, recipe=recipe, candidates=["ubrw"], trainings=11, seeds=1, store=store)
    assert (fix.choice.candidate.name, fix.report.cost) == ("ubrw", 5 + 5 + 1)
    stats = cu.estimate(digits.train, "out-of-fold", members=5, recipe=recipe).stats
    networks = cu.fit(digits.train, [cu.Lane("ubrw", 0, recipe.lr)], recipe=recipe, stats=stats)
    adjusted = fix.choice.adjustment(networks.probabilities(digits.test).astype(float))
    assert fix.after.errors == errors_of(adjusted, digits.test.labels)
    assert fix.report.ladder[0].candidate == "naive"  # though it was no candidate


@pytest.mark.parametrize("goal", ["overall", "worst", "cost:costs.csv", "prior:prior.csv"])
def test_goals(goal, store, digits, recipe, tmp_path, monkeypatch):
    """What is reported is the goal's value of the deployed network's decisions."""
    monkeypatch.chdir(tmp_path)
    prior, counts = np.arange(1, 11) / 55, digits.train.counts
    costs = np.abs(np.subtract.outer(np.arange(10), np.arange(10))) ** 2.0
    np.savetxt("prior.csv", prior)
    lines = [",".join(["", *digits.classes])]
    lines += [",".join([name, *map(str, row)]) for name, row in zip(digits.classes, costs, strict=True)]
    Path("costs.csv").write_text("\n".join(lines))
    fix = cu.fix(digits, recipe=recipe, candidates=ROWS[:2], goal=goal, trainings=11, seeds=1, store=store)
    p, labels = softmax_of(fix, digits.test.inputs), digits.test.labels
    wrong = 100.0 * (p.argmax(axis=1) != labels)
    by_class = np.array([wrong[labels == c].mean() for c in range(10)])
    paid = costs[labels, (p @ costs).argmin(axis=1)]
    value = {
        "overall": by_class @ (counts / counts.sum()),
        "worst": by_class.max(),
        "cost:costs.csv": np.array([paid[labels == c].mean() for c in range(10)]) @ (counts / counts.sum()),
        "prior:prior.csv": by_class @ prior,
    }[goal]
    kept = next(step for step in fix.report.ladder if step.kept)
    assert kept.values == pytest.approx([value])
    assert (fix.report.goal, fix.report.unit) == (goal, "" if goal.startswith("cost") else "%")
    basis = BY_COST if goal.startswith("cost") else ""
    assert fix.report.basis == basis
    low, high = np.transpose(fix.report.price.before)
    assert ((low <= fix.report.before.means) & (fix.report.before.means <= high)).all()  # of the same decisions
    assert fix.report.rungs[-1].examples == 405
    change = fix.report.change
    assert (change is None) == (goal == "worst")
    assert change is None or change.change == pytest.approx(kept.values[0] - fix.report.ladder[0].values[0])
    assert fix.choice.adjustment.prior == pytest.approx(
        {"worst": np.full(10, 0.1), "prior:prior.csv": prior}.get(goal, counts / counts.sum())
    )


def test_equal_counts_adjust_nothing(digits, recipe):
    test = digits.test
    places = np.concatenate([np.flatnonzero(test.labels == c)[:12] for c in range(10)])
    equal = cu.Dataset("equal", test.take(places), test.take(np.setdiff1d(np.arange(len(test)), places)))
    fix = cu.fix(equal, recipe=recipe, candidates=["naive"], trainings=2, seeds=2)
    assert "All classes have equally many examples, so nothing is adjusted." in fix.report.note
    assert (fix.choice.tau, fix.choice.step) == (0, "adjusted")
    assert fix.after.errors == fix.before.errors
    assert np.ptp(fix.choice.adjustment.shift) == pytest.approx(0)
    assert (
        "nothing is adjusted"
        not in cu.fix(digits, recipe=recipe, candidates=["naive"], trainings=2, seeds=1).report.note
    )


def test_candidates_that_cannot_be_judged_are_dropped_with_their_reasons(store, digits, recipe):
    rows = ["naive?crop=9", "cb-rs?lr=1e30", "cb-rs?rate=2"]
    fix = cu.fix(digits, recipe=recipe, candidates=rows, trainings=8, seeds=1, store=store)
    unable, lost, kept = fix.report.rungs[0].rows
    assert unable.reason == "crop is 9, wider than the images: they are 8 x 8."
    assert (unable.trainings, unable.value, unable.kept) == (0, None, False)
    assert lost.reason == "it diverged in epoch 1 at the learning rate 1e+30"
    assert (lost.trainings, lost.value, lost.kept) == (1, None, False)
    assert (kept.reason, kept.kept) == ("", True)
    assert fix.choice.candidate.name == "cb-rs?rate=2"
    assert [row.candidate for row in fix.report.rungs[-1].rows] == ["cb-rs?rate=2"]
    with refused("no candidate could be trained", "'naive?crop=9'", "wider than the images"):
        cu.fix(digits, recipe=recipe, candidates=rows[:2], store=store)
    with refused("no candidate could be trained", "diverged in epoch 1"):
        cu.fix(digits, recipe=recipe, candidates=rows[1:2], store=store, progress=no_training)  # it is not tried again


def test_findings_and_label_issues_are_of_unseen_examples(fixed, digits, recipe):
    """Every finalist near the best has left an example out; handwritten digits are labelled rightly."""
    train, report = digits.train, fixed.report
    goal, order = parse_goal("mean", digits.classes, train.counts), fold_order(train)
    unseen, values = [], []
    for row in ROWS:
        p, labels = unseen_of(train, recipe, row)
        usual = 1.0 if row.startswith("naive") else 0.0
        adjusted = cross_adjusted(p, labels, train.counts, goal, usual_tau=usual)
        values.append(class_mean_error(adjusted, labels))
        natural = adjusted * train.counts  # classes as frequent as in training
        unseen.append((natural / natural.sum(axis=1, keepdims=True))[np.argsort(order)])
    near = np.stack([p for p, value in zip(unseen, values, strict=True) if value <= 1.25 * min(values)])
    assert report.label_issues == tuple(label_issues(near, train.labels, train)) == ()
    assert report.witnesses == len(near)
    naive, labels = unseen_of(train, recipe, ROWS[0])
    expected = diagnose(labels, naive, train.counts, classes=digits.classes, suspect=np.zeros(10))
    assert [(one.label, one.kind) for one in report.findings] == [(one.label, one.kind) for one in expected]
    assert sum(one.evidence.examples for one in report.findings) == len(train)
    adjusted = cross_adjusted(naive, labels, train.counts, goal, usual_tau=1.0)
    others = diagnose(labels, adjusted, train.counts, classes=digits.classes)
    assert report.findings != others  # or this would not tell them apart


def test_few_trainings_look_for_no_label_issues(store, digits, recipe):
    report = cu.fix(digits, recipe=recipe, candidates=ROWS, trainings=4, seeds=1, store=store).report
    assert (report.label_issues, report.witnesses) == ((), None)
    assert "Labels were not checked" in report.note


def test_it_is_stored_for_the_report(tmp_path, digits, recipe):
    """Networks that choose, and those that are chosen, are no results of their own."""
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(digits, recipe=replace(recipe, epochs=1), candidates=["cb-rs"], trainings=2, seeds=2, store=store)
        assert store.fix_reports(digits.fingerprint) == [fix.report]
        assert [result.method for result in store.results(digits.fingerprint)] == ["naive", "naive"]
        assert tuple(result.error for result in store.results(digits.fingerprint)) == pytest.approx(fix.before.errors)
    assert class_errors_of(fix, digits.test) == pytest.approx(fix.before.class_errors[0])


def test_a_page_shows_a_fix_whose_naive_models_are_of_another_kind(wine, tmp_path):
    """The recipe of a table is a forest; the plain model that does best, and stands before, may be another."""
    dataset = cu.Dataset("wine", wine)
    with Store(tmp_path / "runs.sqlite") as store:
        fix = cu.fix(dataset, recipe=RECIPES["forest"], candidates=["naive?recipe=logistic"], trainings=10, store=store)
        (section,) = stored_results(store, "wine", lambda _: dataset)
        assert section.fix_report == fix.report


def test_the_document_has_no_pictures(fixed):
    document = fixed.document()
    assert len(document["label_issues"]) == len(fixed.report.label_issues)
    assert "predictions" not in document
    assert all("picture" not in issue and "name" in issue for issue in document["label_issues"])
    assert document["parameters"] == sum(p.numel() for p in fixed.module.parameters())
    assert document["network"] == fixed.module.rebuild["network"]
