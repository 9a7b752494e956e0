"""DataFrames: the same data as the CSV and Parquet files that they are written to, for training and for new rows."""

import subprocess
import sys

import numpy as np
import pandas
import pyarrow
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.data.frames import table_of

RECIPE = cu.Recipe("linear", epochs=1, batch=16)


@pytest.fixture
def churn(here):
    """Numbers, text, categories and missing values, also written as churn.csv and churn.parquet."""
    rng, rows = np.random.default_rng(3), 80
    frame = pandas.DataFrame(
        {
            "id": np.arange(rows) + 10**6,
            "age": rng.integers(18, 90, rows),
            "city": rng.choice(["Oslo", "Rome", " Bonn "], rows),
            "plan": pandas.Categorical(rng.choice(["free", "paid"], rows)),
            "spent": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows) * 1e3),
            "calls": pandas.array([None if i % 9 == 0 else i for i in range(rows)], dtype="Int64"),
            "zip": rng.choice([1010, 2020, 3030], rows),
            "note": [None if i % 7 == 0 else f"n{i % 3}" for i in range(rows)],
            "household": rng.integers(0, 25, rows),
            "churn": np.where(np.arange(rows) < 2, "frozen", rng.choice(["no", "yes"], rows, p=[0.7, 0.3])),
        }
    )
    frame.to_csv(here / "churn.csv", index=False)
    frame.to_parquet(here / "churn.parquet")
    return frame


OPTIONS = {
    "filled": {"missing": "fill", "drop": "id"},
    "dropped rows": {"missing": "drop", "drop": ["id", "note"], "min": 2},
    "categories": {"missing": "fill", "drop": ["id"], "categorical": ["zip", "household"]},
    "a share": {"missing": "fill", "drop": ["id"], "test": 0.25, "min": 3},
    "groups": {"missing": "fill", "drop": ["id"], "group": "household", "min": 3},
    "a share of groups": {"missing": "drop", "drop": ["id"], "group": "household", "min": 4, "test": 0.3},
}


def query(options):
    texts = {option: ",".join(value) if isinstance(value, list) else value for option, value in options.items()}
    return "&".join(["label=churn", *(f"{option}={text}" for option, text in texts.items())])


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_frame_is_the_data_of_its_file(churn, form, case):
    options = OPTIONS[case]
    frame = cu.load(churn, label="churn", seed=2, **options)
    file = cu.load(f"{form}:churn.{form}?{query(options)}", seed=2)
    assert frame.fingerprint == file.fingerprint
    assert frame.train.columns == file.train.columns
    assert frame.train.encoding == file.train.encoding
    assert [(part.what, part.number, part.of, part.names) for part in frame.left_out] == [
        (part.what, part.number, part.of, part.names) for part in file.left_out
    ]
    assert frame.name == f"frame?{'&'.join(sorted(query(options).split('&')))}"


class Streamed:
    """A frame of a library that hands its columns over as polars does."""

    columns = ()

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Exchanged:
    """A frame of a library that has the older protocol only."""

    columns = ()

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, *_, **__):
        return self.table.__dataframe__()


@pytest.mark.parametrize("wrap", [lambda table: table, Streamed, Exchanged], ids=["arrow", "stream", "interchange"])
def test_frames_of_other_libraries(churn, wrap):
    chosen = churn[["age", "city", "zip", "churn"]].assign(city=churn["city"].astype(object))
    options = {"label": "churn", "min": 3}
    other = cu.load(wrap(pyarrow.table(chosen.to_dict("list"))), **options)
    assert other.fingerprint == cu.load(chosen, **options).fingerprint


def test_categories_as_polars_has_them():
    """A dictionary of string views, in two chunks."""
    views = pyarrow.array(["Oslo", "Rome"], pyarrow.string_view())
    chunks = [pyarrow.DictionaryArray.from_arrays([0, 1, None], views), pyarrow.DictionaryArray.from_arrays([1], views)]
    table = table_of(pyarrow.table({"city": pyarrow.chunked_array(chunks), "label": [0, 1, 0, 1]}))
    assert table.columns["city"].tolist() == ["Oslo", "Rome", "", "Rome"]
    assert table.missing["city"].tolist() == [False, False, True, False]


def test_a_frame_to_judge_on(churn):
    train, test = churn.iloc[2:60], churn.iloc[60:]
    data = cu.load(train, label="churn", missing="fill", drop="id", test=test)
    train.to_csv("a.csv", index=False)
    test.to_csv("b.csv", index=False)
    assert data.fingerprint == cu.load("csv:a.csv?label=churn&missing=fill&drop=id&test=b.csv").fingerprint


def test_what_data_of_a_frame_have(churn):
    data = cu.Data.from_frame(churn, label="churn", drop=["id", "note"], missing="drop", group="household")
    assert data.classes == ("frozen", "no", "yes")
    assert len(data) == len(churn.dropna(subset=["spent", "calls"])) == len(data.groups)
    assert data.names[0] == f"row {churn.dropna(subset=['spent', 'calls']).index[0]}"
    assert "household" not in data.columns


def test_an_index_and_names_that_are_no_text_are_no_matter(churn):
    frame = churn[["age", "city", "churn"]].rename(columns={"age": 0, "city": 1, "churn": 2})
    data = cu.load(frame.set_index(churn["id"]), label=2, min=3)
    assert data.train.columns == ("0", "1=Bonn", "1=Oslo", "1=Rome")


def test_prediction_encodes_new_rows_alike(churn):
    cu.train(cu.load(churn, label="churn", missing="fill", drop="id", min=3), recipe=RECIPE, save="model")
    rows = churn.drop(columns=["churn", "id"]).sample(frac=1, random_state=0)[churn.columns[[5, 2, 1, 3, 4, 6, 7, 8]]]
    rows.to_csv("new.csv", index=False)
    by_frame, by_file = cu.predict("model", rows), cu.predict("model", "new.csv")
    assert np.array_equal(by_frame.probabilities, by_file.probabilities)
    assert by_frame.names[:2] == ["row 0", "row 1"]
    unseen = cu.predict("model", rows.assign(city="Paris"))
    assert "city: 80 of 80 rows have a category that training did not have" in unseen.notes[0]
    with refused("no column 'age' in the DataFrame for the network"):
        cu.predict("model", rows.drop(columns="age"))


def test_a_column_of_numbers_and_text_is_that_of_a_csv_file():
    mixed = pandas.DataFrame({"a": [1, "x", 2.5, None], "label": [0, 1, 0, 1]})
    assert table_of(mixed).columns["a"].tolist() == ["1", "x", "2.5", ""]
    with refused("column 'a' has 'x' in row 1, and 2 numbers", "categorical='a'"):
        cu.load(mixed, missing="fill")
    assert cu.load(mixed, missing="fill", categorical="a").train.columns == ("a=1", "a=2.5", "a=missing", "a=x")


def test_all_columns_that_cannot_be_used_are_named_at_once():
    odd = {"when": pandas.to_datetime(["2020"] * 4), "list": [[1]] * 4, "thing": [object()] * 4, "none": [None] * 4}
    frame = pandas.DataFrame({"x": [1, 2, 3, 4], "label": [0, 1, 0, 1]} | odd)
    parts = [
        "the DataFrame: 4 columns cannot be used (column 'none' is missing in every row",
        "type timestamp",
        "1 more",
    ]
    with refused(*parts, "drop=['none', 'when', 'list', 'thing']"):
        cu.load(frame)
    with refused("column 'thing' has type object", "drop='thing'"):
        cu.load(frame, drop=["when", "list", "none"])
    assert cu.load(frame, drop=[*odd]).train.columns == ("x",)


@pytest.mark.parametrize("cells", [[1j, 2j, 3j, 4j], [2**70, 1, 2, 3]])
def test_columns_that_arrow_does_not_know_are_named_and_can_be_dropped(cells):
    frame = pandas.DataFrame({"x": [1, 2, 3, 4], "label": [0, 1, 0, 1], "odd": cells})
    with refused("column 'odd' has type object", "drop='odd'"):
        cu.load(frame)
    assert cu.load(frame, drop="odd").train.columns == ("x",)


@pytest.mark.parametrize(
    ("frame", "parts"),
    [
        (pandas.DataFrame(), ["the DataFrame"]),
        (pandas.DataFrame({"label": [1, 2]}), ["no features"]),
        (pandas.DataFrame({"x": [1.0, 2.0], "label": ["a", None]}), ["'label' has '' in row 1", "needs one"]),
        (pandas.DataFrame([[1, 2, 0]], columns=["x", "x", "label"]), ["column 'x' appears twice"]),
        (pandas.DataFrame({"x": [1.0, np.inf], "label": ["a", "b"]}), ["column 'x' has inf in row 1", "drop='x'"]),
    ],
    ids=["empty", "no features", "no label", "twice", "infinite"],
)
def test_frames_refused(frame, parts):
    with refused(*parts):
        cu.load(frame)


def test_pandas_is_not_imported():
    code = "import sys, class_uncertainty as cu; cu.load; assert not {'pandas', 'polars', 'pyarrow'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
