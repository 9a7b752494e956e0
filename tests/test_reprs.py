"""What a session prints of a result: one line that says what it is, never thousands of numbers."""

from dataclasses import replace

import numpy as np
import pytest
from audits import COUNTS, audited, predictions
from example_results import SCORES, STATS, make_result
from reporting.examples import HUNDRED_CLASSES, TEN_CLASSES

import class_uncertainty as cu

P = predictions()[1]
TWO = np.repeat([0, 1], 50)
SURE = np.eye(2)[np.r_[TWO[:7], 1, TWO[8:]]] * 0.9998 + 0.0001  # the label of example 7 is wrong
CHOICE = cu.Choice(cu.Candidate("cb-rs"), cu.Adjustment.of([90, 10]), student=cu.Candidate("naive"), step="student")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            SCORES,
            "Scores(3 classes: class-mean error 20.0 %, overall 10.0 %, worst tenth 40.0 %, ECE 3.0 %, NLL 0.500)",
        ),
        (make_result(cu.Lane("cb")), "Result(cb, seed 0, lr 0.1: class-mean error 20.0 %)"),
        (make_result(cu.Lane("cb", fold=(1, 5)), scores=None), "Result(cb, seed 0, lr 0.1, fold 2 of 5: not judged)"),
        (make_result(cu.Lane("cb"), scores=None, diverged=3), "Result(cb, seed 0, lr 0.1: diverged in epoch 4)"),
        (CHOICE, "Choice(cb-rs (student), tau 1, taught to naive)"),
        (cu.Adjustment.of([90, 10], tau=0.5), "Adjustment(2 classes, tau 0.5, temperature 1)"),
        (cu.label_noise(SURE, TWO), "LabelNoise(100 examples, 2 classes: 1 label is probably wrong)"),
        (STATS, "Stats(3 classes, counts 3 to 90, uncertainty 0.1 to 0.333)"),
        (cu.Stats([5, 5]), "Stats(2 classes, counts 5)"),
        (
            cu.plan(cu.METHODS["cb-rs"], cu.Stats([30, 10]), 0, 10),
            "Plan(2 classes, alpha 0.5, weight 1, margin 0, divisor 1)",
        ),
        (
            audited().against(audited()),
            "RunChanges(4 classes: class-mean error 0.0 points, 0 clearly worse, 0 clearly better)",
        ),
    ],
)
def test_a_result_says_what_it_is(value, text):
    assert repr(value) == text


@pytest.mark.parametrize("report", [TEN_CLASSES, HUNDRED_CLASSES], ids=["10 classes", "100 classes"])
def test_reports_are_as_short_whatever_they_hold(report):
    held = [report, report.before, report.after, report.price, audited().figures, audited().record, audited().noise]
    assert all(len(repr(value)) < 160 and "\n" not in repr(value) for value in held if value is not None)
    assert repr(report.after).startswith(f"Evaluation(3 seeds, {len(report.classes)} classes: class-mean error ")
    assert repr(report).startswith("FixReport(")


def test_a_fix_says_what_its_goal_measures():
    naive, *others, student = TEN_CLASSES.ladder
    ladder = (replace(naive, values=(0.5, 0.25)), *others, replace(student, values=(0.125, 0.25)))
    by_cost = replace(TEN_CLASSES, goal="cost:c.csv", aim="mean cost", unit="", ladder=ladder)
    assert repr(by_cost) == f"FixReport(digits: mean cost 0.375 -> 0.188, {student.candidate} (student))"
    by_accuracy = replace(by_cost, goal="overall", aim="error", unit="%")
    assert by_accuracy.in_short.startswith("error 0.4 -> 0.2 %, ")
    assert repr(TEN_CLASSES).startswith("FixReport(digits: class-mean error ")


def test_saved_predictions_and_models_are_short_too(tmp_path):
    np.savez(tmp_path / "p.npz", probabilities=P)
    adjusted = cu.adjust_predictions(tmp_path / "p.npz", counts=COUNTS)
    assert repr(adjusted).startswith(f"AdjustedPredictions(400 examples: {adjusted.changed} predictions change, Adjust")
    data = cu.Data(np.eye(8), ["cat", "dog"] * 4)
    assert repr(cu.Model(cu.train(data, recipe=cu.Recipe("mlp", epochs=1, batch=4)).module)).endswith(", 2 classes)")
