"""What tests see of training: a `progress` for workflows that keeps all news, and one that allows no training."""

from contextlib import AbstractContextManager, nullcontext

import pytest

from class_uncertainty.training import Lane
from class_uncertainty.training.fit import Epoch, Progress


class Watched:
    """All news of training, and how many networks each step has announced; `then` is told of each news too."""

    def __init__(self, then: Progress | None = None) -> None:
        self.news: list[Epoch] = []
        self.announced: list[int] = []
        self.then = then

    def __call__(self, what: str, networks: int, epochs: int) -> AbstractContextManager[Progress]:
        self.announced.append(networks)
        return nullcontext(self.hear)

    def hear(self, news: Epoch) -> None:
        self.news.append(news)
        if self.then:
            self.then(news)

    @property
    def lanes(self) -> list[Lane]:
        """Those that trained to the end, in the order in which they ended."""
        return [lane for news in self.news if news.epoch + 1 == news.epochs for lane in news.lanes]

    @property
    def trained(self) -> int:
        """How many networks ended."""
        return len(self.lanes)


def no_training(what: str, networks: int, epochs: int) -> AbstractContextManager[Progress]:
    """A step may begin where it reads a file, but no network may train."""
    return nullcontext(lambda news: pytest.fail(f"{what}: {[lane.name for lane in news.lanes]} trained again"))
