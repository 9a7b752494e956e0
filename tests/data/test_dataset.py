"""Data and Dataset: fingerprints, kinds of data, and every refusal."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from refusals import refused

from class_uncertainty import Data, Dataset, InputError
from class_uncertainty.data import check_trainable, mix_hardness
from class_uncertainty.data.dataset import align, unjudged_found

pytestmark = pytest.mark.usefixtures("no_global_random")


def images(n=6, classes=3):
    pixels = np.arange(n * 2 * 3 * 3, dtype=np.uint8).reshape(n, 2, 3, 3)
    return Data(pixels, np.arange(n) % classes)


# Fingerprints.


def test_every_pixel_label_and_name_has_its_share_in_the_fingerprint():
    data = images()
    prints = {data.fingerprint}
    for at in np.ndindex(data.inputs.shape):
        pixels = data.inputs.copy()
        pixels[at] ^= 1
        prints.add(Data(pixels, data.labels).fingerprint)
    for i in range(len(data)):
        labels = data.labels.copy()
        labels[i] = (labels[i] + 1) % 3
        prints.add(Data(data.inputs, labels, data.classes).fingerprint)
    for names in (("a", "1", "2"), ("0", "a", "2"), ("0", "1", "a"), ("1", "0", "2"), ("0", "1", "2", "3")):
        prints.add(Data(data.inputs, data.labels, names).fingerprint)
    prints.add(data.take(np.arange(6)[::-1]).fingerprint)
    prints.add(Data(data.inputs.reshape(6, 2, 9, 1), data.labels).fingerprint)
    assert len(prints) == 1 + data.inputs.size + len(data) + 5 + 2


def test_fingerprint_is_of_the_content_alone():
    """Not of the memory's layout, the type of the labels or the way the names were given."""
    data = images()
    strided = np.repeat(data.inputs, 2, axis=0)[::2]
    assert not strided.flags.c_contiguous
    for same in (
        Data(strided, data.labels.astype(np.uint8)),
        Data(data.inputs, data.labels[::-1].copy()[::-1], ["0", "1", "2"]),
    ):
        assert same.fingerprint == data.fingerprint


def test_fingerprint_of_a_data_set_is_of_both_splits():
    train, other = images(12), images(9)
    prints = {Dataset("x", a, b).fingerprint for a in (train, other) for b in (train, other)}
    assert len(prints) == 4
    assert Dataset("another name", train, other).fingerprint == Dataset("x", train, other).fingerprint


# Data and Dataset.


def test_data_by_kind():
    pictures, table = images(), Data([[1, 2], [3, 4.5]], [1, 0])
    assert (pictures.is_images, pictures.shape, len(pictures)) == (True, (2, 3, 3), 6)
    assert (table.is_images, table.shape, table.inputs.dtype) == (False, (2,), np.float32)
    assert table.classes == ("0", "1")
    assert table.labels.dtype == np.int64


def test_data_take():
    taken = images().take(np.array([4, 0]))
    assert taken.labels.tolist() == [1, 0]
    assert np.array_equal(taken.inputs, images().inputs[[4, 0]])
    assert taken.classes == images().classes


def test_names_as_labels():
    data = Data(np.eye(4), ["b", "10", "b", "9"])
    assert (data.classes, data.labels.tolist()) == (("10", "9", "b"), [2, 0, 2, 1])
    assert Data(np.eye(3), ["10", "9", "10"]).classes == ("9", "10")  # numbers by their size


def test_names_are_printable():
    data = Data(np.eye(3), [0, 1, 2], ["a\nb", "\x1b[31mred", "caf\udce9"], columns=["x\ty", "y", "z"])
    assert data.classes == (r"a\nb", r"\x1b[31mred", r"caf\udce9")
    assert data.columns == (r"x\ty", "y", "z")


def test_statistics_and_columns_stay_with_the_examples(rng):
    data = Data(rng.normal(size=(4, 2)), [0, 1, 0, 1], columns=["x", "y"], statistics=([1, 2], [3, 4]))
    taken = data.take(np.array([3, 1]))
    assert (taken.columns, taken.statistics) == (("x", "y"), ((1, 2), (3, 4)))
    assert data.fingerprint != Data(data.inputs, data.labels).fingerprint
    with pytest.raises(InputError, match="there are 3 means and 2 channels or features"):
        Data(data.inputs, data.labels, statistics=([1, 2, 3], [3, 4]))
    with pytest.raises(InputError, match="there are 1 columns and 2 channels or features"):
        Data(data.inputs, data.labels, columns=["x"])


def test_measured_statistics_are_numpys(rng):
    for data in (
        Data(rng.integers(0, 256, (1500, 3, 4, 5), dtype=np.uint8), [0, 1] * 750),
        Data(rng.normal(size=(9, 4)), [0] * 9),
    ):
        axes = (0, 2, 3) if data.is_images else 0
        mean, deviation = data.measured_statistics()
        np.testing.assert_allclose(mean, data.inputs.mean(axes, dtype=np.float64), rtol=1e-12)
        np.testing.assert_allclose(deviation, data.inputs.std(axes, dtype=np.float64), rtol=1e-12)


def test_a_data_set_without_a_test_split():
    data = Data(np.array([[1.0], [2], [1], [1], [3]]), [0, 1, 1, 0, 0])
    assert Dataset("d", data).duplicates == 2
    assert Dataset("d", data, data).duplicates == 5
    assert Dataset("d", data).fingerprint != Dataset("d", data, data).fingerprint


def test_data_is_frozen():
    with pytest.raises(FrozenInstanceError):
        images().labels = np.zeros(6, dtype=int)


GOOD = np.zeros((4, 2))
DATA_REFUSED = {
    "float labels": ((GOOD, [0.0, 1, 0, 1]), r"^labels have shape \(4,\) and type float64: .* whole numbers"),
    "words beside names": ((GOOD, ["a", "b", "a", "b"], ["a", "b"]), r"^labels have shape \(4,\) and type <U1: "),
    "no features": ((np.zeros((2, 0)), [0, 1]), r"^inputs have shape \(2, 0\)"),
    "channels last": (
        (np.zeros((2, 8, 8, 3), np.uint8), [0, 1]),
        r"^inputs have shape \(2, 8, 8, 3\) .* inputs\.transpose\(0, 3, 1, 2\)\.$",
    ),
    "too far from 0": (
        (1.7e9 + np.arange(4.0)[:, None], [0, 1, 0, 1]),
        r"^feature 0 has values near 1\.7e\+09 .*: subtract its mean first\.$",
    ),
    "labels in a matrix": ((GOOD, [[0], [1], [0], [1]]), r"^labels have shape \(4, 1\) "),
    "lengths": ((GOOD, [0, 1]), r"^there are 4 inputs and 2 labels: "),
    "nothing": ((np.zeros((0, 2)), np.zeros(0, dtype=int)), r"^there are 0 inputs and 0 labels: .* at least one\.$"),
    "negative label": ((GOOD, [0, 1, -1, 0]), r"^label of example 2 is -1: labels run from 0 to 1\.$"),
    "label too large": ((GOOD, [0, 1, 2, 0], ["a", "b"]), r"^label of example 2 is 2: labels run from 0 to 1\.$"),
    "nan feature": (
        ([[0, 1], [2, math.nan]], [0, 1]),
        r"^feature 1 of example 1 is nan: it must be finite, as float32 too\.$",
    ),
    "infinite feature": (([[0, -math.inf], [2, 1]], [0, 1]), r"^feature 1 of example 0 is -inf: "),
    "feature too large for float32": (([[0, 1], [1e300, 2]], [0, 1]), r"^feature 0 of example 1 is 1e\+300: "),
    "float images": (
        (np.zeros((2, 1, 4, 4)), [0, 1]),
        r"^inputs have shape \(2, 1, 4, 4\) and type float64: images are uint8",
    ),
    "images without channels": (
        (np.zeros((2, 4, 4), dtype=np.uint8), [0, 1]),
        r"^inputs have shape \(2, 4, 4\) and type uint8: ",
    ),
    "complex features": ((np.zeros((2, 4), dtype=complex), [0, 1]), r"^inputs .* shape \(2, 4\) and type complex128: "),
    "one number": ((5, [0]), r"^(inputs have shape \(\)|there are)"),
}


@pytest.mark.parametrize("case", DATA_REFUSED)
def test_data_refused(case):
    arguments, message = DATA_REFUSED[case]
    with pytest.raises(InputError, match=message):
        Data(*arguments)


def test_one_name_an_example():
    with pytest.raises(InputError, match=r"^there are 3 names and 4 examples: "):
        Data(GOOD, [0, 1, 0, 1], names=["a", "b", "c"])
    with pytest.raises(InputError, match=r"^names is 'abcd': "):
        Data(GOOD, [0, 1, 0, 1], names="abcd")


def test_names_stay_with_their_examples():
    data = Data(GOOD, [0, 1, 0, 1], ["a", "b"], names=["w", "x", "y", "z"])
    assert list(data.take(np.array([2, 0])).names) == ["y", "w"]
    other = Data(GOOD, [1, 1, 0, 0], ["b", "c"], names=["p", "q", "r", "s"])
    assert [list(each.names) for each in align(data, other)] == [["w", "x", "y", "z"], ["p", "q", "r", "s"]]
    unnamed = Data(GOOD, [0, 1, 0, 1], ["a", "b"])
    for second, wanted in ((other, ["w", "x", "y", "z", "p", "q", "r", "s"]), (unnamed, None)):
        mixed = mix_hardness(Dataset("one", data, data), Dataset("two", second, second), 2).train.names
        assert mixed is None if wanted is None else sorted(mixed) == sorted(wanted)


def table(labels, classes=None, width=2):
    return Data(np.zeros((len(labels), width)), labels, classes)


TRAIN = table([0, 0, 1, 1])
DATASETS_REFUSED = {
    "one class": (table([0, 0]), table([0, 0]), r"one class, '0': "),
    "a gap in the labels": (
        table([0, 0, 2, 2]),
        TRAIN,
        r"^class '1' has no training examples: every class needs .* two, and labels run from 0 to 2",
    ),
    "one example": (table([0, 0, 1], ["cat", "dog"]), TRAIN, r"^class 'dog' has only one training example: "),
    "other classes": (TRAIN, table([0, 1, 2]), r"^train has 2 classes and test 3.* names"),
    "other names": (TRAIN, table([0, 1], ["1", "0"]), r"^train has 2 classes and test 2.* names"),
    "another shape": (
        TRAIN,
        table([0, 1], width=3),
        r"^training examples have shape \(2,\) and test examples \(3,\): they must agree\.$",
    ),
    "one class alone is tested": (
        TRAIN,
        table([1, 1], ["0", "1"]),
        r"test examples are of class '1': give some of another .*folds",
    ),
}


@pytest.mark.parametrize("case", DATASETS_REFUSED)
def test_data_set_refused(case):
    train, test, message = DATASETS_REFUSED[case]
    with pytest.raises(InputError, match=message):
        Dataset("x", train, test)


def test_classes_without_test_examples_are_named_and_counted():
    names = ["ant", "bee", "cow", "dog, wild", "eel", "fox", "gnu", "hen"]
    train = table(np.repeat(np.arange(8), 2), names)
    assert unjudged_found(Dataset("x", train, train)) is None
    assert unjudged_found(Dataset("x", train)) is None
    found = unjudged_found(Dataset("x", train, table([0, 1, 2, 4, 5, 6, 7], names)))
    assert (found.number, found.examples) == (1, ("dog, wild",))
    assert "'dog, wild'" in found.sentence
    found = unjudged_found(Dataset("x", train, table([0, 1], names)))
    assert (found.number, found.examples) == (6, tuple(names[2:]))
    assert "cow, 'dog, wild', eel, fox, gnu and 1 more" in found.sentence
    assert "folds" in found.advice


def test_two_examples_a_class_are_trainable():
    check_trainable(TRAIN)


WHOLE = {
    "10 ** 18": 10**18 + np.arange(40),
    "2 ** 60": 2**60 + np.arange(40),
    "the end of int64": np.iinfo(np.int64).max - np.arange(40),
    "its other end": np.iinfo(np.int64).min + np.arange(40),
    "the end of uint64": np.iinfo(np.uint64).max - np.arange(40, dtype=np.uint64),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_that_float64_makes_one_are_refused(name):
    """Where they are spread, at whatever distance from 0, they are features as any."""
    values, labels = WHOLE[name], np.arange(40) % 2
    assert len(set(values.astype(float).tolist())) < 40
    with pytest.raises(InputError, match=r"column 'id' has values near .* deviate by 12.* leave it out"):
        Data(np.stack([values, values % values.dtype.type(3)], axis=1), labels, columns=["id", "x"])
    assert Data(np.full((40, 1), values[0]), labels).inputs.std() == 0
    spread = values // values.dtype.type(40) * np.arange(40, dtype=values.dtype)
    assert len(np.unique(Data(spread[:, None], labels).inputs)) == 40


def test_both_ends_of_int64_are_far_apart():
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max] * 2)
    assert Data(ends[:, None], [0, 1, 0, 1]).inputs[:2, 0].tolist() == [-(2.0**63), 2.0**63]


def test_what_is_masked_is_missing():
    x, y = np.ma.masked_array(np.zeros((4, 2))), np.ma.masked_array([0, 1, 0, 1])
    assert len(Data(x, y)) == 4
    x[2, 1] = y[3] = np.ma.masked
    with refused("inputs", "masked", "(2, 1)"):
        Data(x, [0, 1, 0, 1])
    with refused("labels", "masked", "(3,)"):
        Data(np.zeros((4, 2)), y)


def test_a_label_that_no_number_of_classes_reaches():
    with pytest.raises(InputError, match=r"label of example 1 is 1000000000000000: labels run from 0"):
        Data(np.zeros((2, 1)), [0, 10**15])
