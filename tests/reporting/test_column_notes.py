"""Notes below a table: on columns that are shown, and on no others."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from reporting.examples import BETTER, LOST, NAIVE, class_row_examples
from reporting.printed_lines import in_one_line
from reporting.test_terminal_tables import COMPARISON

from class_uncertainty.reporting import terminal_tables
from class_uncertainty.reporting.column_notes import METHOD_NOTES, notes_on
from class_uncertainty.runs.rows import MethodRow

# what a note on a column says, and nothing else below the table
SAID = {
    "rarity": "Rarity (μ^C)",
    "rank rarity": "the rarest",
    "rank unc.": "most uncertain",
    "effective": "effective number",
    "disputed": "Disputed:",
    "test": "est: numbers of examples",
    "95 %": "95 %: the error's interval",
}
SAID_OF_METHODS = {
    "gain": "gain: naive's error",
    "overall": "Overall:",
    "many": "more than 100",
    "medium": "20 to 100",
    "few": "fewer than 20",
    "trainings": "Trainings:",
    "worst 10th": "Worst 10th:",
    "ASO": "ASO: a test",
}
SAID_OF_ESTIMATORS = {"ρ error": "ρ: Spearman's", "ρ ensemble": "with the ensemble's", "trainings": "Trainings:"}


def parts(out: str) -> tuple[list[str], str]:
    """The columns that had no room, and what stands below that."""
    _, _, below = in_one_line(out).partition("No room for ")
    dropped, _, notes = below.partition(": widen the terminal, or use --json.")
    return (dropped.split(", "), notes) if notes else ([], in_one_line(out))


def print_methods(rows: Sequence[MethodRow]) -> None:
    terminal_tables.say(*terminal_tables.footnotes(rows, 0, terminal_tables.print_methods(rows)))


CLASSES = [replace(row, examples=60, low=1.0, high=9.0) for row in class_row_examples(3)]
TABLES: dict[str, tuple[Any, Any, dict[str, str]]] = {
    "classes": (terminal_tables.print_classes, CLASSES, SAID),
    "methods": (print_methods, [NAIVE, BETTER, LOST], SAID_OF_METHODS),
    "estimators": (terminal_tables.print_estimator_comparison, COMPARISON, SAID_OF_ESTIMATORS),
}


@pytest.mark.parametrize("width", range(30, 115, 5))
@pytest.mark.parametrize("table", TABLES)
def test_a_narrow_terminal_explains_the_columns_that_it_shows(table, width, printed):
    show, rows, said = TABLES[table]
    wide = in_one_line(printed(show, rows, width=250))
    assert "No room" not in wide
    dropped, notes = parts(printed(show, rows, width=width))
    for column, words in said.items():
        assert words in wide
        assert (words in notes) == (column not in dropped), column


@pytest.mark.parametrize(
    ("dropped", "note"),
    [
        ((), "Many, medium, few: classes with more than 100, 20 to 100, and fewer than 20 training examples."),
        (("medium",), "Many, few: classes with more than 100, and fewer than 20 training examples."),
        (("many", "medium"), "Few: classes with fewer than 20 training examples."),
    ],
)
def test_sizes_of_classes_are_those_of_the_columns(dropped, note):
    assert note in notes_on(METHOD_NOTES, dropped)


def test_columns_that_are_all_dropped_have_no_note():
    notes = {("train", "test"): "Examples.", ("95 %",): "Intervals."}
    assert notes_on(notes, []) == ["Examples.", "Intervals."]
    assert notes_on(notes, ["train", "95 %"]) == ["Examples."]
    assert notes_on(notes, ["test", "train"]) == ["Intervals."]
