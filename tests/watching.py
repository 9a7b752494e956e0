"""What tests see of training: a `progress` for workflows that keeps all news, and one that allows no training."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import pytest

from class_uncertainty.training import Lane
from class_uncertainty.training.fit import Epoch, Progress

LANES = (Lane("naive", 0), Lane("ubrs", 1, fold=(1, 5)))


def epoch_news(epoch: int, lanes: Sequence[Lane] = LANES, epochs: int = 10) -> Epoch:
    """What a stack of these lanes tells at the end of an epoch of two seconds."""
    losses, errors, rates = ((value,) * len(lanes) for value in (0.5, 12.34, 0.1))
    return Epoch(tuple(lanes), epoch, epochs, losses, errors, rates, seconds=2.0, speed=1000.0 * len(lanes))


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
