"""Tables of Arrow: types, dictionaries, labels, and whole numbers that float64 cannot tell apart."""

from datetime import date
from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from data.written_tables import written
from refusals import refused

from class_uncertainty.data.table import from_arrow
from class_uncertainty.data.tabular import encode

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.fixture
def arrow():
    """A function that makes a Table of Arrow columns."""
    import pyarrow as pa

    def make(file="train.parquet", **columns):
        return from_arrow(file, pa.table(columns))

    make.pa = pa
    return make


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
        with refused("train.parquet", f"column {name!r}", str(column.type), f"--drop {name}"):
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
    with refused("train.parquet", "column 'n' is missing in every row", "--drop n"):
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
    with refused("column 'id'", "--drop id", "?categorical=id"):
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
