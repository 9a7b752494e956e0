"""What of a method someone else's training loop can take: its draws, its loss, or neither."""

import torch

from class_uncertainty.checks import check, check_least
from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats
from class_uncertainty.methods import METHODS, Method, Plan, named, plan


def in_several_processes() -> bool:
    """Whether several processes of torch.distributed train together; builds of torch may lack that module."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


LOSS_KNOBS = ("weight", "margin", "divisor")


class Scheduled:
    """A method with the counts and uncertainties that its measures see: its plan in every epoch."""

    def __init__(self, method: str | Method, stats: Stats, epochs: int | None) -> None:
        check(str | Method, method=method)
        if epochs is not None:
            check_least("epochs", epochs, 1)
        self.method = named(method) if isinstance(method, str) else method
        names = [method] if isinstance(method, str) else [name for name, row in METHODS.items() if row is method]
        self.name = f"method {names[0]!r}" if names else "the method"
        self.stats = stats
        if needed := needs(self.method):
            raise InputError(f"{self.name} needs {needed}: train it by cu.train or cu.fit.")
        if self.method.uses_uncertainty and stats.uncertainty is None:
            sources = "cu.estimate(data).stats or cu.OnlineUncertainty"
            raise InputError(f"{self.name} needs class uncertainties: give uncertainty=, as {sources} has them.")
        if epochs is None and not self.method.is_steady:
            raise InputError(f"{self.name} changes over the epochs: give epochs=, how many there are.")
        self.epochs = epochs

    @property
    def acts_on_draws(self) -> bool:
        return self.method.alpha is not None

    @property
    def acts_on_loss(self) -> bool:
        return self.method.focal is not None or any(name in self.method.knobs for name in LOSS_KNOBS)

    def for_draws(self) -> "Scheduled":
        """Itself, where a sampler is all that the method needs."""
        if self.acts_on_loss:
            raise InputError(f"{self.name} acts on the loss, not on what is drawn: take cu.Loss.")
        return self

    def plan(self, epoch: int) -> Plan:
        """A method that is the same in every epoch has no last one."""
        check(int, epoch=epoch)
        if epoch < 0 or (self.epochs is not None and epoch >= self.epochs):
            last = "" if self.epochs is None else f" to {self.epochs - 1}"
            raise InputError(f"epoch is {epoch}: it must be a whole number from 0{last}.")
        return plan(self.method, self.stats, epoch, self.epochs) if self.epochs else plan(self.method, self.stats, 0, 1)


def needs(method: Method) -> str:
    """What a method needs beside draws and a loss; "" where these are all of it."""
    if method.then:
        return "stages of its own, with other recipes and parts of the network that stay as they are"
    if method.head == "rbf":
        return "a head of class centroids and a gradient penalty (DUQ)"
    if method.level == "features":
        return "the features of the network and their class centroids"
    if method.augment:
        return f"other inputs and labels ({', '.join(method.augment)})"
    if method.dropout:
        return "dropout before the last layer of the network"
    return "a learning rate that falls several times" if method.cycles else ""
