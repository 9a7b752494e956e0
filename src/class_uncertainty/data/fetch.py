"""The original files of the image data sets: fetched, resumed when the connection breaks, used only with the published checksum."""

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from class_uncertainty.errors import InputError, MachineFault, unknown

Progress = Callable[[str, int, int], None]  # (file name, bytes so far, bytes in all)

ATTEMPTS = 5  # in a row that bring nothing new
BLOCK = 2**18  # bytes
PAUSE = 1.0  # seconds after the first failure, and as many more after each further one
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Original:
    """A file as its authors published it."""

    name: str
    url: str
    md5: str
    size: int  # bytes


_CIFAR = "https://www.cs.toronto.edu/~kriz"
_SVHN = "http://ufldl.stanford.edu/housenumbers"

ORIGINALS: dict[str, tuple[Original, ...]] = {
    "cifar10": (Original("cifar-10-python.tar.gz", f"{_CIFAR}/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", 170_498_071),),
    "cifar100": (
        Original("cifar-100-python.tar.gz", f"{_CIFAR}/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", 169_001_437),
    ),
    "svhn": (
        Original("train_32x32.mat", f"{_SVHN}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
        Original("test_32x32.mat", f"{_SVHN}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384),
    ),
}


def fetch(name: str, root: Path, progress: Progress | None = None) -> list[Path]:
    """The files of that data set in `root`, each with its published checksum; what is there already is not fetched again."""
    if name not in ORIGINALS:
        raise unknown("data to fetch", name, ORIGINALS)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{root} is not a folder: give one to put the files of {name!r} into.") from None
    except OSError as error:
        raise MachineFault(f"{root} could not be created: {error.strerror}.") from error
    return [_one(original, root, progress or (lambda name, done, total: None)) for original in ORIGINALS[name]]


def _one(original: Original, root: Path, progress: Progress) -> Path:
    final, partial, lock = (root / f"{original.name}{ending}" for ending in ("", ".partial", ".lock"))
    try:
        for path in (final, partial, lock):
            if os.path.lexists(path) and not path.is_file():
                raise InputError(f"{path} is not a regular file: move it away, {original.name} is fetched into this place.")
        if _whole(final, original):  # before the lock: a folder that can only be read is good enough
            return final
        with _alone(lock):
            if not _whole(final, original):
                _fill(partial, original, progress)
                os.replace(partial, final)
    except OSError as error:
        raise MachineFault(f"{error.filename or partial} could not be read or written: {error.strerror or error}.") from error
    return final


def _whole(final: Path, original: Original) -> bool:
    """Whether the file is there; another one of its name is the user's, and neither used nor touched."""
    if not final.exists():
        return False
    if (found := _md5(final)) != original.md5:
        raise InputError(f"{final} is not the original (its md5 is {found}, not {original.md5}): move it away, and it is fetched anew.")
    return True


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time, since all write the one partial file that the next call resumes; the others wait, and find the file done."""
    if sys.platform == "win32":  # no flock, and no need: a file that another process has open is not renamed there
        yield
        return
    import fcntl

    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the system lets go of it when a process dies
        yield
        with suppress(OSError):
            lock.unlink()  # only after success: whoever still holds or makes one writes nothing more


def _fill(partial: Path, original: Original, progress: Progress) -> None:
    """Bring the partial file to its end, by as many connections as it takes, and check it."""
    by_hand = f"fetch {original.url} yourself and put it into {partial.parent}."
    if _size(partial) >= original.size and _md5(partial) != original.md5:
        partial.unlink()
    most, idle = _size(partial), 0
    while _size(partial) < original.size:
        try:
            _connect(partial, original, progress)
            break
        except HTTPError as error:
            raise MachineFault(f"{original.name} was refused with HTTP status {error.code}: try again later, or {by_hand}") from error
        except _Broken as error:
            idle = 0 if _size(partial) > most else idle + 1  # more than ever: a server without ranges begins again at each try
            most = max(most, _size(partial))
            if idle == ATTEMPTS:
                there = f"{_size(partial):,} of {original.size:,} bytes of {original.name} are there"
                raise MachineFault(f"{there} ({error}): the same command goes on from there, or {by_hand}") from error
            time.sleep(PAUSE * max(1, idle))
    if (found := _md5(partial)) != original.md5:
        partial.unlink()
        raise MachineFault(f"{original.name} came with the md5 {found}, not {original.md5}, and was deleted: try again, or {by_hand}")


class _Broken(Exception):
    """The connection failed, which is worth another try; a failing disk, an OSError too, is not."""


@contextmanager
def _network() -> Iterator[None]:
    try:
        yield
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        raise _Broken(getattr(error, "reason", error)) from error


def _connect(partial: Path, original: Original, progress: Progress) -> None:
    """One connection: go on at the end of the partial file, or at zero if the server does so."""
    with _network():
        response, at, said = _ask(original.url, _size(partial))
        if said not in (None, original.size):  # a page that asks for a password, as a rule
            response.close()
            raise _Broken(f"the server offers {said:,} bytes, and it has {original.size:,}")
    total = original.size
    with response, partial.open("ab") as file:
        file.truncate(at)
        while at < total:
            with _network():
                block = response.read1(min(BLOCK, total - at))
            if not block:
                raise _Broken("the connection ended early")
            file.write(block)
            at += len(block)
            progress(original.name, at, total)


def _ask(url: str, start: int) -> tuple[HTTPResponse, int, int | None]:
    """(the answer, the byte it starts at, bytes in all if the server says); an answer to another question is asked again from zero."""
    try:
        response = urlopen(Request(url, headers={"Range": f"bytes={start}-"} if start else {}), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            return _ask(url, 0)
        raise
    if response.status != 206:
        return response, 0, response.length
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if span and int(span[1]) == start:
        return response, start, None if span[2] == "*" else int(span[2])
    response.close()
    if start:
        return _ask(url, 0)
    raise HTTPException("the server sent a part that was not asked for")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
