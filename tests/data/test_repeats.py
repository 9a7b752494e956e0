"""?repeats=drop: what repeats another training example, or is a test example, is left out of training."""

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from class_uncertainty import load


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def save(**splits: list[float]) -> None:
    """Of each split the values of one feature, of classes 0 and 1 in turn."""
    arrays = dict[str, np.ndarray]()
    for name, values in splits.items():
        arrays |= {f"x_{name}": np.array(values)[:, None], f"y_{name}": np.arange(len(values)) % 2}
    np.savez("repeats.npz", **arrays)


def test_repeats_are_dropped_and_counted() -> None:
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


def test_test_examples_leave_the_training_split_and_stay_themselves() -> None:
    save(train=[1, 2, 3, 4, 5, 6, 5], test=[3, 8, 3, 9])
    dataset = load("npz:repeats.npz?repeats=drop")
    assert dataset.train.inputs[:, 0].tolist() == [1, 2, 4, 5, 6]
    assert dataset.test.inputs[:, 0].tolist() == [3, 8, 3, 9]
    assert dataset.duplicates == 0
    assert str(dataset.left_out[0]).endswith("2 of 7 training examples, 1 of them test examples: row 2, row 6.")


def test_repeats_go_before_classes_are_counted_and_before_a_share_is_set_aside() -> None:
    np.savez("repeats.npz", x_train=np.arange(40)[:, None] // 4, y_train=np.arange(40) // 20)
    dataset = load("npz:repeats.npz?repeats=drop&test=0.4")
    assert (dataset.train.counts.tolist(), dataset.test.counts.tolist()) == ([3, 3], [2, 2])
    np.savez("repeats.npz", x_train=[[1], [2], [3], [4], [5], [5]], y_train=[0, 0, 1, 1, 2, 2])
    assert load("npz:repeats.npz?repeats=drop&min=2").classes == ("0", "1")


def test_without_repeats_nothing_is_left_out() -> None:
    save(train=[1, 2, 3, 4])
    plain, same = load("npz:repeats.npz"), load("npz:repeats.npz?repeats=drop")
    assert (same.left_out, same.train.fingerprint) == ((), plain.train.fingerprint)


def test_rows_of_tables_may_be_alike_by_chance() -> None:
    Path("t.csv").write_text("a,label\n1,x\n1,x\n2,y\n2,y\n")
    with refused("unknown option of 'csv' 'repeats'"):
        load("csv:t.csv?repeats=drop")


def test_a_word_that_repeats_does_not_take_is_refused() -> None:
    save(train=[1, 2, 3, 4])
    with refused("unknown repeats 'dorp': did you mean 'drop'? There is only drop."):
        load("npz:repeats.npz?repeats=dorp")
