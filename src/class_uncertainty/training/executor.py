"""Executor: where lanes train, if not in this process. The training loop knows nothing of clusters."""

from collections.abc import Generator
from typing import Protocol

from class_uncertainty.data import Data
from class_uncertainty.training.fit_result import Fit, LaneOutcome
from class_uncertainty.training.stage_context import FitOptions


class Executor(Protocol):
    """Trains lanes on a device, wherever that is: bit for bit as `fit` does on the same device."""

    @property
    def device(self) -> str:
        """'cpu', 'cuda' or 'mps'."""

    def train(
        self, fitted: Fit, train: Data, options: FitOptions, keys: list[list[str]], places: list[int]
    ) -> Generator[list[LaneOutcome], None, None]:
        """Train the lanes at these places; yield those that have just ended. `keys` are of their checkpoints."""
