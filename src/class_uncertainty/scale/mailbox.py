"""Mailbox: what the workers of a Ray cluster tell the driver while they train. Without torch it starts in a second."""

from dataclasses import dataclass
from typing import Any

from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.lane import Epoch


@dataclass(frozen=True, eq=False)
class Begun:
    """A task has begun on a node. Both are known by Ray's identifiers."""

    task: str
    node: str


@dataclass(frozen=True, eq=False)
class EpochEnded:
    """An epoch of the lanes at these places; `epoch` has no lanes, since the mailbox may not know their methods."""

    places: list[int]
    epoch: Epoch


@dataclass(frozen=True, eq=False)
class Saved:
    """Checkpoints as files by name."""

    files: dict[str, bytes]


class Mailbox:
    """An actor: workers post letters, and the driver collects them. Its clock is the one that all budgets are kept by.

    Clocks of other machines may differ.
    """

    def __init__(self) -> None:
        self.deadline = Deadline()
        self.letters: list[Any] = []

    def start(self, seconds: float) -> None:
        """Let a budget end in so many seconds; one that is spent ends at once."""
        self.deadline = Deadline.after(max(seconds, 1e-9))

    def left(self) -> float:
        """Return the seconds until the budget is spent."""
        return self.deadline.left

    def post(self, letter: Any) -> None:
        """Keep a letter. A checkpoint replaces the last one of the same lanes: a slow driver misses some."""
        if isinstance(letter, Saved):
            names = letter.files.keys()
            self.letters = [
                kept for kept in self.letters if not (isinstance(kept, Saved) and kept.files.keys() == names)
            ]
        self.letters.append(letter)

    def collect(self) -> list[Any]:
        """Return the letters since the last call."""
        letters = self.letters
        self.letters = []
        return letters
