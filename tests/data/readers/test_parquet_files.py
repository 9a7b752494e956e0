"""Parquet tables through load, and files that disagree, are damaged or cannot be read."""

import os
import sys

import pytest
from pictures import LABELS, struct
from refusals import refused

from class_uncertainty import load

pytestmark = pytest.mark.usefixtures("no_global_random", "here")


@pytest.mark.parametrize("option", ["size=4", "channels=1"])
def test_parquet_options_of_pictures_are_refused_for_tables(write, option):
    write(length=list(range(6)), label=LABELS)
    with refused("pets.parquet holds a table", f"?{option}"):
        load(f"parquet:pets.parquet?{option}")


@pytest.mark.parametrize(("column", "told"), [("length", "has inf in row 2"), ("label", "has nothing in row 2")])
def test_parquet_a_fault_in_the_second_file_of_a_table_is_named(write, column, told):
    write("pets/train-0.parquet", length=[1.0, 2.0, 3.0, 4.0], label=[0, 1, 0, 1])
    second = {"length": [1.0, 2.0, 3.0], "label": [0, 1, 0]}
    second[column] = [second[column][0], second[column][1], float("inf") if column == "length" else None]
    write("pets/train-1.parquet", **second)
    with refused(f"{os.path.join('pets', 'train-1.parquet')}: column '{column}' {told}"):
        load("parquet:pets")


def test_parquet_without_labels_is_refused(write):
    write(image=struct(*range(6)), species=LABELS)
    with refused("pets.parquet has no column 'label'", "--label", "image, species"):
        load("parquet:pets.parquet")


def test_parquet_without_rows_is_refused(write):
    write(image=write.arrow.array([], write.arrow.binary()), label=write.arrow.array([], write.arrow.int64()))
    with refused("pets.parquet has no rows"):
        load("parquet:pets.parquet")


def test_parquet_files_that_disagree_are_refused(write):
    write("pets/a.parquet", image=struct(0, 1), label=[0, 1])
    write("pets/b.parquet", image=struct(2, 3), label=["0", "1"])
    names = [os.path.join("pets", name) for name in ("a.parquet", "b.parquet")]
    with refused(f"{names[0]} and {names[1]} disagree on their schema: label"):
        load("parquet:pets")
    write("pets/b.parquet", image=struct(2, 3), label=[0, 1], more=[1, 2])
    with refused(f"{names[0]} and {names[1]} disagree on their schema: more"):
        load("parquet:pets")
    write("pets/b.parquet", label=[0, 1], image=struct(2, 3))
    with refused("the order of columns"):
        load("parquet:pets")


def test_parquet_splits_that_disagree_are_refused(write):
    write("pets/train.parquet", image=struct(*range(6)), label=LABELS)
    write("pets/test.parquet", image=struct(6, 7), label=["0", "1"])
    with refused("train.parquet", "test.parquet", "disagree on their schema: label"):
        load("parquet:pets")


def test_parquet_names_that_say_their_split_and_names_that_do_not(write):
    write("pets/train.parquet", image=struct(*range(6)), label=LABELS)
    write("pets/more.parquet", image=struct(6, 7), label=[0, 1])
    with refused("train.parquet names its split and", "more.parquet does not"):
        load("parquet:pets")


def test_parquet_without_training_files_is_refused(write, here):
    write("pets/test.parquet", image=struct(*range(6)), label=LABELS)
    with refused("pets has no training file", "train-*.parquet"):
        load("parquet:pets")
    assert load("parquet:pets/test.parquet").test is None  # but it may be named
    (here / "none").mkdir()
    with refused("none holds no .parquet file"):
        load("parquet:none")


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-4] + b"XXXX",
        lambda whole: whole[:-200] + bytes(192) + whole[-8:],
        lambda whole: b"",
        lambda whole: b"a,b\n1,2\n",
    ],
    ids=["cut", "the last bytes", "the footer", "empty", "CSV"],
)
def test_parquet_broken(write, here, damage):
    write(image=struct(*range(6)), label=LABELS)
    (here / "pets.parquet").write_bytes(damage((here / "pets.parquet").read_bytes()))
    with refused("pets.parquet cannot be read as Parquet: "):
        load("parquet:pets.parquet")


def test_parquet_with_damaged_pages(write, here):
    """The footer is whole, so that only reading tells."""
    write(image=struct(*range(6)), label=LABELS)
    whole = (here / "pets.parquet").read_bytes()
    (here / "pets.parquet").write_bytes(whole[:4] + bytes(500) + whole[504:])
    with refused("pets.parquet"):
        load("parquet:pets.parquet")


@pytest.mark.parametrize("missing", ["pyarrow", "pyarrow.parquet"])
def test_parquet_without_pyarrow(write, monkeypatch, missing):
    write(image=struct(*range(6)), label=LABELS)
    monkeypatch.setitem(sys.modules, missing, None)
    with refused("Parquet", "pip install pyarrow"):
        load("parquet:pets.parquet")


def test_parquet_tables(write):
    write("a.parquet", age=[1.5, 2.5, 3.5, 4.5], city=["x", "y", "x", "y"], label=["u", "u", "v", "v"])
    write("b.parquet", age=[9.0, 8.0], city=["y", "z"], label=["v", "u"])
    data = load("parquet:a.parquet?test=b.parquet")
    assert data.train.columns == ("age", "city=x", "city=y")
    assert data.train.inputs.tolist() == [[1.5, 1, 0], [2.5, 0, 1], [3.5, 1, 0], [4.5, 0, 1]]
    assert data.test.inputs.tolist() == [[9, 0, 1], [8, 0, 0]]
    assert load("parquet:a.parquet?label=city&drop=label").classes == ("x", "y")
