"""Targets: the processes that train for a command. Without a target it is this one. Nothing here imports torch."""

import re
from dataclasses import dataclass
from importlib.util import find_spec

from class_uncertainty.checks import check
from class_uncertainty.errors import InputError, unknown

LOCAL, AUTO, REMOTE = "ray", "auto", "ray://HOST:PORT"
ADDRESS = re.compile(r"ray://([^/:\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")


def check_target(on: str, profiles: bool = False, device: str | None = None) -> None:
    """Refuse what is neither 'ray', 'auto' nor 'ray://HOST:PORT', what it does not have, and all if Ray is missing."""
    if on.startswith("ray:"):
        address = ADDRESS.fullmatch(on)
        if address is None or not 0 < int(address[2]) < 2**16:
            raise InputError(f"{on!r} is no place to train on: an address is {REMOTE}, as ray://head:10001.")
    elif on not in (LOCAL, AUTO):
        raise unknown("place to train on", on, [LOCAL, AUTO, REMOTE])
    if profiles:
        raise InputError("a trace is of one process: leave out --profile, or --on.")
    if device not in (None, "cpu", "cuda"):
        raise InputError(f"device is {device!r}: on a Ray cluster it is 'cpu' or 'cuda'.")
    if find_spec("ray") is None:
        raise InputError("--on needs Ray: pip install 'class-uncertainty[ray]'.")


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `count`, from 1: the rows that one of several jobs trains, each with a store of its own."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str | None) -> "Shard | None":
        """'2/8' is the second of eight; None is all rows."""
        check(str | None, shard=text)
        if text is None:
            return None
        parts = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip(), re.ASCII)
        number, count = (int(parts[1]), int(parts[2])) if parts else (0, 0)
        if not 1 <= number <= count:
            raise InputError(f"shard is {text!r}: write i/n with i from 1 to n, as in 2/8.")
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, key: str) -> bool:
        """Whether a row belongs to it, which depends on the key of the row alone."""
        return int(key, 16) % self.count == self.number - 1
