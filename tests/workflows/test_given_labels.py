"""Labels that predictions are scored by."""

import numpy as np
import pytest

from class_uncertainty.workflows.given_labels import GivenLabels


def test_scores_are_of_labelled_examples_alone():
    """Of five examples, one has no label: two of class 0, one of them wrong, and two of class 1, both right."""
    labels = GivenLabels(np.array([0, -1, 0, 1, 1]), "y")
    decisions = np.array([0, 0, 1, 1, 1])
    p = np.array([[0.8, 0.2], [0.5, 0.5], [0.4, 0.6], [0.1, 0.9], [0.3, 0.7]], dtype=np.float32)
    scores = labels.scores(p, decisions, [50, 50], None)
    assert scores is not None
    assert (scores.error, scores.top1_error, scores.class_errors) == (25.0, 25.0, (50.0, 0.0))
    assert scores.nll == pytest.approx(-np.log([0.8, 0.4, 0.9, 0.7]).mean(), rel=1e-6)
    assert labels.at([1]).scores(p[[1]], decisions[[1]], [50, 50], None) is None
    assert labels.at([4, 0]).classes.tolist() == [1, 0]
