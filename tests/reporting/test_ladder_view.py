"""The rungs and the ladder of a fix in words."""

import numpy as np
import pytest
from reporting.examples import LONGEST, TEN_CLASSES

from class_uncertainty.posthoc.fix_report import Rung, RungRow
from class_uncertainty.reporting.ladder_view import (
    aim_values,
    duration,
    mean_text,
    rung_caption,
    rung_lines,
    rung_outcome,
    trained_by,
)


def test_a_mean_has_a_deviation_where_there_are_several_seeds():
    assert mean_text([8.0]) == "8.00"
    assert mean_text([6.0, 10.0]) == f"8.00 ± {np.std([6.0, 10.0], ddof=1):.2f}"
    assert mean_text([]) == "-"


def test_what_the_goal_measures_is_of_naive_and_of_what_is_kept():
    before, after = aim_values(TEN_CLASSES)
    assert before == TEN_CLASSES.before.errors
    assert after == next(step.values for step in TEN_CLASSES.ladder if step.kept)


def test_a_rung_has_a_line_for_each_candidate():
    rung = TEN_CLASSES.rungs[0]
    lines = rung_lines(TEN_CLASSES, rung, 100)
    row = next(line.split() for line in lines if line.strip().startswith("balanced-softmax "))
    assert [row[1], row[3], row[4]] == ["45.10", "0.70", "0.5"]
    assert max(map(len, lines)) <= 100
    assert LONGEST in "".join(line.strip().split("  ")[0] for line in lines)


def test_an_outcome_has_its_reason():
    assert rung_outcome(RungRow("a", kept=True)) == "kept"
    assert rung_outcome(RungRow("a")) == "dropped"
    assert rung_outcome(RungRow("a", reason="it diverged.")) == "dropped: it diverged"


@pytest.mark.parametrize(("candidates", "is_first", "number"), [(4, True, "4"), (2, False, "2")])
def test_a_rung_has_a_caption(candidates, is_first, number):
    rows = tuple(RungRow(str(i)) for i in range(candidates))
    rung = Rung(2, 5043, rows) if not is_first else TEN_CLASSES.rungs[0]
    caption = rung_caption(TEN_CLASSES, rung)
    assert number in caption.split()
    assert "5,043" in caption


def test_every_step_has_its_candidate():
    said = trained_by(TEN_CLASSES)
    for step in TEN_CLASSES.ladder:
        assert step.candidate in said
        assert step.name in said


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.41, "0.4 s"), (38.2, "38 s"), (252, "4.2 min"), (8200, "2.3 h"), (99.4, "99 s")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
