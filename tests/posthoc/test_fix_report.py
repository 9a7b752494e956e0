"""FixReport goes through JSON as a store keeps it."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy.special import softmax

from class_uncertainty import Data
from class_uncertainty.io import from_document
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.diagnosis import diagnose
from class_uncertainty.posthoc.error_changes import price
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport, JudgedPredictions, Rung, RungRow, Step
from class_uncertainty.posthoc.label_issues import label_issues

COUNTS = (60, 20, 5, 2)
NAMES = ("wolf", "dog", "seal", "otter")


def test_a_report_with_findings_and_label_issues_goes_through_json(rng):
    labels = np.concatenate([np.arange(4), rng.choice(4, size=196, p=[0.6, 0.25, 0.1, 0.05])])
    p = softmax(rng.normal(0, 1, (3, 200, 4)) + np.eye(4)[labels], axis=-1)
    evaluation = evaluate_seeds(p, labels, COUNTS)
    issues = label_issues(p, labels, Data(np.zeros((200, 3, 5, 4), np.uint8), labels, NAMES))
    verdicts = diagnose(labels, p, COUNTS, classes=NAMES)
    wrong = (p.argmax(axis=2) != labels).mean(axis=0)
    report = FixReport(
        data="x",
        goal="mean",
        aim="class-mean error",
        unit="%",
        method="naive",
        step="student",
        why="A student is kept.",
        seeds=3,
        classes=NAMES,
        counts=COUNTS,
        tau=1.0,
        temperature=2.0,
        cost=6.0,
        allowed=20.0,
        before=evaluation,
        after=evaluation,
        ladder=(
            Step("naive", "naive", 1, 70, 1.0, 2.5, judged=evaluation, values=(50.0, 51.0)),
            Step("student", "naive", 1, 70, 6.5, 16.0, gain=1.0, gain_error=0.5, kept=True),
        ),
        rungs=(Rung(2, 8, (RungRow("naive", 0.5, 1.0, 50.0, 2.0, kept=True), RungRow("cb", reason="no"))),),
        findings=verdicts,
        label_issues=tuple(issues),
        witnesses=3,
        note="A note.",
        price=price(wrong, wrong, labels, 4),
        predictions=JudgedPredictions.of(Outcomes.of(p[0], labels)),
    )
    assert issues
    document = json.loads(json.dumps(asdict(report), allow_nan=False))
    assert from_document(FixReport, document) == report


def test_predictions_are_kept_as_they_were(rng):
    labels, p = rng.integers(4, size=50), rng.dirichlet(np.ones(4), 50)
    kept = JudgedPredictions.of(Outcomes.of(p, labels))
    outcomes = kept.outcomes(labels)
    assert np.array_equal(outcomes.guesses, p.argmax(axis=1))
    assert outcomes.p_label == pytest.approx(p[np.arange(50), labels], abs=1e-7)
    assert outcomes.p_guess == pytest.approx(p.max(axis=1), abs=1e-7)
    with pytest.raises(ValueError, match="as many guesses"):
        JudgedPredictions(kept.guesses, kept.p_label, kept.p_guess[:-8])


def test_a_rung_costs_what_its_candidates_cost():
    rung = Rung(2, 40, (RungRow("naive", 2.0, 3.5), RungRow("cb", 0.5, 1.0, reason="it diverged"), RungRow("focal")))
    assert (rung.trainings, rung.seconds) == (2.5, 4.5)


def test_candidates_that_are_averaged_are_kept_beside_the_best():
    rung = Rung(2, 40, (RungRow("naive"), RungRow("cb", kept=True), RungRow("focal")))
    assert [row.kept for row in rung.keeping(["naive"]).rows] == [True, True, False]
    assert rung.keeping([]) == rung
