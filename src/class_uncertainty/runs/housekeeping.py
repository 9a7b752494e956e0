"""What class-uncertainty keeps on disk: the cache of inputs, checkpoints and stores. Nothing else is ever removed."""

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from class_uncertainty.data import cache
from class_uncertainty.errors import InputError
from class_uncertainty.files import ABANDONED, SQLITE, parse_json
from class_uncertainty.runs.store_layout import RUNNING

CACHE, CHECKPOINTS, STORES = "cache", "checkpoints", "stores"
KINDS = (CACHE, CHECKPOINTS, STORES)
ESTIMATES, JOURNAL = ".estimates", "-journal"  # beside a store
ENTRY = re.compile(r"[0-9a-f]{32}")  # a folder of the cache
PARTIAL = re.compile(r"partial-\w+")  # one that is being written, or was when its process was killed
FILES = {
    RUNNING: re.compile(r"[0-9a-f]{32}\.safetensors(\..+\.partial)?"),
    ESTIMATES: re.compile(r"[0-9a-f]{32}\.npy(\..+\.partial)?"),
}
TABLES = {"data", "results", "estimates"}  # of every store, whatever its layout
PROCESSES = Path("/proc")  # where Linux lists the files that processes have open
RECENT = 600  # seconds: where the system does not list them, what was written since then counts as in use


@dataclass(frozen=True)
class Kept:
    """A file or a folder that class-uncertainty made, with the files that belong to it."""

    kind: str  # of KINDS
    path: Path  # what it is known by
    about: str
    files: tuple[Path, ...]
    size: int  # bytes
    written: float  # when any of it was last written, by time.time()
    in_use: str = ""  # why it is left alone

    @property
    def age(self) -> float:
        """Seconds since it was last written."""
        return max(0.0, time.time() - self.written)


def find_kept(folder: Path, kinds: Iterable[str] = KINDS) -> list[Kept]:
    """The cache, and the stores of a folder with their checkpoints; the largest of each kind comes first."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one that holds stores.")
    kept_by_kind = {CACHE: _cached(cache.folder()), CHECKPOINTS: _checkpoints(folder), STORES: _stores(folder)}
    return [kept for kind in kinds for kept in sorted(kept_by_kind[kind], key=lambda kept: -kept.size)]


def remove(kept: Kept) -> str:
    """Remove it -> "", or why not all of it could be."""
    if use := kept.in_use or _use_of(kept.kind, kept.path):  # a process may have come since it was listed
        return use
    try:
        for file in kept.files:
            file.unlink(missing_ok=True)
    except OSError as error:
        return f"{error.filename or kept.path} could not be removed: {error.strerror}"
    for folder in {kept.path, *(file.parent for file in kept.files)} - {kept.path.parent}:
        with suppress(OSError):  # a file, or something else is in it
            folder.rmdir()
    return ""


def _cached(folder: Path) -> Iterator[Kept]:
    """Decoded images and features. They may go while a process maps them: it keeps what it has."""
    for place in _children(folder):
        is_partial = PARTIAL.fullmatch(place.name) is not None
        if not place.is_dir() or not (is_partial or ENTRY.fullmatch(place.name)):
            continue
        files = _children(place)
        if not {file.name for file in files} <= {*cache.ARRAYS, cache.ABOUT}:
            continue  # not ours, or not ours alone
        kept = _kept(CACHE, place, "left by a process that was killed" if is_partial else _contents(place), files)
        is_written = is_partial and kept.age < ABANDONED
        yield replace(kept, about="being written", in_use=f"{place} is being written") if is_written else kept


def _contents(place: Path) -> str:
    try:
        what = parse_json((place / cache.ABOUT).read_bytes())["what"]
    except (OSError, ValueError, KeyError, TypeError):
        return "damaged"
    return "features of a backbone" if what == "features" else f"decoded images of {what}"


def _checkpoints(folder: Path) -> Iterator[Kept]:
    for place in _children(folder):
        if place.name.endswith(RUNNING) and (files := _files_of(place, RUNNING)):
            number = "one training" if len(files) == 1 else f"{len(files):,} trainings"
            yield _kept(CHECKPOINTS, place, f"{number} under way", files)


def _stores(folder: Path) -> Iterator[Kept]:
    """Each with its probabilities; probabilities whose store is gone, too."""
    for place in _children(folder):
        if place.is_file() and (about := _describe_store(place)):
            yield _kept(STORES, place, about, [place, *_files_of(place.with_name(place.name + ESTIMATES), ESTIMATES)])
            continue
        files = _files_of(place, ESTIMATES) if place.name.endswith(ESTIMATES) else []
        if files and not os.path.lexists(_store_of(place)):
            yield _kept(STORES, place, "probabilities whose store is gone", files)


def _describe_store(path: Path) -> str:
    """'12 results, 3 networks'; "" where the file is no store."""
    try:
        with open(path, "rb") as file:
            if not SQLITE.match(file.read(16)):
                return ""
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables >= TABLES:
                return ""
            number = {
                name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                for name in ("results", "networks")
                if name in tables
            }
    except (OSError, sqlite3.Error):
        return ""
    return ", ".join(f"{count:,} {name if count != 1 else name[:-1]}" for name, count in number.items())


def _store_of(path: Path) -> Path:
    """What a folder beside a store belongs to; a store itself."""
    return path.with_name(path.name.removesuffix(RUNNING).removesuffix(ESTIMATES))


def _use_of(kind: str, path: Path) -> str:
    """Why a store, or what belongs to it, is left alone; "" where no other process works with it."""
    if kind == CACHE:
        return ""
    store = _store_of(path)
    if os.path.lexists(store.with_name(store.name + JOURNAL)):
        return f"{store} is in the middle of a transaction"
    if PROCESSES.is_dir():
        return f"{store} is open in another process" if store.exists() and _is_open_elsewhere(store) else ""
    recent = time.time() - path.stat().st_mtime < RECENT
    return f"{path} was written less than {RECENT // 60} minutes ago, and may be in use" if recent else ""


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


def _files_of(folder: Path, ending: str) -> list[Path]:
    """The files of a folder beside a store that are ours; a linked folder is someone else's."""
    files = [] if folder.is_symlink() else _children(folder)
    return [file for file in files if file.is_file() and FILES[ending].fullmatch(file.name)]


def _children(folder: Path) -> list[Path]:
    """What is in a folder, links aside."""
    try:
        return [path for path in sorted(folder.iterdir()) if not path.is_symlink()]
    except OSError:
        return []


def _kept(kind: str, path: Path, about: str, files: Iterable[Path]) -> Kept:
    present, size, written = list[Path](), 0, 0.0
    for file in files:
        with suppress(OSError):  # another process may have removed it
            stat = file.stat()
            present.append(file)
            size, written = size + stat.st_size, max(written, stat.st_mtime)
    written = written or path.stat().st_mtime
    return Kept(kind, path, about, tuple(present), size, written, _use_of(kind, path))
