"""Files that are written whole or not at all, never in the place of something else, and known again by their checksum."""

import hashlib
import json
import math
import os
import re
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from stat import S_ISREG
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import InputError, MachineFault

SQLITE = re.compile(rb"SQLite format 3\0")  # how a store begins
BLOCK = 2**20  # bytes that one CRC covers
ABANDONED = 24 * 3600  # seconds
SCRATCH = 2**27  # bytes of an array that stays in memory

Bytes = bytes | bytearray | memoryview


def write_whole(path: Path, content: bytes) -> None:
    """A reader never sees half a file, and a full disk leaves the old one."""
    write_together({path: [content]})


def write_together(contents: Mapping[Path, Iterable[Bytes]]) -> dict[Path, list[int]]:
    """Write files given in pieces -> their block_crcs. All are written beside their places and synced before any is renamed."""
    partials, crcs = dict[Path, Path](), dict[Path, list[int]]()
    path = Path()
    try:
        for path, pieces in contents.items():
            check_writable(path)
            place = path.resolve()  # a link stays a link
            partial = place.with_name(f"{place.name}.{os.getpid()}-{get_ident()}.partial")  # others may be writing the same
            partials[partial] = place
            blocks = BlockCrcs()
            with open(partial, "wb") as file:
                for piece in pieces:
                    file.write(piece)
                    blocks.add(piece)
            crcs[path] = blocks.crcs
        for partial, place in partials.items():  # once all are written: the first sync then takes most of the others with it
            path = place
            sync_file(partial)
        for partial, place in partials.items():
            path = place
            os.replace(partial, place)
        for folder in {place.parent for place in partials.values()}:
            sync_folder(folder)
    except OSError as error:
        raise MachineFault(f"{path} could not be written: {error.strerror}.") from error
    finally:
        for partial in partials:
            with suppress(OSError):
                partial.unlink()
    return crcs


def abandoned(folder: Path, pattern: str) -> Iterator[Path]:
    """What processes have left there that were killed a day ago or earlier."""
    for path in folder.glob(pattern):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED:
                yield path


def sync_folder(folder: Path) -> None:
    """So that a rename in it survives a power cut; Windows has no such call."""
    if os.name == "posix":
        sync_file(folder)


def sync_file(path: Path) -> None:
    """Until the disk has it."""
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: Path) -> bytes:
    """The content of a file; a pipe or a device, which may never end, is refused."""
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise MachineFault(f"{path} could not be read: {error.strerror}.") from error


def check_regular(path: Path) -> None:
    if not S_ISREG(path.stat().st_mode):
        raise InputError(f"{path} is {'a folder' if path.is_dir() else 'a device or a pipe'}: give a file.")


def parse_json(text: str | bytes) -> Any:
    """json.loads, for text that anyone may have written: whatever is wrong with it is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def checksum(*parts: str | Bytes | Iterable[int]) -> str:
    """Of texts and bytes in this order, as 32 hexadecimal digits; bytes may be given as their block_crcs."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            encoded = part.encode(errors="surrogatepass")
        else:
            crcs = block_crcs(part) if isinstance(part, bytes | bytearray | memoryview) else part
            encoded = b"".join(crc.to_bytes(4, "little") for crc in crcs)
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:32]


def block_crcs(content: Bytes) -> list[int]:
    """BlockCrcs of content that is there as a whole."""
    blocks = BlockCrcs()
    blocks.add(content)
    return blocks.crcs


class BlockCrcs:
    """The CRC-32 of each block of what is added: several times as fast as SHA-256, and 32 damaged bits in a row never escape it."""

    def __init__(self) -> None:
        self.crcs = list[int]()
        self.room = 0  # in the last block

    def add(self, piece: Bytes) -> None:
        view = memoryview(piece).cast("B")
        while len(view):
            if not self.room:
                self.crcs.append(0)
                self.room = BLOCK
            part, view = view[: self.room], view[self.room :]
            self.crcs[-1] = zlib.crc32(part, self.crcs[-1])
            self.room -= len(part)


def file_crcs(path: Path) -> list[int]:
    """block_crcs of a file's content, of which one block is in memory at a time."""
    with open(path, "rb") as file:
        return [zlib.crc32(block) for block in iter(lambda: file.read(BLOCK), b"")]


def scratch_array(shape: tuple[int, ...], folder: Path | None = None) -> NDArray[np.float32]:
    """Room for numbers: in memory, or, if they are many, in a file without a name that goes away with the array."""
    size = 4 * math.prod(shape)
    if size <= SCRATCH:
        return np.empty(shape, dtype=np.float32)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for start in range(0, size, BLOCK):  # taken now: a mapped file that finds the disk full kills the process
                file.write(bytes(min(BLOCK, size - start)))
            file.flush()
            return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)
    except OSError as error:
        raise MachineFault(f"{size:,} bytes for probabilities could not be written: {error.strerror}.") from error


def check_writable(path: Path, ours: re.Pattern[bytes] | None = None, what: str = "") -> None:
    """That a file can be written there, tried before the work whose result it is to hold: a rename would replace whatever is there.

    With `ours`, a file that is there already must begin so: be `what` an earlier call has written.
    """
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a file name.")
    if os.path.lexists(path) and not path.is_file():
        kind = "a folder" if path.is_dir() else "a broken link" if path.is_symlink() else "a device or a pipe"
        raise InputError(f"{path} is {kind}: give the name of a file.")
    make_folder(path.parent)
    if path.is_file() and _begins(path, SQLITE):
        raise InputError(f"{path} is a store of results or another SQLite file: give another name.")
    if ours and path.is_file() and path.stat().st_size and not _begins(path, ours):
        raise InputError(f"{path} is there, and is no {what} that was written here: give another name, or take it away.")
    if not os.access(path.parent, os.W_OK):
        raise MachineFault(f"{path} could not be written: its folder cannot be written to.")


def near(path: Path) -> str:
    """' (did you mean 'photos'?)', of what lies where a path that does not exist would; "" where nothing is like it."""
    with suppress(OSError):
        if found := get_close_matches(path.name, os.listdir(path.parent), n=1):
            return f" (did you mean {str(path.with_name(found[0]))!r}?)"
    return ""


def same_file(a: Path | str, b: Path | str) -> bool:
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)


def _begins(path: Path, start: re.Pattern[bytes]) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return start.match(file.read(1000)) is not None
    return False


def make_folder(folder: Path) -> None:
    """It and those above it, where they are not there yet."""
    above = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), None)
    if above is not None and not above.is_dir():
        raise InputError(f"{above} is not a folder: nothing can be put into it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineFault(f"{folder} could not be made: {error.strerror}.") from error
