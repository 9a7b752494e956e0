"""Lists of names, in which a name with a comma cannot be taken for two; numbers and tables."""

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.data.dataset import few_words
from class_uncertainty.posthoc.diagnosis import verdict_summary
from class_uncertainty.text import enumerated, in_list, listed, number

NAMES = ["bread, white", "milk", "egg's, large"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("milk", "milk"), ("red wine", "red wine"), ("bread, white", "'bread, white'"), ("a,b", "'a,b'"), ("'x'", "'x'")],
)
def test_only_names_with_a_comma_are_quoted(name, shown):
    assert in_list(name) == shown


def test_names_are_listed_and_the_rest_counted():
    assert listed(NAMES, 3) == "'bread, white', milk, \"egg's, large\""
    assert listed(NAMES, 1) == "'bread, white' and 2 more"
    assert listed(NAMES, 2, 1_002) == "'bread, white', milk and 1,000 more"
    assert enumerated(["bread, white (1)"], 3) == "bread, white (1)"  # phrases are as they are


def test_classes_are_told_apart_in_messages():
    few = few_words(NAMES, np.array([1, 0, 9]), np.array([0, 1]), {1: "only one"}, "fewer than two")
    assert few.endswith("'bread, white' (1), milk (0)")
    assert "others: 'bread, white' (rare), milk (hard)." in verdict_summary(
        [(NAMES[0], "rare"), ("milk", "hard")], 3, 0.5
    )


def test_classes_are_told_apart_in_an_audit():
    labels = np.array([0] * 40 + [1] * 40)
    probabilities = np.tile([0.6, 0.3, 0.1], (80, 1))
    audit = cu.audit(labels, probabilities, classes=["milk", "tea", "bread, white"])
    assert any("'bread, white'" in note for note in audit.notes)


def test_what_rounds_to_zero_has_no_sign():
    assert [number(value, 1, "+") for value in (-0.04, 0.04, -0.06, 0.06)] == ["0.0", "0.0", "-0.1", "+0.1"]
    assert (number(-0.0), number(None), number(float("nan"))) == ("0.0", "–", "–")
