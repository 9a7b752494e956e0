"""Predictions on disk come back as they were, and nothing is left of a file that was not written to its end."""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from class_uncertainty.io import origin
from class_uncertainty.posthoc.written_predictions import (
    PredictionTable,
    check_kept,
    check_places,
    read_written,
    write_predictions,
)

P = np.array([[0.25, 0.75], [0.5, 0.5], [0.875, 0.125]])
TABLE = PredictionTable(
    ["a.png", "b,\nc.png", 'q".png'], ("no; never", "yes"), P, ["yes", "yes", "no; never"], {"id": [7, None, "x"]}
)
ABOUT = {"counts": [30, 10], "prior": [0.5, 0.5]}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_what_was_written_comes_back():
    """A line is an example, whatever its name; the prior that probabilities are for is read too."""
    truth = ["yes", "no; never", "yes"]
    assert write_predictions(Path("p.csv"), replace(TABLE, truth=truth), ABOUT) == [Path("p.csv"), Path("p.json")]
    assert len(Path("p.csv").read_text().splitlines()) == 4
    table, predictions = read_written(Path("p.csv"))
    assert table.names == ["a.png", r"b,\nc.png", 'q".png']
    assert (table.classes, table.labels, table.truth) == (TABLE.classes, TABLE.labels, truth)
    assert table.kept == {"id": ["7", "", "x"]}
    np.testing.assert_array_equal(table.probabilities, P)
    np.testing.assert_array_equal(predictions.probabilities, P)
    np.testing.assert_array_equal(predictions.prior, [0.5, 0.5])
    odds = P[:, 0] / P[:, 1] * 3  # 30 to 10 in the place of 1 to 1
    np.testing.assert_allclose(predictions.for_training[:, 0], odds / (1 + odds))
    np.testing.assert_array_equal(predictions.labels, [1, 0, 1])
    np.testing.assert_array_equal(predictions.counts, [30, 10])


FORMULAS = ["=1+1", "+x", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
RISKY = PredictionTable(
    FORMULAS,
    ("=cat", "-dog"),
    np.full((6, 2), 0.5),
    ["=cat", "-dog"] * 3,
    {"=note": FORMULAS, "number": [-1, "-2.5", "+3e4", 0.25, None, "a=b"]},
    ["-dog"] * 6,
)


def test_a_spreadsheet_computes_no_cell_of_a_safe_file():
    write_predictions(Path("p.csv"), RISKY, {}, excel_safe=True)
    cells = [row for row in csv.reader(Path("p.csv").read_text().splitlines())]
    numbers = [row.pop(2) for row in cells]
    assert numbers == ["number", "-1", "-2.5", "+3e4", "0.25", "", "a=b"]
    texts = [cell for row in cells for cell in row]
    assert [text for text in texts if text.startswith(tuple("=+-@\t\r"))] == []
    assert texts.count("'=cat") == 3
    assert texts.count("'-dog") == 9
    assert "'=note" in cells[0]


def test_the_apostrophes_can_be_undone():
    """By taking one away where apostrophes and then =, +, - or @ begin a text; headings and text with them included."""
    texts = ["=1", "'=1", "''=1", "'", "it's", "'a", "-5", "'-5", "+x", "@", "\t=1", "\r=1", "-", "a=b", " =1"]
    assert len(set(texts)) == len(texts)
    count = len(texts)
    table = PredictionTable(
        texts, ("=a", "'=a"), np.full((count, 2), 0.5), ["'=a"] * count, {"'=kept": texts, "=": texts}
    )
    write_predictions(Path("plain.csv"), table, {})
    write_predictions(Path("safe.csv"), table, {}, excel_safe=True)
    plain, safe = (list(csv.reader(Path(name).read_text().splitlines())) for name in ("plain.csv", "safe.csv"))
    assert safe != plain
    assert [[re.sub(r"\A'(?='*[=+\-@])", "", cell) for cell in row] for row in safe] == plain
    risky = [cell for row in safe for cell in row if cell.startswith(tuple("=+-@\t\r"))]
    assert risky == ["-5"] * 3  # a number
    read = {name: read_written(Path(f"{name}.csv"))[0] for name in ("plain", "safe")}
    assert read["plain"].kept == read["safe"].kept
    assert read["safe"].names == read["plain"].names == [row[0] for row in plain[1:]]
    assert read["safe"].labels == ["'=a"] * count


@pytest.mark.parametrize("excel_safe", [True, False])
def test_a_safe_file_is_read_as_any_other(excel_safe):
    write_predictions(Path("p.csv"), RISKY, {}, excel_safe)
    table, predictions = read_written(Path("p.csv"))
    assert (table.classes, table.labels, table.truth) == (RISKY.classes, RISKY.labels, RISKY.truth)
    assert list(table.names) == list(table.kept["=note"]) == [*FORMULAS[:4], r"\t=1", r"\r=1"]
    np.testing.assert_array_equal(predictions.labels, [1] * 6)


def test_without_the_option_cells_are_as_they_are():
    """Also classes that begin as a safe cell does."""
    table = replace(RISKY, classes=("'=cat", "-dog"), labels=["'=cat", "-dog"] * 3)
    write_predictions(Path("p.csv"), table, {})
    assert "'=1+1" not in Path("p.csv").read_text()
    assert read_written(Path("p.csv"))[0].labels == table.labels


def test_what_is_no_number_is_null_in_the_description():
    write_predictions(Path("p.csv"), TABLE, {"scores": {"class_errors": (float("nan"), 25.0)}})
    assert json.loads(Path("p.json").read_text(), parse_constant=pytest.fail)["scores"]["class_errors"] == [None, 25.0]


def test_without_the_description_probabilities_are_as_they_are():
    write_predictions(Path("p.csv"), TABLE, ABOUT)
    Path("p.csv").rename("q.csv")
    for foreign in (None, "{}", "[1]"):
        if foreign:
            Path("q.json").write_text(foreign)
        _, predictions = read_written(Path("q.csv"))
        np.testing.assert_array_equal(predictions.probabilities, P)
        assert (predictions.labels, predictions.counts) == (None, None)


def test_a_file_that_another_program_wrote():
    Path("p.csv").write_text("p(a),p(b),label\n0.9,0.1,a\n0.2,0.8,a\n")
    table, predictions = read_written(Path("p.csv"))
    assert (list(table.names), list(table.labels)) == (["row 0", "row 1"], ["a", "b"])
    np.testing.assert_array_equal(predictions.labels, [0, 0])


@pytest.mark.parametrize(
    ("text", "about", "facts"),
    [
        ("", None, ("no file of predictions", "p(CLASS)")),
        ("a,b\n1,2\n", None, ("no file of predictions",)),
        ("p(a),p(b)\n0.5,x\n", None, ("no number", "'x'")),
        ("p(a),p(b)\n0.5\n", None, ("no file of predictions",)),
        ("p(a),p(b)\n0.5,0.7\n", None, ("p.csv", "sum to 1")),
        ("p(a),p(b),label\n0.5,0.5,c\n", None, ("'c'", "a, b")),
        ("p(a),p(b),class\n0.5,0.5,c\n", None, ("the class 'c'", "a, b")),
        ("p(a),p(b)\n0.5,0.5\n", {"counts": [1, 2, 3], "prior": [0.5, 0.5]}, ("p.csv", "3")),
        ("p(a),p(b)\n0.5,0.5\n", {"counts": [1, 2], "prior": [0.5]}, ("p.csv", "prior", "2 probabilities")),
        ("p(a),p(b)\n0.5,0.5\n", {"counts": ["x", 2], "prior": [0.5, 0.5]}, ("p.csv", "counts")),
    ],
)
def test_damage_is_refused_in_a_sentence(text, about, facts):
    Path("p.csv").write_text(text)
    if about:
        Path("p.json").write_text(json.dumps({"predictions": "p.csv"} | about))
    with refused(*facts):
        read_written(Path("p.csv"))


def test_a_column_of_a_name_that_is_taken():
    with refused("'class'", "cannot be kept"):
        write_predictions(Path("p.csv"), replace(TABLE, kept={"class": [1, 2, 3]}), {})
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("name", ["p(old)", "p()", "class", "example", "probability"])
def test_kept_columns_are_not_read_as_predictions(name):
    check_kept(["id", "p", "p(old", "label"])
    with refused(repr(name), "cannot be kept", "p(CLASS)"):
        check_kept(["id", name])
    with refused(repr(name), "cannot be kept"):
        write_predictions(Path("p.csv"), replace(TABLE, kept={name: [1, 2, 3]}), {})


def test_rows_without_a_label():
    write_predictions(Path("p.csv"), replace(TABLE, truth=["yes", "", "no; never"]), ABOUT)
    np.testing.assert_array_equal(read_written(Path("p.csv"))[1].labels, [1, -1, 0])
    write_predictions(Path("p.csv"), replace(TABLE, truth=[""] * 3), ABOUT)
    assert read_written(Path("p.csv"))[1].labels is None


class Interrupted(list):
    """Ctrl-C in the middle of a column."""

    def __getitem__(self, place: object) -> object:
        if place == 2500:
            raise KeyboardInterrupt
        return "x"


def test_ctrl_c_leaves_the_earlier_files(tmp_path):
    write_predictions(Path("p.csv"), TABLE, ABOUT)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    names = [str(i) for i in range(3000)]
    long = PredictionTable(names, TABLE.classes, np.full((3000, 2), 0.5), ["yes"] * 3000, {"id": Interrupted()})
    with pytest.raises(KeyboardInterrupt):
        write_predictions(Path("p.csv"), long, {})
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_lines_come_in_pieces():
    names = [str(i) for i in range(2500)]
    table = PredictionTable(names, TABLE.classes, np.full((2500, 2), 0.5), ["yes"] * 2500)
    pieces: Iterator[bytes] = table.lines()
    assert [piece.count(b"\n") for piece in pieces] == [1001, 1000, 500]


def test_neither_file_is_written_over_another(tmp_path):
    made_from = origin("new.csv")
    for mine in ("p.csv", "p.json"):
        Path(mine).write_text("{}")
        with refused(mine, "--force"):
            check_places(Path("p.csv"), made_from)
        with refused(mine):
            check_places(Path("p.csv"), made_from, force=True, read=[mine])
        check_places(Path("p.csv"), made_from, force=True)
        Path(mine).unlink()
    write_predictions(Path("p.csv"), TABLE, ABOUT, made_from=made_from)
    check_places(Path("p.csv"), made_from)
    with refused("new.csv", "--force"):
        check_places(Path("p.csv"), origin("new.csv", "--keep id"))
    Path("q.csv").write_bytes(Path("p.csv").read_bytes())
    with refused("q.csv", "--force"):
        check_places(Path("q.csv"), made_from)
