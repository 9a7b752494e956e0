"""Downloads of the original image data sets: resumed when a connection breaks, checked by the published checksums."""

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from class_uncertainty.data.cache import Progress
from class_uncertainty.errors import InputError, MachineFault, unknown
from class_uncertainty.io import make_folder

ATTEMPTS = 5  # in a row that bring no new bytes
BLOCK = 2**18  # bytes
PAUSE = 1.0  # seconds after the first failure, twice as many after the second, and so on
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Original:
    """A file as its authors published it."""

    url: str
    md5: str
    size: int  # bytes

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


CIFAR, SVHN = "https://www.cs.toronto.edu/~kriz", "http://ufldl.stanford.edu/housenumbers"
ORIGINALS: dict[str, tuple[Original, ...]] = {
    "cifar10": (Original(f"{CIFAR}/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", 170_498_071),),
    "cifar100": (Original(f"{CIFAR}/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", 169_001_437),),
    "svhn": (
        Original(f"{SVHN}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
        Original(f"{SVHN}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384),
    ),
}


def fetch(name: str, root: Path, progress: Progress | None = None) -> list[Path]:
    """Download the files of a data set into `root`; files that are there already are only checked."""
    if name not in ORIGINALS:
        raise unknown("data to fetch", name, ORIGINALS)
    make_folder(root)
    return [_fetch_file(original, root, progress or (lambda name, done, total: None)) for original in ORIGINALS[name]]


def _fetch_file(original: Original, root: Path, progress: Progress) -> Path:
    final, partial, lock = (root / f"{original.name}{ending}" for ending in ("", ".partial", ".lock"))
    try:
        for path in (final, partial, lock):
            if os.path.lexists(path) and not path.is_file():
                raise InputError(f"{path} is not a regular file: move it away, to make room for {original.name}.")
        if _is_complete(final, original):  # before the lock: a read-only folder is good enough
            return final
        with _locked(lock):
            if not _is_complete(final, original):
                _download(partial, original, progress)
                os.replace(partial, final)
    except OSError as error:
        where = error.filename or partial
        raise MachineFault(f"{where} could not be read or written: {error.strerror or error}.") from error
    return final


def _is_complete(final: Path, original: Original) -> bool:
    """Whether the file exists; a different file of that name is the user's, and neither used nor changed."""
    if not final.exists():
        return False
    if (md5 := _md5(final)) != original.md5:
        raise InputError(f"{final} has the md5 {md5}, not the original's {original.md5}: move it away and fetch again.")
    return True


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """One process at a time, since all write one partial file; the others wait, and find the file complete."""
    if sys.platform == "win32":  # no flock, and no need: a file that another process has open is not renamed there
        yield
        return
    import fcntl

    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the system releases it when a process dies
        yield
        with suppress(OSError):
            lock.unlink()  # only after success: whoever still holds or makes one writes nothing more


def _download(partial: Path, original: Original, progress: Progress) -> None:
    """Complete the partial file, over as many connections as it takes, and check it."""
    by_hand = f"fetch {original.url} yourself and put it into {partial.parent}."
    if _size(partial) >= original.size and _md5(partial) != original.md5:
        partial.unlink()
    most, idle = _size(partial), 0
    while _size(partial) < original.size:
        try:
            _connect(partial, original, progress)
            break
        except HTTPError as error:
            raise MachineFault(f"{original.name}: HTTP status {error.code}: try again later, or {by_hand}") from error
        except _Broken as error:
            # progress means more bytes than ever: a server without ranges begins again at each attempt
            idle = 0 if _size(partial) > most else idle + 1
            most = max(most, _size(partial))
            if idle == ATTEMPTS:
                problem = f"{_size(partial):,} of {original.size:,} bytes of {original.name} are here ({error})"
                raise MachineFault(f"{problem}: the same command resumes, or {by_hand}") from error
            time.sleep(PAUSE * max(1, idle))
    if (md5 := _md5(partial)) != original.md5:
        partial.unlink()
        problem = f"{original.name} came with the md5 {md5}, not {original.md5}"
        raise MachineFault(f"{problem}, and was deleted: try again, or {by_hand}")


class _Broken(Exception):
    """The connection failed, which is worth another attempt; a failing disk, an OSError too, is not."""


@contextmanager
def _network() -> Iterator[None]:
    try:
        yield
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        raise _Broken(getattr(error, "reason", error)) from error


def _connect(partial: Path, original: Original, progress: Progress) -> None:
    """One connection: resume at the end of the partial file, or at zero if the server does."""
    with _network():
        response, at, offered = _request(original.url, _size(partial))
        if offered not in (None, original.size):  # usually a page that asks for a password
            response.close()
            raise _Broken(f"the server offers {offered:,} bytes, and it has {original.size:,}")
    with response, partial.open("ab") as file:
        file.truncate(at)
        while at < original.size:
            with _network():
                block = response.read1(min(BLOCK, original.size - at))
            if not block:
                raise _Broken("the connection ended early")
            file.write(block)
            at += len(block)
            progress(original.name, at, original.size)


def _request(url: str, start: int) -> tuple[HTTPResponse, int, int | None]:
    """(response, first byte, bytes in all if the server tells); a response to another request is repeated from zero."""
    try:
        response = urlopen(Request(url, headers={"Range": f"bytes={start}-"} if start else {}), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            return _request(url, 0)
        raise
    if response.status != 206:
        return response, 0, response.length
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if span and int(span[1]) == start:
        return response, start, None if span[2] == "*" else int(span[2])
    response.close()
    if start:
        return _request(url, 0)
    raise HTTPException("the server sent a part that was not requested")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
