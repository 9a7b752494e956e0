"""CIFAR, SVHN and Places-LT: original files made small, and the real ones where they are."""

import io

import numpy as np
import pytest
from data.cifar_files import FORMS, N, binary, pickled, write
from PIL import Image
from scipy.io import savemat

from class_uncertainty import InputError, load
from class_uncertainty.data.readers import cifar


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
