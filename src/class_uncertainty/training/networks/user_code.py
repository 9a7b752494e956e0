"""Code of users: a file runs once its user has named it, as it was then."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from class_uncertainty.errors import InputError
from class_uncertainty.io import near, read_regular
from class_uncertainty.training.networks.network_name import code_of

SHOWN = 16  # digits of a hash in a sentence
_named = dict[str, bytes]()  # what the user of this process named: the code of PATH.py:FACTORY, b"" of other networks


class UntrustedCode(InputError):
    """Code that only a file names."""


def trust(name: str) -> None:
    """Let the code run that a name stands for, as it is now: the user gave the name."""
    place = code_of(name)
    if not place:
        _named[name] = b""
    elif os.path.isfile(place[0]):
        trust_code(name, read_regular(place[0]))


def trust_code(name: str, code: bytes) -> None:
    """Let the code run that a name stands for, whatever its file becomes."""
    _named[_key(name)] = code


def is_named(name: str) -> bool:
    """Whether the user gave the name; options of code do not count."""
    return _key(name) in _named


def _key(name: str) -> str:
    place = code_of(name)
    return f"{place[0]}:{place[1]}" if place else name


def named() -> dict[str, bytes]:
    """For another process."""
    return dict(_named)


def adopt(others: Mapping[str, bytes]) -> None:
    """Trust what was named in another process."""
    _named.update(others)


def code_hash(code: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(code).hexdigest()


def shown(digest: object) -> str:
    """The beginning of a hash, for a sentence."""
    return f"{str(digest)[:SHOWN]}…" if digest else "not recorded"


def trusted_code(file: Path, factory: str) -> bytes:
    """The code in a file when the user named that function of it."""
    code = _named.get(f"{file}:{factory}")
    if code is not None:
        return code
    if not os.path.isfile(file):
        raise InputError(f"{file} is not a Python file{near(file)}: give PATH.py:FACTORY.")
    digest = shown(code_hash(read_regular(file)))
    advice = f"read it, then give --trust-code (in Python trust_code=True) to run {factory}()"
    raise UntrustedCode(f"{str(file)!r} is code (SHA-256 {digest}) that you have not named yourself: {advice}.")
