"""Data: long tails as the literature draws them, splits, fingerprints, and every refusal."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from sklearn.datasets import load_digits

from class_uncertainty import Data, Dataset, InputError, load, long_tail
from class_uncertainty.data import SOURCES, check_trainable, mix_hardness, stratified
from class_uncertainty.data.dataset import align
from class_uncertainty.training.augment.crop_flip_mixup import crop, flip

pytestmark = pytest.mark.usefixtures("no_global_random")


def numbered(classes, each, seed=0):
    """A balanced set whose only feature is the example's own number, in random class order."""
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), each))
    return Data(np.arange(len(labels))[:, None], labels)


def numbers(data):
    return data.inputs[:, 0].astype(int).tolist()


def images(n=6, classes=3):
    pixels = np.arange(n * 2 * 3 * 3, dtype=np.uint8).reshape(n, 2, 3, 3)
    return Data(pixels, np.arange(n) % classes)


# Long tails.


@pytest.mark.parametrize(
    ("classes", "each", "ratio", "total", "smallest"),
    [(10, 5000, 50, 13_996, 100), (10, 5000, 100, 12_406, 50), (100, 500, 50, 12_608, 10), (100, 500, 100, 10_847, 5)],
    ids=["cifar10-lt:50", "cifar10-lt:100", "cifar100-lt:50", "cifar100-lt:100"],
)
def test_long_tail_totals_of_the_paper(classes, each, ratio, total, smallest):
    tail = long_tail(numbered(classes, each), ratio)
    assert len(tail) == tail.counts.sum() == total
    assert tail.counts[0] == each
    assert tail.counts[-1] == smallest
    assert tail.counts.tolist() == [math.floor(each * (1 / ratio) ** (c / (classes - 1))) for c in range(classes)]


def test_the_counts_of_cifar10_lt():
    """As Bag-of-Tricks prints them."""
    assert long_tail(numbered(10, 5000), 50).counts.tolist() == [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100]
    assert long_tail(numbered(10, 5000), 100).counts.tolist() == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]


def test_the_classes_of_323_66_and_12_examples_occur():
    """Sec. III names them; they are classes 11, 51 and 94 of CIFAR-100-LT at 50."""
    assert long_tail(numbered(100, 500), 50).counts[[11, 51, 94]].tolist() == [323, 66, 12]


def ldam_drw(labels, counts, seed=0):
    """IMBALANCECIFAR.gen_imbalanced_data of LDAM-DRW, which seeds and uses NumPy's global generator."""
    before = np.random.get_state()
    try:
        np.random.seed(seed)
        kept = []
        for the_class, the_number in zip(np.unique(labels), counts, strict=True):
            index = np.where(labels == the_class)[0]
            np.random.shuffle(index)
            kept.extend(index[:the_number])
        return [int(i) for i in kept]
    finally:
        np.random.set_state(before)


@pytest.mark.parametrize("ratio", [1, 10, 100])
def test_seed_0_keeps_the_examples_of_ldam_drw(ratio):
    data = numbered(10, 500)
    tail = long_tail(data, ratio)
    assert numbers(tail) == ldam_drw(data.labels, tail.counts)
    assert (tail.labels == data.labels[numbers(tail)]).all()


def test_seeds_draw_other_examples_of_the_same_counts():
    data = numbered(5, 100)
    zero, one = long_tail(data, 10), long_tail(data, 10, seed=1)
    assert zero.counts.tolist() == one.counts.tolist()
    assert set(numbers(zero)) != set(numbers(one))
    assert numbers(one) == numbers(long_tail(data, 10, seed=1))


def test_no_example_is_kept_twice():
    kept = numbers(long_tail(numbered(10, 100), 20))
    assert len(kept) == len(set(kept))


def test_ratio_1_keeps_everything():
    data = numbered(4, 20)
    assert sorted(numbers(long_tail(data, 1))) == sorted(numbers(data))


def test_an_unbalanced_set_is_cut_from_its_smallest_class():
    """The largest class of the tail can have no more than every class has."""
    data = Data(np.zeros((50, 1)), np.repeat([0, 1], [20, 30]))
    assert long_tail(data, 4).counts.tolist() == [20, 5]


@pytest.mark.parametrize("ratio", [0.5, 0, -1, math.nan, math.inf])
def test_long_tail_refuses_a_ratio(ratio):
    with pytest.raises(InputError, match=rf"^imbalance ratio is {ratio:g}: it must be 1 \(balanced\) or more\.$"):
        long_tail(numbered(3, 20), ratio)


def test_long_tail_refuses_to_empty_a_class():
    with pytest.raises(InputError, match=r"^imbalance ratio 15 leaves class '2' 1 of 20 examples"):
        long_tail(numbered(3, 20), 15)
    assert long_tail(numbered(3, 20), 10).counts[-1] == 2


def test_long_tail_refuses_a_single_class():
    with pytest.raises(InputError, match="class"):
        long_tail(numbered(1, 20), 2)


def test_long_tail_refuses_a_seed():
    with pytest.raises(InputError, match="seed"):
        long_tail(numbered(3, 20), 2, seed=-1)


# Stratified parts.


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.integers(2, 7), st.integers(0, 3))
def test_stratified_parts_are_even(labels, parts, seed):
    """In every class, and over all of them, the parts differ by one example at most."""
    part = stratified(labels, parts, seed)
    assert part.shape == (len(labels),)
    assert set(part) <= set(range(parts))
    for of_class in [part, *(part[np.array(labels) == c] for c in set(labels))]:
        sizes = np.bincount(of_class, minlength=parts)
        assert sizes.max() - sizes.min() <= 1


def test_stratified_is_one_split_for_all_and_random_within_a_class():
    labels = np.repeat([0, 1], 50)
    assert np.array_equal(stratified(labels, 5), stratified(labels, 5))
    assert not np.array_equal(stratified(labels, 5), stratified(labels, 5, seed=1))
    assert not np.array_equal(stratified(labels, 5)[:10], np.arange(10) % 5)


# Digits.


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
    "a class that is not tested": (
        TRAIN,
        table([1, 1], ["0", "1"]),
        r"^class '0' has no test examples: its error is not defined\.$",
    ),
}


@pytest.mark.parametrize("case", DATASETS_REFUSED)
def test_data_set_refused(case):
    train, test, message = DATASETS_REFUSED[case]
    with pytest.raises(InputError, match=message):
        Dataset("x", train, test)


def test_two_examples_a_class_are_trainable():
    check_trainable(TRAIN)


NAMES_REFUSED = {
    "digit-lt:20": r"^unknown data 'digit-lt:20': did you mean 'digits-lt:20'\? There are digits, digits-lt:20",
    "Digits": r"^unknown data 'Digits': did you mean 'digits'\? ",
    "mnist": r"^unknown data 'mnist': .*there are digits, ",
    "": r"^unknown data '': there are digits, ",
    "digits:3": r"^'digits:3': 'digits' takes no argument; for a long tail write 'digits-lt:3'\.$",
    "digits?size=3": r"^unknown option of 'digits' 'size': there is only duplicate\.$",
    "digits-lt:20?seed=1": r"^unknown option of 'digits-lt' 'seed': there are validation, duplicate\.$",
    "digits-lt:many": r"^'digits-lt:many' needs an imbalance ratio .*after the colon, as in 'digits-lt:20'\.$",
    "digits-lt": r"^'digits-lt' needs an imbalance ratio .*after the colon, as in 'digits-lt:20'\.$",
    "digits-lt:nan": r"^imbalance ratio is nan: ",
    "digits-lt:0.1": r"^imbalance ratio is 0\.1: ",
    "digits-lt:100": r"^imbalance ratio 100 leaves class '9' 1 of 120 examples: ",
}


@pytest.mark.parametrize("spec", NAMES_REFUSED)
def test_name_refused(spec):
    with pytest.raises(InputError, match=NAMES_REFUSED[spec]):
        load(spec)


@pytest.mark.parametrize("name", SOURCES)
def test_source_has_an_example_of_its_own_name(name):
    assert SOURCES[name].example.partition(":")[0] == name
    assert SOURCES[name].about


# Augmentation.


def test_crop_is_a_window_of_the_padded_image(rng):
    pictures = rng.integers(0, 256, (9, 2, 5, 4), dtype=np.uint8)
    offsets = rng.integers(0, 5, (9, 2))
    cropped = crop(torch.from_numpy(pictures), torch.from_numpy(offsets), 2).numpy()
    padded = np.pad(pictures, ((0, 0), (0, 0), (2, 2), (2, 2)))
    for i, (row, column) in enumerate(offsets):
        assert np.array_equal(cropped[i], padded[i, :, row : row + 5, column : column + 4])


def test_crop_in_the_middle_is_the_image(rng):
    pictures = torch.from_numpy(rng.integers(0, 256, (3, 1, 4, 4), dtype=np.uint8))
    assert torch.equal(crop(pictures, torch.full((3, 2), 1), 1), pictures)


def test_flip_mirrors_left_and_right_where_asked(rng):
    pictures = rng.integers(0, 256, (4, 2, 3, 5), dtype=np.uint8)
    flipped = flip(torch.from_numpy(pictures), torch.tensor([True, False, True, False])).numpy()
    assert np.array_equal(flipped[[0, 2]], pictures[[0, 2]][..., ::-1])
    assert np.array_equal(flipped[[1, 3]], pictures[[1, 3]])


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
