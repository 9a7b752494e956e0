"""Files that goals are read from: cost matrices, with and without class names, and numbers of classes."""

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from class_uncertainty.posthoc.goal import check_costs, read_costs, read_numbers

NAMES = ("cat", "dog", "sea eel")
MATRIX = [[0, 1, 4], [2, 0.5, 3], [9, 5, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "0,1,4\n2,0.5,3\n9,5,0\n",
        "0;1;4\n2;0.5;3\n\n9;5;0",
        "cat,dog,sea eel\n0,1,4\n2,0.5,3\n9,5,0\n",
        "cat,0,1,4\ndog,2,0.5,3\nsea eel,9,5,0\n",
        ",cat,dog,sea eel\ncat,0,1,4\ndog,2,0.5,3\nsea eel,9,5,0\n",
        "true, sea eel ,cat,dog\ndog,3,2,0.5\nsea eel,0,9,5\ncat,4,0,1\n",
        "\ufeffdog,cat,sea eel\n1,0,4\n0.5,2,3\n5,9,0\n",
        "sea eel,9,5,0\ncat,0,1,4\ndog,2,0.5,3\n",
    ],
)
def test_names_may_be_there_in_any_order(text, tmp_path):
    (tmp_path / "costs.csv").write_text(text, encoding="utf-8")
    assert read_costs(tmp_path / "costs.csv", NAMES).tolist() == MATRIX


def test_classes_that_are_numbers(tmp_path):
    (tmp_path / "costs.csv").write_text(",1,0\n1,0,7\n0,3,0\n")
    assert read_costs(tmp_path / "costs.csv", ("0", "1")).tolist() == [[0, 3], [7, 0]]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("0,1\n1,0\n", ("2 rows of 2 cells", "3 classes are 3 x 3 numbers", "with or without class names")),
        (",cat,dog\ncat,0,1\ndog,1,0\n", ("'' for a cost and no class 'sea eel'", "3 x 3")),
        (",cat\ncat,0\n", ("2 rows of 2 cells and no class 'dog'", "3 x 3")),
        ("0,1,4\n2,0,3\n", ("2 rows of 3 cells",)),
        ("0,1,4\n2,-1,3\n9,5,0\n", ("predicting class 'dog' for class 'dog' is -1", "at least 0")),
        ("0,1,4\n2,0,nan\n9,5,0\n", ("predicting class 'sea eel' for class 'dog' is nan", "finite")),
        ("0,1,inf\n2,0,1\n9,5,0\n", ("'sea eel' for class 'cat' is inf", "finite")),
        ("1,0,0\n0,2,0\n0,0,0\n", ("every wrong prediction costs 0",)),
        ("5,1,1\n0,0,1\n0,1,0\n", ("right prediction of class 'cat' costs 5", "a wrong one 1", "not what they gain")),
        ("0,1,4\n2,x,3\n9,5,0\n", ("'x' for a cost", "3 x 3 numbers")),
        ("0,1,\n2,0,3\n9,5,0\n", ("'' for a cost",)),
        ("cat,dgo,sea eel\n0,1,4\n2,0,3\n9,5,0\n", ("unknown class", "'dgo'", "did you mean 'dog'?")),
        ("cat,dog,dog\n0,1,4\n2,0,3\n9,5,0\n", ("'dog' twice", "no class 'sea eel'")),
        ("0,1,4\n2,0\n9,5,0\n", ("line 2 has 2 cells",)),
        ("", ("is empty",)),
    ],
)
def test_what_is_no_cost_matrix_is_refused(text, facts, tmp_path):
    (tmp_path / "costs.csv").write_text(text)
    with refused("costs.csv", *facts):
        read_costs(tmp_path / "costs.csv", NAMES)


def test_a_missing_file_and_a_folder(tmp_path):
    (tmp_path / "costs.csv").write_text("0,1\n1,0\n")
    with refused("cost.csv does not exist", "did you mean", "costs.csv"):
        read_costs(tmp_path / "cost.csv", NAMES)
    with refused("is a folder"):
        read_costs(tmp_path, NAMES)


def test_a_matrix_in_python():
    np.testing.assert_array_equal(check_costs(MATRIX, 3), MATRIX)
    with refused("the shape (3, 3)", "4 x 4"):
        check_costs(MATRIX, 4)
    with refused("the shape (0,)"):
        check_costs([["a"]], 2)


def test_numbers_are_typed_or_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("counts.npy", [500, 60, 7])
    Path("lines.txt").write_text("500\n60\n7\n")
    Path("row.csv").write_text("500, 60, 7")
    Path("list.json").write_text("[500, 60, 7]")
    Path("5").write_text("500 60 7")  # a file, though its name is a number
    for given in ("500,60,7", "500 60 7", "counts.npy", "lines.txt", "row.csv", "list.json", "5"):
        assert read_numbers(given, "--counts").tolist() == [500, 60, 7]


@pytest.mark.parametrize("given", ["", "none.txt", "a,b"])
def test_numbers_that_are_nowhere_are_refused(given):
    with refused("--prior", repr(given), "train, equal, "):
        read_numbers(given, "--prior", "train, equal, ")


@pytest.mark.parametrize(("name", "content"), [("w.txt", b"many"), ("w.json", b'{"a": 1}'), ("b.txt", b"\xff\xfe\x00")])
def test_a_file_without_numbers_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with refused(name):
        read_numbers(str(tmp_path / name), "--counts")
    with refused("folder"):
        read_numbers(str(tmp_path), "--counts")
