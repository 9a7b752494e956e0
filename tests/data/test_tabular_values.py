"""Tables of numbers, categories, labels and missing values."""

import io

import numpy as np
import pytest
from data.written_tables import HOLES, written
from refusals import refused
from sklearn.preprocessing import OneHotEncoder

from class_uncertainty import load
from class_uncertainty.data.tabular import MAX_CATEGORIES, encode

pytestmark = pytest.mark.usefixtures("no_global_random")


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
        with refused("train.csv", "column 'id'", "101 categories", "100", "--drop id"):
            encode(train, None, label="y")  # `encode_splits` leaves it out first


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

OTHER = "age,city,x,y\nNA,,1,0\n5,Rome,1,1\n"


def test_missing_values_are_refused_and_counted(table):
    with refused("train.csv and test.csv", "(age 2, city 2)", "--missing fill", "--missing drop"):
        encode(table(HOLES), table(OTHER, "test.csv"), label="y", missing="refuse")


def test_missing_values_are_filled_and_told_of_unless_a_policy_is_given(table):
    noticed = []
    asked, _ = encode(table(HOLES), None, label="y", missing="fill", noticed=noticed)
    assert noticed == []
    data, _ = encode(table(HOLES), None, label="y", noticed=noticed)
    (found,) = noticed
    assert (found.kind, found.number, found.examples) == ("missing-values", 2, ("age", "city"))
    assert all(part in str(found) for part in ("age 1", "city 1", "--missing drop"))
    assert data.inputs.tolist() == asked.inputs.tolist()
    assert data.encoding == asked.encoding


def test_many_columns_with_missing_values(table):
    names = [f"c{i}" for i in range(14)]
    with refused("c0 1, c1 1,", "c9 1 and 4 more)"):
        encode(table(written([[*names, "y"], [""] * 14 + ["0"], ["1"] * 15])), None, label="y", missing="refuse")


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
    with refused("test.csv", "a 1, b 1", "--missing drop leaves no row", "--missing fill"):
        encode(table("a,b,y\n1,1,0\n"), table("a,b,y\n,1,0\n1,,0\n", "test.csv"), label="y", missing="drop")


@pytest.mark.parametrize("missing", ["refuse", "fill", "drop"])
@pytest.mark.parametrize("categorical", [(), ("b",)])
def test_a_column_that_is_missing_everywhere(table, missing, categorical):
    train = table("a,b,y\n1,,0\n2,NA,1\n")
    with refused("train.csv", "column 'b'", "every row", "--drop b"):
        encode(train, None, label="y", missing=missing, categorical=categorical)
    assert encode(train, None, label="y", missing=missing, drop=["b"])[0].columns == ("a",)


def test_another_way_with_missing_values(tmp_path):
    (tmp_path / "table.csv").write_text("a,y\n1,0\n")
    with refused("missing 'fil'", "'fill'", "fill, refuse, drop"):
        load(f"csv:{tmp_path / 'table.csv'}?label=y&missing=fil")
