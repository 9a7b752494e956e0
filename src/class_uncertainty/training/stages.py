"""ResolvedStage: one stage of a training, with its own recipe. What trainings cost, in naive ones."""

from dataclasses import dataclass, field, replace
from typing import Any

from class_uncertainty.data import Data
from class_uncertainty.methods import Method, Stage
from class_uncertainty.training import DUQ_STEP_COST, Lane, Recipe

FORWARD = 3  # forward passes that one step costs


@dataclass(frozen=True)
class ResolvedStage:
    """What all lanes of a stage share. Random streams continue by `number`, reports by `before`.

    Lanes of fewer stages train beside lanes of more: `total` is not compared.
    """

    recipe: Recipe
    number: int = 0
    before: int = 0  # epochs of the stages before
    total: int = field(default=0, compare=False)  # epochs of all stages of one of the lanes
    trains: str = "all"
    fresh: bool = False
    pasted: bool = False
    released: bool = False
    balanced: bool = False

    def length(self, train: Data) -> int:
        """Examples of an epoch, in full batches where the recipe drops the last."""
        count = int(train.counts.max()) * len(train.counts) if self.balanced else len(train)
        batch = min(self.recipe.batch, count)
        length = count // batch * batch if self.recipe.drop_last else count
        return length - (length % min(self.recipe.part, count) == 1)  # one example has no batch statistics


def resolve_stages(method: Method, recipe: Recipe) -> list[ResolvedStage]:
    """A method's stages under a recipe, in order."""
    if not method.then:
        return [ResolvedStage(recipe, total=recipe.epochs)]
    epochs = _epochs(method.share, recipe)
    first = recipe if epochs == recipe.epochs else recipe.cut(epochs)  # the whole of it may train beside other lanes
    first, last = replace(first, average=0.0), len(method.then)
    recipes = [_recipe_of(stage, recipe, number == last) for number, stage in enumerate(method.then, 1)]
    total, before = first.epochs + sum(later.epochs for later in recipes), first.epochs
    stages = [ResolvedStage(first, total=total)]
    for number, (stage, later) in enumerate(zip(method.then, recipes, strict=True), 1):
        kind = (stage.trains, stage.fresh, stage.pasted, stage.released, stage.balanced)
        stages.append(ResolvedStage(later, number, before, total, *kind))
        before += later.epochs
    return stages


def _recipe_of(stage: Stage, recipe: Recipe, is_last: bool) -> Recipe:
    """The recipe of a later stage: drops that it names replace a cosine, and only the last stage averages weights.

    The constants that a stage names are those of SGD: full batches keep the recipe's.
    """
    named = {} if recipe.full_batch else dict(stage.recipe)
    changes: dict[str, Any] = {"epochs": _epochs(stage.epochs, recipe), **named}
    schedule, average = "drops" if "drops" in changes else recipe.schedule, recipe.average if is_last else 0.0
    return replace(recipe, schedule=schedule, average=average, **changes)


def _epochs(share: float, recipe: Recipe) -> int:
    return max(1, round(share * recipe.epochs))


def staged(lane: Lane, recipe: Recipe, number: int) -> Lane:
    """The lane in that stage: with the method and the learning rate of the stage."""
    if not lane.value.then:
        return lane
    if number == 0:
        return replace(lane, method=replace(lane.value, then=(), share=1.0), lr=lane.rate(recipe))
    stage = lane.value.then[number - 1]
    return replace(lane, method=stage.method, lr=lane.rate(recipe) * stage.rate)


def stack_key(lane: Lane) -> tuple:
    """What determines the steps of a stack: lanes with different keys train in different stacks."""
    method = lane.value
    taught = (lane.fold or "all", method.augment) if lane.teaching else ()  # students of a stack see the same images
    return method.head == "rbf", method.level, method.learned, taught


def naive_passes(recipe: Recipe, train: Data) -> int:
    """The examples that a naive training sees."""
    return recipe.epochs * ResolvedStage(recipe).length(train)


def lane_cost(lane: Lane, recipe: Recipe, train: Data, teachers: int = 0) -> float:
    """By the examples that a lane sees in all stages, and by its teachers' forward passes."""
    naive, seen = naive_passes(recipe, train), 0.0
    for stage in resolve_stages(lane.value, recipe):
        seen += stage.recipe.epochs * stage.length(train) * (1 / FORWARD if stage.trains == "head" else 1)
    taught = teachers / FORWARD if lane.teaching else 0
    return seen / naive * (DUQ_STEP_COST if lane.value.head == "rbf" else 1) + taught


def distillation_cost(teachers: int) -> float:
    """Of teachers and a student that asks all of them at every step."""
    return teachers + 1 + teachers / FORWARD
