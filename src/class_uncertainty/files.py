"""Writing files whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from class_uncertainty.errors import InputError, MachineFault


def write_whole(path: Path, content: bytes) -> None:
    """Write beside it, then rename: a reader never sees half a file, and a full disk leaves the old one."""
    _check_name(path)
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise MachineFault(f"{path} could not be written: {error.strerror}.") from error


def _check_name(path: Path) -> None:
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a file name.")


def check_writable(path: Path) -> None:
    """That a file can be written there, tried before the work whose result it is to hold."""
    _check_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise MachineFault(f"{path} could not be written: it is a folder, or in one that cannot be written to.")
    except OSError as error:
        raise MachineFault(f"{path} could not be written: {error.strerror}.") from error
