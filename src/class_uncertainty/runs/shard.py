"""Shard: the part of the rows that one of several jobs trains, each with a store of its own."""

import re
from dataclasses import dataclass

from class_uncertainty.checks import check
from class_uncertainty.errors import InputError


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `count`, from 1: a row belongs to one of them by its key alone."""

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
        """Whether the row of a key belongs to it."""
        return int(key, 16) % self.count == self.number - 1
