"""?repeats=drop: what repeats another training example, or is a test example, is left out of training."""

import numpy as np
import pandas
import pytest
from refusals import refused

from class_uncertainty import Dataset, load


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def save(**splits: list[float]) -> None:
    """Of each split the values of one feature, of classes 0 and 1 in turn."""
    arrays = dict[str, np.ndarray]()
    for name, values in splits.items():
        arrays |= {f"x_{name}": np.array(values)[:, None], f"y_{name}": np.arange(len(values)) % 2}
    np.savez("repeats.npz", **arrays)


def test_repeats_are_dropped_and_counted():
    """The first of each stays, whatever its class. Nothing is left for folds to share."""
    save(train=[1, 2, 3, 1, 5, 6, 1, 6])
    dataset = load("npz:repeats.npz?repeats=drop")
    assert dataset.name == "npz:repeats.npz?repeats=drop"
    assert dataset.train.inputs[:, 0].tolist() == [1, 2, 3, 5, 6]
    assert (dataset.duplicates, dataset.train.repeats) == (0, 0)
    contrary = "1 of them of another class than the one that stays"
    left = f"?repeats=drop left out 3 of 8 training examples, {contrary}: row 3, row 6, row 7."
    assert list(map(str, dataset.left_out)) == [left]
    assert load("npz:repeats.npz").duplicates == 3


def test_test_examples_leave_the_training_split_and_stay_themselves():
    save(train=[1, 2, 3, 4, 5, 6, 5], test=[3, 8, 3, 9])
    dataset = load("npz:repeats.npz?repeats=drop")
    assert dataset.train.inputs[:, 0].tolist() == [1, 2, 4, 5, 6]
    assert dataset.test.inputs[:, 0].tolist() == [3, 8, 3, 9]
    assert dataset.duplicates == 0
    assert str(dataset.left_out[0]).endswith("2 of 7 training examples, 1 of them test examples: row 2, row 6.")


def test_repeats_go_before_classes_are_counted_and_before_a_share_is_set_aside():
    np.savez("repeats.npz", x_train=np.arange(40)[:, None] // 4, y_train=np.arange(40) // 20)
    dataset = load("npz:repeats.npz?repeats=drop&test=0.4")
    assert (dataset.train.counts.tolist(), dataset.test.counts.tolist()) == ([3, 3], [2, 2])
    np.savez("repeats.npz", x_train=[[1], [2], [3], [4], [5], [5]], y_train=[0, 0, 1, 1, 2, 2])
    assert load("npz:repeats.npz?repeats=drop&min=2").classes == ("0", "1")


def test_without_repeats_nothing_is_left_out():
    save(train=[1, 2, 3, 4])
    plain, same = load("npz:repeats.npz"), load("npz:repeats.npz?repeats=drop")
    assert (same.left_out, same.train.fingerprint) == ((), plain.train.fingerprint)


TRAIN = pandas.DataFrame(
    {
        "id": range(8),
        "size": ["1", "1.0", "2", "3", "", "", "4", "4"],
        "city": ["Oslo", " Oslo", "Rome", "Rome", "Bonn", "Bonn", "Bonn", "Rome"],
        "label": list("xyyyxxxy"),
    }
)
TEST = pandas.DataFrame({"id": [8, 9, 10], "size": ["3", "9", "9"], "city": ["Rome"] * 3, "label": list("xyy")})


def tables(source: str, **options: str) -> Dataset:
    """TRAIN and TEST, read by that source."""
    options = {"drop": "id", "missing": "fill", **options}
    if source == "frame":
        return load(TRAIN, test=TEST, **options)
    query = "&".join(f"{option}={value}" for option, value in options.items())
    for name, table in (("train", TRAIN), ("test", TEST)):
        write = {"csv": table.to_csv, "parquet": table.to_parquet}[source]
        write(f"{name}.{source}", index=False)
    return load(f"{source}:train.{source}?test=test.{source}&{query}")


@pytest.mark.parametrize("source", ["csv", "parquet", "frame"])
def test_rows_of_tables_are_alike_if_their_features_are(source):
    """Cells are compared as features: '1' is '1.0', blanks do not count, and missing values are alike."""
    dataset = tables(source, repeats="drop")
    assert dataset.train.labels.tolist() == [0, 1, 0, 0, 1]
    assert (len(dataset.test), dataset.duplicates, dataset.train.repeats) == (3, 0, 0)
    option = "repeats='drop'" if source == "frame" else "?repeats=drop"
    facts = "1 of them test examples, 1 of them of another class than the one that stays"
    rows = "line 3, line 5, line 7" if source == "csv" else "row 1, row 3, row 5"
    (left,) = map(str, dataset.left_out)
    assert left == f"{option} left out 3 of 8 training examples, {facts}: {rows}."
    assert "repeats=drop" in dataset.name
    assert tables(source).duplicates == 1


def test_incomplete_rows_of_tables_go_before_repeats():
    dataset = tables("csv", repeats="drop", missing="drop")
    assert [(left.option, left.number, left.of) for left in dataset.left_out] == [
        ("?repeats=drop", 2, 6),
        ("--missing drop", 2, 11),
    ]


def test_repeated_rows_go_before_classes_are_counted_and_before_a_share_is_set_aside():
    frame = pandas.DataFrame({"a": np.arange(40) // 4, "label": np.arange(40) // 20})
    dataset = load(frame, repeats="drop", test=0.4)
    assert (dataset.train.counts.tolist(), dataset.test.counts.tolist()) == ([3, 3], [2, 2])
    frame = pandas.DataFrame({"a": [1, 2, 3, 4, 5, 5], "label": list("xxyyzz")})
    assert load(frame, repeats="drop", min=2).classes == ("x", "y")


def test_a_training_split_that_is_the_test_split_is_refused():
    frame = pandas.DataFrame({"a": range(4), "label": list("xxyy")})
    with refused("repeats='drop' leaves no training example: all of them are test examples."):
        load(frame, repeats="drop", test=frame)


def test_a_word_that_repeats_does_not_take_is_refused():
    save(train=[1, 2, 3, 4])
    with refused("unknown repeats 'dorp': did you mean 'drop'? There is only drop."):
        load("npz:repeats.npz?repeats=dorp")
    with refused("unknown repeats 'dorp': did you mean 'drop'? There is only drop."):
        load(TRAIN, repeats="dorp")
