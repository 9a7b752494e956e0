"""Mailbox: what workers of a cluster tell the driver while they train. Without torch, it starts in a second."""

from dataclasses import dataclass
from typing import Any

from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.lane import Epoch


@dataclass(frozen=True, eq=False)
class Begun:
    """A stack has begun on a node."""

    task: int
    node: str


@dataclass(frozen=True, eq=False)
class EpochEnded:
    """An epoch of lanes at these places within the stack; `epoch` has no lanes, which may not travel as they are."""

    task: int
    places: list[int]
    epoch: Epoch


@dataclass(frozen=True, eq=False)
class Saved:
    """Checkpoints as files by name, of a worker that does not share the folder."""

    files: dict[str, bytes]


class Mailbox:
    """An actor: workers post, the driver collects. It also knows how much time is left, by one clock for all."""

    def __init__(self) -> None:
        self.deadline, self.letters = Deadline(), list[Any]()

    def start(self, seconds: float) -> None:
        """So much is left from now on; of a budget that is spent, next to nothing."""
        self.deadline = Deadline.after(max(seconds, 1e-9))

    def left(self) -> float:
        """Seconds."""
        return self.deadline.left

    def post(self, letter: Any) -> None:
        self.letters.append(letter)

    def collect(self) -> list[Any]:
        letters, self.letters = self.letters, []
        return letters
