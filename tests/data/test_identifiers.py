"""Columns that only name the rows are noticed, and columns that mean something are not."""

import logging

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.data.tabular import ENOUGH, is_identifier

ROWS = np.arange(40.0)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("id", 7 * ROWS, True),
        ("customerID", 7 * ROWS, True),
        ("PassengerId", 7 * ROWS, True),
        ("row_number", 7 * ROWS, True),
        ("anything", ROWS[::-1] + 1000, True),  # counts the rows
        ("name", np.array([f"n{i}" for i in range(40)], dtype=object), True),
        ("income", 7 * ROWS, False),  # whole numbers that all differ may mean something
        ("paid", 7 * ROWS, False),
        ("grid", 7 * ROWS, False),
        ("id", 7 * (ROWS // 2), False),  # repeats
        ("id", ROWS + 0.5, False),
        ("id", np.where(ROWS == 3, np.nan, ROWS), False),
        ("city", np.array(["Oslo", "Rome"] * 20, dtype=object), False),
        ("id", ROWS[: ENOUGH - 1], False),
    ],
)
def test_what_looks_like_an_identifier(name, values, expected):
    assert is_identifier(name, values, np.arange(len(values))) is expected


def test_a_share_of_the_rows_is_counted_by_their_places_in_the_file(rng):
    rows = rng.permutation(100)[:80]
    assert is_identifier("anything", 1000.0 + rows, rows)
    assert is_identifier("anything", 1000.0 - rows, rows)
    assert not is_identifier("income", 1000.0 + rng.permutation(100)[:80], rows)
    assert not is_identifier("half", rows / 2, rows)


def test_numbers_in_any_order_count_the_rows_of_training_and_test_together(rng):
    """None of them is called an id: whole numbers that leave gaps, or repeat in the test rows, may mean something."""
    numbers, rows = 1000.0 + rng.permutation(100), np.arange(80)
    train, test = numbers[:80], numbers[80:]
    assert is_identifier("customer", train, rows, test)
    assert not is_identifier("income", train, rows)
    assert not is_identifier("income", 7 * train, rows, 7 * test)
    assert not is_identifier("income", train, rows, np.append(test[:-1], train[0]))
    assert not is_identifier("half", train / 2, rows, test / 2)


@pytest.mark.parametrize("test", ["FILE", "0.3"])
def test_a_shuffled_column_of_two_files_or_a_split_is_noticed(tmp_path, caplog, rng, test):
    rows = [f"{i},{rng.normal():.3f},{'ab'[i % 2]}" for i in rng.permutation(100)]
    parts = {"t.csv": rows[:70], "test.csv": rows[70:]} if test == "FILE" else {"t.csv": rows}
    for file, lines in parts.items():
        (tmp_path / file).write_text("\n".join(["customer,x,label", *lines]))
    with caplog.at_level(logging.WARNING):
        cu.load(f"csv:{tmp_path / 't.csv'}?test={tmp_path / 'test.csv' if test == 'FILE' else test}")
    assert "customer has a different value in every row" in caplog.text


def test_one_sentence_names_all_of_them_and_the_option_that_drops_them(tmp_path, caplog):
    rows = [f"{i},n{i},{i % 7}.5,{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["id,name,x,label", *rows]))
    with caplog.at_level(logging.WARNING):
        data = cu.load(f"csv:{tmp_path / 't.csv'}").train
        (told,) = caplog.messages
        assert told.startswith("id, name have a different value in every row")
        assert told.endswith("add --drop id,name.")
        caplog.clear()
        assert cu.load(f"csv:{tmp_path / 't.csv'}?drop=id,name").train.columns == ("x",)
        assert caplog.messages == []
    assert data.columns[0] == "id"  # it stays: only the user knows


def test_a_split_and_dropped_rows_hide_no_column_that_counts_the_rows(tmp_path, caplog):
    rows = [f"{i},{i % 7 or ''},{'ab'[i % 2]}" for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["place,x,label", *rows]))
    for options in ("?test=0.2&missing=fill", "?missing=drop", "?test=0.2&missing=drop"):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            cu.load(f"csv:{tmp_path / 't.csv'}{options}")
        assert "place has a different value in every row" in caplog.text
        assert "--drop place." in caplog.text


def crowded(tmp_path, **columns):
    """The path of a table of 300 rows with an id, these columns and a label."""
    names = ["id", *columns, "label"]
    rows = zip(range(300), *columns.values(), ["a", "b"] * 150, strict=True)
    (tmp_path / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]))
    return f"csv:{tmp_path / 't.csv'}"


def test_text_of_too_many_categories_is_left_out_and_told_of(tmp_path):
    data = crowded(tmp_path, name=[f"n{i}" for i in range(300)], city=["Oslo", "Rome", "Bern"] * 100)
    dataset = cu.load(data)
    assert dataset.train.columns == ("id", "city=Bern", "city=Oslo", "city=Rome")
    found = {finding.examples: finding for finding in dataset.noticed}
    assert "--drop name" in found[("name",)].advice
    assert {finding.kind for finding in dataset.noticed} == {"id-columns"}
    asked = cu.load(f"{data}?drop=name")
    assert asked.train.fingerprint == dataset.train.fingerprint
    assert [finding.examples for finding in asked.noticed] == [("id",)]


def test_gaps_in_a_column_that_is_left_out_do_not_count(tmp_path):
    data = crowded(tmp_path, name=[f"n{i}" if i % 2 else "" for i in range(300)])
    assert "missing-values" not in {finding.kind for finding in cu.load(data).noticed}
    assert len(cu.load(f"{data}?missing=drop").train) == 300


def test_rows_repeat_whatever_a_column_has_that_is_left_out(tmp_path):
    data = crowded(tmp_path, name=[f"n{i}" for i in range(300)], city=["Oslo", "Rome", "Bern", "Cork"] * 75)
    assert len(cu.load(f"{data}?drop=id&repeats=drop").train) == 4


@pytest.mark.parametrize("cells", [[f"1,{i}".replace(",", "_") for i in range(300)], ["x", *range(299)]])
def test_numbers_written_oddly_and_mixed_columns_are_still_refused(tmp_path, cells):
    with refused("column 'size'", "?categorical=size"):
        cu.load(crowded(tmp_path, size=cells))


def test_a_column_that_the_user_calls_categorical_is_not_left_out(tmp_path):
    with refused("column 'name' has 300 categories", "--drop name"):
        cu.load(crowded(tmp_path, name=[f"n{i}" for i in range(300)]), categorical="name")
