"""Writing files whole or not at all, and never in the place of something else."""

import os
import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from threading import get_ident

from class_uncertainty.errors import InputError, MachineFault

SQLITE = re.compile(rb"SQLite format 3\0")  # how a store begins


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
