"""Recipe: every constant of a training. Lane: one training. Result: what came out of it."""

import dataclasses
import hashlib
import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from class_uncertainty.boundary import check_field, check_least, checked
from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.methods import Method, Stage, named
from class_uncertainty.metrics import Scores

GATHERS = ("", "online", "snapshots")
MEANS = ("geometric", "arithmetic")
DEARER = 3.0  # a step of DUQ's, in plain ones: `make bench-estimators`
EPOCHS = 10**9  # at most
DISTIL = "distil"  # what a lane with teachers is called


def is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_lr(lr: float) -> None:
    if not 0 < lr < math.inf:
        raise InputError(f"learning rate is {lr:g}: it must be a finite number above 0.")


def from_zero(value: float) -> bool:
    return 0 <= value < math.inf


@checked
@dataclass(frozen=True)
class Recipe:
    """SGD with momentum, a warm-up, and drops of the learning rate at shares of the epochs."""

    network: str  # a key of NETWORKS
    epochs: int
    batch: int
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 2e-4  # on every parameter
    warmup: int = 5  # epochs that rise linearly
    warmup_from: float = 1 / 3  # of the learning rate
    drops: tuple[float, ...] = (0.8, 0.9)  # of the epochs
    drop: float = 0.1  # factor at each of them
    drop_last: bool = True  # whether an epoch's last incomplete batch is left out
    crop: int = 0  # pixels of zero border for random crops
    flip: bool = False  # random mirror images

    def __post_init__(self) -> None:
        for field, least in (("epochs", 1), ("batch", 1), ("crop", 0), ("warmup", 0)):
            check_least(field, getattr(self, field), least)
        check_field(self, "epochs", f"a whole number from 1 to {EPOCHS:,}", lambda epochs: epochs <= EPOCHS)
        for field in ("momentum", "weight_decay", "warmup_from", "drop"):
            check_field(self, field, "a finite number from 0", from_zero)
        check_field(self, "drops", "shares of the epochs above 0, and 1 at most", lambda drops: all(0 < share <= 1 for share in drops))
        check_lr(self.lr)

    def factor(self, epoch: int) -> float:
        """Of the learning rate in `epoch` (from 0)."""
        warm = min((epoch + 1) / self.warmup, 1.0) if self.warmup else 1.0
        return (self.warmup_from + (1 - self.warmup_from) * warm) * self.drop ** sum(epoch >= start for start in self.dropped)

    @checked
    def cut(self, epochs: int) -> "Recipe":
        """The same training up to that epoch."""
        drops = tuple(epoch / epochs for epoch in self.dropped if epoch < epochs)
        return dataclasses.replace(self, epochs=epochs, drops=drops)

    def before_drop(self) -> "Recipe":
        """The same training up to the first drop of the learning rate."""
        return self.cut(min(self.dropped)) if self.drops else self

    @property
    def dropped(self) -> list[int]:
        """The epochs, from 0, in which the learning rate drops; never in the first."""
        return [max(1, round(share * self.epochs)) for share in self.drops]

    def cycle_ends(self, cycles: int) -> list[int]:
        """After how many epochs each of so many cycles ends; none is shorter than an epoch."""
        cycles = min(cycles, self.epochs)
        return [round((i + 1) * self.epochs / cycles) for i in range(cycles)]


RECIPES: dict[str, Recipe] = {
    "images": Recipe("small-conv", epochs=40, batch=32, crop=1),
    "features": Recipe("mlp", epochs=40, batch=32),
    # Bag-of-Tricks steps its schedule before the epoch: the 160th and the 180th are the first with a lower rate
    "bag-of-tricks": Recipe("resnet32", epochs=200, batch=128, drops=(159 / 200, 179 / 200), drop=0.01, crop=4, flip=True),
    "ldam-drw": Recipe(
        "resnet32", epochs=200, batch=128, nesterov=False, warmup_from=0, drop=0.01, drop_last=False, crop=4, flip=True
    ),
}  # fmt: skip


def default_recipe(data: Data, name: str | None = None, **changes: Any) -> Recipe:
    """The recipe of that name, or the one for images or for features, with the given fields changed (None leaves a field as it is)."""
    if name is not None and name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    recipe = RECIPES[name or ("images" if data.is_images else "features")]
    return dataclasses.replace(recipe, **{field: value for field, value in changes.items() if value is not None})


@checked
@dataclass(frozen=True)
class Teaching:
    """What a student learns: softmax((log p - tau log N) / temperature), p the mean of its teachers, and a share `hard` of the labels.

    The mean is of their logarithms: they stay as sure as one of them is, so that a tau which suits one suits all together.
    """

    tau: float = 1.0
    temperature: float = 2.0
    hard: float = 0.0
    unseen: bool = False  # whether an example is taught by those teachers alone that left it out
    teachers: tuple[int, ...] = ()  # which of them, by their places; all where none is named
    mean: str = "geometric"  # or "arithmetic"

    def __post_init__(self) -> None:
        check_field(self, "tau", "a finite number from 0", from_zero)
        check_field(self, "temperature", "a finite number above 0", lambda temperature: 0 < temperature < math.inf)
        check_field(self, "hard", "a share from 0 to 1", lambda share: 0 <= share <= 1)
        if self.mean not in MEANS:
            raise unknown("mean", self.mean, MEANS)


@checked
@dataclass(frozen=True)
class Lane:
    """One training: a method (a Method or its name), a seed, a learning rate, the fold (k, K) it leaves out, whether on a bootstrap."""

    method: str | Method = "naive"
    seed: int = 0
    lr: float | None = None  # None: the recipe's
    fold: tuple[int, int] | None = None
    bootstrap: bool = False  # whether it trains on a resample: of each class as many examples as there are, drawn with replacement
    gather: str = ""  # what of the training examples is kept on the way: "online", sums over the epochs; "snapshots", at each cycle's end
    teaching: Teaching | None = None  # what it learns from teachers, in the place of its labels

    def __post_init__(self) -> None:
        if isinstance(self.method, str):
            named(self.method)
        check_field(self, "seed", "a whole number from 0 to 2 ** 63 - 1", from_zero)
        if self.lr is not None:
            check_lr(self.lr)
        if self.gather not in GATHERS:
            raise unknown("gather", self.gather, filter(None, GATHERS))
        if self.fold is not None:
            k, folds = self.fold
            if not 0 <= k < folds >= 2:
                raise InputError(f"fold is {self.fold}: (k, K) needs two folds at least and a whole k from 0 to K - 1.")
        if self.teaching and (dataclasses.replace(self.value, about="", augment=()) != Method() or self.bootstrap or self.gather):
            raise InputError("a lane with teachers is naive, with augmentations at most: all its teachers' students see the same images.")

    @property
    def name(self) -> str:
        """The method's name, or one made of its fields."""
        if self.teaching:
            return DISTIL
        if isinstance(self.method, str):
            return self.method
        return "custom-" + hashlib.sha256(repr(describe(self.method)).encode()).hexdigest()[:6]

    def rate(self, recipe: Recipe) -> float:
        return self.lr or recipe.lr

    def rate_at(self, recipe: Recipe, epoch: int) -> float:
        """The learning rate in an epoch: by the recipe's schedule, or by a cosine in each of the method's cycles."""
        if not self.value.cycles:
            return self.rate(recipe) * recipe.factor(epoch)
        ends = [0, *recipe.cycle_ends(self.value.cycles)]
        start, end = max(e for e in ends if e <= epoch), min(e for e in ends if e > epoch)
        return self.rate(recipe) * 0.5 * (1 + math.cos(math.pi * (epoch - start) / (end - start)))

    @property
    def value(self) -> Method:
        return named(self.method) if isinstance(self.method, str) else self.method


@checked
@dataclass(frozen=True, kw_only=True)
class Result:
    """What a lane reached at its last epoch. `scores` is None where it diverged or there was nothing to judge it on.

    Without a test split a result is of `folds` networks, each judged on the training examples that it never saw.
    """

    method: str
    seed: int
    lr: float
    fold: tuple[int, int] | None
    scores: Scores | None
    diverged: int | None  # the epoch, from 0, in which its loss was no longer finite
    loss: float  # mean over the last epoch
    seconds: float  # its share of the stack's time
    plan: dict[str, Any]  # the method's fields in words
    recipe: Recipe
    data: str  # fingerprint of the training data
    uncertainty: str  # digest of the class uncertainties its method used, "" if it used none
    device: str
    folds: int = 0  # 0: one network, judged on the test split
    cost: float = 1.0  # in naive trainings; what measured the uncertainties that it used is not in it

    def __getattr__(self, name: str) -> Any:
        """result.error is result.scores.error, and so on for every field of Scores."""
        if name in Scores.__dataclass_fields__:
            return getattr(self.scores, name) if self.scores else None
        raise AttributeError(name)


def describe(method: Method) -> dict[str, Any]:
    """A method's fields in words, for storing and for reading; those at rest are left out, but for a few that always are said."""
    words: dict[str, Any] = {name: f"{knob.measure.name} {knob.unit.__name__} {knob.ramp.__name__}" for name, knob in method.knobs.items()}
    if method.focal:
        words["focal"] = f"gamma {method.focal.gamma:g} {'sigmoid' if method.focal.sigmoid else 'softmax'} {method.focal.ramp.__name__}"
    words |= {"beta": method.beta, "head": method.head, "scale": method.scale, "reduction": method.reduction}
    rest = Method()
    for field in ("level", "learned", "dropout", "cycles", "share"):
        if getattr(method, field) != getattr(rest, field):
            words[field] = getattr(method, field)
    if method.augment:
        words["augment"] = list(method.augment)
    if method.then:
        words["then"] = [_describe_stage(stage) for stage in method.then]
    return words


def _describe_stage(stage: Stage) -> dict[str, Any]:
    fields = {field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)}
    fields["recipe"] = {name: list(value) if isinstance(value, tuple) else value for name, value in stage.recipe}
    return {name: value for name, value in fields.items() if value} | {"method": describe(stage.method)}


__all__ = ["DEARER", "DISTIL", "RECIPES", "Lane", "Recipe", "Result", "Teaching", "default_recipe", "describe"]
