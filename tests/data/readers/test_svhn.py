"""MATLAB files as scipy writes them, compressed as SVHN's own are, and plain."""

import numpy as np
import pytest
from refusals import refused
from scipy.io import savemat

from class_uncertainty.data.readers import svhn


@pytest.mark.parametrize("compressed", [False, True])
def test_images_and_labels_are_those_that_were_written(compressed, tmp_path, rng):
    pixels, labels = rng.integers(0, 256, (32, 32, 3, 5), np.uint8), np.array([[1], [10], [3], [9], [10]])
    savemat(tmp_path / "train_32x32.mat", {"X": pixels, "y": labels}, do_compression=compressed)
    decoding = svhn.decoding(tmp_path / "train_32x32.mat")
    (images,) = decoding.batches
    assert decoding.labels.tolist() == [1, 0, 3, 9, 0]
    np.testing.assert_array_equal(images, pixels.transpose(3, 2, 0, 1))


def test_a_compressed_array_that_is_cut_off_is_refused(tmp_path, rng, monkeypatch):
    pixels = rng.integers(0, 256, (32, 32, 3, 5), np.uint8)
    savemat(tmp_path / "train_32x32.mat", {"X": pixels, "y": np.ones((5, 1))}, do_compression=True)
    monkeypatch.setattr(svhn, "LARGEST", 1000)
    with refused("train_32x32.mat is damaged"):
        svhn.decoding(tmp_path / "train_32x32.mat")
