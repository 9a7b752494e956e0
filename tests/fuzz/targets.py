"""The readers, with small valid files of each and a check of what they make of them."""

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
from example_results import export_text
from pictures import encoded, pixels
from PIL import Image
from scipy.io import savemat

import class_uncertainty as cu
from class_uncertainty.data.cache import Decoding
from class_uncertainty.data.readers import cifar, folder, places, svhn
from class_uncertainty.data.readers.unlabelled import read_unlabelled
from class_uncertainty.data.table import Column
from class_uncertainty.estimation.estimators import saved_probabilities
from class_uncertainty.posthoc.goal import read_numbers
from class_uncertainty.posthoc.prediction_files import read_predictions
from class_uncertainty.runs import Store
from class_uncertainty.runs.result_lines import export_lines, import_lines, read_lines
from class_uncertainty.training.model_files import save
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.saved_model import model_checksum

Files = dict[str, bytes]
TABLE = b"age,city,label\n" + b"".join(
    b"%d.5,%s,%s\n" % (i, (b"Oslo", b"Rome")[i % 2], (b"yes", b"no")[i % 3 == 0]) for i in range(12)
)
X, Y = np.arange(36, dtype=np.float32).reshape(12, 3), np.arange(12) % 2
P = np.full((12, 2), 0.5)
COLUMNS = (Column(name="age", median=3.5, fills=True), Column(name="city", categories=("Oslo", "Rome"), fills=True))


@dataclass(frozen=True)
class Target:
    """`read` takes the folder with the files; `pack` wraps a file in its format, so that faults pass its checksums."""

    files: Callable[[], Files]
    read: Callable[[Path], object]
    pack: Callable[[bytes], bytes] = bytes


def valid(data: cu.Data) -> None:
    assert len(data.inputs) == len(data.labels) > 0
    assert np.isfinite(data.inputs).all()
    assert data.labels.min() >= 0
    assert data.labels.max() < len(data.classes)


def loaded(name: str) -> Callable[[Path], None]:
    """Of a data source that keeps no cache."""

    def read(place: Path) -> None:
        source, _, rest = name.partition(":")
        dataset = cu.load(f"{source}:{place}/{rest}")
        valid(dataset.train)

    return read


def decoded(decoding: Decoding) -> None:
    valid(cu.Data(np.concatenate(list(decoding.batches)), decoding.labels, decoding.classes))


def asked(name: str, shape: tuple[int, ...], columns: tuple[Column, ...] | None = None) -> Callable[[Path], None]:
    """Examples without labels."""

    def read(place: Path) -> None:
        examples = read_unlabelled(place / name, shape, columns)
        batches = list(examples.batches)
        assert sum(map(len, batches)) == len(examples.read_names)
        assert all(batch.shape[1:] == shape for batch in batches)
        assert all(np.isfinite(batch).all() for batch in batches)
        for why in examples.skipped.values():
            raise cu.InputError(why)

    return read


def npy(array: object, **options: object) -> bytes:
    np.save(file := io.BytesIO(), np.asarray(array), **options)  # type: ignore[arg-type]
    return file.getvalue()


def zipped(name: str, compression: int = zipfile.ZIP_STORED, **others: object) -> Callable[[bytes], bytes]:
    """A .npz file in which the content is the array of that name."""

    def pack(content: bytes) -> bytes:
        with zipfile.ZipFile(file := io.BytesIO(), "w", compression) as archive:
            for other, array in others.items():
                archive.writestr(f"{other}.npy", npy(array))
            archive.writestr(f"{name}.npy", content)
        return file.getvalue()

    return pack


def tarred(name: str) -> Callable[[bytes], bytes]:
    def pack(content: bytes) -> bytes:
        with tarfile.open(fileobj=(file := io.BytesIO()), mode="w:gz", compresslevel=1) as tar:
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        return file.getvalue()

    return pack


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 1, mtime=0)


def parquet_of(metadata: bytes | None = None, **columns: object) -> bytes:
    table = pyarrow.table(columns)
    table = table.replace_schema_metadata({"huggingface": metadata}) if metadata is not None else table
    pyarrow.parquet.write_table(table, file := io.BytesIO())
    return file.getvalue()


def picture_rows() -> dict[str, object]:
    return {"image": [{"bytes": encoded(pixels(i)), "path": None} for i in range(4)], "label": [0, 1, 0, 1]}


def picture_parquet(place: Path) -> None:
    from class_uncertainty.data.readers import parquet

    decoded(parquet.decoding(parquet.find(place / "t.parquet")["train"], None))


def class_names() -> bytes:
    return json.dumps({"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}).encode()


def photos(form: str, **options: object) -> Target:
    """A folder with a picture of that form, which changes, and others."""

    def files() -> Files:
        content = io.BytesIO()
        Image.fromarray(pixels(0, (12, 10))).save(content, form, **options)
        return {f"a/0.{form.lower()}": content.getvalue(), "b/1.png": encoded(pixels(1))}

    return Target(files, lambda place: decoded(folder.decoding(folder.find(place)["train"], None, 3)))


def split_pictures(place: Path) -> None:
    for listed in folder.find(place / "photos", place / "split.csv").values():
        assert listed


def cifar_pickle(protocol: int) -> Files:
    batch = {b"data": np.zeros((3, 3072), np.uint8), b"fine_labels": [0, 99, 5], b"filenames": [b"a", b"b", b"c"]}
    return {"test": pickle.dumps(batch, protocol)}


def cifar_file(name: str, binary: bool) -> Callable[[Path], None]:
    return lambda place: decoded(cifar.decoding(cifar.CIFAR100, place / name, binary, "test"))


def mat(compressed: bool) -> Files:
    savemat(
        file := io.BytesIO(),
        {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [10]])},
        do_compression=compressed,
    )
    return {"test_32x32.mat": file.getvalue()}


def index(name: str) -> Callable[[Path], None]:
    def read(place: Path) -> None:
        paths, labels, names = places.read_index(place / name)
        assert len(paths) == len(labels) > 0
        assert set(labels) == set(names)

    return read


def probabilities(name: str) -> Callable[[Path], None]:
    def read(place: Path) -> None:
        np.testing.assert_allclose(saved_probabilities(str(place / name), cu.Data(X, Y)).sum(axis=-1), 1, rtol=1e-4)

    return read


def predictions(place: Path) -> None:
    np.testing.assert_allclose(read_predictions(place / "p.npz").probabilities.sum(axis=-1), 1, rtol=1e-4)


def numbers(name: str) -> Callable[[Path], None]:
    def read(place: Path) -> None:
        assert read_numbers(str(place / name), "--counts").dtype == np.float64

    return read


def model() -> Files:
    import tempfile

    import torch

    torch.manual_seed(0)
    network = Classifier("mlp", (3,), ("yes", "no"), columns=COLUMNS)
    with tempfile.TemporaryDirectory() as place:
        weights, description = save(network, Path(place) / "m", {"data": "csv:t.csv"})
        return {"m.json": description.read_bytes(), "m.safetensors": weights.read_bytes()}


def restored(place: Path) -> None:
    """One that is read answers, and all of it is finite."""
    import torch

    network = cu.restore(place / "m")
    assert all(value.isfinite().all() for value in network.state_dict().values())
    assert network(torch.zeros(2, *network.rebuild["shape"])).shape == (2, len(network.classes))


def forged(place: Path) -> None:
    """As `restored`, with a checksum that matches: whoever edits a model can write it."""
    content = (place / "m.safetensors").read_bytes()
    with suppress(ValueError, TypeError, RecursionError):  # what is no JSON object is refused without it
        document = json.loads((place / "m.json").read_bytes())
        document["checksum"] = model_checksum(document, content)
        (place / "m.json").write_text(json.dumps(document))
    restored(place)


def exchanged(place: Path) -> None:
    """What is read can be stored, and comes out of the store as often as it is asked for."""
    lines = read_lines(place / "r.jsonl")
    with Store(place / "runs.sqlite") as store:
        added = import_lines(store, lines, "r.jsonl").added
        text = "".join(export_lines(store))
        assert text.isascii()
        assert text.count('"document"') == added
        assert import_lines(store, lines, "r.jsonl").added == 0


def framed(place: Path) -> None:
    """What pandas makes of a table; what it cannot read is no matter of ours."""
    try:
        frame = pandas.read_csv(place / "t.csv")
    except Exception as error:
        raise cu.InputError(f"pandas: {type(error).__name__}.") from None
    valid(cu.load(frame, missing="fill").train)


DEFLATED = zipfile.ZIP_DEFLATED
INDEX = b"".join(b"data/place_%d/%d.jpg %d\n" % (i % 3, i, i % 3) for i in range(9))

TARGETS: dict[str, Target] = {
    "csv": Target(lambda: {"t.csv": TABLE}, loaded("csv:t.csv?missing=fill")),
    "a DataFrame": Target(lambda: {"t.csv": TABLE}, framed),
    "csv without a header": Target(lambda: {"t.csv": TABLE}, loaded("csv:t.csv?header=no&label=3&missing=fill&min=2")),
    "csv.gz": Target(lambda: {"t.csv.gz": TABLE}, loaded("csv:t.csv.gz"), gzipped),
    "npz": Target(lambda: {"t.npz": npy(X)}, loaded("npz:t.npz"), zipped("X", y=Y)),
    "npz, deflated": Target(lambda: {"t.npz": npy(X)}, loaded("npz:t.npz"), zipped("X", DEFLATED, y=Y)),
    "npz, labels": Target(lambda: {"t.npz": npy(np.array(["a", "b"])[Y])}, loaded("npz:t.npz"), zipped("y", X=X)),
    "parquet, a table": Target(
        lambda: {"t.parquet": parquet_of(age=X[:, 0], id=np.arange(12), city=["Oslo", None] * 6, label=Y)},
        loaded("parquet:t.parquet?missing=fill"),
    ),
    "parquet, pictures": Target(lambda: {"t.parquet": parquet_of(**picture_rows())}, picture_parquet),
    "parquet, names of classes": Target(
        lambda: {"t.parquet": class_names()}, picture_parquet, lambda content: parquet_of(content, **picture_rows())
    ),
    "png": photos("PNG"),
    "jpeg": photos("JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
    "gif": photos("GIF"),
    "bmp": photos("BMP"),
    "tiff": photos("TIFF"),
    "webp": photos("WEBP"),
    "ppm": photos("PPM"),
    "split file": Target(
        lambda: (
            {"split.csv": b"path,split\na/0.png,train\nb/1.png,test\n"}
            | {f"photos/{name}": encoded(pixels(i)) for i, name in enumerate(("a/0.png", "b/1.png"))}
        ),
        split_pictures,
    ),
    "cifar, archive": Target(
        lambda: {"c.tar.gz": cifar_pickle(2)["test"]}, cifar_file("c.tar.gz", False), tarred("test")
    ),
    "cifar, pickle": Target(lambda: cifar_pickle(2), cifar_file("", False)),
    "cifar, newer pickle": Target(lambda: cifar_pickle(4), cifar_file("", False)),
    "cifar, binary": Target(lambda: {"test.bin": b"\x01\x05" + bytes(3072)}, cifar_file("", True)),
    "cifar, binary archive": Target(
        lambda: {"c.tar.gz": b"\x01\x05" + bytes(3072)}, cifar_file("c.tar.gz", True), tarred("test.bin")
    ),
    "svhn": Target(lambda: mat(False), lambda place: decoded(svhn.decoding(place / "test_32x32.mat"))),
    "svhn, compressed": Target(lambda: mat(True), lambda place: decoded(svhn.decoding(place / "test_32x32.mat"))),
    "places-lt": Target(lambda: {"i.txt": INDEX}, index("i.txt")),
    "places-lt, gz": Target(lambda: {"i.txt.gz": INDEX}, index("i.txt.gz"), gzipped),
    "saved probabilities": Target(lambda: {"p.npy": npy(P)}, probabilities("p.npy")),
    "saved probabilities, npz": Target(lambda: {"p.npz": npy(P)}, probabilities("p.npz"), zipped("probabilities")),
    "predictions": Target(lambda: {"p.npz": npy(P)}, predictions, zipped("probabilities", labels=Y, counts=[6, 6])),
    "predictions, logits": Target(lambda: {"p.npz": npy(P)}, predictions, zipped("logits", labels=Y)),
    "counts.json": Target(lambda: {"c.json": b"[500, 60, 7]"}, numbers("c.json")),
    "counts.txt": Target(lambda: {"c.txt": b"500\n60\n7\n"}, numbers("c.txt")),
    "model": Target(model, forged),
    "model, with its checksum": Target(model, restored),
    "results": Target(lambda: {"r.jsonl": export_text()}, exchanged),
    "one result": Target(
        lambda: {"r.jsonl": export_text().splitlines()[-1]}, lambda place: read_lines(place / "r.jsonl")
    ),
    "one measurement": Target(
        lambda: {"r.jsonl": export_text().splitlines()[1]}, lambda place: read_lines(place / "r.jsonl")
    ),
    "unlabelled csv": Target(lambda: {"t.csv": TABLE}, asked("t.csv", (3,), COLUMNS)),
    "unlabelled npy": Target(lambda: {"x.npy": npy(X)}, asked("x.npy", (3,))),
    "unlabelled parquet": Target(
        lambda: {"t.parquet": parquet_of(age=X[:, 0], city=["Oslo", None] * 6)}, asked("t.parquet", (3,), COLUMNS)
    ),
    "unlabelled pictures": Target(
        lambda: {"a/0.png": encoded(pixels(0)), "1.gif": encoded(pixels(1), "GIF")}, asked("", (3, 4, 4))
    ),
}
