"""An early diagnosis on few unseen examples speaks only of classes that have enough of them."""

import numpy as np

import class_uncertainty as cu
from class_uncertainty.workflows.early_diagnosis import diagnose_early


def example(rare: int) -> tuple[cu.Data, np.ndarray, np.ndarray]:
    """Three classes; the unseen examples of the last, so many, are all predicted as the first."""
    train = cu.Data(np.zeros((130, 1)), np.repeat([0, 1, 2], [60, 60, 10]), ["a", "b", "c"])
    labels = np.repeat([0, 1, 2], [20, 20, rare])
    p = np.eye(3)[np.where(labels == 2, 0, labels)] * 0.9 + 0.1 / 3
    return train, labels, p


def test_a_class_with_enough_examples_is_spoken_of():
    diagnosed = diagnose_early(*example(8))
    assert [finding.label for finding in diagnosed.findings] == ["c"]
    assert "100 % of 8 test examples wrong" in diagnosed.findings[0].text
    assert (diagnosed.examples, diagnosed.unsaid) == (48, 0)


def test_a_class_with_too_few_is_counted_and_not_spoken_of():
    for rare in (0, 1):
        diagnosed = diagnose_early(*example(rare))
        assert (diagnosed.findings, diagnosed.unsaid) == ((), 1)


def test_nothing_is_said_where_no_class_has_enough():
    train, labels, p = example(0)
    diagnosed = diagnose_early(train, labels[[0, 20]], p[[0, 20]])
    assert (diagnosed.findings, diagnosed.unsaid) == ((), 3)
