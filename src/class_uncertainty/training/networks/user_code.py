"""Code of users: a file runs once its user has named it, and what runs are the bytes that were hashed."""

import hashlib
from pathlib import Path

from class_uncertainty.errors import InputError
from class_uncertainty.io import read_regular
from class_uncertainty.training.networks.network_name import code_of

SHOWN = 16  # digits of a hash in a sentence
_trusted = set[tuple[str, str]]()  # (SHA-256 of a file, function in it) that may run in this process


class UntrustedCode(InputError):
    """Code that only a file names."""


def code_hash(file: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(read_regular(file)).hexdigest()


def trust(name: str) -> None:
    """Let the code run that the name of a network or a backbone stands for, as it is now: the user gave the name."""
    place = code_of(name)
    if place and place[0].is_file():
        file, factory = place
        trust_hash(code_hash(file), factory)


def trust_hash(digest: str, factory: str) -> None:
    """Let a function of the file with that SHA-256 run."""
    _trusted.add((digest, factory))


def shown(digest: object) -> str:
    """The beginning of a hash, for a sentence."""
    return f"{str(digest)[:SHOWN]}…" if digest else "not recorded"


def trusted_bytes(file: Path, factory: str) -> bytes:
    """The code in a file, if the user let that function of it run."""
    code = read_regular(file)
    digest = hashlib.sha256(code).hexdigest()
    if (digest, factory) not in _trusted:
        raise UntrustedCode(
            f"{str(file)!r} is code (SHA-256 {shown(digest)}) that you have not named yourself: read it, then give "
            f"--trust-code (in Python trust_code=True) to run {factory}()."
        )
    return code
