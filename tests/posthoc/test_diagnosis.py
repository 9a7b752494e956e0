"""findings() and costly(): which classes are wrong and why, in plain words."""

import numpy as np
import pytest
from refusals import refused

from class_uncertainty.posthoc.diagnosis import Finding, costly, findings


def findings_of(counts, errors, confusion=None, uncertainty=None, most=5):
    """Errors that are spread evenly over the other classes, unless given."""
    number, errors = len(errors), np.asarray(errors, float)
    spread = np.repeat(errors[:, None] / max(number - 1, 1), number, axis=1)
    np.fill_diagonal(spread, 100 - errors)
    names = [f"c{i}" for i in range(number)]
    return findings(
        names, counts, errors, spread if confusion is None else confusion, uncertainty or [1.0] * number, most
    )


def even(errors):
    return [
        Finding(
            "", "even", f"No class is much worse than the others: {min(errors):.0f} to {max(errors):.0f} % are wrong."
        )
    ]


def test_few_examples():
    assert findings_of([160, 100, 80, 80, 12], [10, 10, 10, 10, 87]) == [
        Finding("c4", "few", "c4: 87 % wrong, with 12 examples; the median class has 80")
    ]
    (finding,) = findings_of([160, 1000, 1000, 2000, 1], [10, 10, 10, 10, 87])
    assert finding.text == "c4: 87 % wrong, with 1 example; the median class has 1,000"


def test_hard_in_spite_of_examples():
    (finding,) = findings_of([300] * 5, [61, 10, 10, 10, 10])
    assert finding == Finding("c0", "hard", "c0: 61 % wrong in spite of 300 examples")
    (finding,) = findings_of([300] * 5, [61, 10, 10, 10, 10], uncertainty=[0.1, 1, 1, 1, 1])
    assert finding.text == "c0: 61 % wrong in spite of 300 examples that the networks are sure of"
    (finding,) = findings_of([41, 80, 80, 80, 160], [61, 10, 10, 10, 10])
    assert (finding.kind, finding.text) == (
        "hard",
        "c0: 61 % wrong with 41 examples",
    )  # over half of the median count, and under it
    (finding,) = findings_of([40, 80, 80, 80, 160], [61, 10, 10, 10, 10])
    assert finding.kind == "few"


def test_confused_with_one():
    confusion = np.diag([90.0, 90, 90, 90, 30])
    confusion[4, :4] = 52, 18, 0, 0
    (finding,) = findings_of([80] * 5, [10, 10, 10, 10, 70], confusion)
    assert finding == Finding("c4", "confused", "c4: 70 % wrong; 52 % are predicted as c0")
    confusion[4, :4] = 35, 35, 0, 0  # half is not most
    assert findings_of([80] * 5, [10, 10, 10, 10, 70], confusion)[0].kind == "hard"


def test_a_scarce_class_that_is_not_lost_to_larger_ones():
    confusion = np.diag([90.0, 90, 90, 90, 90, 30])
    confusion[5, 3:5] = 35, 35
    (finding,) = findings_of([80, 80, 80, 6, 6, 12], [10] * 5 + [70], confusion)
    assert finding == Finding(
        "c5", "hard", "c5: 70 % wrong, with 12 examples; most of its errors go to classes that have no more"
    )


def test_of_two_classes_neither_is_confused_with_the_other():
    assert findings_of([80, 80], [0, 40])[0].kind == "hard"


def test_the_worst_come_first_and_of_equals_the_most_uncertain():
    errors = [0] * 10 + [50, 90, 90, 60]
    sentences = findings_of([100] * 14, errors, uncertainty=[1.0] * 11 + [2.0, 3.0, 1.0])
    assert [finding.label for finding in sentences] == ["c12", "c11", "c13", "c10"]
    assert findings_of([100] * 14, errors, most=2)[1].label in ("c11", "c12")
    assert len(findings_of([100] * 14, errors, most=2)) == 2


@pytest.mark.parametrize(
    ("errors", "spoken"),
    [
        ([0, 0, 0, 0], 0),
        ([100, 100, 100], 0),
        ([30], 0),
        ([10, 10, 10, 14.9], 0),
        ([10, 10, 10, 15], 1),
        ([10, 30, 34.9, 70, 69], 2),  # a quarter has 30 at most
        ([10, 30, 50, 70, 70], 3),
        ([5, 60, 35], 2),
        ([0, 16.7, 16.7], 2),  # most of them
        ([3.3, 0, 100, 100, 100], 3),
    ],
)
def test_much_worse_is_by_five_points_than_the_better_quarter(errors, spoken):
    sentences = findings_of([50] * len(errors), errors)
    assert (sentences == even(errors)) if not spoken else (len(sentences) == spoken and sentences != even(errors))


def test_of_two_classes_there_is_no_median():
    assert findings_of([250, 40], [2, 40])[0].text == "c1: 40 % wrong, with 40 examples; the other class has 250"


def test_findings_are_refused_by_name():
    with refused("class errors", "(3,)", "3 classes"):
        findings("abc", [1, 2, 3], [1, 2], np.eye(3), [1, 1, 1])
    with refused("uncertainty"):
        findings("abc", [1, 2, 3], [1, 2, 3], np.eye(3), [1, np.nan, 1])
    with refused("confusion", "(3, 3)"):
        findings("abc", [1, 2, 3], [1, 2, 3], np.eye(2), [1, 1, 1])
    with refused("counts"):
        findings("", [], [], np.zeros((0, 0)), [])


def test_costly_pairs():
    confusion = np.array([[90.0, 7, 3], [0, 100, 0], [8, 3, 89]])
    assert costly(confusion, "abc") == [("c", "a", 8.0), ("a", "b", 7.0), ("a", "c", 3.0), ("c", "b", 3.0)]
    assert costly(confusion, "abc", most=1) == [("c", "a", 8.0)]
    assert costly(100 * np.eye(3), "abc") == []
    assert confusion[0, 0] == 90
    with refused("(2, 2)", "3 classes"):
        costly(np.eye(2), "abc")
