"""CIFAR, SVHN and Places-LT: original files made small, and the real ones where they are."""

import gzip
import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image
from scipy.io import savemat

from class_uncertainty import InputError, load
from class_uncertainty.data.readers import cifar, places

N = 20  # images in a batch: two a class


@pytest.fixture
def batches(rng):
    """Five training batches and a test batch of CIFAR-10: (N, 3072) pixels and labels."""
    labels = np.arange(N) % 10
    return {
        f"data_batch_{i}": (rng.integers(0, 256, (N, 3072), dtype=np.uint8), rng.permutation(labels))
        for i in range(1, 6)
    } | {"test_batch": (rng.integers(0, 256, (N, 3072), dtype=np.uint8), labels)}


def pickled(batches, key="labels", protocol=2):
    """As the originals are: protocol 2, bytes for keys, a list of labels."""
    return {
        name: pickle.dumps({b"data": pixels, key.encode(): labels.tolist(), b"batch_label": b"x"}, protocol)
        for name, (pixels, labels) in batches.items()
    }


def binary(batches, before=1):
    return {
        f"{name}.bin": np.column_stack([*[labels * 0] * (before - 1), labels, pixels]).astype(np.uint8).tobytes()
        for name, (pixels, labels) in batches.items()
    }


def write(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def archive(file: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file


def parquet(file: Path, pixels, labels, form="PNG"):
    def encoded(image):
        stream = io.BytesIO()
        Image.fromarray(image.reshape(3, 32, 32).transpose(1, 2, 0)).save(stream, form, lossless=True)
        return stream.getvalue()

    images = pyarrow.array([{"bytes": encoded(image), "path": None} for image in pixels])
    pyarrow.parquet.write_table(pyarrow.table({"img": images, "label": pyarrow.array(labels)}), file)


FORMS = {
    "pickles": lambda root, batches: write(root / "cifar-10-batches-py", pickled(batches)),
    "newer pickles": lambda root, batches: write(root / "cifar-10-batches-py", pickled(batches, protocol=4)),
    "archive of pickles": lambda root, batches: archive(root / "cifar-10-python.tar.gz", pickled(batches)),
    "binaries": lambda root, batches: write(root / "cifar-10-batches-bin", binary(batches)),
    "archive of binaries": lambda root, batches: archive(root / "cifar-10-binary.tar.gz", binary(batches)),
    "Parquet, several files": lambda root, batches: [
        parquet(root / f"cifar10-{'test' if 'test' in name else 'train'}-{name}.parquet", *batch)
        for name, batch in batches.items()
    ],
    "Parquet in a folder, WebP": lambda root, batches: [
        (root / "cifar10").mkdir(exist_ok=True),
        *(
            parquet(root / "cifar10" / f"{'test' if 'test' in name else 'train'}-{name}.parquet", *batch, form="WEBP")
            for name, batch in batches.items()
        ),
    ],
}


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


class Harmful:
    def __reduce__(self):
        return open, ("harmed", "w")


def damaged(contents, name, change):
    return contents | {name: change(contents[name])}


MEMORY = b"\x80\x02cnumpy\nndarray\n((K\x01tU\x01OU\x08AAAAAAAAtR."  # ndarray((1,), "O", b"AAAAAAAA")

BAD_CIFAR = {
    "a pickle that runs code": (
        lambda c: damaged(c, "data_batch_2", lambda _: pickle.dumps(Harmful())),
        r"data_batch_2 is a pickle that asks for",
    ),
    "a pickle of objects": (
        lambda c: damaged(
            c, "data_batch_2", lambda _: pickle.dumps({b"data": np.array([Path()], object), b"labels": []})
        ),
        r"data_batch_2 is a pickle ",
    ),
    "an array over memory that is not its own": (
        lambda c: damaged(c, "data_batch_2", lambda _: MEMORY),
        r"data_batch_2 is damaged or not the original \(TypeError",
    ),
    "an array of whatever lay in memory": (
        lambda c: damaged(c, "data_batch_2", lambda _: b"\x80\x02cnumpy\nndarray\n(K\x01M\x00\x0c\x86U\x02u1tR."),
        r"data_batch_2 is damaged or not the original \(TypeError",
    ),
    "cut off": (lambda c: damaged(c, "test_batch", lambda b: b[:-100]), r"test_batch is damaged or not the original"),
    "not a pickle": (
        lambda c: damaged(c, "test_batch", lambda _: b"hello"),
        r"test_batch is damaged or not the original",
    ),
    "no labels": (
        lambda c: damaged(c, "test_batch", lambda _: pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)})),
        r"test_batch is damaged",
    ),
    "a label outside": (
        lambda c: damaged(
            c, "test_batch", lambda _: pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [3, 10]})
        ),
        r"test_batch has the label 10 in row 1: labels run from 0 to 9",
    ),
    "other pixels": (
        lambda c: damaged(
            c, "test_batch", lambda _: pickle.dumps({b"data": np.zeros((2, 3073), np.uint8), b"labels": [3, 1]})
        ),
        r"test_batch holds \(2, 3073\)",
    ),
    "a batch missing": (lambda c: {k: v for k, v in c.items() if k != "data_batch_4"}, r"data_batch_4"),
}


@pytest.mark.parametrize("place", ["folder", "archive"])
@pytest.mark.parametrize("case", BAD_CIFAR)
def test_bad_cifar_is_named(case, place, batches, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change, message = BAD_CIFAR[case]
    contents = change(pickled(batches))
    if place == "folder":
        write(tmp_path / "cifar-10-batches-py", contents)
    else:
        archive(tmp_path / "cifar-10-python.tar.gz", contents)
    with pytest.raises(InputError, match=message):
        load("cifar10", root=tmp_path)
    assert not Path("harmed").exists()


def test_a_harmful_pickle_would_have_done_harm(tmp_path, monkeypatch):
    """That the case above can fail."""
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Harmful())).close()
    assert Path("harmed").exists()


@pytest.mark.parametrize("keep", [0.999, 0.5, 0.01, 0.0])
def test_a_truncated_archive_is_named(keep, batches, tmp_path):
    file = archive(tmp_path / "cifar-10-python.tar.gz", pickled(batches))
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz (is damaged or cut off|holds no)"):
        load("cifar10", root=tmp_path)


def test_a_changed_archive_is_named(batches, tmp_path):
    """Deflated data may still unpack; only the checksum at the end knows."""
    file = archive(tmp_path / "cifar-10-python.tar.gz", pickled(batches))
    content = bytearray(file.read_bytes())
    content[-6] ^= 1  # of the checksum
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz is damaged .*CRC"):
        load("cifar10", root=tmp_path)


@pytest.mark.parametrize("label", [10, 57, -1])
def test_a_label_outside_the_classes_of_cifar_in_parquet(label, batches, tmp_path):
    batches["data_batch_3"][1][4] = label
    FORMS["Parquet, several files"](tmp_path, batches)
    with pytest.raises(InputError, match=rf"data_batch_3.parquet has the label {label} in row 4: .* 0 to 9"):
        load("cifar10", root=tmp_path)


def test_a_swollen_archive_is_refused(batches, tmp_path, monkeypatch):
    archive(tmp_path / "cifar-10-python.tar.gz", pickled(batches))
    monkeypatch.setattr(cifar, "LARGEST", 1000)
    with pytest.raises(InputError, match=r"holds 'data_batch_1' of [\d,]+ bytes: it is not the original"):
        load("cifar10", root=tmp_path)


def test_a_binary_of_odd_length_is_refused(batches, tmp_path):
    write(tmp_path / "cifar-10-batches-bin", damaged(binary(batches), "data_batch_3.bin", lambda b: b[:-1]))
    with pytest.raises(InputError, match=r"data_batch_3.bin has 61,459 bytes.* multiple of 3,073"):
        load("cifar10", root=tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"MATLAB 5.0 MAT-file" + b" " * 200])
def test_bad_mat_file_is_named(content, tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}_32x32.mat").write_bytes(content)
    with pytest.raises(InputError, match=r"train_32x32.mat is damaged or not the original"):
        load("svhn", root=tmp_path)


@pytest.mark.parametrize(("x", "y"), [((32, 32, 3, 5), 4), ((32, 32, 1, 5), 5), ((5, 3, 32, 32), 5)])
def test_a_mat_file_of_other_shape_is_named(x, y, tmp_path):
    savemat(tmp_path / "train_32x32.mat", {"X": np.zeros(x, np.uint8), "y": np.ones((y, 1))})
    with pytest.raises(InputError, match=r"train_32x32.mat holds X .* it is not the original"):
        load("svhn", root=tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100-lt:50", "svhn", "svci20:100"])
def test_what_is_not_there_says_how_to_get_it(name, tmp_path):
    with pytest.raises(
        InputError, match=rf"is not in the data folder {tmp_path}: 'cu data fetch (cifar10|cifar100|svhn)' gets it"
    ):
        load(name, root=tmp_path)


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


# Places-LT.


@pytest.fixture
def small_places(tmp_path, rng):
    """An index of three classes, zipped, and its pictures."""
    lines = {
        "train": "train/bar/1.jpg 0\ntrain/bar/2.jpg 0\ntrain/attic/3.jpg 1\ntrain/attic/4.jpg 1\n",
        "test": "val/bar/a b.jpg 0\nval/attic/b.jpg 1\n",
        "val": "val/bar/c.jpg 0\nval/bar/d.jpg 0\nval/attic/e.jpg 1\n",
    }
    for split, text in lines.items():
        (tmp_path / f"Places_LT_{split}.txt.gz").write_bytes(gzip.compress(text.encode()))
        for line in text.splitlines():
            file = tmp_path / line.rpartition(" ")[0]
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (90, 80, 3), dtype=np.uint8)).save(file)
    return tmp_path


def test_places_lt(small_places):
    dataset = load("places-lt?size=16", root=small_places)
    assert dataset.classes == ("bar", "attic")  # by label, not by name
    assert dataset.train.labels.tolist() == [0, 0, 1, 1]
    assert dataset.test.inputs.shape == (2, 3, 16, 16)
    assert load("places-lt", root=small_places).train.shape == (3, 64, 64)
    assert load("places-lt?judge=val", root=small_places).test.labels.tolist() == [0, 0, 1]


def test_places_lt_with_its_pictures_elsewhere(small_places, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("pictures")
    for part in ("train", "val"):
        (small_places / part).rename(elsewhere / part)
    with pytest.raises(InputError, match=r"4 of the 4 images in .* do not exist"):
        load("places-lt", root=small_places)
    assert len(load(f"places-lt?images={elsewhere}", root=small_places).train) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/b/c.jpg ²", "line 1, must be a path, a blank and a label from 0 to 364"),
        (". 1", "line 1: '.' leads out of"),
        ("../../secret.jpg 0\n", "line 1: '../../secret.jpg' leads out of"),
        ("/etc/secret.jpg 0\n", "leads out of"),
        ("train/bar/1.jpg 0\ntrain/attic/3.jpg\n", "line 2, must be a path, a blank and a label from 0 to 364"),
        ("train/bar/1.jpg 365\n", "line 1, must be a path"),
        ("train/bar/1.jpg 0\ntrain/attic/3.jpg 0\n", "line 2: label 0 is 'attic' here and 'bar' before"),
        ("train/bar/1.jpg 0\ntrain/bar/99.jpg 0\n", "1 of the 2 images in .* do not exist, .*99.jpg"),
        ("", "is empty"),
    ],
)
def test_bad_index_is_named(text, message, small_places):
    (small_places / "Places_LT_train.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        load("places-lt", root=small_places)


def test_a_truncated_index_is_named(small_places):
    file = small_places / "Places_LT_train.txt.gz"
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"Places_LT_train.txt.gz cannot be read"):
        load("places-lt", root=small_places)


# The real files.


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
