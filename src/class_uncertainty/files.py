"""Writing files whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from class_uncertainty.errors import InputError, MachineFault


def write_whole(path: Path, content: bytes) -> None:
    """Write beside it, then rename: a reader never sees half a file, and a full disk leaves the old one."""
    _check_place(path)
    path = path.resolve()  # a link stays a link
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise MachineFault(f"{path} could not be written: {error.strerror}.") from error


def _check_place(path: Path) -> None:
    """A rename would put a file in the place of whatever is there: it must be nothing, or a file."""
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a file name.")
    if os.path.lexists(path) and not path.is_file():
        kind = "a folder" if path.is_dir() else "a broken link" if path.is_symlink() else "a device or a pipe"
        raise InputError(f"{path} is {kind}: give the name of a file.")


def check_writable(path: Path) -> None:
    """That a file can be written there, tried before the work whose result it is to hold."""
    _check_place(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise MachineFault(f"{path} could not be written: its folder cannot be written to.")
    except OSError as error:
        raise MachineFault(f"{path} could not be written: {error.strerror}.") from error
