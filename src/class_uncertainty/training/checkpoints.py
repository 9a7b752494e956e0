"""Lanes in the middle of their training, on disk: what a kill leaves, the same command goes on from."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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


class Checkpoints:
    """A folder with a file for each lane, by its key; a lane's file is whole or not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def save(self, key: str, lane: Started) -> None:
        from safetensors.torch import save

        make_folder(self.folder)
        tensors = {f"state.{name}": value for name, value in lane.state.items()}
        tensors |= {f"momentum.{name}": value for name, value in lane.momenta.items()}
        about = {"epoch": lane.epoch, "diverged": lane.diverged, "loss": lane.loss, "seconds": lane.seconds}
        write_whole(self._file(key), save(tensors, {"about": json.dumps(about)}))

    def load(self, key: str) -> Started | None:
        """None where there is none, or none that can be read: then the lane begins anew."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self._file(key), "pt") as file:
                about = json.loads(file.metadata()["about"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
        except (FileNotFoundError, SafetensorError, ValueError, KeyError, TypeError):
            return None
        except OSError as error:
            raise MachineFault(f"{self._file(key)} could not be read: {error.strerror}.") from error
        parts = {part: {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)} for part in PARTS}
        return Started(about["epoch"], parts["state."], parts["momentum."], about["diverged"], about["loss"], about["seconds"])

    def remove(self, keys: Iterable[str]) -> None:
        """Of lanes that have ended; the folder too, when it is empty."""
        for key in keys:
            with suppress(OSError):
                self._file(key).unlink()
        with suppress(OSError):
            os.rmdir(self.folder)


PARTS = ("state.", "momentum.")
