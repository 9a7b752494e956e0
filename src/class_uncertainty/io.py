"""Files that are written whole or not at all, never over what the same command did not write, and checked when read.

What is written for the user carries a mark: what it was made from, and the checksum of the file with zeros in the place
of that checksum.

A file that the package reads back itself is sealed: a checksum over its key and content stands behind the content.
Dataclasses are kept as JSON: `from_document` reads what dataclasses.asdict wrote by the annotations of their fields.
Where a number must stand, null is NaN, which JSON does not have.
"""

import dataclasses
import hashlib
import json
import math
import os
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from threading import get_ident
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import check, check_fields, field_types
from class_uncertainty.errors import InputError, MachineFault, nearest

SQLITE = b"SQLite format 3\0"  # how a store begins
MARK = re.compile(rb"(made from [^()<\n]{0,200} \([0-9a-f]{12}\)), checksum ([0-9a-f]{32})")  # anywhere in a file
NO_CHECKSUM = "0" * 32  # in a mark, while the checksum of the file is computed
NAME_LENGTH, ORIGIN_DIGITS, MOST_NAMES = 200, 12, 1000
REPLACE = "give another name, or --force (in Python force=True) to replace it"
BLOCK = 2**20  # bytes that one CRC covers
SEAL = b"\nchecksum "  # before the checksum of a sealed file
SEAL_LENGTH = len(SEAL) + 32
ABANDONED = 24 * 3600  # seconds until a partial file counts as left behind
SCRATCH = 2**27  # bytes up to which an array stays in memory

Bytes = bytes | bytearray | memoryview


@contextmanager
def disk_faults(what: str) -> Iterator[None]:
    """Turn an OSError into a MachineFault: 'WHAT: No space left on device.'"""
    try:
        yield
    except OSError as error:
        raise MachineFault(f"{what}: {error.strerror or error}.") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that no reader sees half of it and a full disk leaves the old one."""
    write_together({path: [content]})


def write_together(contents: Mapping[Path, Iterable[Bytes]], failure: str = "") -> None:
    """Write files given in pieces. All are written and synced before any is put into its place.

    Where the disk fails, a MachineFault says `failure`, or else which file could not be written.
    """

    def faults(path: Path) -> AbstractContextManager[None]:
        return disk_faults(failure or f"{path} could not be written")

    targets = dict[Path, Path]()  # by the partial file
    try:
        for path, pieces in contents.items():
            with faults(path):
                check_writable(path)
                make_folder(path.parent)
                target = path.resolve()  # a link stays a link
                # other processes and threads may be writing the same file
                partial = target.with_name(f"{target.name}.{os.getpid()}-{get_ident()}.partial")
                targets[partial] = target
                partial.write_bytes(b"")
            for piece in pieces:
                # closed after each piece: the last bytes may be those that do not fit on the disk
                with faults(path), open(partial, "ab") as file:
                    file.write(piece)
        # synced once all are written: the first sync takes most of the others with it
        for partial, target in targets.items():
            with faults(target):
                sync(partial)
        for partial, target in targets.items():
            with faults(target):
                os.replace(partial, target)
        for folder in {target.parent for target in targets.values()}:
            with faults(folder):
                sync(folder)
    finally:
        for partial in targets:
            with suppress(OSError):
                partial.unlink()


def sealed(key: str, pieces: Iterable[Bytes]) -> Iterator[Bytes]:
    """The envelope of a file that the package reads back itself: its content, then a checksum over key and content."""
    crcs = BlockCrcs()
    yield from crcs.of(pieces)
    yield _seal(key, crcs.crcs)


def read_sealed(path: Path, key: str) -> NDArray[np.uint8] | None:
    """Map the content of a sealed file into memory; None if the file is not as it was written under this key.

    All of it is read before: a disk that fails raises an OSError then, and kills a process that reads mapped memory.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size - SEAL_LENGTH
        crcs = [zlib.crc32(file.read(min(BLOCK, size - start))) for start in range(0, size, BLOCK)]
        if not crcs or file.read() != _seal(key, crcs):
            return None
        return np.memmap(file, np.uint8, "c", shape=(size,))  # "c": who writes into it leaves the file as it is


def _seal(key: str, crcs: Iterable[int]) -> bytes:
    return SEAL + checksum(key, crcs).encode()


def abandoned(folder: Path, pattern: str) -> Iterator[Path]:
    """Files of that pattern that a killed process left behind a day ago or earlier."""
    for path in folder.glob(pattern):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED:
                yield path


def sync(path: Path) -> None:
    """Wait until the disk has the file, or the renames in the folder; Windows has no such call for folders."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: Path) -> bytes:
    """The content of a file; a pipe or a device, which may never end, is refused."""
    with disk_faults(f"{path} could not be read"):
        check_regular(path)
        return path.read_bytes()


def check_regular(path: Path) -> None:
    """Refuse a folder, a device or a pipe."""
    if not S_ISREG(path.stat().st_mode):
        raise InputError(f"{path} is {'a folder' if path.is_dir() else 'a device or a pipe'}: give a file.")


def parse_json(text: str | bytes) -> Any:
    """json.loads for text from anyone: every fault is a ValueError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def checksum(*values: str | Bytes | Iterable[int]) -> str:
    """32 hexadecimal digits over texts and bytes in this order; bytes may be given as their block CRCs."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            encoded = value.encode(errors="surrogatepass")
        else:
            crcs = value
            if isinstance(value, bytes | bytearray | memoryview):
                view = memoryview(value).cast("B")
                crcs = [zlib.crc32(view[start : start + BLOCK]) for start in range(0, len(view), BLOCK)]
            encoded = b"".join(crc.to_bytes(4, "little") for crc in crcs)
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:32]


class BlockCrcs:
    """The CRC-32 of each block of what is added: much faster than SHA-256, and sure to notice 32 bad bits in a row."""

    def __init__(self) -> None:
        self.crcs = list[int]()
        self.room = 0  # in the last block

    def of(self, pieces: Iterable[Bytes]) -> Iterator[Bytes]:
        """The same pieces, each added before it is passed on."""
        for piece in pieces:
            self.add(piece)
            yield piece

    def add(self, piece: Bytes) -> None:
        view = memoryview(piece).cast("B")
        while len(view):
            if not self.room:
                self.crcs.append(0)
                self.room = BLOCK
            head, view = view[: self.room], view[self.room :]
            self.crcs[-1] = zlib.crc32(head, self.crcs[-1])
            self.room -= len(head)


def file_crcs(path: Path) -> list[int]:
    """The CRC-32 of each block of a file, read one block at a time."""
    with open(path, "rb") as file:
        return [zlib.crc32(block) for block in iter(lambda: file.read(BLOCK), b"")]


def scratch_array(shape: tuple[int, ...], folder: Path | None = None) -> NDArray[np.float32]:
    """An uninitialised array: in memory, or, if it is large, in a nameless file that goes away with the array."""
    size = 4 * math.prod(shape)
    if size <= SCRATCH:
        return np.empty(shape, dtype=np.float32)
    failure = f"{size:,} bytes for probabilities could not be written"
    with disk_faults(failure), tempfile.TemporaryFile(dir=folder) as file:
        # all of it is written now: a mapped file that finds the disk full later kills the process
        for start in range(0, size, BLOCK):
            file.write(bytes(min(BLOCK, size - start)))
        file.flush()
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before the work whose result it is to hold."""
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a file name.")
    if os.path.lexists(path) and not path.is_file():
        kind = "a folder" if path.is_dir() else "a broken link" if path.is_symlink() else "a device or a pipe"
        raise InputError(f"{path} is {kind}: give the name of a file.")
    if is_sqlite(path):
        raise InputError(f"{path} is a store of results or another SQLite file: give another name.")
    check_folder(path)


def origin(name: object, *options: object) -> str:
    """What a file says of itself: the data that it was made from and, in digits, these and the options together."""
    shown = re.sub("[^a-zA-Z0-9 .:/?=+_-]|--", "_", str(name))[:NAME_LENGTH]
    plain = (option.tolist() if isinstance(option, np.ndarray) else option for option in options)
    digits = checksum(str(name), *map(repr, plain))[:ORIGIN_DIGITS]
    return f"made from {shown} ({digits})"


def blank_mark(made_from: str) -> str:
    """The mark of a file whose checksum is not known yet; "" without an origin."""
    return f"{made_from}, checksum {NO_CHECKSUM}" if made_from else ""


def signed(content: bytes, made_from: str) -> bytes:
    """The same content, with its checksum in its blank mark."""
    if not made_from:
        return content
    blank = blank_mark(made_from).encode()
    end = content.index(blank) + len(blank)
    return content[: end - len(NO_CHECKSUM)] + checksum(content).encode() + content[end:]


def signed_archive(archive: bytes, made_from: str) -> bytes:
    """A ZIP archive without a comment, with its mark as the comment, which is last in an archive."""
    comment = blank_mark(made_from).encode()
    return signed(archive[:-2] + len(comment).to_bytes(2, "little") + comment, made_from)


def check_unread(path: Path, read: Iterable[object]) -> None:
    """Refuse to write a file that the same command reads, or writes something else into."""
    for other in filter(None, read):
        if same_file(path, str(other)):
            raise InputError(f"{path} is read or written otherwise by the same command: give another name.")


def check_replaceable(
    path: Path, made_from: str, force: bool = False, beside: Path | None = None, read: Iterable[object] = ()
) -> None:
    """Refuse to replace a file, unless it is as the same command wrote it for the same data and options.

    The mark of the file may be in the one `beside` it, which then has its checksum, too. `force` replaces any file that
    is neither a store nor read.
    """
    check(bool, force=force)
    check_unread(path, read)
    check_writable(path)
    if force or not path.is_file() or not path.stat().st_size:
        return
    if why := _why_kept(path, made_from, beside):
        raise InputError(f"{why}: {REPLACE}.")


def _why_kept(path: Path, made_from: str, beside: Path | None) -> str:
    """Why a file is not to be replaced; "" where it is as it was written for the same data and options."""
    holder, content = beside or path, b""
    if holder.is_file():
        content = read_regular(holder)
    marks = {mark[1].decode(): mark for mark in MARK.finditer(content)}
    if not marks:
        return f"{path} exists, and this command did not write it"
    if made_from not in marks:
        return f"{path} was {min(marks)}, with other data or options"
    mark = marks[made_from]
    if checksum(content[: mark.start(2)] + NO_CHECKSUM.encode() + content[mark.end(2) :]).encode() != mark[2]:
        return f"{holder} has changed since it was written"
    if beside and checksum(file_crcs(path)).encode() not in content:
        return f"{path} has changed since it was written"
    return ""


def free_name(default: Path, check: Callable[[Path], None]) -> Path:
    """A default name, which nobody chose: where it is taken, the next that is free, as churn-2.html."""
    for number in range(1, MOST_NAMES):
        name = default.with_stem(f"{default.stem}-{number}") if number > 1 else default
        with suppress(InputError):
            check(name)
            return name
    return default  # whose fault its own check tells


def check_ending(path: Path, what: str, endings: Sequence[str]) -> None:
    """Refuse a name that ends as another format; "" among the endings stands for none."""
    if path.name and path.suffix.lower() not in endings:
        allowed = " or ".join(filter(None, endings))
        raise InputError(f"{path}: the name of the {what} must end in {allowed}, as in {path.stem}{endings[0]}.")


def near(path: Path, *given: Path) -> str:
    """' (did you mean 'photos'?)', from the folder that a missing path would be in; "" if nothing there is like it.

    Neither the path nor what was `given` in its place is suggested.
    """
    with suppress(OSError):
        others = set(os.listdir(path.parent)) - {place.name for place in (path, *given)}
        alike = [name for name in sorted(others) if nearest(path.stem, [Path(name).stem])]  # not by endings
        if sibling := nearest(path.name, alike, cutoff=0.6):
            return f" (did you mean {str(path.with_name(sibling))!r}?)"
    return ""


def same_file(a: Path | str, b: Path | str) -> bool:
    """Whether both paths lead to one file, or will when their folders are there."""
    if os.path.exists(a) and os.path.exists(b):
        return os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)


def is_sqlite(path: Path) -> bool:
    """Whether a file is there that begins as a store does."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(SQLITE)) == SQLITE
    return False


def check_folder(path: Path) -> None:
    """Refuse a path whose folder neither takes a new file nor can be created."""
    existing = next(place for place in path.parents if os.path.lexists(place))
    if not existing.is_dir():
        raise InputError(f"{existing} is not a folder: nothing can be put into it.")
    if not os.access(existing, os.W_OK):
        raise MachineFault(f"{path} could not be written: its folder is read-only.")


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, where they do not exist."""
    with disk_faults(f"{folder} could not be created"):
        if not folder.is_dir():
            check_folder(folder / "file")
        folder.mkdir(parents=True, exist_ok=True)


def from_document(kind: Any, document: Any) -> Any:
    """The value of a dataclass; None, for an optional one, stays None."""
    if document is None:
        return None
    structured, values = _structured_fields(kind), dict[str, Any]()
    for name, value in document.items():
        if name in structured:
            values[name] = _parse(*structured[name], value)
    return kind(**(document | values))


def _parse(item: Any, depth: int, value: Any) -> Any:
    """The value of a field: `depth` tuples around items of a kind, or None for an optional one."""
    if depth == 0 and item is float:
        return math.nan if value is None else value
    if value is None:
        return None
    if depth == 0:
        return from_document(item, value)
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} stands in place of a list")
    if depth == 1 and item is None:
        return tuple(value)
    if depth == 1 and item is float:  # a loop of its own, since confusions are long
        return tuple(math.nan if part is None else part for part in value)
    return tuple(_parse(item, depth - 1, part) for part in value)


def check_record(record: Any) -> None:
    """Refuse a record of a file that anyone may have written, where a field is of another type than its annotation."""
    check_fields(record)
    for value in vars(record).values():
        for part in value if isinstance(value, tuple) else [value]:
            if dataclasses.is_dataclass(part):
                check_record(part)


@lru_cache(maxsize=64)
def _structured_fields(kind: Any) -> dict[str, tuple[Any, int]]:
    """The fields of a dataclass that JSON does not hold as they are: (a dataclass, float or None; tuples around it)."""
    structured = {}
    for name, annotation in field_types(kind).items():
        hint, depth = annotation, 0
        if get_origin(hint) is UnionType and NoneType in get_args(hint):
            hint = get_args(hint)[0]
        while get_origin(hint) is tuple:
            hint, depth = get_args(hint)[0], depth + 1
        item = hint if dataclasses.is_dataclass(hint) or hint is float else None
        is_optional_number = item is float and depth == 0 and annotation is not float
        if (item or depth) and not is_optional_number:
            structured[name] = item, depth
    return structured


def finite(value: Any) -> Any:
    """A document without infinity and NaN, which JSON does not have: they become null."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and value - value != 0 else value
