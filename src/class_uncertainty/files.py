"""Writing files whole or not at all, and never in the place of something else."""

import os
from contextlib import suppress
from pathlib import Path
from threading import get_ident

from class_uncertainty.errors import InputError, MachineFault

SQLITE = b"SQLite format 3\0"  # how a store begins


def write_whole(path: Path, content: bytes) -> None:
    """Write beside it, then rename: a reader never sees half a file, and a full disk leaves the old one."""
    check_writable(path)
    path = path.resolve()  # a link stays a link
    partial = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.partial")  # others may be writing the same
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise MachineFault(f"{path} could not be written: {error.strerror}.") from error


def check_writable(path: Path) -> None:
    """That a file can be written there, tried before the work whose result it is to hold: a rename would replace whatever is there."""
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a file name.")
    if os.path.lexists(path) and not path.is_file():
        kind = "a folder" if path.is_dir() else "a broken link" if path.is_symlink() else "a device or a pipe"
        raise InputError(f"{path} is {kind}: give the name of a file.")
    make_folder(path.parent)
    if path.is_file() and _begins(path, SQLITE):
        raise InputError(f"{path} is a store of results or another SQLite file: give another name.")
    if not os.access(path.parent, os.W_OK):
        raise MachineFault(f"{path} could not be written: its folder cannot be written to.")


def same_file(a: Path | str, b: Path | str) -> bool:
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)


def _begins(path: Path, start: bytes) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(start)) == start
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
