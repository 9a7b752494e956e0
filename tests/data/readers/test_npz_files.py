"""The one reader of .npy and .npz files: what is written is read, the rest is refused."""

import io

import numpy as np
import pytest
from refusals import refused

from class_uncertainty.data.readers.npz import arrays_in, read_arrays


def saved(**arrays):
    np.savez(file := io.BytesIO(), **arrays)
    return file.getvalue()


def test_arrays_in_memory_come_back_by_name():
    arrays = arrays_in(saved(a=np.arange(3), b=np.eye(2)))
    assert list(arrays) == ["a", "b"]
    assert np.array_equal(arrays["a"], np.arange(3))
    assert np.array_equal(arrays["b"], np.eye(2))


@pytest.mark.parametrize("damage", [lambda whole: whole[:60], lambda whole: b"", lambda whole: b"\x80\x04N."])
def test_damaged_content_is_a_value_error(damage):
    with pytest.raises(ValueError, match="damaged"):
        arrays_in(damage(saved(a=np.arange(300))))


def test_nothing_is_unpickled():
    with pytest.raises(ValueError, match="damaged"):
        arrays_in(saved(a=np.array([{}, {}])))


def test_a_file_is_read_and_a_missing_one_refused_with_the_advice(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4))
    assert read_arrays(tmp_path / "x.npy", lambda loaded: loaded.tolist()) == [0, 1, 2, 3]
    with refused(tmp_path / "gone.npy", "give FILE"):
        read_arrays(tmp_path / "gone.npy", lambda loaded: loaded, "give FILE")
