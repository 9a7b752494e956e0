"""Checkpoints: lanes under way, on disk. After a kill the same command goes on from them."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from class_uncertainty.errors import MachineFault, notice
from class_uncertainty.io import make_folder, parse_json, read_sealed, sealed, write_together
from class_uncertainty.training.networks.stack import State

TRIES = 5  # to write checkpoints whose partial files others take away
PARTS = ("state", "momentum", "gathered", "summed")


@dataclass(frozen=True)
class LaneState:
    """A lane after `epoch` epochs."""

    epoch: int
    state: State
    momenta: State
    diverged: int | None
    loss: float
    seconds: float
    gathered: State = field(default_factory=dict)  # of each training example, while the lane trained
    summed: State = field(default_factory=dict)  # weights at the ends of epochs, while they are to be averaged


class Checkpoints:
    """A folder with a file for each lane, by its key. A damaged file is dropped, with a notice."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def file(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def count(self) -> int:
        """How many there are."""
        return sum(1 for _ in self.folder.glob("*.safetensors"))

    def save(self, lanes: Mapping[str, LaneState]) -> None:
        """Write lanes by their keys, together: one sync of the folder for all."""
        for tries_left in reversed(range(TRIES)):
            make_folder(self.folder)
            try:
                write_together({self.file(key): sealed(key, _content(lane)) for key, lane in lanes.items()})
                return
            except MachineFault as error:
                # another process may have ended a lane, and removed its files or the empty folder
                if not tries_left or not isinstance(error.__cause__, FileNotFoundError):
                    raise

    def epoch(self, key: str) -> int:
        """How far a lane is, unverified and without its tensors; 0 where there is no file."""
        return self.progress(key)[0]

    def progress(self, key: str) -> tuple[int, float]:
        """How far a lane is, and the seconds that it took; as `epoch`."""
        try:
            with open(self.file(key), "rb") as file:
                about = _about(file.read(8), file.read(2**20))
            return int(about["epoch"]), float(about["seconds"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return 0, 0.0

    def load(self, key: str) -> LaneState | None:
        """The lane; None where there is no file, or a damaged one."""
        file = self.file(key)
        try:
            content = read_sealed(file, key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise MachineFault(f"{file} could not be read: {error.strerror}.") from error
        if content is not None:
            return _started(content.tobytes())
        notice(f"{file} does not match its checksum: its lane is trained again from the beginning.")
        self.remove([key])
        return None

    def remove(self, keys: Iterable[str]) -> None:
        """Remove checkpoints and what a kill left of them; the folder too, when it is empty."""
        for key in keys:
            for file in (self.file(key), *self.folder.glob(f"{key}.*.partial")):
                with suppress(OSError):
                    file.unlink()
        with suppress(OSError):
            os.rmdir(self.folder)


def _content(lane: LaneState) -> Iterator[bytes]:
    """A safetensors file, made when it is written."""
    from safetensors.torch import save

    parts = zip(PARTS, (lane.state, lane.momenta, lane.gathered, lane.summed), strict=True)
    tensors = {f"{part}.{name}": value for part, values in parts for name, value in values.items()}
    about = {"epoch": lane.epoch, "diverged": lane.diverged, "loss": lane.loss, "seconds": lane.seconds}
    yield save(tensors, {"about": json.dumps(about)})


def _started(content: bytes) -> LaneState:
    from safetensors.torch import load

    about, tensors = _about(content[:8], content[8:]), load(content)
    parts: dict[str, State] = {part: {} for part in PARTS}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = value
    state, momenta, gathered, summed = parts.values()
    return LaneState(
        about["epoch"], state, momenta, about["diverged"], about["loss"], about["seconds"], gathered, summed
    )


def _about(length: bytes, rest: bytes) -> dict[str, Any]:
    """What stands beside the tensors: a safetensors file starts with the length of its header, then the header."""
    return parse_json(parse_json(rest[: int.from_bytes(length, "little")])["__metadata__"]["about"])
