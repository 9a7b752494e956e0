"""Columns of new rows beside their features: as they were written, or as the names of classes."""

import pandas
from refusals import refused

from class_uncertainty.data.frames import table_of
from class_uncertainty.data.readers.csv_file import read_csv
from class_uncertainty.data.tabular import row_cells, row_labels

FRAME = pandas.DataFrame(
    {"id": [7, 8, 9], "share": [0.5, None, 1.0], "city": [" Oslo", None, "Rome"], "parts": [[1], [2], [3]]}
)


def test_cells_are_as_they_were_written(tmp_path):
    table = table_of(FRAME)
    assert row_cells(table, "id", "keep") == [7, 8, 9]
    assert row_cells(table, "share", "keep") == [0.5, None, 1.0]
    (tmp_path / "a.csv").write_text("id,share\n007, 1.50\n008,\n")
    written = read_csv(tmp_path / "a.csv")
    assert [row_cells(written, name, "keep") for name in ("id", "share")] == [["007", "008"], [" 1.50", ""]]


def test_labels_are_as_training_reads_them():
    table = table_of(FRAME)
    assert row_labels(table, "id") == ["7", "8", "9"]
    assert row_labels(table, "share") == ["0.5", "", "1"]
    assert row_labels(table, "city") == ["Oslo", "", "Rome"]


def test_columns_that_are_not_there_or_hold_something_else():
    table = table_of(FRAME)
    with refused("no column 'idd' in", "for keep: did you mean 'id'?"):
        row_cells(table, "idd", "keep")
    with refused("column 'parts' has type", "not numbers or text: name another label"):
        row_labels(table, "parts")
