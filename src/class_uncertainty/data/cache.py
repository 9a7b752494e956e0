"""Images are decoded, and embedded, once: what comes out goes into a memory-mapped file in a cache folder."""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.examples import Data
from class_uncertainty.errors import InputError, MachineFault, notice
from class_uncertainty.files import BlockCrcs, abandoned, checksum, disk_faults, file_crcs, parse_json, sync

VERSION = 1  # raised when a reader changes what it makes of a file
ARRAYS, ABOUT = ("inputs.npy", "labels.npy"), "about.json"

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
    place = folder() / _key(what, files, options)
    for _ in range(3):  # another process may remove what it found damaged
        if (entry := _open(place)) is not None:
            return entry
        if place.exists():
            notice(f"cache {place} is damaged, or an older version wrote it: {what} is decoded again.")
        _write(place, what, build(), progress)
    if (entry := _open(place)) is None:
        raise MachineFault(f"cache {place} changes while it is read: is something else writing there?")
    return entry


def forget(what: str, files: Sequence[Path], **options: Any) -> None:
    """Remove what is kept of these files with these options."""
    shutil.rmtree(folder() / _key(what, files, options), ignore_errors=True)


def _key(what: str, files: Sequence[Path], options: dict[str, Any]) -> str:
    """A hash of each file's path, size and times, one of which changes with its content; no content is read."""
    digest = hashlib.sha256(repr((VERSION, what, sorted(options.items()))).encode())
    for file in files:
        stat = file.stat()
        identity = (os.path.abspath(file), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        digest.update(repr(identity).encode())
    return digest.hexdigest()[:32]


def _open(place: Path) -> tuple[Data, dict[int, str]] | None:
    """The cached Data and what it skipped, or None if there is none or a block of it is damaged."""
    try:
        about = parse_json((place / ABOUT).read_bytes())
        sealed = about.pop("checksum") == _seal(place, about)
        if not sealed or any(checksum(file_crcs(place / name)) != about[name] for name in ARRAYS):
            return None
        # "c": torch wants an array that it could write into; the file stays as it is
        inputs = np.load(place / "inputs.npy", mmap_mode="c")
        skipped = {int(i): str(why) for i, why in about.get("skipped", {}).items()}
        return Data(inputs, np.load(place / "labels.npy"), about["classes"]), skipped
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _seal(place: Path, about: dict[str, Any]) -> str:
    return checksum(place.name, json.dumps(about, sort_keys=True))


def _write(place: Path, what: str, decoding: Decoding, progress: Progress | None) -> None:
    """Write into a folder of another name, renamed when complete: of two processes that build it, the first wins."""
    with _cache_faults(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
        for leftover in abandoned(place.parent, "partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=place.parent))

    blocks = {name: BlockCrcs() for name in ARRAYS}

    def append(name: str, content: bytes | memoryview) -> None:
        # closed within the block: the last bytes may be those that do not fit on the disk
        with _cache_faults(place.parent), open(partial / name, "ab") as file:
            file.write(content)
        if name in blocks:
            blocks[name].add(content)

    try:
        total, done, labels = len(decoding.labels), 0, io.BytesIO()
        append("inputs.npy", _header(decoding, total))
        for batch in decoding.batches:
            append("inputs.npy", np.ascontiguousarray(batch).data)
            done += len(batch)
            if progress:
                progress(what, done, total)
        if skipped := decoding.skipped:
            if not done:
                raise InputError(f"{what} has no image that can be read; the first: {next(iter(skipped.values()))}")
            with _cache_faults(place.parent), open(partial / "inputs.npy", "r+b") as file:
                file.write(_header(decoding, done))  # as long as the first one: NumPy leaves room for the number
            blocks["inputs.npy"].crcs = file_crcs(partial / "inputs.npy")
        np.save(labels, np.delete(decoding.labels, list(skipped)))
        append("labels.npy", labels.getvalue())
        about: dict[str, Any] = {name: checksum(blocks[name].crcs) for name in ARRAYS}
        about |= {"classes": list(decoding.classes), "what": what}
        if skipped:
            about["skipped"] = {str(i): why for i, why in skipped.items()}
        append(ABOUT, json.dumps(about | {"checksum": _seal(place, about)}).encode())
        with _cache_faults(place.parent):
            for name in (*ARRAYS, ABOUT):
                sync(partial / name)
            sync(partial)
        _put(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _header(decoding: Decoding, number: int) -> bytes:
    """Of an array of so many inputs."""
    array = {"descr": decoding.dtype, "fortran_order": False, "shape": (number, *decoding.shape)}
    np.lib.format.write_array_header_1_0(header := io.BytesIO(), array)
    return header.getvalue()


def _put(partial: Path, place: Path) -> None:
    """Rename into place, over a damaged folder too; an intact one is kept, since another process was quicker."""
    for _ in range(2):
        with suppress(OSError):
            os.rename(partial, place)
            sync(place.parent)
            return
        if _open(place) is not None:
            return
        with suppress(OSError), tempfile.TemporaryDirectory(prefix="partial-", dir=place.parent) as aside:
            os.rename(place, Path(aside) / "damaged")


def _cache_faults(where: Path) -> AbstractContextManager[None]:
    """Blame the cache folder for a full disk; used around writing alone, since an unreadable image is not its fault."""
    return disk_faults(f"cache folder {where} could not be written (CLASS_UNCERTAINTY_CACHE names another)")
