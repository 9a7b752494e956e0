"""Files of CIFAR and SVHN that are damaged, harmful or not there are named."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from data.cifar_files import FORMS, archive, binary, pickled, write
from scipy.io import savemat

from class_uncertainty import InputError, load
from class_uncertainty.data.readers import cifar


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
    for root in (tmp_path, tmp_path / "no such folder"):
        with pytest.raises(
            InputError, match=rf"is not in the data folder {root}: 'cu data fetch (cifar10|cifar100|svhn)' gets it"
        ):
            load(name, root=root)
