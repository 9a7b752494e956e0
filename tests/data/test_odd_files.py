"""What is no file at all, what claims more than it holds, and what is deeper than Python recurses."""

import io
import json
import os
import pickle
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz.harness import held
from fuzz.targets import COLUMNS, TABLE, X, Y, class_names, model, npy, parquet_of, picture_rows, tarred, zipped
from pictures import encoded, picture, pixels
from PIL import Image
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.data.readers import cifar
from class_uncertainty.data.readers.unlabelled import read_unlabelled
from class_uncertainty.data.table import Column
from class_uncertainty.estimation.estimators import saved_probabilities
from class_uncertainty.posthoc.goal import read_numbers
from class_uncertainty.posthoc.prediction_files import read_predictions


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in (model() | {"good.csv": TABLE, "good.parquet": parquet_of(x=X[:, 0], label=Y)}).items():
        Path(name).write_bytes(content)
    for i, folder in enumerate("abab"):
        picture(Path("photos") / folder / f"{i}.png", i)
    return tmp_path


def load(spec: str) -> Callable[[str], object]:
    """That data, read from a place that is no file."""
    return lambda odd: cu.load(spec.format(odd), root=Path.cwd())


READERS: dict[str, tuple[str, Callable[[str], object]]] = {  # what the odd thing is called -> what reads it
    "csv": ("p.csv", load("csv:{}")),
    "csv.gz": ("p.csv.gz", load("csv:{}")),
    "npz": ("p.npz", load("npz:{}")),
    "parquet": ("p.parquet", load("parquet:{}")),
    "a folder of parquet": ("tables/p.parquet", lambda _: cu.load("parquet:tables")),
    "a CSV file to judge on": ("p.csv", load("csv:good.csv?test={}")),
    "a Parquet file to judge on": ("p.parquet", load("parquet:good.parquet?test={}")),
    "a picture": ("photos/a/p.png", load("folder:photos")),
    "a file of splits": ("split.csv", load("folder:photos?split={}")),
    "cifar10": ("cifar-10-python.tar.gz", load("cifar10")),
    "cifar100": ("cifar-100-python/test", load("cifar100")),
    "svhn": ("train_32x32.mat", load("svhn")),
    "places-lt": ("Places_LT_train.txt", load("places-lt")),
    "weights": ("n.safetensors", lambda _: (os.link("m.json", "n.json"), cu.restore("n"))),
    "a description": ("n.json", lambda _: (os.link("m.safetensors", "n.safetensors"), cu.restore("n"))),
    "unlabelled, a picture": ("p.png", lambda odd: read_unlabelled(Path(odd), (3, 4, 4), None)),
    "unlabelled, rows": ("p.csv", lambda odd: read_unlabelled(Path(odd), (3,), COLUMNS)),
    "unlabelled, arrays": ("p.npy", lambda odd: read_unlabelled(Path(odd), (3,), None)),
    "saved probabilities": ("p.npy", lambda odd: saved_probabilities(odd, cu.Data(X, Y))),
    "predictions": ("p.npz", lambda odd: read_predictions(Path(odd))),
    "counts": ("counts.txt", lambda odd: read_numbers(odd, "--counts")),
}


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused_at_once(name, kind):
    odd, read = READERS[name]
    Path(odd).parent.mkdir(exist_ok=True, parents=True)
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(odd)
    else:
        os.symlink("/dev/zero", odd)
    with held() as outcome:
        read(odd)
    assert outcome == {"refused"}


SHAPES = [(10**30,), (-1,), (12, -3), (2**40, 3), (2**62, 4), (10**30, 0)]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_claims_more_than_there_is(shape):
    """Before anything is allocated, from a file alone and within an archive."""
    array = npy(X).replace(b"(12, 3)", str(shape).encode())
    start = array.index(b"{")
    array = array[:8] + (array.index(b"\n") + 1 - start).to_bytes(2, "little") + array[start:]
    Path("x.npy").write_bytes(array)
    Path("x.npz").write_bytes(zipped("X", y=Y)(array))
    with refused("x.npz"):
        cu.load("npz:x.npz")
    with refused("x.npy"):
        read_unlabelled(Path("x.npy"), (3,), None)
    with refused("x.npy"):
        saved_probabilities("x.npy", cu.Data(X, Y))
    with refused("x.npz"):
        read_predictions(Path("x.npz"))


def test_an_archive_claims_more_than_there_is():
    packed = bytearray(zipped("X", y=Y)(npy(X)))
    place = packed.rindex(b"PK\x01\x02")  # the directory's entry of X, of which bytes 24 to 27 are the size
    packed[place + 24 : place + 28] = (2**31).to_bytes(4, "little")
    Path("x.npz").write_bytes(packed)
    with refused("x.npz", "2,147,483,648 bytes"):
        cu.load("npz:x.npz")


def test_compressed_zeros_are_read():
    """Deflate makes a thousandth of them: that is no lie."""
    np.savez_compressed("zeros.npz", X=np.zeros((100_000, 10)), y=np.arange(100_000) % 2)
    assert Path("zeros.npz").stat().st_size < 100_000
    assert cu.load("npz:zeros.npz").train.inputs.shape == (100_000, 10)


@pytest.mark.parametrize("codec", ["zip", "bz2", "hex", "rot13", "nonsense"])
def test_a_pickle_in_a_codec_that_inflates(codec):
    text = b"c_codecs\nencode\n(V" + b"0" * 50 + b"\nV" + codec.encode() + b"\ntR."
    Path("cifar.tar.gz").write_bytes(tarred("test")(text))
    with refused("cifar.tar.gz, test", repr(codec), "latin1 and ascii"):
        cifar.decoding(cifar.CIFAR100, Path("cifar.tar.gz"), False, "test")


def test_bytes_of_an_older_protocol_are_read():
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"fine_labels": [3]}
    for protocol in range(5):
        Path("cifar.tar.gz").write_bytes(tarred("test")(pickle.dumps(batch, protocol)))
        assert cifar.decoding(cifar.CIFAR100, Path("cifar.tar.gz"), False, "test").labels.tolist() == [3]


def test_a_pickle_that_claims_to_remember_much():
    """The unpickler in C would make room for four billion objects."""
    Path("cifar.tar.gz").write_bytes(tarred("test")(b"\x80\x02}r\xff\xff\xff\xff."))
    with refused("cifar.tar.gz, test", "not the original"):
        cifar.decoding(cifar.CIFAR100, Path("cifar.tar.gz"), False, "test")


@pytest.mark.parametrize("names", [5, "cat", {"a": 1}, [1, 2], ["cat", None], [["cat"], ["dog"]]])
def test_names_in_parquet_that_are_no_list_of_text(names):
    metadata = json.loads(class_names())
    metadata["info"]["features"]["label"]["names"] = names
    Path("pets.parquet").write_bytes(parquet_of(json.dumps(metadata).encode(), **picture_rows()))
    with refused("'label'", "list of texts"):
        cu.load("parquet:pets.parquet")


def test_a_pipe_among_tables_is_left_out_and_not_opened():
    Path("tables").mkdir()
    Path("good.parquet").rename("tables/good.parquet")
    os.mkfifo("tables/p.parquet")
    unlabelled = read_unlabelled(Path("tables"), (1,), [Column(name="x", median=0.0)])
    assert len(unlabelled.names) == len(X)
    assert any("p.parquet" in note for note in unlabelled.notes)


def test_a_folder_deeper_than_python_recurses():
    start, deep = os.open(".", os.O_RDONLY), "/".join("d" * 1100)
    try:
        for folder in ("photos/a", "tables"):
            os.makedirs(folder, exist_ok=True)
            os.chdir(folder)
            for _ in range(1100):
                os.mkdir("d")
                os.chdir("d")
            Path("x.png" if folder == "photos/a" else "x.parquet").write_bytes(
                encoded(pixels(9)) if folder == "photos/a" else parquet_of(x=X[:, 0], label=Y)
            )
            os.chdir(start)
        assert f"a/{deep}/x.png" in cu.load("folder:photos").train.names
        assert len(cu.load("parquet:tables").train) == 12
    finally:  # pytest could not remove them
        os.chdir(start)
        os.close(start)
        os.system("rm -rf photos tables")


def test_a_list_of_counts_that_is_nested_deeply():
    Path("counts.json").write_text("[" * 100_000)
    with refused("counts.json"):
        read_numbers("counts.json", "--counts")


def test_a_name_that_is_not_text():
    """Results are kept under it."""
    with refused("\\\\udce4", "rename"):
        cu.load("folder:\udce4")


def test_a_picture_that_is_a_bomb():
    Image.new("1", (20_000, 20_000)).save(file := io.BytesIO(), "PNG")
    Path("photos/a/bomb.png").write_bytes(file.getvalue())
    with refused("bomb.png", "pixels"):
        cu.load("folder:photos?size=8")
