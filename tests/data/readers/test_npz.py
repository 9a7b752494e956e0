"""NumPy arrays through load: what is read is what was written, the rest is refused."""

import io
import zipfile

import numpy as np
import pytest
from pictures import FEATURES, LABELS, arrays
from refusals import refused

from class_uncertainty import load

pytestmark = pytest.mark.usefixtures("no_global_random", "here")


# .npz.


IMAGES = np.random.default_rng(3).integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)  # (N, H, W, channels)


def test_npz_with_both_splits(here):
    arrays(here, x_test=FEATURES[:4] + 100, y_test=[1, 0, 1, 1])
    data = load("npz:arrays.npz")
    assert np.array_equal(data.train.inputs, FEATURES.astype(np.float32))
    assert data.train.labels.tolist() == LABELS
    assert np.array_equal(data.test.inputs, FEATURES[:4].astype(np.float32) + 100)
    assert data.test.labels.tolist() == [1, 0, 1, 1]
    assert data.classes == ("0", "1")


@pytest.mark.parametrize(("x", "y"), [("X", "y"), ("x", "y"), ("X", "Y"), ("X_train", "Y_TRAIN")])
def test_npz_with_one_split(here, x, y):
    arrays(here, x_train=None, y_train=None, **{x: FEATURES, y: LABELS})
    data = load("npz:arrays.npz")
    assert data.test is None
    assert np.array_equal(data.train.inputs, FEATURES)


def test_npz_may_be_compressed_and_hold_more(here):
    np.savez_compressed(here / "arrays.npz", X=FEATURES, y=LABELS, note="pets", weights=np.zeros(3))
    assert load("npz:arrays.npz").train.labels.tolist() == LABELS


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (IMAGES, IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES[..., :1], IMAGES[..., :1].transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2), IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2)[:, :1], IMAGES.transpose(0, 3, 1, 2)[:, :1]),
        (IMAGES[..., 0], IMAGES.transpose(0, 3, 1, 2)[:, :1]),
        (np.asfortranarray(IMAGES), IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2)[..., :3], IMAGES.transpose(0, 3, 1, 2)[..., :3]),
    ],
    ids=["NHWC", "NHW1", "NCHW", "N1HW", "NHW", "columns first", "NCHW, three wide"],
)
def test_npz_pictures(here, given, expected):
    arrays(here, x_train=given)
    data = load("npz:arrays.npz").train
    assert data.is_images
    assert np.array_equal(data.inputs, expected)


NPZ_LABELS = {
    "a column, as Keras has them": (np.array(LABELS)[:, None], ("0", "1"), LABELS),
    "unsigned": (np.array(LABELS, dtype=np.uint8), ("0", "1"), LABELS),
    "true and false": (np.array(LABELS, dtype=bool), ("False", "True"), LABELS),
    "text": (np.array(["über", "cat", "über", "cat", "cat", "über"]), ("cat", "über"), [1, 0, 1, 0, 0, 1]),
    "bytes": (np.array([b"dog", b"caf\xc3\xa9"] * 3), ("café", "dog"), [1, 0] * 3),
    "with gaps": (np.array([7, -3, 7, 100, -3, 100]), ("-3", "7", "100"), [1, 0, 1, 2, 0, 2]),
    "numbers as text": (np.array(["10", "2", "10", "2", "9", "9"]), ("2", "9", "10"), [2, 0, 2, 0, 1, 1]),
}


@pytest.mark.parametrize("case", NPZ_LABELS)
def test_npz_labels(here, case):
    given, classes, labels = NPZ_LABELS[case]
    arrays(here, y_train=given)
    data = load("npz:arrays.npz").train
    assert data.classes == classes
    assert data.labels.tolist() == labels


def test_npz_labels_from_1_to_10(here):
    given = np.tile(np.arange(10, 0, -1), 2)
    arrays(here, x_train=np.zeros((20, 1)), y_train=given)
    data = load("npz:arrays.npz")
    assert data.classes == tuple(str(i) for i in range(1, 11))
    assert data.train.labels.tolist() == (given - 1).tolist()


def test_npz_labels_of_two_splits_mean_the_same(here):
    """In the test split alone, 'b' would be the first."""
    arrays(here, y_train=np.array(list("abcabc")), x_test=FEATURES[:4], y_test=np.array(list("cbba")))
    data = load("npz:arrays.npz")
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.test.labels.tolist() == [2, 1, 1, 0]
    arrays(here, y_train=np.array(list("abcabc")), x_test=FEATURES[:2], y_test=np.array(list("cb")))
    data = load("npz:arrays.npz")
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.test.labels.tolist() == [2, 1]


NPZ_REFUSED = {
    "float pictures": (
        {"x_train": IMAGES / 255},
        ["arrays.npz: x_train has shape (6, 5, 7, 3) and type float64: images are uint8"],
    ),
    "float pictures in grey": ({"x_train": IMAGES[..., 0] / 255}, ["x_train has shape (6, 5, 7)", "images are uint8"]),
    "float pictures to judge on": ({"x_test": IMAGES / 255, "y_test": LABELS}, ["x_test has shape"]),
    "objects": ({"x_train": np.array([{}] * 6)}, ["arrays.npz", "numbers or text"]),
    "labels of objects": ({"y_train": np.array(["cat", 2] * 3, dtype=object)}, ["arrays.npz", "numbers or text"]),
    "float labels": (
        {"y_train": np.array(LABELS) + 0.5},
        ["arrays.npz: y_train has shape (6,) and type float64", "whole numbers or text"],
    ),
    "one-hot labels": ({"y_train": np.eye(2, dtype=int)[LABELS]}, ["y_train has shape (6, 2)"]),
    "labels that are not UTF-8": ({"y_train": np.array([b"\xff", b"a"] * 3)}, ["arrays.npz: y_train", "not UTF-8"]),
    "too few labels": ({"y_train": LABELS[:5]}, ["arrays.npz: there are 6 inputs and 5 labels"]),
    "no examples": (
        {"x_train": FEATURES[:0], "y_train": np.array([], dtype=int)},
        ["arrays.npz: there are 0 inputs and 0 labels"],
    ),
    "one number": ({"x_train": np.array(5.0)}, ["arrays.npz: inputs have shape ()"]),
    "not a number": ({"x_train": FEATURES * np.nan}, ["arrays.npz: feature 0 of example 0 is nan"]),
    "text": ({"x_train": np.array([["a", "b"]] * 6)}, ["arrays.npz: inputs have shape (6, 2) and type <U1"]),
    "no labels": (
        {"y_train": None},
        ["arrays.npz holds x_train: it must hold x_train and y_train, or X and y, and perhaps x_test"],
    ),
    "nothing": ({"x_train": None, "y_train": None}, ["arrays.npz holds nothing"]),
    "other names": (
        {"x_train": None, "y_train": None, "data": FEATURES, "target": LABELS},
        ["arrays.npz holds data, target: "],
    ),
    "another shape to judge on": (
        {"x_test": FEATURES[:, :1], "y_test": LABELS},
        ["training examples have shape (2,) and test examples (1,)"],
    ),
}


@pytest.mark.parametrize("case", NPZ_REFUSED)
def test_npz_refused(here, case):
    given, told = NPZ_REFUSED[case]
    arrays(here, **given)
    with refused(*told):
        load("npz:arrays.npz")


def locked(content):
    """The same .npz file, but its members are marked as encrypted."""
    content = bytearray(content)
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(mark, at + 1)
    return bytes(content)


def spoilt(whole):
    """Compressed, and then a run of bytes is overwritten where the pixels are."""
    file = io.BytesIO()
    np.savez_compressed(file, X=np.random.default_rng(1).integers(0, 9, (100, 100)), y=np.arange(100) % 2)
    content = file.getvalue()
    return content[:100] + b"\xff" * 200 + content[300:]


def zipped(**texts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return file.getvalue()


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("alone", ["x_test", "y_test"])
def test_npz_half_a_test_split_is_refused(here, alone):
    np.savez(here / "a.npz", x_train=FEATURES, y_train=LABELS, **{alone: FEATURES if alone == "x_test" else LABELS})
    with refused(f"a.npz holds x_train, y_train, {alone}: it must hold x_train and y_train, or X and y, and perhaps"):
        load("npz:a.npz")


def test_npz_with_short_names_and_a_test_split(here):
    np.savez(here / "a.npz", X=FEATURES, y=LABELS, X_test=FEATURES[:4] + 100, y_test=[1, 0, 1, 1])
    data = load("npz:a.npz")
    assert np.array_equal(data.test.inputs, FEATURES[:4].astype(np.float32) + 100)
    assert data.test.labels.tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_npz_channels_may_come_last(here, channels):
    pictures = np.arange(6 * 8 * 8 * channels).astype(np.uint8).reshape(6, 8, 8, channels)
    np.savez(here / "a.npz", X=pictures, y=LABELS)
    assert np.array_equal(load("npz:a.npz").train.inputs, pictures.transpose(0, 3, 1, 2))


NPZ_BROKEN = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "without its end": lambda whole: whole[:-10],
    "without its start": lambda whole: whole[40:],
    "a byte changed": lambda whole: whole.replace(FEATURES.tobytes(), FEATURES.tobytes()[::-1]),
    "empty": lambda whole: b"",
    "text": lambda whole: b"x_train, y_train\n1, 2\n",
    "noise": lambda whole: np.random.default_rng(1).bytes(1000),
    "a pickle": lambda whole: b"\x80\x04N.",
    "encrypted": locked,
    "compressed, and spoilt": spoilt,
    "texts by the right names": lambda whole: zipped(x="1, 2", y="3"),
    "texts by the right names and ends": lambda whole: zipped(**{"x.npy": "1, 2", "y.npy": "3"}),
    "half an array": lambda whole: zipped(**{"x.npy": saved(FEATURES)[:-20], "y.npy": saved(np.array(LABELS))}),
}


@pytest.mark.parametrize("case", NPZ_BROKEN)
def test_npz_broken(here, case):
    arrays(here)
    (here / "arrays.npz").write_bytes(NPZ_BROKEN[case]((here / "arrays.npz").read_bytes()))
    with refused("arrays.npz", "numbers or text"):
        load("npz:arrays.npz")


def test_one_array_without_a_name(here):
    (here / "arrays.npz").write_bytes(saved(FEATURES))
    with refused("arrays.npz holds x: it must hold x_train and y_train"):
        load("npz:arrays.npz")


def test_npz_that_is_a_folder(here):
    (here / "arrays.npz").mkdir()
    with refused("arrays.npz is a folder"):
        load("npz:arrays.npz")
