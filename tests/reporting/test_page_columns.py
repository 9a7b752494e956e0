"""Cells of the page's tables, and what they sort by."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from reporting.examples import BETTER, FULL, LOST, WORSE

from class_uncertainty.reporting.page_columns import CHANGE_COLUMNS, CLASS_COLUMNS, METHOD_COLUMNS

COLUMNS = {column.key: column for column in (*CHANGE_COLUMNS[::-1], *CLASS_COLUMNS, *METHOD_COLUMNS)}


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("change", -1.25, "−1.2"),
        ("change", -0.04, "0.0"),
        ("change", 12.5, "+12.5"),
        ("count", 12345, "12,345"),
        ("epistemic_share", float("nan"), "–"),
        ("epistemic_share", 0.256, "26"),
        ("gain", None, "–"),
        ("lr", 1e-5, "1e−05"),
        ("rank_effective", 2.5, "2.5"),
        ("disagreement", -3.0, "−3"),
        ("disagreement", 0.0, "0"),
        ("cost", 6.125, "6.12"),
    ],
)
def test_cells(key, value, text):
    assert COLUMNS[key].text(SimpleNamespace(**{key: value})) == text


def test_errors_come_with_deviations_and_aso_with_its_counterpart():
    error = next(column for column in METHOD_COLUMNS if column.key == "error")
    assert [error.text(row) for row in (WORSE, LOST)] == ["10.06 ± 0.50", "–"]
    assert [COLUMNS["aso"].text(row) for row in (BETTER, WORSE)] == ["0.25 vs cb-rs", "–"]


def test_missing_values_sort_last_and_others_by_their_full_precision():
    assert [COLUMNS["gain"].sort_value(row) for row in (WORSE, LOST)] == ["-0.056", ""]
    assert COLUMNS["epistemic_share"].sort_value(FULL.classes[1]) == ""


def test_a_mark_stands_beside_the_method():
    method = COLUMNS["method"]
    assert method.text(replace(BETTER, marks=("imported",))) == "ubrs (imported)"
    assert (method.text(BETTER), method.sort_value(BETTER)) == ("ubrs", "ubrs")
