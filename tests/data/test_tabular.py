"""Tables: what is read is what was written, features agree with scikit-learn's, and every refusal says where."""

import csv
import gzip

import numpy as np
import pytest
from data.written_tables import HOLES, written
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from class_uncertainty import InputError, MachineFault, load
from class_uncertainty.data.readers.csv_file import read_csv
from class_uncertainty.data.table import Table
from class_uncertainty.data.tabular import encode

pytestmark = pytest.mark.usefixtures("no_global_random")


# Reading CSV.

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    ['"', 'a,"b"\r\n;|\tc', "é", "\n"]
)
NAMES = CELLS.map(str.strip).filter(bool)


@given(st.data(), st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans())
def test_what_was_written_comes_back(tmp_path_factory, data, delimiter, end, bom, packed):
    names = data.draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=len(names), max_size=len(names)), min_size=1, max_size=6))
    raw = written([names, *rows], delimiter, end, csv.QUOTE_ALL).encode("utf-8-sig" if bom else "utf-8")
    path = tmp_path_factory.getbasetemp() / f"table.csv{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    table = read_csv(path)
    assert list(table.columns) == table.names == names
    assert [list(row) for row in zip(*table.columns.values(), strict=True)] == rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    "header", [["a", "b"], ["a,b;c,d", "e\nf;g"], ["a", "b|c\td|e", "f"]], ids=["plain", "newline", "others"]
)
def test_the_delimiter_is_the_one_outside_quotes(table, header, delimiter):
    assert list(table(written([header, ["1"] * len(header)], delimiter, quoting=csv.QUOTE_ALL)).columns) == header


def test_the_delimiter_is_the_most_frequent_one(table):
    assert list(table('\n\na;"b,c,d|";e, f\n1;2;3\n').columns) == ["a", "b,c,d|", "e, f"]


def test_lines_are_those_on_which_rows_start(table):
    read = table('\n\na,b\r\n1,"x\ny\r\nz"\n\n2,u\r3,v')
    assert read.lines.tolist() == [4, 8, 9]
    assert read.at("b", 1) == "train.csv: column 'b' has 'u' in line 8"


def test_blanks_around_names_are_left_out_and_cells_stay_as_they_are(table):
    read = table("a , b\n 1, x \n")
    assert list(read.columns) == ["a", "b"]
    assert [column[0] for column in read.columns.values()] == [" 1", " x "]


@pytest.mark.parametrize(
    "word", ["", "  ", "na", "NA", "n/a", "N/A", "nan", "NaN", "null", "NULL", "none", "None", "?", " ? "]
)
def test_words_for_missing(table, word):
    assert table(f"a,y\n{word},0\nnah,1\n").missing["a"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["is empty"]),
        ("\n\r\n", ["is empty"]),
        ("a,b\n", ["no rows"]),
        ("a,b,a\n1,2,3\n", ["column 'a' appears twice"]),
        ("a, a\n1,2\n", ["column 'a' appears twice"]),
        ("a,,b\n1,2,3\n", ["column 2 has no name"]),
        ("a,b\n1,2\n3\n", ["line 3", "1 cells", "header 2", "','"]),
        ("a;b\n1;2\n\n3;4;5\n", ["line 4", "3 cells", "header 2", "';'"]),
        ('a,b\n"1\n2",3\n4,5,6\n', ["line 4", "3 cells"]),
        (b"a,b\n1,\xe9\n", ["line 2", "0xe9", "UTF-8"]),
        (b"\xef\xbb\xbfa,b\r1,2\r3,\xff\n", ["line 3", "0xff", "UTF-8"]),
        ("a,b\n1,2\n".encode("utf-16"), ["line 1", "UTF-8"]),
        ("a,b\n1,2\n3,\0\n", ["line 3", "NUL"]),
        (f"a,b\n1,2\n3,{'x' * 140_000}\n", ["line 3", "131,072", "field larger"]),
        ('a,b\n1,2\n3,"x\n4,5\n', ["line 3", "quote"]),
        ('a,b\n1,"x"y\n', ["line 2", "quote"]),
    ],
)
def test_csv_refusals(table, text, parts):
    with refused("train.csv", *parts):
        table(text)


@given(
    st.binary(max_size=40) | st.text('ab1,;"\n\r ?.e_', max_size=40).map(str.encode),
    st.sampled_from(["refuse", "fill", "drop"]),
)
def test_any_bytes_are_data_or_refused_in_a_sentence(tmp_path_factory, raw, missing):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"a,b\n1,2\n" + raw)
    try:
        data, _ = encode(read_csv(path), None, label="b", missing=missing)
    except InputError as error:
        told = str(error)
    else:
        told = f"{path}." if np.isfinite(data.inputs).all() else "not finite"
    assert str(path) in told
    assert "\n" not in told


def test_no_file_to_read(tmp_path):
    with refused("gone.csv", "neither here nor in the data folder"):
        load(f"csv:{tmp_path / 'gone.csv'}")
    with refused(str(tmp_path), "a folder", "give a file"):
        load(f"csv:{tmp_path}")


BROKEN = {
    "not zipped": b"a,b\n1,2\n",
    "cut off": gzip.compress(b"a,b\n1,2\n" * 9)[:-9],
    "spoilt": gzip.compress(b"a,b")[:12] + b"\xff" * 9,
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
def test_a_broken_gzip_file(table, raw):
    with refused("train.csv.gz", "gzip"):
        table(raw, "train.csv.gz")


def test_a_file_that_cannot_be_read_is_a_fault_of_the_machine(tmp_path):
    with pytest.raises(MachineFault, match=r"could not be read: .+\.$"):
        read_csv(tmp_path / ("x" * 300 + ".csv"))


# Columns.


@pytest.mark.parametrize("option", ["categorical", "drop"])
def test_options_name_feature_columns(table, option):
    train = table("age,city,y\n1,x,0\n")
    with refused(option, "'Cty'", "train.csv", "did you mean 'city'?", "There are age, city."):
        encode(train, None, label="y", **{option: ["Cty"]})
    with refused(option, "'y'", "the label of train.csv", "age, city"):
        encode(train, None, label="y", **{option: ["y"]})


@pytest.mark.parametrize(("text", "drop"), [("y\n0\n1\n", []), ("a,y\n1,0\n", ["a"])])
def test_no_features(table, text, drop):
    with refused("train.csv", "no features", "'y'"):
        encode(table(text), None, label="y", drop=drop)


def test_tables_with_different_columns(table):
    train, test = table("a,b,y\n1,2,0\n"), table("y,c,a\n0,2,1\n", "test.csv")
    with refused("only train.csv has b;", "only test.csv has c."):
        encode(train, test, label="y")
    with refused("train.csv and test.csv", "columns: only test.csv has c."):
        encode(train, test, label="y", drop=["b"])
    assert encode(train, test, label="y", drop=["b", "c"])[1].inputs.tolist() == [[1]]


def test_a_test_table_without_labels(table):
    with refused("only train.csv has y."):
        encode(table("a,y\n1,0\n"), table("a\n1\n", "test.csv"), label="y")


@pytest.mark.parametrize(("train", "test"), [("1", "x"), ("x", "1")])
def test_numbers_in_one_table_and_text_in_the_other(table, train, test):
    tables = table(f"a,y\n{train},0\n"), table(f"a,y\n{test},0\n", "test.csv")
    numbers, text = ("train.csv", "test.csv") if train == "1" else ("test.csv", "train.csv")
    with refused("column 'a'", f"numbers in {numbers} and text in {text}", "?categorical=a"):
        encode(*tables, label="y")
    assert encode(*tables, label="y", categorical=["a"])[0].columns == (f"a={train}",)


def test_inputs_are_not_modified(table):
    train = table(HOLES)
    before = {name: (column.copy(), train.missing[name].copy()) for name, column in train.columns.items()}
    one, two = (encode(train, None, label="y", missing="fill")[0] for _ in range(2))
    assert one.fingerprint == two.fingerprint
    for name, (column, missing) in before.items():
        assert np.array_equal(train.columns[name], column)
        assert np.array_equal(train.missing[name], missing)


def test_typed_columns_need_no_arrow():
    """Any arrays make a Table; its rows are counted from 0."""
    values = np.array([1.0, 2.5, np.inf])
    read = Table("made", {"a": values, "y": np.array([3, 1, 2])}, {name: np.zeros(3, dtype=bool) for name in "ay"})
    with refused("made: column 'a' has inf in row 2"):
        encode(read, None, label="y")
    read.columns["a"][2] = -0.0
    data, _ = encode(read, None, label="y", categorical=["a"])
    assert data.columns == ("a=0", "a=1", "a=2.5")
    assert data.classes == ("1", "2", "3")
    assert data.labels.tolist() == [2, 0, 1]
