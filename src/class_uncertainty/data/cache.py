"""Decoding happens once: pixels go into a memory-mapped file in a cache folder, keyed by what is known of the source files."""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.core import Data
from class_uncertainty.errors import MachineFault, notice
from class_uncertainty.files import BlockCrcs, abandoned, checksum, file_crcs, parse_json, sync_file, sync_folder

VERSION = 1  # raised when a reader changes what it makes of a file
ARRAYS = ("inputs.npy", "labels.npy")

Progress = Callable[[str, int, int], None]  # what, how much is done, how much there is


@dataclass(frozen=True)
class Decoding:
    """Pictures about to be decoded: what is known before, and the pixels in batches (n, channels, H, W)."""

    labels: NDArray[np.int64]
    classes: Sequence[str]
    shape: tuple[int, int, int]
    batches: Iterator[NDArray[np.uint8]]


def home() -> Path:
    """Where data and decoded pixels go when nobody says where."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "class-uncertainty"


def folder() -> Path:
    return Path(os.environ.get("CLASS_UNCERTAINTY_CACHE") or home() / "decoded").expanduser()


def cached(what: str, files: Sequence[Path], build: Callable[[], Decoding], progress: Progress | None = None, **options: Any) -> Data:
    """The Data that `build` makes of these files with these options, decoded now or before; pixels stay on disk until they are touched."""
    place = folder() / _key(what, files, options)
    for _ in range(3):  # another process may take away what it found damaged
        if (found := _open(place)) is not None:
            return found
        if place.exists():
            notice(f"cache {place} is damaged, or an older version wrote it: {what} is decoded again.")
        _write(place, what, build(), progress)
    if (found := _open(place)) is None:
        raise MachineFault(f"cache {place} changes while it is read: is something else writing there?")
    return found


def _key(what: str, files: Sequence[Path], options: dict[str, Any]) -> str:
    """By each file's place, size and times: a change of its content changes one of them, and no content need be read."""
    digest = hashlib.sha256(repr((VERSION, what, sorted(options.items()))).encode())
    for file in files:
        stat = file.stat()
        digest.update(repr((os.path.abspath(file), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)).encode())
    return digest.hexdigest()[:32]


def _open(place: Path) -> Data | None:
    """None where nothing is there, or a block of it is not as it was written."""
    try:
        about = parse_json((place / "about.json").read_bytes())
        if about.pop("checksum") != _seal(place, about) or not _sound(place, about):
            return None
        inputs = np.load(place / "inputs.npy", mmap_mode="c")  # "c": torch wants an array that it might write into; the file stays as it is
        return Data(inputs, np.load(place / "labels.npy"), about["classes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sound(place: Path, about: dict[str, Any]) -> bool:
    """Whether every block of the arrays is as it was written."""
    return all(checksum(file_crcs(place / name)) == about[name] for name in ARRAYS)


def _seal(place: Path, about: dict[str, Any]) -> str:
    return checksum(place.name, json.dumps(about, sort_keys=True))


def _write(place: Path, what: str, decoding: Decoding, progress: Progress | None) -> None:
    """Into a folder of its own, renamed when it is whole: of two processes that build at once, the first to end wins."""
    with _writing_in(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
        _sweep(place.parent)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=place.parent))

    blocks = {name: BlockCrcs() for name in ARRAYS}

    def append(name: str, content: bytes | memoryview) -> None:
        with _writing_in(place.parent), open(partial / name, "ab") as file:  # closed within: the last bytes may be those that do not fit
            file.write(content)
        if name in blocks:
            blocks[name].add(content)

    try:
        total, done = len(decoding.labels), 0
        header, labels = io.BytesIO(), io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (total, *decoding.shape)})
        append("inputs.npy", header.getvalue())
        for batch in decoding.batches:
            append("inputs.npy", np.ascontiguousarray(batch).data)
            done += len(batch)
            if progress:
                progress(what, done, total)
        np.save(labels, decoding.labels)
        append("labels.npy", labels.getvalue())
        about: dict[str, Any] = {name: checksum(blocks[name].crcs) for name in ARRAYS}
        about |= {"classes": list(decoding.classes), "what": what}
        append("about.json", json.dumps(about | {"checksum": _seal(place, about)}).encode())
        with _writing_in(place.parent):
            for name in (*ARRAYS, "about.json"):
                sync_file(partial / name)
            sync_folder(partial)
        _put(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put(partial: Path, place: Path) -> None:
    """Into its place, if nothing is there, or something damaged; what is whole is another's, who was quicker."""
    for _ in range(2):
        with suppress(OSError):
            os.rename(partial, place)
            sync_folder(place.parent)
            return
        if _open(place) is not None:
            return
        with suppress(OSError), tempfile.TemporaryDirectory(prefix="partial-", dir=place.parent) as aside:
            os.rename(place, Path(aside) / "damaged")


@contextmanager
def _writing_in(where: Path) -> Iterator[None]:
    """A full disk is the cache folder's fault, an unreadable image is not: only the writing itself is watched."""
    try:
        yield
    except OSError as error:
        message = f"cache folder {where} cannot be written to ({error.strerror}): set CLASS_UNCERTAINTY_CACHE to one that can."
        raise MachineFault(message) from error


def _sweep(where: Path) -> None:
    for left in abandoned(where, "partial-*"):
        shutil.rmtree(left, ignore_errors=True)
