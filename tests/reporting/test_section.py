"""Notes on folds and duplicates."""

from dataclasses import replace

import numpy as np
import pytest
from example_results import SCORES, make_result

import class_uncertainty as cu
from class_uncertainty.reporting.section import describe_folds, describe_groups
from class_uncertainty.runs.rows import class_rows


def features(values: list[float]) -> cu.Data:
    return cu.Data(np.array(values, np.float32)[:, None], np.arange(len(values)) % 2, ["a", "b"])


@pytest.mark.parametrize(
    ("estimator", "grouped", "split", "note"),
    [
        ("out-of-fold", True, False, "Intervals allow for groups whose examples err alike."),
        ("out-of-fold", True, True, "Intervals count every group as one example of a class"),
        ("ensemble", True, False, "Intervals count every group as one example of a class"),
        ("out-of-fold", False, False, ""),
    ],
)
def test_how_intervals_treat_groups_is_said_and_done(estimator, grouped, split, note):
    """Of 60 groups of five each, half of every group is wrong: that is as good as 300 independent examples."""
    groups, labels = np.repeat(np.arange(60), 10), np.tile([0, 1], 300)
    wrong = np.tile([0, 0, 0, 0, 1, 1, 1, 1, 0, 1], 60)
    data = cu.Data(np.arange(600.0)[:, None], labels, groups=groups if grouped else None)
    held = cu.Data(np.arange(600.0)[:, None], labels, groups=groups + 60 if grouped else None)
    p = np.eye(2, dtype=np.float32)[np.where(wrong, 1 - labels, labels)][None]
    result = make_result(cu.Lane(), scores=replace(SCORES, class_errors=(40.0, 60.0)))
    estimate = cu.Estimate(estimator, p, labels, results=(result,), score="true-class")
    dataset = cu.Dataset("x", data, held if split else None)
    assert describe_groups(dataset, estimate).startswith(note or "")
    assert bool(describe_groups(dataset, estimate)) == bool(note)
    row = class_rows(data.classes, [300, 300], estimate, dataset)[0]
    assert row.low is not None
    assert (row.low > 30) == ("one example" not in note)


def test_folds_are_counted():
    assert "5 stratified folds" in describe_folds(5)


def test_folds_that_share_copies_are_not_said_to_judge_what_no_network_saw():
    apart, copied = (cu.Dataset("x", features(values)) for values in ([1, 2, 3, 4], [1, 1, 1, 4]))
    claim = "each example is judged by a network that never saw it"
    assert [claim in describe_folds(5, dataset) for dataset in (None, apart, copied)] == [True, True, False]
    assert "2 copies" in describe_folds(5, copied)
