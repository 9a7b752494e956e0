"""Tables: what is read is what was written, features agree with scikit-learn's, and every refusal says where."""

import csv
import gzip
import io
from datetime import date
from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from sklearn.preprocessing import OneHotEncoder

from class_uncertainty import InputError, MachineFault, load
from class_uncertainty.data.readers.csv_file import read_csv
from class_uncertainty.data.table import Table, from_arrow
from class_uncertainty.data.tabular import MAX_CATEGORIES, encode

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A function that writes a CSV file and reads it; messages then name it without a folder."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="train.csv"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_csv((tmp_path / name).relative_to(tmp_path))

    return write


@pytest.fixture
def arrow():
    """A function that makes a Table of Arrow columns."""
    import pyarrow as pa

    def make(file="train.parquet", **columns):
        return from_arrow(file, pa.table(columns))

    make.pa = pa
    return make


def written(rows, delimiter=",", end="\r\n", quoting=csv.QUOTE_MINIMAL):
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return stream.getvalue()


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


# Numbers.


def test_numbers_are_those_of_genfromtxt(table, rng):
    values = rng.normal(size=(50, 4)) * 10.0 ** rng.integers(-30, 30, (50, 4))
    rows = [[f" {v!r} " if i % 2 else f"{v:+.5E}" for i, v in enumerate(row)] for row in values.tolist()]
    text = written([["y", "a", "b", "c", "d"], *([str(i % 3), *row] for i, row in enumerate(rows))])
    data, none = encode(table(text), None, label="y")
    assert none is None
    assert data.inputs.dtype == np.float32
    assert data.columns == ("a", "b", "c", "d")
    assert np.array_equal(
        data.inputs, np.genfromtxt(io.StringIO(text), delimiter=",", skip_header=1)[:, 1:].astype(np.float32)
    )
    assert data.labels.tolist() == [i % 3 for i in range(50)]


@pytest.mark.parametrize("value", ["1_000", "0x10", "1,5", "-nan", "1 000", "abc", "True"])
def test_what_is_no_number(table, value):
    with refused("train.csv: column 'age' has", repr(value), "in line 4", "and 2 numbers", "?categorical=age"):
        encode(table(f'age,y\n1,0\n\n"{value}",1\n3,1\n'), None, label="y")
    alone, _ = encode(table(f'age,y\n"{value}",0\n'), None, label="y", categorical=["age"])
    assert alone.columns == (f"age={value}",)


@pytest.mark.parametrize("value", ["1_000", "0,5", "1,5", "1 000", "-12,50", "1'000", "10,5%", "5%", "10 %", ",05"])
def test_a_column_of_what_may_be_numbers_is_not_guessed_at(table, value):
    with refused("train.csv: column 'age' has", repr(value)[1:-1], "in line 2", "1234.5", "?categorical=age"):
        encode(table(f'age,y\n"{value}",0\n"{value}",1\n'), None, label="y")


@pytest.mark.parametrize("value", ["2024-05-01", "a", "True", "0x1f", "7 days"])
def test_a_column_of_other_text_is_categories(table, value):
    data, _ = encode(table(f"age,y\n{value},0\n{value},1\n"), None, label="y")
    assert data.columns == (f"age={value}",)


def test_numbers_that_float32_would_make_one_are_refused_by_column(table):
    with refused("column 'ts' has values near 1.7e+09", "float32 rounds them", "subtract its mean"):
        encode(table("x,ts,y\n" + "".join(f"{i},{1_700_000_000 + i},{i % 2}\n" for i in range(14))), None, label="y")


def test_one_number_in_a_text_column_is_refused_and_long_cells_are_cut(table):
    with refused("has 'xxx", "...", "in line 2, and 1 number:") as caught:
        encode(table(f"age,y\n{'x' * 500},0\n1,1\n"), None, label="y")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e400", "1e39", "-3.5e38"])
def test_numbers_that_are_not_finite(table, value):
    with refused("test.csv: column 'a' has", repr(value), "in line 3", "finite", "3.4e+38"):
        encode(table("a,y\n1,0\n"), table(f"a,y\n1,0\n{value},1\n", "test.csv"), label="y")


def test_the_largest_number_there_is_stays(table):
    largest = float(np.finfo(np.float32).max)
    assert encode(table(f"a,y\n{largest!r},0\n"), None, label="y")[0].inputs.item() == largest


def test_a_constant_column_stays(table):
    assert encode(table("a,b,y\n7,1,0\n7,2,1\n"), None, label="y")[0].inputs.tolist() == [[7, 1], [7, 2]]


# Categories.


def test_categories_are_those_of_scikit_learn(table, rng):
    cities, sizes = rng.choice(["Oslo", "Århus", "Bergen", "a,b"], 40), rng.choice(["10", "9", "2"], 40)
    unseen = ["Rome", *cities[:5]]
    train = table(written([["city", "x", "size", "y"], *zip(cities, range(40), sizes, ["p", "q"] * 20, strict=True)]))
    test = table(
        written([["y", "size", "x", "city"], *zip(["p"] * 6, sizes[:6], range(6), unseen, strict=True)]), "test.csv"
    )
    data, judge = encode(train, test, label="y", categorical=["size"])
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(np.array([cities, sizes], dtype=object).T)
    names = list(encoder.get_feature_names_out(["city", "size"]))
    assert (
        data.columns
        == judge.columns
        == (*(n.replace("_", "=") for n in names[:4]), "x", *(n.replace("_", "=") for n in names[4:]))
    )
    for found, columns in ((data, (cities, sizes)), (judge, (unseen, sizes[:6]))):
        expected = encoder.transform(np.array([list(c) for c in columns], dtype=object).T)
        assert np.array_equal(np.delete(found.inputs, 4, axis=1), expected)
        assert found.inputs[:, 4].tolist() == list(range(len(found)))
    assert not judge.inputs[0, :4].any()


def test_blanks_make_no_category(table):
    assert encode(table("a,y\n x,0\nx ,1\nx,0\n"), None, label="y")[0].columns == ("a=x",)


def test_categories_are_those_of_the_training_table(table):
    data, _ = encode(table("a,y\nx,0\n"), table("a,y\nz,0\n", "test.csv"), label="y")
    assert data.columns == ("a=x",)


@pytest.mark.parametrize("many", [MAX_CATEGORIES, MAX_CATEGORIES + 1])
def test_the_most_categories_there_may_be(table, many):
    train = table("id,y\n" + "".join(f"n{i},0\n" for i in range(many)))
    if many == MAX_CATEGORIES:
        assert np.array_equal(encode(train, None, label="y")[0].inputs.sum(axis=0), np.ones(MAX_CATEGORIES))
    else:
        with refused("train.csv", "column 'id'", "101 categories", "100", "?drop=id"):
            encode(train, None, label="y")


# Labels.


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        (["10", "9", "2"], ("2", "9", "10"), [2, 1, 0]),
        (["10", "9", "b"], ("10", "9", "b"), [0, 1, 2]),
        (["-1", " 1", "0.5"], ("-1", "0.5", "1"), [0, 2, 1]),
        (["b", " a ", "b"], ("a", "b"), [1, 0, 1]),
        (["007", "1e2", "8"], ("007", "8", "1e2"), [0, 2, 1]),
    ],
)
def test_classes_in_order(table, labels, classes, numbers):
    data, _ = encode(table("x,y\n" + "".join(f"1,{label}\n" for label in labels)), None, label="y")
    assert data.classes == classes
    assert data.labels.tolist() == numbers


def test_classes_are_those_of_both_tables(table):
    data, judge = encode(table("x,y\n1,b\n2,d\n"), table("y,x\na,1\nb,2\n", "test.csv"), label="y")
    assert data.classes == judge.classes == ("a", "b", "d")
    assert data.counts.tolist() == [0, 1, 1]
    assert judge.counts.tolist() == [1, 1, 0]


def test_a_class_may_be_called_none(table):
    data, _ = encode(table("x,y\n1,None\n2,NA\n3,Mild\n4,None\n"), None, label="y")
    assert data.classes == ("Mild", "NA", "None")
    assert data.labels.tolist() == [2, 1, 0, 2]


@pytest.mark.parametrize("word", ["", "  "])
def test_a_missing_label(table, word):
    with refused("test.csv: column 'y' has", repr(word), "in line 3", "it is the label"):
        encode(table("x,y\n1,0\n"), table(f"x,y\n1,0\n1,{word}\n1,\n", "test.csv"), label="y", missing="drop")


def test_labels_that_are_one_number_written_in_two_ways(table):
    with refused("train.csv and test.csv", "'1' and '1.0'"):
        encode(table("x,y\n1,0\n2,1\n"), table("x,y\n1,0\n2,1.0\n", "test.csv"), label="y")


def test_no_such_label(table):
    train = table(",".join(f"col{i}" for i in range(25)) + ",Label\n" + "1," * 25 + "0\n")
    with refused("'lable'", "train.csv", "did you mean 'Label'?", "col0, col1,", "col19 and 6 more"):
        encode(train, None, label="lable")


def test_names_that_would_break_the_line(table):
    with refused("'z'", r"there are a\nb, y."):
        encode(table('"a\nb",y\n1,0\n'), None, label="z")


# Missing values.

HOLES = "age,city,x,y\n1,Oslo,1,0\n,Rome,2,1\n7,?,3,1\n9,Oslo,4,1\n"
OTHER = "age,city,x,y\nNA,,1,0\n5,Rome,1,1\n"


def test_missing_values_are_refused_and_counted(table):
    with refused("train.csv and test.csv", "(age 2, city 2)", "?missing=fill", "?missing=drop"):
        encode(table(HOLES), table(OTHER, "test.csv"), label="y")


def test_many_columns_with_missing_values(table):
    names = [f"c{i}" for i in range(14)]
    with refused("c0 1, c1 1,", "c9 1 and 4 more)"):
        encode(table(written([[*names, "y"], [""] * 14 + ["0"], ["1"] * 15])), None, label="y")


def test_missing_values_are_filled_from_the_training_table(table):
    data, judge = encode(table(HOLES), table(OTHER, "test.csv"), label="y", missing="fill")
    assert data.columns == ("age", "city=Oslo", "city=Rome", "city=missing", "x")
    assert data.inputs.tolist() == [[1, 1, 0, 0, 1], [7, 0, 1, 0, 2], [7, 0, 0, 1, 3], [9, 1, 0, 0, 4]]
    assert judge.inputs.tolist() == [[7, 0, 0, 1, 1], [5, 0, 1, 0, 1]]


def test_no_category_for_what_is_missing_in_test_only(table):
    data, judge = encode(table("a,b,y\nx,1,0\n"), table("a,b,y\n,,0\n", "test.csv"), label="y", missing="fill")
    assert data.columns == ("a=x", "b")
    assert judge.inputs.tolist() == [[0, 1]]


def test_rows_with_missing_values_are_dropped_and_their_categories_and_not_their_classes(table):
    data, judge = encode(table(HOLES), table(OTHER, "test.csv"), label="y", missing="drop")
    assert data.columns == judge.columns == ("age", "city=Oslo", "x")
    assert data.inputs.tolist() == [[1, 1, 1], [9, 1, 4]]
    assert data.labels.tolist() == [0, 1]
    assert judge.inputs.tolist() == [[5, 0, 1]]
    assert judge.labels.tolist() == [1]
    assert judge.counts.tolist() == [0, 1]


@pytest.mark.parametrize("missing", ["refuse", "fill", "drop"])
def test_nothing_missing_is_the_same_in_every_way(table, missing):
    data, _ = encode(table("a,b,y\n1,x,0\n2,z,1\n"), None, label="y", missing=missing)
    assert data.inputs.tolist() == [[1, 1, 0], [2, 0, 1]]


def test_nothing_left(table):
    with refused("test.csv", "a 1, b 1", "?missing=drop leaves no row", "?missing=fill"):
        encode(table("a,b,y\n1,1,0\n"), table("a,b,y\n,1,0\n1,,0\n", "test.csv"), label="y", missing="drop")


@pytest.mark.parametrize("missing", ["refuse", "fill", "drop"])
@pytest.mark.parametrize("categorical", [(), ("b",)])
def test_a_column_that_is_missing_everywhere(table, missing, categorical):
    train = table("a,b,y\n1,,0\n2,NA,1\n")
    with refused("train.csv", "column 'b'", "every row", "?drop=b"):
        encode(train, None, label="y", missing=missing, categorical=categorical)
    assert encode(train, None, label="y", missing=missing, drop=["b"])[0].columns == ("a",)


def test_another_way_with_missing_values(tmp_path):
    (tmp_path / "table.csv").write_text("a,y\n1,0\n")
    with refused("missing 'fil'", "'fill'", "refuse, fill, drop"):
        load(f"csv:{tmp_path / 'table.csv'}?label=y&missing=fil")


# Columns.


@pytest.mark.parametrize("option", ["categorical", "drop"])
def test_options_name_feature_columns(table, option):
    train = table("age,city,y\n1,x,0\n")
    with refused(f"?{option}", "'Cty'", "train.csv", "did you mean 'city'?", "There are age, city."):
        encode(train, None, label="y", **{option: ["Cty"]})
    with refused(f"?{option}", "'y'", "the label of train.csv", "age, city"):
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


# Arrow.


def test_arrow_types(arrow):
    pa = arrow.pa
    read = arrow(
        small=pa.array([1, None, 3], pa.int8()),
        large=pa.array([2**60 + 1, None, 1], pa.uint64()),
        single=pa.array([0.5, float("nan"), None], pa.float32()),
        half=pa.array(np.array([0.5, 1, 2], dtype=np.float16)),
        flag=pa.array([True, None, False]),
        price=pa.array([Decimal("1.25"), None, Decimal("3")]),
        text=pa.array(["x", None, "n/a"]),
        long=pa.array(["1", "2", "3"], pa.large_string()),
        words=pa.array(["x", None, "z"]).dictionary_encode(),
        codes=pa.array([7, 7, None]).dictionary_encode(),
        within=pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["x", None])),
        y=[0, 1, 0],
    )
    holes = {name: np.flatnonzero(missing).tolist() for name, missing in read.missing.items()}
    expected = {"small": [1], "large": [1], "single": [1, 2], "half": [], "flag": [1], "price": [1], "text": [1, 2]}
    assert holes == {**expected, "long": [], "words": [1], "codes": [2], "within": [1], "y": []}
    assert read.columns["large"][0] == 2**60 + 1
    data, _ = encode(read, None, label="y", missing="fill")
    words, within = ("words=missing", "words=x", "words=z"), ("within=missing", "within=x")
    assert data.columns == (
        "small",
        "large",
        "single",
        "half",
        "flag",
        "price",
        "text=missing",
        "text=x",
        "long",
        *words,
        "codes",
        *within,
    )
    assert data.inputs[0].tolist() == [1, 2.0**60, 0.5, 0.5, 1, 1.25, 0, 1, 1, 0, 1, 0, 7, 0, 1]
    assert data.inputs[2].tolist() == [3, 1, 0.5, 2, 0, 3, 1, 0, 3, 0, 0, 1, 7, 0, 1]


@pytest.mark.parametrize(
    "values", [[True, False, None], [Decimal("1.5"), Decimal("2"), None], [3, 4, None], [0.5, 2.0, None]]
)
def test_arrow_dictionaries_of_numbers(arrow, values):
    read = arrow(a=arrow.pa.array(values).dictionary_encode())
    assert read.columns["a"].tolist() == [float(value) for value in values[:2]] + [0]
    assert read.missing["a"].tolist() == [False, False, True]


def test_arrow_in_chunks(arrow):
    pa = arrow.pa
    read = arrow(a=pa.chunked_array([[1, 2], [None]]), b=pa.chunked_array([["x"], [None, "z"]]), y=[0, 1, 1])
    assert read.columns["a"].tolist() == [1, 2, 0]
    assert read.columns["b"].tolist() == ["x", "", "z"]
    assert read.missing["a"].tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([10.0, 2.0, 2.0], ("2", "10")),
        ([0.1, 1.0, 3.0], ("0.1", "1", "3")),
        ([True, False, True], ("0", "1")),
        (["b", "a", "b"], ("a", "b")),
    ],
)
def test_arrow_labels(arrow, labels, classes):
    data, _ = encode(arrow(x=[1, 2, 3], y=labels), None, label="y")
    assert data.classes == classes


def test_csv_and_arrow_agree(arrow, table):
    columns = {"a": [1.5, 2.0, -3.0], "c": ["x", "z", "x"], "k": [3, 20, 3], "y": [2, 10, 2]}
    text = written([columns, *zip(*columns.values(), strict=True)])
    ours, theirs = (encode(read, None, label="y", categorical=["k"])[0] for read in (table(text), arrow(**columns)))
    assert ours.columns == theirs.columns == ("a", "c=x", "c=z", "k=20", "k=3")
    assert ours.fingerprint == theirs.fingerprint


def test_arrow_types_that_are_refused_can_be_dropped(arrow):
    pa = arrow.pa
    columns = {
        "when": pa.array([date(2020, 1, 1)]),
        "many": pa.array([[1]]),
        "raw": pa.array([b"x"]),
        "parts": pa.array([{"a": 1}]),
        "time": pa.array([1], pa.timestamp("us", "UTC")),
        "days": pa.array([date(2020, 1, 1)]).dictionary_encode(),
    }
    for name, column in columns.items():
        with refused("train.parquet", f"column {name!r}", str(column.type), f"?drop={name}"):
            encode(arrow(x=[1], y=[0], **{name: column}), None, label="y")
        with refused("train.parquet", f"column {name!r}", str(column.type), "another label"):
            encode(arrow(x=[1], **{name: column}), None, label=name)
    assert encode(arrow(x=[1], y=[0], **columns), None, label="y", drop=list(columns))[0].columns == ("x",)


def test_arrow_refusals(arrow):
    pa = arrow.pa
    with refused("train.parquet", "column 'a' has 'abc' in row 1", "and 2 numbers", "?categorical=a"):
        encode(arrow(a=["1", "abc", "3"], y=[0, 1, 1]), None, label="y")
    with refused("train.parquet", "column 'y' has nothing in row 2", "label"):
        encode(arrow(a=[1, 2, 3], y=[0, 1, None]), None, label="y")
    with refused("train.parquet", "column 'a' has -1e+300 in row 1", "finite"):
        encode(arrow(a=[1, -1e300], y=[0, 1]), None, label="y")
    with refused("train.parquet", "column 'n' is missing in every row", "?drop=n"):
        encode(arrow(a=[1], n=pa.nulls(1), y=[0]), None, label="y")
    with refused("train.parquet", "no rows"):
        arrow(a=pa.array([], pa.int64()))
    with refused("twice.parquet", "column 'a' appears twice"):
        from_arrow("twice.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_numbers_in_csv_and_text_in_arrow(arrow, table):
    with refused("column 'a'", "numbers in train.csv and text in test.parquet"):
        encode(table("a,y\n1,0\n"), arrow("test.parquet", a=["x"], y=[0]), label="y")


# Whole numbers that float64 does not hold.

IDS = {"10 ** 18": 10**18, "2 ** 60": 2**60, "negative": -(2**62), "uint64": 2**64 - 100, "longer": 10**30}


FORMS = ("csv", "csv with decimals", "int64", "decimal")


@pytest.mark.parametrize(("form", "start"), [pair for pair in product(FORMS, IDS) if pair != ("int64", "longer")])
def test_whole_numbers_that_float64_makes_one_are_refused(table, arrow, form, start):
    ids, labels = [IDS[start] + i for i in range(40)], [i % 2 for i in range(40)]
    if form == "int64":
        made = arrow(
            "t.csv", id=arrow.pa.array(ids, arrow.pa.uint64() if start == "uint64" else arrow.pa.int64()), label=labels
        )
    elif form == "decimal":
        made = arrow(
            "t.csv", id=arrow.pa.array([None, *map(Decimal, ids[1:])], arrow.pa.decimal128(38, 0)), label=labels
        )
    else:
        made = table(
            written(
                [
                    ["id", "label"],
                    *([f"{i}{'.0' * (form != 'csv')}", label] for i, label in zip(ids, labels, strict=True)),
                ]
            )
        )
    with refused("column 'id'", "?drop=id", "?categorical=id"):
        encode(made, None, label="label", missing="fill")
    assert encode(made, None, label="label", categorical=["id"], missing="fill")[0].inputs.shape == (40, 40)


def test_whole_numbers_that_are_spread_are_features(table):
    """Times in nanoseconds, a day apart, with one missing."""
    days = ["", *(1_700_000_000 * 10**9 + day * 86_400 * 10**9 for day in range(1, 40))]
    made = table(written([["time", "label"], *([day, i % 2] for i, day in enumerate(days))]))
    assert len(np.unique(encode(made, None, label="label", missing="fill")[0].inputs)) == 39


def test_labels_that_only_their_last_digit_tells_apart(table):
    made = table(written([["x", "label"], *([i, 10**18 + i % 2] for i in range(4))]))
    data, _ = encode(made, None, label="label")
    assert (data.classes, data.labels.tolist()) == ((str(10**18), str(10**18 + 1)), [0, 1, 0, 1])
