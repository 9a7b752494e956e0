"""What `cu predict` and `cu adjust` print: five lines, the rule and the prior among them."""

from dataclasses import replace

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.metrics import Scores
from class_uncertainty.posthoc.evaluation import TwoClasses
from class_uncertainty.reporting.glossary import explained
from class_uncertainty.reporting.predict_view import adjust_lines, least_sure, predict_lines
from class_uncertainty.reporting.terminal import Verbosity
from class_uncertainty.training.purpose import Purpose
from class_uncertainty.workflows.adjust_predictions import adjust_predictions

QUIET, NORMAL, VERBOSE = Verbosity
P = np.array([[0.9, 0.1], [0.05, 0.95], [0.45, 0.55], [0.7, 0.3]], dtype=np.float32)
SCORES = Scores(error=12.5, top1_error=25.0, class_errors=(0.0, 25.0), many=None, medium=None, few=None, worst=25.0,
                spread=12.5, nll=0.4, ece=3.0)  # fmt: skip
PREDICTED = cu.Predicted(
    ["a", "b", "c", "d, e"],
    ("no", "yes"),
    P,
    ["no", "yes", "yes", "no"],
    np.array([0.45, 0.55]),
    Purpose.of((99, 1), (0.45, 0.55), goal="mean"),
    meaning=["The class is the most probable one, for some prior."],
)
SCORED = replace(
    PREDICTED,
    truth=["no", "yes", "no", "no"],
    scored_by="column 'x'",
    scores=SCORES,
    two=TwoClasses(1, 50.0, 100.0, 66.7, 90.0, 80.0, 0.5, ()),
    class_precisions=(100.0, 50.0),
)
FILES = ["new-predictions.csv", "new-predictions.json"]


def test_five_lines_without_a_note():
    lines = predict_lines(PREDICTED, NORMAL, 80, FILES)
    assert [line.split()[0] for line in lines] == ["Found", "Rule", "Unsure", "Wrote"]
    assert [line.split()[0] for line in predict_lines(SCORED, NORMAL, 100, FILES)] == [
        "Found",
        "Rule",
        "Errors",
        "yes:",
        "Unsure",
        "Wrote",
    ]
    assert predict_lines(PREDICTED, QUIET, 80, FILES) == lines[-1:]
    assert "no (2), yes (2)" in lines[0]
    assert PREDICTED.meaning[0] in lines[1]


def test_the_examples_with_the_lowest_probabilities_are_named():
    assert least_sure(PREDICTED) == "c (yes 0.55), 'd, e' (no 0.70), a (no 0.90)"


def test_two_classes_name_the_rarer_one():
    (line,) = [line for line in predict_lines(SCORED, NORMAL, 100) if "precision" in line]
    for fact in ("yes:", "precision 50.0 %", "recall 100.0 %", "F1 66.7 %", "average precision 80.0 %"):
        assert fact in line


def test_costs_name_the_threshold_of_the_rarer_class():
    """A miss of yes costs 9 times a false alarm: from 1 / 10 on."""
    by_cost = replace(PREDICTED, costs=np.array([[0.0, 1.0], [9.0, 0.0]]))
    assert "a probability of 0.1 or more" in " ".join(" ".join(predict_lines(by_cost, NORMAL, 80)).split())
    rarer = replace(by_cost, purpose=Purpose.of((1, 99), (0.5, 0.5)))
    assert "a probability of 0.9 or more" in " ".join(" ".join(predict_lines(rarer, NORMAL, 80)).split())
    for costs in (1 - np.eye(2), np.zeros((2, 2))):
        assert "at a probability" not in " ".join(predict_lines(replace(PREDICTED, costs=costs), NORMAL, 100))


def test_verbose_adds_a_line_for_each_class():
    lines = predict_lines(SCORED, VERBOSE, 80)
    assert next(line.split() for line in lines if line.startswith("  yes")) == [
        "yes",
        "2",
        "50.0",
        "47.5",
        "1",
        "25.0",
        "50.0",
    ]
    for column in filter(None, map(str.strip, lines[0].split("  ")[2:])):
        assert len(explained([column])) > 2, column


@pytest.mark.parametrize("prior", ["equal", "train"])
def test_adjusted_predictions_show_before_and_after(tmp_path, prior):
    file = tmp_path / "p.npz"
    np.savez(file, probabilities=[[0.6, 0.4], [0.9, 0.1]], labels=[1, 0])
    adjusted = adjust_predictions(file, counts=[90, 10], prior=prior, out=tmp_path / "out.npz")
    lines = adjust_lines(adjusted, NORMAL, 80, prior)
    row = next(line.split() for line in lines if line.startswith("  class mean"))
    after = "50.0" if prior == "train" else "0.0"
    assert row[3:5] == ["50.0", after]
    assert ("error at that prior" in " ".join(lines)) == (prior == "train")
    assert "out.npz" in adjust_lines(adjusted, QUIET, 1000, prior)[0]
    assert len(lines) <= 12


def test_adjusted_predictions_are_decided_by_the_costs_of_the_file(tmp_path, monkeypatch):
    """Adjusted for 90 to 10, 0.2 becomes 0.69, and 0.02 becomes 0.16: above 0.1, the threshold of the costs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(
        "label,class,probability,cost,p(no),p(yes)\nyes,no,0.8,9,0.8,0.2\nno,no,0.98,9,0.98,0.02\nno,no,0.999,9,0.999,0.001\n"
    )
    (tmp_path / "p.json").write_text('{"predictions": "p.csv", "counts": [90, 10], "costs": [[0, 1], [9, 0]]}')
    adjusted = adjust_predictions("p.csv", out="q.csv")
    rows = [line.split(",") for line in (tmp_path / "q.csv").read_text().splitlines()]
    assert rows[0] == ["example", "label", "class", "probability", "cost", "p(no)", "p(yes)"]
    assert [row[2] for row in rows[1:]] == ["yes", "yes", "no"]
    for row in rows[1:]:
        p_no, p_yes = float(row[5]), float(row[6])
        assert float(row[4]) == pytest.approx(min(9 * p_yes, p_no), rel=1e-4)
    assert adjusted.changed == 2
    assert [str(file) for file in adjusted.files] == ["q.csv", "q.json"]
