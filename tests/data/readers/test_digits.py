"""Digits: all of scikit-learn's, split once, and the long tail of their training split."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from class_uncertainty import load, long_tail

pytestmark = pytest.mark.usefixtures("no_global_random")


def test_digits_are_all_of_scikit_learns_and_split_once():
    digits, bunch = load("digits"), load_digits()
    assert digits.train.counts.tolist() == [120] * 10
    assert digits.test.counts.tolist() == [n - 120 for n in np.bincount(bunch.target)]
    whole = sorted(
        (image.tobytes(), int(label))
        for split in (digits.train, digits.test)
        for image, label in zip(split.inputs, split.labels, strict=True)
    )
    pixels = np.rint(bunch.images * 255 / 16).astype(np.uint8)
    assert whole == sorted((image.tobytes(), int(label)) for image, label in zip(pixels, bunch.target, strict=True))


def test_no_digit_is_in_both_splits():
    """Every image is unlike every other, so pixels tell examples apart."""
    digits = load("digits")
    train, test = ({image.tobytes() for image in split.inputs} for split in (digits.train, digits.test))
    assert len(train) == len(digits.train)
    assert len(test) == len(digits.test)
    assert not train & test


def test_digits_are_the_same_every_time():
    assert load("digits").fingerprint == load("digits", seed=3).fingerprint


def test_digits_lt_is_a_long_tail_of_the_train_split_alone():
    digits, tail = load("digits"), load("digits-lt:20")
    assert tail.test.fingerprint == digits.test.fingerprint
    assert tail.train.fingerprint == long_tail(digits.train, 20).fingerprint
    assert tail.train.counts.tolist() == [120, 86, 61, 44, 31, 22, 16, 11, 8, 6]
    assert tail.name == "digits-lt:20"
    assert tail.classes == tuple("0123456789")
    assert load("digits-lt:20", seed=1).train.fingerprint != tail.train.fingerprint
