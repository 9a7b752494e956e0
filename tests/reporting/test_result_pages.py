"""The pages of a measurement and a comparison: rows in order, their values, and what leads."""

from dataclasses import replace

import pytest
from example_results import make_measurement
from reporting.examples import BETTER, LOST, NAIVE, NASTY, TWO_RATES, WORSE, class_row_examples

import class_uncertainty as cu
from class_uncertainty.reporting.page import Page
from class_uncertainty.reporting.result_pages import class_page, compare_page, measure_page, method_page
from class_uncertainty.runs.rows import ClassRow

ROWS = class_row_examples(10)
MEASURED = make_measurement()


def cells(page: Page, place: int = 0) -> list[dict[str, str]]:
    table = page.blocks[place].table
    assert table
    return [dict(zip(table.columns, (cell.text for cell in row), strict=True)) for row in table.rows]


def page_of(rows: tuple[ClassRow, ...]) -> Page:
    return class_page("digits", rows, MEASURED, None)


def test_the_most_uncertain_class_comes_first():
    rows = cells(page_of(ROWS))
    assert [float(row["Rank by uncertainty"]) for row in rows] == list(range(1, 11))
    hardest = max(ROWS, key=lambda row: row.uncertainty)
    assert rows[0]["Class"] == hardest.name
    assert rows[0]["Uncertainty, %"] == f"{100 * hardest.uncertainty:.1f}"
    every = {row["Class"]: row for row in cells(page_of(ROWS), 1)}
    assert every["class 1"]["Disputed, %"] == "–"
    assert every[NASTY]["Rarity, %"] == f"{100 * ROWS[0].cardinality:.2f}"


def test_classes_with_equal_counts_have_one_mark_each():
    equal = tuple(replace(row, count=100, cardinality=0.1, rank_cardinality=5.5) for row in ROWS)
    uneven, even = page_of(ROWS).chart, page_of(equal).chart
    assert uneven
    assert even
    assert uneven.svg.count("<circle") == 2 * even.svg.count("<circle") == 20


def test_without_errors_there_are_no_columns_of_them():
    unjudged = class_row_examples(10, judged=False)
    rows = cells(page_of(unjudged))
    assert "Error, %" not in rows[0]
    assert [number.what for number in page_of(unjudged).numbers] == ["Classes"]


def test_the_lowest_error_comes_first_and_lost_rows_last():
    page = method_page("digits", [NAIVE, WORSE, BETTER, LOST], ["A note."])
    rows = cells(page)
    assert [row["Method"] for row in rows] == ["ubrs", "naive", "cb-rs", "dro"]
    assert rows[0]["Class-mean error, %"] == "8.00 ± 0.50"
    assert rows[-1]["Class-mean error, %"] == "–"
    assert "ubrs" in page.lead
    assert page.chart
    assert page.chart.svg.count("<circle") == 3
    others = {row["Method"]: row for row in cells(page, 1)}
    assert others["ubrs"]["ASO"] == "0.25 vs cb-rs"
    assert others["dro"]["Diverged"] == "5"
    assert "5 of 5 runs diverged" in page.notes[0]
    assert page.blocks[1].text == ["A note."]


def test_rates_are_named_where_there_are_several():
    names = {row["Method"] for row in cells(method_page("digits", TWO_RATES, []))}
    assert names == {"naive at 0.1", "naive at 0.01", "ubrs at 0.1", "ubrs at 0.01"}


def test_nothing_finished():
    page = method_page("digits", [LOST], [])
    assert page.chart is None
    assert page.lead


def test_pages_of_what_workflows_return(digits):
    recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    measured = cu.measure(digits, members=2, recipe=recipe)
    page = measure_page(measured)
    assert {row["Class"] for row in cells(page)} == set(digits.classes)
    assert page.examples
    assert page.steps[0][1] == "cu fix digits-lt:20 --save MODEL"
    compared = cu.compare(digits, methods=["naive", "cb"], seeds=1, recipe=recipe)
    shown = {row["Method"]: row["Class-mean error, %"] for row in cells(compare_page(compared))}
    assert {name: float(text) for name, text in shown.items()} == {
        row.method: pytest.approx(row.error, abs=0.01) for row in compared.rows
    }
