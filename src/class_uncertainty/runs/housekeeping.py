"""What `cu clean` may remove: cached inputs, checkpoints, and probabilities of a store that is gone. Nothing else."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from class_uncertainty.data import cache
from class_uncertainty.errors import InputError
from class_uncertainty.io import ABANDONED
from class_uncertainty.runs.store import RUNNING

ESTIMATES, JOURNAL = ".estimates", "-journal"  # beside a store
ENTRY = re.compile(r"[0-9a-f]{32}\.cache")
PARTIAL = re.compile(ENTRY.pattern + r"\..+\.partial")  # is being written, or was when its process was killed
CHECKPOINT = re.compile(r"[0-9a-f]{32}\.safetensors(\..+\.partial)?")
PROBABILITIES = re.compile(r"[0-9a-f]{32}\.npy(\..+\.partial)?")
PROCESSES = Path("/proc")  # where Linux lists the files that processes have open
RECENT = 600  # seconds: where the system does not list them, what was written since then counts as in use


@dataclass(frozen=True)
class Item:
    """A folder of files that class-uncertainty made."""

    path: Path
    files: tuple[Path, ...]
    size: int  # bytes
    age: float  # seconds since any of the files was last written
    store: Path | None  # None: in the cache
    is_left_behind: bool  # by a store that is gone, or by a process that was killed


def find_cached() -> Iterator[Item]:
    """Decoded images and features, unless they are being written."""
    for entry in _children(cache.folder()):
        is_partial = PARTIAL.fullmatch(entry.name) is not None
        if not entry.is_file() or not (is_partial or ENTRY.fullmatch(entry.name)):
            continue
        size, age = _size_and_age([entry])
        if not is_partial or age >= ABANDONED:
            yield Item(entry, (entry,), size, age, None, is_partial)


def find_beside_stores(folder: Path) -> Iterator[Item]:
    """The checkpoints of every store in the folder, and the probabilities of stores that are gone."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one that holds stores.")
    for place in _children(folder):
        for ending, pattern in ((RUNNING, CHECKPOINT), (ESTIMATES, PROBABILITIES)):
            store = place.with_name(place.name.removesuffix(ending))
            is_gone = not os.path.lexists(store)
            files = [file for file in _children(place) if file.is_file() and pattern.fullmatch(file.name)]
            if place.name.endswith(ending) and files and (is_gone or ending == RUNNING):
                yield Item(place, tuple(files), *_size_and_age(files), store, is_gone)


def remove(item: Item) -> str:
    """Remove the files of an item -> "", or why not all of them could be."""
    if item.store and (use := _use_of(item.store, item.files)):
        return use
    try:
        for file in item.files:
            file.unlink(missing_ok=True)
    except OSError as error:
        return f"{error.filename or item.path} could not be removed: {error.strerror}"
    with suppress(OSError):  # something else is in it
        item.path.rmdir()
    return ""


def _use_of(store: Path, files: Sequence[Path]) -> str:
    """Why files beside a store are left alone; "" where no other process works with the store."""
    if os.path.lexists(store.with_name(store.name + JOURNAL)):
        return f"{store} is in the middle of a transaction"
    if PROCESSES.is_dir() and store.exists():
        return f"{store} is open in another process" if _is_open_elsewhere(store) else ""
    if _size_and_age(files)[1] < RECENT:  # nothing tells which processes work with it
        return f"files of {store} were written less than {RECENT // 60} minutes ago, and may be in use"
    return ""


def _is_open_elsewhere(path: Path) -> bool:
    """Whether another process has the file open, among those that this user may look at."""
    wanted = path.stat()
    for process in PROCESSES.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is someone else's
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if os.path.samestat(descriptor.stat(), wanted):
                        return True
    return False


def _children(folder: Path) -> list[Path]:
    """What is in a folder, links aside."""
    try:
        return [path for path in sorted(folder.iterdir()) if not path.is_symlink()]
    except OSError:
        return []


def _size_and_age(files: Sequence[Path]) -> tuple[int, float]:
    """The bytes of the files that are still there, and the seconds since one was last written."""
    size = 0
    written = 0.0
    for file in files:
        with suppress(OSError):  # another process may have removed it
            stat = file.stat()
            size += stat.st_size
            written = max(written, stat.st_mtime)
    return size, time.time() - written
