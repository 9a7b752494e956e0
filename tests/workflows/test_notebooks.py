"""Results in notebooks and as DataFrames."""

from dataclasses import replace

import numpy as np
import pytest

import class_uncertainty as cu

RECIPE = cu.Recipe("linear", epochs=1, batch=16)


@pytest.fixture(scope="module")
def dataset():
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], [30, 10])
    inputs = rng.normal(size=(40, 2)).astype(np.float32)
    return cu.Dataset("toy <set>", cu.Data(inputs, labels, ["<a>", "b"]), cu.Data(inputs[::-1], labels, ["<a>", "b"]))


def test_measured(dataset):
    measured = cu.measure(dataset, members=2, recipe=RECIPE, device="cpu")
    frame = measured.to_frame()
    assert list(frame["uncertainty"]) == [row.uncertainty for row in measured.rows]
    assert list(frame["disagreement"]) == [row.disagreement for row in measured.rows]
    judged = "Dataset('toy <set>', 2 classes, 40 for training, 40 for test)"
    estimate = "Estimate('ensemble', 2 members, 40 examples, 2 classes, score 'predictive')"
    assert repr(measured) == f"Measured({judged}, {estimate})"
    html = measured._repr_html_()
    assert "&lt;a&gt;" in html
    assert "<a>" not in html


def test_comparison(dataset):
    comparison = cu.compare(dataset, methods=["naive", "cb"], seeds=1, recipe=RECIPE, device="cpu")
    frame = comparison.to_frame()
    assert list(frame["method"]) == ["naive", "cb"]
    assert list(frame["error"]) == [row.error for row in comparison.rows]
    html = comparison._repr_html_()
    assert f"{comparison.rows[1].error:.2f}" in html
    over_other = replace(comparison.rows[1], gain=1.25, compared_gain=2.75, compared_with="dro")
    vars(comparison)["rows"] = (comparison.rows[0], over_other)
    html = comparison._repr_html_()
    assert "+2.75" in html
    assert "dro" in html
    assert "+1.25" not in html
    assert repr(comparison) == f"Comparison({dataset!r}, 2 rows, 2 results)"


def test_a_repr_is_one_short_line(dataset):
    trained = cu.train(dataset, recipe=RECIPE, device="cpu")
    assert repr(trained) == f"Trained({dataset!r}, naive, class-mean error {trained.result.error:.1f} %)"
    fitted = cu.fit(dataset.train, [cu.Lane("naive"), cu.Lane("cb")], recipe=RECIPE, device="cpu")
    assert repr(fitted) == "Fit(2 lanes of 'linear', 2 classes, inputs (2,))"
    p, names = np.eye(7)[[0, 0, *range(7)]], [*"abcdefg"]
    audit = cu.audit([0, 0, *range(7)], p, names)
    assert repr(audit) == f"Audit(9 examples, 7 classes: {audit.summary})"
    assert repr(cu.Data(p, [0, 0, *range(7)])) == "Data(9 examples, 7 classes, inputs float32 (7,))"
    assert "judged by folds" in repr(cu.Dataset("toy", dataset.train))
    predicted = cu.Predicted(names, tuple(names), np.eye(7, dtype=np.float32)[[0, 0, 1, 2, 3, 4, 5]], [*"aabcdef"])
    assert repr(predicted) == "Predicted(7 examples: a 2, b 1, c 1, d 1, e 1 and 1 more)"
