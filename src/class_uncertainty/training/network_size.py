"""NetworkSize: a network and the number of its parameters, which every table names. Counting needs torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from class_uncertainty.text import amount
from class_uncertainty.training.lane import Result


@dataclass(frozen=True)
class NetworkSize:
    """A network, None where nothing was trained, and its parameters, None where the shape of inputs is not known."""

    network: str | None = None
    parameters: int | None = None

    def __str__(self) -> str:
        count = "" if self.parameters is None else f", {amount(self.parameters)} parameters"
        return f"{self.network}{count}"

    @classmethod
    def of(cls, network: str, shape: tuple[int, ...] | None, classes: int) -> "NetworkSize":
        """With the linear head, for inputs of that shape. A network that this version does not have is not counted."""
        from class_uncertainty.training.networks.classifier import NETWORKS

        return cls(network, parameters(network, shape, classes) if shape and network in NETWORKS else None)

    @classmethod
    def of_results(cls, results: Sequence[Result], shape: tuple[int, ...] | None, classes: int) -> "NetworkSize":
        """Of results that were trained alike."""
        return cls.of(results[0].recipe.network, shape, classes) if results else cls()


NOTHING_TRAINED = NetworkSize()


@cache
def parameters(network: str, shape: tuple[int, ...], classes: int) -> int:
    """How many numbers a network trains, body and linear head, counted on a module that holds no memory."""
    import torch

    from class_uncertainty.training.networks.classifier import Classifier

    with torch.device("meta"):
        module = Classifier(network, shape, tuple(map(str, range(classes))))
    return sum(parameter.numel() for parameter in module.parameters())


def listed_parameters() -> dict[str, int]:
    """The parameters of every network for 10 classes, of images with 3 channels or of 64 features."""
    from class_uncertainty.training.networks.classifier import NETWORKS

    return {name: parameters(name, (3, 32, 32) if row.images else (64,), 10) for name, row in NETWORKS.items()}
