"""Images are decoded, and embedded, once: what comes out goes into a memory-mapped file in a cache folder."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EACCES
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.examples import Data
from class_uncertainty.errors import InputError, MachineFault, notice
from class_uncertainty.io import Bytes, abandoned, disk_faults, parse_json, read_sealed, sealed, write_together

VERSION = 1  # raised when a reader changes what it makes of a file
ENDING = ".cache"
LENGTH = 8  # bytes of a number

Progress = Callable[[str, int, int], None]  # (what, done, total)


@dataclass(frozen=True)
class Decoding:
    """Images to be decoded, or features to be computed: labels, classes and shape, and the inputs in batches."""

    labels: NDArray[np.int64]
    classes: Sequence[str]
    shape: tuple[int, ...]  # of one input
    batches: Iterator[NDArray]
    dtype: str = "|u1"
    skipped: dict[int, str] = field(default_factory=dict)  # what the batches leave out, by its place, and why


def home() -> Path:
    """The default folder of data and decoded pixels."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "class-uncertainty"


def folder() -> Path:
    """The folder of decoded pixels."""
    return Path(os.environ.get("CLASS_UNCERTAINTY_CACHE") or home() / "decoded").expanduser()


def cached(
    what: str, files: Sequence[Path], build: Callable[[], Decoding], progress: Progress | None = None, **options: Any
) -> Data:
    """The Data that `build` makes of these files with these options, decoded now or before; pixels stay on disk."""
    return cached_readable(what, files, build, progress, **options)[0]


def cached_readable(
    what: str, files: Sequence[Path], build: Callable[[], Decoding], progress: Progress | None = None, **options: Any
) -> tuple[Data, dict[int, str]]:
    """Likewise, and what was skipped: its place among all, and why."""
    path = _path(what, files, options)
    entry = None
    with suppress(OSError):  # what cannot be read is decoded again
        entry = _open(path)
    if entry is None:
        if path.exists():
            notice(f"cache {path} is damaged: {what} is decoded again.")
        _write(path, what, build(), progress)
        with disk_faults(f"cache {path} could not be read"):
            entry = _open(path)
        if entry is None:
            raise MachineFault(f"cache {path} is not what was written: something else may be writing there.")
    return entry


def forget(what: str, files: Sequence[Path], **options: Any) -> None:
    """Remove what is kept of these files with these options."""
    _path(what, files, options).unlink(missing_ok=True)


def _path(what: str, files: Sequence[Path], options: dict[str, Any]) -> Path:
    """A file named by a hash of each source's path, size and times, one of which changes with its content."""
    digest = hashlib.sha256(repr((VERSION, what, sorted(options.items()))).encode())
    for file in files:
        stat = file.stat()
        identity = (os.path.abspath(file), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        digest.update(repr(identity).encode())
    return folder() / f"{digest.hexdigest()[:32]}{ENDING}"


def _open(path: Path) -> tuple[Data, dict[int, str]] | None:
    """The cached Data and what it skipped; None where the file is damaged."""
    try:
        content = read_sealed(path, path.stem)
        if content is None:
            return None
        about = _about(content)
        inputs = content[: about["bytes"]].view(about["dtype"]).reshape(about["shape"])
        skipped = {int(i): why for i, why in about["skipped"].items()}
        return Data(inputs, np.array(about["labels"], np.int64), about["classes"]), skipped
    except ValueError:
        return None


def _about(content: NDArray[np.uint8]) -> dict[str, Any]:
    """The description that stands behind the inputs, before its own length."""
    end = len(content) - LENGTH
    length = int.from_bytes(content[end:].tobytes(), "little")
    return parse_json(content[max(0, end - length) : end].tobytes())


def _write(path: Path, what: str, decoding: Decoding, progress: Progress | None) -> None:
    """Write a file; of two processes that decode the same, the last one wins."""
    failure = f"cache folder {path.parent} could not be written (CLASS_UNCERTAINTY_CACHE names another)"
    with disk_faults(failure):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(EACCES, "it is read-only")
        for leftover in abandoned(path.parent, f"*{ENDING}.*.partial"):
            leftover.unlink(missing_ok=True)
    write_together({path: sealed(path.stem, _content(what, decoding, progress))}, failure)


def _content(what: str, decoding: Decoding, progress: Progress | None) -> Iterator[Bytes]:
    """The inputs, batch after batch, then a description of them, and its length."""
    done, size = 0, 0
    for batch in decoding.batches:
        yield np.ascontiguousarray(batch).data
        done += len(batch)
        size += batch.nbytes
        if progress:
            progress(what, done, len(decoding.labels))
    if decoding.skipped and not done:
        first = next(iter(decoding.skipped.values()))
        raise InputError(f"{what} has no image that can be read; the first: {first}")
    about = {
        "what": what,
        "classes": list(decoding.classes),
        "labels": np.delete(decoding.labels, list(decoding.skipped)).tolist(),
        "skipped": {str(i): why for i, why in decoding.skipped.items()},
        "bytes": size,
        "dtype": decoding.dtype,
        "shape": [done, *decoding.shape],
    }
    description = json.dumps(about).encode()
    yield description
    yield len(description).to_bytes(LENGTH, "little")
