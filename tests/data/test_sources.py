"""Every source: its name, and ?duplicate, which repeats training examples and nothing else."""

import io

import numpy as np
import pytest
from data.cifar_files import FORMS, N, binary, pickled, write
from PIL import Image
from scipy.io import savemat
from sklearn.datasets import load_digits

from class_uncertainty import InputError, duplicate, load, long_tail
from class_uncertainty.data import SOURCES
from class_uncertainty.data.readers import cifar


def save(folder, *counts, test=False):
    """Numbered examples as an .npz file: the first feature of example i is i."""
    labels = np.repeat(np.arange(len(counts)), counts)
    arrays = {"x_train": np.arange(len(labels), dtype=float)[:, None], "y_train": labels}
    if test:
        arrays |= {"x_test": -1.0 - np.arange(len(counts))[:, None], "y_test": np.arange(len(counts))}
    np.savez(folder / "numbers.npz", **arrays)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_takes_it(name):
    assert "0 (none) to 1" in SOURCES[name].options["duplicate"].about


@pytest.mark.parametrize("strength", [0.3, 0.5, 1])
def test_only_the_training_split_is_duplicated(strength):
    plain, more = load("digits-lt:20"), load(f"digits-lt:20?duplicate={strength}")
    assert more.name == f"digits-lt:20?duplicate={strength}"
    np.testing.assert_allclose(more.train.counts, plain.train.counts ** (1 - strength) * 120**strength, atol=0.5)
    assert more.train.fingerprint == duplicate(plain.train, strength).fingerprint
    assert more.test.fingerprint == plain.test.fingerprint


def test_the_seed_draws_the_copies(folder):
    save(folder, 9, 4, test=True)
    drawn = {seed: load("npz:numbers.npz?duplicate=0.5", seed=seed).train for seed in (0, 1)}
    assert [data.counts.tolist() for data in drawn.values()] == [[9, 6]] * 2
    assert drawn[0].fingerprint != drawn[1].fingerprint
    assert set(drawn[0].inputs[13:, 0]) <= {9, 10, 11, 12}


def test_validation_images_are_not_duplicated():
    plain, more = load("digits-lt:20?validation=20"), load("digits-lt:20?duplicate=1&validation=20")
    assert more.train.counts.tolist() == [100] * 10
    assert more.test.fingerprint == plain.test.fingerprint
    assert more.duplicates == 0


def test_a_share_is_set_aside_before_the_copies_are_made(folder):
    save(folder, 20, 5)
    dataset = load("npz:numbers.npz?duplicate=1&test=0.2")
    assert dataset.train.counts.tolist() == [16, 16]
    assert dataset.test.counts.tolist() == [4, 1]
    assert dataset.duplicates == 0


def test_copies_are_not_judged_in_folds(folder):
    save(folder, 9, 4)
    with pytest.raises(InputError, match=r"^\?duplicate=0\.5 .* no test split, and folds .* add test=0\.2\.$"):
        load("npz:numbers.npz?duplicate=0.5")
    assert load("npz:numbers.npz?duplicate=0").train.counts.tolist() == [9, 4]


def test_copies_do_not_hide_a_class_of_one_example(folder):
    save(folder, 9, 1, test=True)
    with pytest.raises(InputError, match="class '1' has only one training example"):
        load("npz:numbers.npz?duplicate=1")


@pytest.mark.parametrize("strength", ["-0.1", "1.5", "nan", "inf", "half", "0,5"])
def test_what_is_no_strength_is_refused_before_anything_is_read(strength, run):
    code, _, errors = run("measure", f"npz:nowhere.npz?duplicate={strength}")
    assert code == 2
    assert f"option 'duplicate' is '{strength}': it must be a number from 0 to 1." in errors


NAMES_REFUSED = {
    "digit-lt:20": r"^unknown data 'digit-lt:20': did you mean 'digits-lt:20'\? There are digits, digits-lt:20",
    "Digits": r"^unknown data 'Digits': did you mean 'digits'\? ",
    "mnist": r"^there is no file or folder 'mnist', and no data set of that name: .*'cu list data'",
    "": r"^there is no file or folder '', ",
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


@pytest.mark.parametrize("form", FORMS)
def test_cifar10_from_every_form(form, batches, tmp_path):
    FORMS[form](tmp_path, batches)
    dataset = load("cifar10", root=tmp_path)
    pixels, labels = zip(*(batches[f"data_batch_{i}"] for i in range(1, 6)), strict=True)
    np.testing.assert_array_equal(dataset.train.inputs.reshape(5 * N, 3072), np.concatenate(pixels))
    np.testing.assert_array_equal(dataset.train.labels, np.concatenate(labels))
    np.testing.assert_array_equal(dataset.test.inputs.reshape(N, 3072), batches["test_batch"][0])
    assert dataset.train.shape == (3, 32, 32)
    assert dataset.classes == cifar.CIFAR10.classes


@pytest.mark.parametrize("as_binary", [False, True])
def test_cifar100_takes_the_fine_label(as_binary, rng, tmp_path):
    labels = np.repeat(np.arange(100), 2)
    splits = {
        split: (rng.integers(0, 256, (200, 3072), dtype=np.uint8), rng.permutation(labels))
        for split in ("train", "test")
    }
    if as_binary:
        write(tmp_path / "cifar-100-binary", binary(splits, before=2))
    else:
        write(tmp_path / "cifar-100-python", pickled(splits, "fine_labels"))
    dataset = load("cifar100", root=tmp_path)
    np.testing.assert_array_equal(dataset.train.labels, splits["train"][1])
    np.testing.assert_array_equal(dataset.test.inputs.reshape(200, 3072), splits["test"][0])
    assert (len(dataset.classes), dataset.classes[0], dataset.classes[99]) == (100, "apple", "worm")


def test_svhn_digit_ten_is_zero(rng, tmp_path):
    values = np.repeat(np.arange(1, 11), 2)
    for split in ("train", "test"):
        savemat(
            tmp_path / f"{split}_32x32.mat",
            {"X": rng.integers(0, 256, (32, 32, 3, 20), dtype=np.uint8), "y": values[:, None]},
        )
    dataset = load("svhn", root=tmp_path)
    assert dataset.train.labels.tolist() == [*np.repeat(np.arange(1, 10), 2), 0, 0]
    from scipy.io import loadmat

    original = loadmat(tmp_path / "train_32x32.mat")["X"]
    np.testing.assert_array_equal(dataset.train.inputs[7, 2], original[:, :, 2, 7])


def test_the_environment_names_the_data_folder(batches, tmp_path, monkeypatch):
    write(tmp_path / "cifar-10-batches-py", pickled(batches))
    monkeypatch.setenv("CLASS_UNCERTAINTY_DATA", str(tmp_path))
    assert len(load("cifar10").train) == 5 * N


OPTIONS_REFUSED = {
    "cifar10?jpeg=0": "option 'jpeg' is '0': it must be a whole number from 1 to 100",
    "cifar10?jpeg=high": "option 'jpeg' is 'high'",
    "cifar10?normalise=imagenets": "unknown normalise 'imagenets': did you mean 'imagenet'",
    "cifar10?normalize=imagenet": "unknown option of 'cifar10' 'normalize': did you mean 'normalise'",
    "cifar10-lt:2?validation=0": "option 'validation' is '0'",
    "cifar10-lt:2?validation=9": "9 examples per class .* class 'airplane' has 10: .* 1 to 8",
    "svci20:2.5": "needs a whole number of examples per class",
    "svci20:-3": "-3 examples per class",
    "svci20:1?validation=0": "option 'validation' is '0'",
    "svci20:1?validation=1": "1 examples per class .* class '0' has 2: give 1 to 0",
}


@pytest.mark.parametrize("name", OPTIONS_REFUSED)
def test_wrong_options_are_named(name, batches, tmp_path):
    write(tmp_path / "cifar-10-batches-py", pickled(batches))
    for split in ("train", "test"):
        savemat(
            tmp_path / f"{split}_32x32.mat",
            {"X": np.zeros((32, 32, 3, 20), np.uint8), "y": np.arange(20)[:, None] % 10 + 1},
        )
    with pytest.raises(InputError, match=OPTIONS_REFUSED[name]):
        load(name, root=tmp_path)


def test_jpeg_and_imagenet_options(batches, tmp_path):
    write(tmp_path / "cifar-10-batches-py", pickled(batches))
    plain, lossy = load("cifar10", root=tmp_path), load("cifar10?jpeg=95&normalise=imagenet", root=tmp_path)
    stream = io.BytesIO()
    Image.fromarray(plain.test.inputs[3].transpose(1, 2, 0)).save(stream, "JPEG", quality=95)
    np.testing.assert_array_equal(lossy.test.inputs[3].transpose(1, 2, 0), np.asarray(Image.open(stream)))
    np.testing.assert_allclose(np.divide(lossy.train.statistics, 255), [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    np.testing.assert_allclose(
        np.divide(plain.train.statistics, 255), [[0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]]
    )
    assert load("cifar10?normalise=train", root=tmp_path).train.statistics is None
    assert len({plain.fingerprint, lossy.fingerprint, load("cifar10?normalise=train", root=tmp_path).fingerprint}) == 3


def small_svci(root, batches, rng):
    write(root / "cifar-10-batches-py", pickled(batches))
    for split in ("train", "test"):
        pixels = rng.integers(0, 256, (32, 32, 3, 60), dtype=np.uint8)
        savemat(root / f"{split}_32x32.mat", {"X": pixels, "y": np.arange(60)[:, None] % 10 + 1})
    return root


def test_svci20_is_standardised_as_asked_for(batches, rng, tmp_path):
    root = small_svci(tmp_path, batches, rng)
    assert load("svci20:2", root=root).train.statistics is None
    wanted = load("cifar10?normalise=imagenet", root=root).train.statistics
    assert load("svci20:2?normalise=imagenet", root=root).train.statistics == wanted


def test_svci20_sets_validation_images_aside_first(batches, rng, tmp_path):
    root = small_svci(tmp_path, batches, rng)
    originals = [load(name, root=root) for name in ("cifar10", "svhn")]
    mixed = load("svci20:3?validation=2", root=root)
    assert mixed.train.counts.tolist() == [3] * 20
    assert mixed.test.counts.tolist() == [2] * 20
    assert mixed.duplicates == 0
    for original, classes in zip(originals, (slice(0, 10), slice(10, 20)), strict=True):
        assert mixed.classes[classes] == original.classes
        for split in (mixed.train, mixed.test):
            digests = split.digests[np.isin(split.labels, np.arange(20)[classes])]
            assert np.isin(digests, original.train.digests).all()
            assert not np.isin(digests, original.test.digests).any()


@pytest.mark.parametrize("name", ["svci20:2", "svci20:2?validation=2", "cifar10-lt:2", "cifar10-lt:2?validation=2"])
def test_a_seed_draws_other_examples(name, batches, rng, tmp_path):
    root = small_svci(tmp_path, batches, rng)
    first, again, other = (load(name, root=root, seed=seed) for seed in (1, 1, 0))
    assert first.fingerprint == again.fingerprint
    assert first.train.fingerprint != other.train.fingerprint
    assert (first.test.fingerprint != other.test.fingerprint) == ("validation" in name)


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
