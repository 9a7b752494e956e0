"""How values of users read in a sentence."""

import numpy as np
import pandas
import pytest

from class_uncertainty.values import WIDTH, is_frame, is_pandas, shortly


class Odd:
    def __repr__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.int8), "an array of shape (2, 3) and type int8"),
        (np.float64(0.5), "np.float64(0.5)"),
        (pandas.DataFrame({"x": [1]}), "a DataFrame of pandas"),
        (Odd, "the class Odd"),
        (Odd(), "<Odd instance>"),
        pytest.param(10**5000, "<int>", id="a long number"),
        ("a\nb\x1b", r"'a\nb\x1b'"),
    ],
)
def test_a_value_in_a_sentence(value, text):
    assert shortly(value) == text


def test_addresses_are_left_out_and_long_values_cut():
    assert shortly(object()) == "<object object>"
    for long in (["x" * 50] * 4, {i: "y" * 20 for i in range(9)}):
        assert shortly(long).endswith("...")
        assert len(shortly(long)) == WIDTH


def test_frames_have_columns_and_hand_them_over():
    frame = pandas.DataFrame({"x": [1]})
    assert is_frame(frame)
    assert is_pandas(frame)
    assert not any(map(is_frame, (frame["x"], {"columns": 1}, np.eye(2), pandas.DataFrame)))
    assert not is_pandas([1])
