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
    left = "?repeats=drop left out 3 of 8 training examples: row 3, row 6, row 7."
    assert list(map(str, dataset.left_out)) == [left]
    assert load("npz:repeats.npz").duplicates == 3


def test_test_examples_leave_the_training_split_and_stay_themselves() -> None:
    save(train=[1, 2, 3, 4, 5, 6, 5], test=[3, 8, 3, 9])
    dataset = load("npz:repeats.npz?repeats=drop")
    assert dataset.train.inputs[:, 0].tolist() == [1, 2, 4, 5, 6]
    assert dataset.test.inputs[:, 0].tolist() == [3, 8, 3, 9]
    assert dataset.duplicates == 0


def test_without_repeats_nothing_is_left_out() -> None:
    plain, same = load("digits-lt:20"), load("digits-lt:20?repeats=drop")
    assert same.train.repeats == 0
    assert (same.left_out, same.train.fingerprint) == ((), plain.train.fingerprint)


def test_a_word_that_repeats_does_not_take_is_refused() -> None:
    save(train=[1, 2, 3, 4])
    with refused("unknown repeats 'dorp': did you mean 'drop'? There is only drop."):
        load("npz:repeats.npz?repeats=dorp")
