"""The real files, where they are: totals, counts and subsets are the published ones."""

import hashlib

import numpy as np
import pytest

from class_uncertainty import load
from class_uncertainty.data.readers import places


def test_real_totals_and_counts(real):
    for name, total, least in (
        ("cifar10-lt:50", 13_996, 100),
        ("cifar10-lt:100", 12_406, 50),
        ("cifar100-lt:50", 12_608, 10),
        ("cifar100-lt:100", 10_847, 5),
    ):
        dataset = load(name, root=real)
        assert (len(dataset.train), dataset.train.counts.min(), len(dataset.test)) == (total, least, 10_000)
        assert (np.diff(dataset.train.counts) <= 0).all()
    assert [load("cifar100-lt:50", root=real).train.counts[c] for c in (11, 51, 94)] == [
        323,
        66,
        12,
    ]  # Sec. III of the paper


@pytest.mark.parametrize("per_class", [50, 100, 250])
def test_real_svci20_counts(per_class, real):
    dataset = load(f"svci20:{per_class}", root=real)
    assert dataset.train.counts.tolist() == [per_class] * 20
    assert dataset.classes[:2] + dataset.classes[10:12] == ("airplane", "automobile", "0", "1")
    assert dataset.test.counts[:10].tolist() == [1000] * 10
    assert len(dataset.test) == 10_000 + 26_032


def test_real_cifar_is_the_published_one(real):
    """SHA-1 sums of members of the binary archives, as MXNet publishes them."""
    ten, hundred = load("cifar10", root=real), load("cifar100", root=real)
    labels, fine = (dataset.train.labels.astype(np.uint8) for dataset in (ten, hundred))
    first = np.column_stack([labels[:10_000], ten.train.inputs[:10_000].reshape(10_000, -1)])
    assert hashlib.sha1(first.tobytes()).hexdigest() == "aadd24acce27caa71bf4b10992e9e7b2d74c2540"
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(real / "cifar100-train.parquet", columns=["coarse_label"])
    coarse = table["coarse_label"].to_numpy().astype(np.uint8)
    records = np.column_stack([coarse, fine, hundred.train.inputs.reshape(50_000, -1)])
    assert hashlib.sha1(records.tobytes()).hexdigest().startswith("e207cd2e")


def test_real_long_tail_is_the_subset_of_ldam_drw(real):
    """The examples that LDAM-DRW's generator keeps with its seed 0, written out here again."""
    full = load("cifar10", root=real).train
    np.random.seed(0)
    kept = []
    for c in range(10):
        where = np.where(full.labels == c)[0]
        np.random.shuffle(where)
        kept.append(where[: int(5000 * 0.01 ** (c / 9.0))])
    np.testing.assert_array_equal(load("cifar10-lt:100", root=real).train.inputs, full.inputs[np.concatenate(kept)])


@pytest.mark.parametrize(("name", "copies"), [("cifar10", 0), ("cifar100", 10)])
def test_real_test_images_in_the_training_split(name, copies, real):
    dataset = load(name, root=real)
    seen = {image.tobytes() for image in dataset.train.inputs}
    assert dataset.duplicates == sum(image.tobytes() in seen for image in dataset.test.inputs) == copies


@pytest.mark.parametrize(("split", "lines"), [("train", 62_500), ("val", 7_300), ("test", 36_500)])
def test_real_places_index(split, lines, real):
    paths, labels, names = places.read_index(places.find(real, split))
    assert (len(paths), len(names)) == (lines, 365)
    counts = np.bincount(labels)
    assert (counts.min(), counts.max()) == {"train": (5, 4_980), "val": (20, 20), "test": (100, 100)}[split]
