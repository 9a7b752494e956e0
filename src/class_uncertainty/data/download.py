"""Published files of the image data sets: each is downloaded whole or not at all, and checked by its checksum."""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from class_uncertainty.data.cache import Progress
from class_uncertainty.errors import InputError, MachineFault, unknown
from class_uncertainty.io import disk_faults, write_together

ATTEMPTS = 5  # that fail in a row, with no new bytes in between
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
    files = []
    for original in ORIGINALS[name]:
        file = root / original.name
        if os.path.lexists(file):
            _check(file, original)
        else:
            write_together({file: _content(original, root, progress)})
        files.append(file)
    return files


def _check(file: Path, original: Original) -> None:
    """Refuse a different file of that name: it is the user's, and neither used nor changed."""
    if not file.is_file():
        raise InputError(f"{file} is not a regular file: move it away, to make room for {original.name}.")
    with disk_faults(f"{file} could not be read"), file.open("rb") as content:
        md5 = hashlib.file_digest(content, _md5).hexdigest()
    if md5 != original.md5:
        raise InputError(f"{file} has the md5 {md5}, not the original's {original.md5}: move it away and fetch again.")


def _content(original: Original, folder: Path, progress: Progress | None) -> Iterator[bytes]:
    """The bytes of a file, over as many connections as it takes. At the end they are refused if any is wrong."""
    by_hand = f"fetch {original.url} yourself and put it into {folder}."
    digest = _md5()
    done = 0
    failures = 0
    while done < original.size:
        problem: object = "the connection ended early"
        request = Request(original.url, headers={"Range": f"bytes={done}-"} if done else {})
        try:
            with urlopen(request, timeout=TIMEOUT) as response:
                if response.status != 206:  # not a part, but the whole file again
                    _skip(response, done)
                while block := response.read1(min(BLOCK, original.size - done)):
                    failures = 0
                    digest.update(block)
                    done += len(block)
                    if progress:
                        progress(original.name, done, original.size)
                    yield block
        except HTTPError as error:
            error.close()
            raise MachineFault(f"{original.name}: HTTP status {error.code}: try again later, or {by_hand}") from error
        except (OSError, HTTPException) as error:
            problem = getattr(error, "reason", error)
        failures += 1
        if failures == ATTEMPTS:
            came = f"{done:,} of {original.size:,} bytes of {original.name} came"
            raise MachineFault(f"{came} ({problem}): try again later, or {by_hand}")
        if done < original.size:
            time.sleep(PAUSE * failures)
    if digest.hexdigest() != original.md5:
        problem = f"{original.name} came with the md5 {digest.hexdigest()}, not {original.md5}"
        raise MachineFault(f"{problem}, and was deleted: try again, or {by_hand}")


def _skip(response: HTTPResponse, count: int) -> None:
    """Read so many bytes, or up to the end."""
    while count and (block := response.read1(min(BLOCK, count))):
        count -= len(block)


def _md5() -> "hashlib._Hash":
    return hashlib.md5(usedforsecurity=False)
