"""CIFAR-10 and CIFAR-100 from their original archives or unpacked folders, in the Python or the binary version."""

import gzip
import io
import pickle
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.cache import Decoding
from class_uncertainty.errors import InputError
from class_uncertainty.io import read_regular
from class_uncertainty.text import read_faults, reason

LARGEST = 2**28  # bytes of one file in an archive; the largest original has 154 million
PIXELS = 3 * 32 * 32
CODECS = ("latin1", "ascii")  # in which Python writes bytes into pickles of its older protocols
FINE = """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
    motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm"""


@dataclass(frozen=True)
class Cifar:
    """Where an original keeps its splits, and which of its labels count."""

    archives: tuple[str, str]  # Python, binary
    folders: tuple[str, str]
    batches: dict[str, tuple[str, ...]]  # split -> files; the binary version adds .bin
    label: str  # in a pickle
    bytes_before: int  # label bytes of a binary record; the last of them counts
    classes: tuple[str, ...]


CIFAR10 = Cifar(
    archives=("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
    folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
    batches={"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
    label="labels",
    bytes_before=1,
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)
CIFAR100 = Cifar(
    archives=("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
    folders=("cifar-100-python", "cifar-100-binary"),
    batches={"train": ("train",), "test": ("test",)},
    label="fine_labels",
    bytes_before=2,
    classes=tuple(FINE.split()),
)


def find(cifar: Cifar, root: Path) -> tuple[Path, bool] | None:
    """(folder or archive, whether it is the binary version), or None if there is neither."""
    for names, exists in ((cifar.folders, Path.is_dir), (cifar.archives, Path.is_file)):
        for name, binary in zip(names, (False, True), strict=True):
            if exists(root / name):
                return root / name, binary
    return None


def files(cifar: Cifar, place: Path, binary: bool, split: str) -> list[Path]:
    """The files that hold a split."""
    paths = [place] if place.is_file() else [place / name for name in _names(cifar, binary, split)]
    if missing := [file for file in paths if not file.is_file()]:
        raise InputError(f"{missing[0]} does not exist: its folder must hold all files of the original archive.")
    return paths


def decoding(cifar: Cifar, place: Path, binary: bool, split: str) -> Decoding:
    """The images of a split."""
    names = _names(cifar, binary, split)
    contents = _from_archive(place, names) if place.is_file() else [read_regular(place / name) for name in names]
    read = _binary if binary else _pickled
    batches = [read(cifar, content, f"{place}, {name}") for name, content in zip(names, contents, strict=True)]
    labels = np.concatenate([labels for _, labels in batches])
    return Decoding(labels, cifar.classes, (3, 32, 32), (pixels.reshape(-1, 3, 32, 32) for pixels, _ in batches))


def _names(cifar: Cifar, binary: bool, split: str) -> list[str]:
    return [name + ".bin" * binary for name in cifar.batches[split]]


def _from_archive(archive: Path, names: Sequence[str]) -> list[bytes]:
    """The members of those names, in memory: nothing is unpacked, so nothing is written anywhere."""
    contents: dict[str, bytes] = {}
    faults = (tarfile.TarError, EOFError, OSError, zlib.error)
    with read_faults(archive, "is damaged or cut off, fetch it again", faults), gzip.open(archive) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                name = Path(member.name).name
                if name not in names or not member.isfile():
                    continue
                if member.size > LARGEST:
                    raise InputError(f"{archive} holds {name!r} of {member.size:,} bytes: it is not the original.")
                contents[name] = tar.extractfile(member).read()  # type: ignore[union-attr]  # it is a file
        while stream.read(2**20):  # to the end, where the checksum is
            pass
    if missing := [name for name in names if name not in contents]:
        raise InputError(f"{archive} holds no {missing[0]!r}: it is not the original.")
    return [contents[name] for name in names]


def _binary(cifar: Cifar, content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    record = cifar.bytes_before + PIXELS
    if not content or len(content) % record:
        raise InputError(f"{name} has {len(content):,} bytes, no multiple of {record:,}: it is not the original.")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    return records[:, cifar.bytes_before :], _checked(cifar, records[:, cifar.bytes_before - 1], name)


def _pickled(cifar: Cifar, content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        items = _Harmless(io.BytesIO(content), encoding="bytes").load().items()
        batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in items}
        pixels, labels = np.asarray(batch["data"]), np.asarray(batch[cifar.label])
    except InputError as error:
        raise InputError(f"{name} {error}") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise InputError(f"{name} is damaged or not the original ({type(error).__name__}: {reason(error)}).") from error
    shapes_fit = labels.ndim == 1 and pixels.shape == (len(labels), PIXELS)
    if not shapes_fit or pixels.dtype != np.uint8 or labels.dtype.kind != "i":
        raise InputError(f"{name} holds {pixels.shape} {pixels.dtype}, labels {labels.shape}: it is not the original.")
    return pixels, _checked(cifar, labels, name)


def _checked(cifar: Cifar, labels: NDArray, name: str) -> NDArray[np.int64]:
    last = len(cifar.classes) - 1
    for row in np.flatnonzero((labels < 0) | (labels > last)):
        raise InputError(f"{name} has the label {labels[row]} in row {row}: labels run from 0 to {last}.")
    return labels.astype(np.int64)


class _Harmless(pickle._Unpickler):
    """An unpickler of arrays, lists, dicts, bytes, strings and numbers; any other name is refused before it runs.

    It is Python's own version: the one in C allocates as much memory as a pickle claims to need.
    """

    def find_class(self, module: str, name: str) -> Any:
        builders = {
            ("multiarray", "_reconstruct"): _empty_array,
            ("numpy", "ndarray"): None,  # named by every array, never called: it could read any memory
            ("numpy", "dtype"): _plain_dtype,
            ("_codecs", "encode"): _encoded,
        }
        key = ("multiarray" if module in ("numpy.core.multiarray", "numpy._core.multiarray") else module, name)
        if key not in builders:
            raise InputError(f"is a pickle that asks for '{module}.{name}': only arrays and plain values are read.")
        return builders[key]


def _empty_array(kind: None, shape: tuple[int, ...], dtype: bytes) -> NDArray:
    return np.ndarray((0,), np.uint8)  # its state comes next


def _encoded(text: str, encoding: str) -> bytes:
    """Bytes, as newer pickles of older protocols write them; other codecs could inflate them."""
    if encoding not in CODECS:
        raise InputError(f"is a pickle with text in the codec {encoding!r}: only {' and '.join(CODECS)} are read.")
    return text.encode(encoding)


def _plain_dtype(text: str | bytes, *_: object) -> np.dtype:
    dtype = np.dtype(text.decode() if isinstance(text, bytes) else text)
    if dtype.kind not in "iufb":
        raise InputError(f"is a pickle with an array of {dtype}: only numbers are read.")
    return dtype
