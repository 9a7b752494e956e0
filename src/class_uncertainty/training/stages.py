"""Leg: one stage of a lane's training, with a recipe of its own."""

import dataclasses
from dataclasses import dataclass, replace

from class_uncertainty.data import Data
from class_uncertainty.methods import Method
from class_uncertainty.training.recipe import Lane, Recipe


@dataclass(frozen=True)
class Leg:
    """What all lanes share that train a stage together. Streams of random numbers go on by `number`, reports by `before`."""

    recipe: Recipe
    number: int = 0
    before: int = 0  # epochs of the stages before
    total: int = 0  # epochs of all stages
    trains: str = "all"
    fresh: bool = False
    pasted: bool = False
    balanced: bool = False

    def length(self, train: Data) -> int:
        """Examples of an epoch, in whole batches where the recipe drops the last."""
        count = int(train.counts.max()) * len(train.counts) if self.balanced else len(train)
        batch = min(self.recipe.batch, count)
        length = count // batch * batch if self.recipe.drop_last else count
        return length - (length % batch == 1)  # one example has no batch statistics


def legs(method: Method, recipe: Recipe) -> list[Leg]:
    """A method's stages under a recipe, in order."""
    if not method.then:
        return [Leg(recipe, total=recipe.epochs)]
    first = recipe.cut(_epochs(method.share, recipe))
    later = [dataclasses.replace(recipe, epochs=_epochs(stage.epochs, recipe), **dict(stage.recipe)) for stage in method.then]
    total, before = sum(each.epochs for each in (first, *later)), first.epochs
    found = [Leg(first, total=total)]
    for number, (stage, own) in enumerate(zip(method.then, later, strict=True), 1):
        found.append(Leg(own, number, before, total, stage.trains, stage.fresh, stage.pasted, stage.balanced))
        before += own.epochs
    return found


def _epochs(share: float, recipe: Recipe) -> int:
    return max(1, round(share * recipe.epochs))


def staged(lane: Lane, recipe: Recipe, number: int) -> Lane:
    """The lane as it trains in that stage: by the stage's method, at the stage's learning rate."""
    if not lane.value.then:
        return lane
    first = replace(lane.value, then=(), share=1.0)
    method = lane.value.then[number - 1].method if number else first
    rate = lane.value.then[number - 1].rate if number else 1.0
    return replace(lane, method=method, lr=lane.rate(recipe) * rate)


def form(lane: Lane) -> tuple:
    """What decides the steps of a stack: lanes that differ in it train apart."""
    method = lane.value
    taught = (lane.fold or "all") if lane.teaching else ""  # students of a stack see the same images
    return method.head == "rbf", method.level, method.learned, method.augment, taught
