"""Deadline: a moment after which nothing new begins."""

import math
import time
from dataclasses import dataclass

from class_uncertainty.checks import check
from class_uncertainty.errors import InputError


@dataclass(frozen=True)
class Deadline:
    """A moment by time.monotonic(); by default it never comes."""

    at: float = math.inf

    @classmethod
    def after(cls, budget: "float | Deadline | None") -> "Deadline":
        """So many seconds from now; never without a budget."""
        check(float | Deadline | None, budget=budget)
        if budget is None or isinstance(budget, Deadline):
            return budget or cls()
        if not budget > 0:
            raise InputError(f"budget is {budget!r}: it must be a number of seconds above 0.")
        return cls(time.monotonic() + budget)

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self.at - time.monotonic()

    @property
    def passed(self) -> bool:
        """Whether the moment has come."""
        return self.left <= 0
