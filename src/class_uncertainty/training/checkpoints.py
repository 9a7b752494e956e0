"""Lanes in the middle of their training, on disk: what a kill leaves, the same command goes on from."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from class_uncertainty.errors import MachineFault
from class_uncertainty.files import make_folder, write_whole
from class_uncertainty.training.stack import State


@dataclass(frozen=True)
class Started:
    """A lane after `epoch` epochs."""

    epoch: int
    state: State
    momenta: State
    diverged: int | None
    loss: float
    seconds: float
    gathered: State = field(default_factory=dict)  # of each training example, while the lane trained


class Checkpoints:
    """A folder with a file for each lane, by its key; a file is whole or not there, and one that cannot be read counts as not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def save(self, key: str, lane: Started) -> None:
        from safetensors.torch import save

        tensors = {f"state.{name}": value for name, value in lane.state.items()}
        tensors |= {f"momentum.{name}": value for name, value in lane.momenta.items()}
        tensors |= {f"gathered.{name}": value for name, value in lane.gathered.items()}
        about = {"epoch": lane.epoch, "diverged": lane.diverged, "loss": lane.loss, "seconds": lane.seconds}
        content = save(tensors, {"about": json.dumps(about)})
        make_folder(self.folder)
        try:
            write_whole(self._file(key), content)
        except MachineFault:
            if self.folder.is_dir():
                raise
            make_folder(self.folder)  # another process has ended and taken the empty folder away
            write_whole(self._file(key), content)

    def epoch(self, key: str) -> int:
        """How far a lane is, without its tensors; 0 where there is no file."""
        try:
            with open(self._file(key), "rb") as file:
                return int(_about(file.read(8), file.read(2**20))["epoch"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def load(self, key: str) -> Started | None:
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            content = self._file(key).read_bytes()
            about = _about(content[:8], content[8:])
            tensors = load(content)
            state, momenta, gathered = (
                {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)}
                for part in ("state.", "momentum.", "gathered.")
            )
            return Started(about["epoch"], state, momenta, about["diverged"], about["loss"], about["seconds"], gathered)
        except (FileNotFoundError, NotADirectoryError, SafetensorError, ValueError, KeyError, TypeError):
            return None
        except OSError as error:
            raise MachineFault(f"{self._file(key)} could not be read: {error.strerror}.") from error

    def remove(self, keys: Iterable[str]) -> None:
        """Of lanes that need them no more, and what a kill left of them; the folder too, when it is empty."""
        for key in keys:
            for file in (self._file(key), *self.folder.glob(f"{key}.*.partial")):
                with suppress(OSError):
                    file.unlink()
        with suppress(OSError):
            os.rmdir(self.folder)


def _about(length: bytes, rest: bytes) -> dict[str, Any]:
    """What was noted beside the tensors: a safetensors file starts with the length of its header, and the header."""
    return json.loads(json.loads(rest[: int.from_bytes(length, "little")])["__metadata__"]["about"])
