"""Labels that predictions are scored by."""

import numpy as np
import pytest

from class_uncertainty.workflows.given_labels import GivenLabels


def test_scores_are_of_labelled_examples_alone():
    """Of five examples, the label of one is no class: two of class 0, one of them wrong, and two of class 1, right."""
    labels = GivenLabels(np.array([0, -1, 0, 1, 1]), "y", ["a", "c", "a", "b", "b"])
    decisions = np.array([0, 0, 1, 1, 1])
    p = np.array([[0.8, 0.2], [0.5, 0.5], [0.4, 0.6], [0.1, 0.9], [0.3, 0.7]], dtype=np.float32)
    scores = labels.scores(p, decisions, [50, 50], None)
    assert scores is not None
    assert (scores.error, scores.top1_error, scores.class_errors) == (25.0, 25.0, (50.0, 0.0))
    assert scores.nll == pytest.approx(-np.log([0.8, 0.4, 0.9, 0.7]).mean(), rel=1e-6)
    assert labels.at([1]).scores(p[[1]], decisions[[1]], [50, 50], None) is None
    assert labels.at([4, 0]).classes.tolist() == [1, 0]
    assert labels.at([4, 0]).unscored(["a", "b"]) == []
    assert labels.at([1, 0]).unscored(["a", "b"]) == [
        "1 example is not scored: by y it is 'c', which the model does not know."
    ]


def test_unknown_labels_are_named_at_most_five_times():
    names = [f"zz{i}" for i in range(7)]
    (sentence,) = GivenLabels(np.full(7, -1), "y", names).unscored(["a"])
    assert sentence.startswith("7 examples are not scored: by y they are 'zz0', 'zz1', 'zz2', 'zz3', 'zz4' and 2 more,")
