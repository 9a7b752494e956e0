"""NetworkSize: a network and the number of its parameters, which every table names. Counting needs torch."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from class_uncertainty.errors import InputError
from class_uncertainty.text import amount
from class_uncertainty.training.lane import Result
from class_uncertainty.training.recipe import TREES

if TYPE_CHECKING:
    from class_uncertainty.training.networks.network_table import Network


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
        """With the linear head, for inputs of that shape. Only the package's networks are counted here.

        Others would have to be built, and the name may come from a file.
        """
        if shape is None or ":" in network:
            return cls(network)
        try:
            return cls(network, parameters(network, shape, classes))
        except InputError:  # several, or of a later version
            return cls(network)

    @classmethod
    def of_results(cls, results: Sequence[Result], shape: tuple[int, ...] | None, classes: int) -> "NetworkSize":
        """Of results that were trained alike."""
        if not results:
            return cls()
        network = results[0].recipe.network
        stored = [result.parameters for result in results if result.parameters is not None]
        return cls(network, stored[0]) if stored else cls.of(network, shape, classes)


NOTHING_TRAINED = NetworkSize()


def parameters(network: str, shape: tuple[int, ...], classes: int) -> int | None:
    """How many numbers a network trains, body and linear head, counted on a module that holds no memory.

    None of trees, which have as many as the data ask for.
    """
    from class_uncertainty.training.networks.network_table import find_network

    if network in TREES:
        return None
    return _counted(network, find_network(network), shape, classes)


def own_parameters(network: str, shape: tuple[int, ...], classes: int) -> int | None:
    """The parameters of a user's network or another package's; None of the package's own, which anyone can count."""
    from class_uncertainty.training.networks.network_table import find_network

    return parameters(network, shape, classes) if find_network(network).own else None


@cache
def _counted(network: str, row: "Network", shape: tuple[int, ...], classes: int) -> int:
    """The row is there to tell networks of one name apart."""
    import torch

    from class_uncertainty.training.networks.classifier import Classifier

    with torch.device("meta"):
        module = Classifier(network, shape, tuple(map(str, range(classes))))
    return sum(parameter.numel() for parameter in module.parameters())


def listed_parameters() -> dict[str, int | None]:
    """The parameters of every network for 10 classes, of images with 3 channels or of 64 features.

    Registered networks that take neither are left out.
    """
    from class_uncertainty.training.networks.network_table import NETWORKS

    counts = dict[str, int | None]()
    for name, row in NETWORKS.items():
        shapes = [(3, 32, 32)] if row.images is not False else []
        for shape in [*shapes, *([(64,)] if not row.images else [])]:
            with suppress(InputError):
                counts.setdefault(name, parameters(name, shape, 10))
    return counts
