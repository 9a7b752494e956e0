"""Cells as numbers or text, and what is refused of them."""

import numpy as np
import pytest
from refusals import refused

from class_uncertainty.data.table import Table, is_missing
from class_uncertainty.data.tabular import FEW, as_numbers, as_texts, exact, numbers, of_columns, texts


def table(file="a.csv", **columns):
    arrays = {name: np.array(column, dtype=object) for name, column in columns.items()}
    missing = {name: is_missing(array) for name, array in arrays.items()}
    return Table(file, arrays, missing, lines=np.arange(2, 2 + len(next(iter(arrays.values())))))


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), (" -2e3 ", -2000.0), ("1_000", None), ("abc", None), ("inf", np.inf)]
)
def test_text_as_a_number(text, number):
    (value,) = as_numbers(np.array([text], dtype=object))
    assert np.isnan(value) if number is None else value == number


def test_a_column_is_numbers_or_text_in_all_tables():
    (first, second) = numbers([table(a=["1", "", "3"]), table(a=["4"])], "a")
    np.testing.assert_array_equal(first, [1, np.nan, 3])
    np.testing.assert_array_equal(second, [4])
    assert numbers([table(a=["x", ""]), table(a=["?"])], "a") is None  # an empty column is either


@pytest.mark.parametrize(
    ("column", "parts"),
    [
        (["1", "2", "x"], ["'x' in line 4", "and 2 numbers", "?categorical=a"]),
        (["1", "x"], ["and 1 number:"]),
        (["1", "1e39"], ["'1e39' in line 3", "3.4e+38 at most", "--drop a"]),
        (["1,5", "2,5"], ["'1,5' in line 2", "write numbers as 1234.5"]),
    ],
)
def test_odd_cells_are_refused_by_line(column, parts):
    with refused(*parts):
        numbers([table(a=column)], "a")


def test_numbers_here_and_text_there_are_refused():
    with refused("numbers in train.csv and text in test.csv"):
        numbers([table("train.csv", a=["1"]), table("test.csv", a=["x"])], "a")


@pytest.mark.parametrize("step", [1, 10**17])
def test_whole_numbers_that_floats_mix_up_are_refused(step):
    """10**18 + i are one number in float64; 10**17 apart they are not."""
    column = table(a=[str(10**18 + step * i) for i in range(4)])
    if step == 1:
        with refused("column 'a'", "--drop a"):
            numbers([column], "a")
    else:
        (values,) = numbers([column], "a")
        assert len(set(values.tolist())) == 4


@pytest.mark.parametrize(
    ("text", "number"), [("9007199254740993", 2**53 + 1), ("12", 12), (" 9007199254740993.0 ", 2**53 + 1)]
)
def test_exact_numbers_are_those_that_were_written(text, number):
    assert exact(text) == number


def test_texts_have_no_blanks_and_whole_numbers_no_point():
    assert texts(table(a=[" Rome ", "", "Bonn"]), "a").tolist() == ["Rome", "missing", "Bonn"]
    assert as_texts(np.array([2.0, -0.0, 2.5])).tolist() == ["2", "0", "2.5"]


@pytest.mark.parametrize(("number", "more"), [(2, ""), (5, "; and 2 more")])
def test_columns_are_refused_together(number, more):
    source = table(**{f"c{i}": ["1", "x"] for i in range(number)})
    names = [f"c{i}" for i in range(number)]
    with refused(f"a.csv: {number} columns cannot be used", f"add ?categorical={','.join(names)}", more) as caught:
        of_columns(names, lambda name: numbers([source], name))
    assert str(caught.value).count("a.csv") == 1
    assert ("more" in str(caught.value)) == bool(more)
    assert str(caught.value).count("has 'x' in line 3") == min(number, FEW)
    assert of_columns(["c0"], str.upper) == {"c0": "C0"}
