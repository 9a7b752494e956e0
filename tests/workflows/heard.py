"""A Watcher that keeps everything that it hears, and the data and recipes of its tests."""

from contextlib import AbstractContextManager
from dataclasses import replace

from watching import Watched

import class_uncertainty as cu
from class_uncertainty.runs.watcher import Left, News, Stage, Watcher
from class_uncertainty.training.fit import Progress
from class_uncertainty.training.recipe import RECIPES

RECIPE = cu.Recipe("small-conv", epochs=1, batch=32)
FOREST = replace(RECIPES["forest"], trees=3)


class Heard(Watcher):
    """Everything that a workflow tells."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.recipes: list[cu.Recipe] = []
        self.begun: list[str] = []
        self.left: dict[str, list[list[float]]] = {}
        self.work: dict[str, float] = {}
        self.news: list[News] = []
        self.watched, self.closed = Watched(), 0

    def __call__(self, what: str, networks: int, epochs: int) -> AbstractContextManager[Progress]:
        return self.watched(what, networks, epochs)

    def ahead(self, stages, recipe, device, measure) -> None:
        self.stages += stages
        self.recipes.append(recipe)

    def begin(self, name: str, left: Left = ()) -> None:
        self.begun.append(name)
        self.left[name] = [list(part.shares) for part in left]
        self.work[name] = sum(number * share for part in left for number, share in part.turns)

    def tell(self, news: News) -> None:
        self.news.append(news)

    def close(self) -> None:
        self.closed += 1

    @property
    def announced(self) -> int:
        return sum(stage.networks for stage in self.stages)


def without_test(digits: cu.Dataset) -> cu.Dataset:
    return cu.Dataset("digits", digits.train)


def as_features(digits: cu.Dataset) -> cu.Data:
    train = digits.train
    return cu.Data(train.inputs.reshape(len(train), -1).astype("float32"), train.labels, train.classes)


SHARING = cu.Recipe("small-conv", epochs=5, batch=32)  # the second stage is the last epoch


def network_epochs(heard: Heard) -> float:
    """What really trained, in networks: an epoch that several share is one."""
    return sum(1 / number / news.epochs for news in heard.watched.news for number in news.shared_by)
