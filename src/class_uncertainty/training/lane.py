"""Lane: one training. Teaching: what a student learns. Epoch: what is reported of it. Result: what came out."""

import dataclasses
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from class_uncertainty.checks import check_field, check_fields
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.methods import METHODS, Method, Stage, named, parse_name
from class_uncertainty.metrics import Scores
from class_uncertainty.training.recipe import Recipe, check_lr, from_zero

DISTIL = "distil"  # the name of a lane with teachers
GATHERS = ("", "online", "snapshots")
MEANS = ("geometric", "arithmetic")
DUQ_STEP_COST = 3.0  # a training step of DUQ, in plain ones: `make bench-estimators`


@dataclass(frozen=True)
class Teaching:
    """What a student learns from its teachers: softmax((log p - tau log N) / temperature).

    p is the mean of the teachers, by default that of their logarithms: it stays as sure as each of them is, so that
    a tau which suits one teacher suits all of them together.

    Parameters
    ----------
    tau : float
        Strength of the correction for the class counts N.
    temperature : float
        Temperature of targets and student.
    hard : float
        Share of the loss that is on the labels, from 0 to 1.
    unseen : bool
        Whether an example is taught only by the teachers that never saw it.
    teachers : tuple of int
        Which teachers, by their places; all where empty.
    mean : str
        "geometric" or "arithmetic".

    Examples
    --------
    >>> cu.Lane(teaching=cu.Teaching(tau=0.5)).name
    'distil'
    """

    tau: float = 1.0
    temperature: float = 2.0
    hard: float = 0.0
    unseen: bool = False
    teachers: tuple[int, ...] = ()
    mean: str = "geometric"

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "tau", "a finite number from 0", from_zero)
        check_field(self, "temperature", "a finite number above 0", lambda temperature: 0 < temperature < math.inf)
        check_field(self, "hard", "a share from 0 to 1", lambda share: 0 <= share <= 1)
        if self.mean not in MEANS:
            raise unknown("mean", self.mean, MEANS)


@dataclass(frozen=True)
class Lane:
    """One training.

    Parameters
    ----------
    method : str or Method
        A Method, or its name as `cu list methods` lists it.
    seed : int
        Determines initialisation, order and augmentation.
    lr : float, optional
        Learning rate; the recipe's if not given.
    fold : (int, int), optional
        (k, K): the fold k of K that the training leaves out.
    bootstrap : bool
        Whether to train on a resample: as many examples of each class as there are, drawn with replacement.
    gather : str
        What to keep of the training examples' probabilities: "online" sums them over the epochs, "snapshots" takes
        them at the end of each cycle of the learning rate.
    teaching : Teaching, optional
        What to learn from teachers, in place of the labels.

    Attributes
    ----------
    value : Method
        The method that `method` names.

    Examples
    --------
    >>> lane = cu.Lane("ubrw@product^0.5+mixup", seed=1)
    >>> lane.name, lane.value.augment
    ('ubrw@product^0.5+mixup', ('mixup',))
    """

    method: str | Method = "naive"
    seed: int = 0
    lr: float | None = None
    fold: tuple[int, int] | None = None
    bootstrap: bool = False
    gather: str = ""
    teaching: Teaching | None = None
    value: Method = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "value", named(self.method) if isinstance(self.method, str) else self.method)
        check_field(self, "seed", "a whole number from 0 to 2 ** 63 - 1", from_zero)
        if self.lr is not None:
            check_lr(self.lr)
        if self.gather not in GATHERS:
            raise unknown("gather", self.gather, filter(None, GATHERS))
        if self.fold is not None and not 0 <= self.fold[0] < self.fold[1] >= 2:
            raise InputError(f"fold is {self.fold}: (k, K) needs two folds at least and a whole k from 0 to K - 1.")
        if self.teaching:
            naive = dataclasses.replace(self.value, about="", augment=()) == Method()
            if not naive or self.bootstrap or self.gather:
                raise InputError("a lane with teachers must be naive, with augmentations at most.")

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickled without `value`, whose measures are functions that cannot be pickled."""
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.init)

    @property
    def name(self) -> str:
        """The name of the method, or one made of its fields."""
        if self.teaching:
            return DISTIL
        if isinstance(self.method, str):
            return self.method
        first = dataclasses.replace(self.method, revision=0)  # a name outlives a revision
        return "custom-" + hashlib.sha256(repr(describe(first)).encode()).hexdigest()[:6]

    def rate(self, recipe: Recipe) -> float:
        """The learning rate of the lane, or of the recipe."""
        return self.lr or recipe.lr

    def rate_at(self, recipe: Recipe, epoch: int) -> float:
        """The learning rate in an epoch: by the recipe's schedule, or by a cosine in each of the method's cycles."""
        if not self.value.cycles:
            return self.rate(recipe) * recipe.factor(epoch)
        ends = [0, *recipe.cycle_ends(self.value.cycles)]
        start, end = max(e for e in ends if e <= epoch), min(e for e in ends if e > epoch)
        return self.rate(recipe) * 0.5 * (1 + math.cos(math.pi * (epoch - start) / (end - start)))


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a lane reached at its last epoch.

    Without a test split a result is of `folds` networks, each evaluated on the training examples that it never saw.

    Attributes
    ----------
    method, seed, lr, fold
        The lane.
    scores : Scores or None
        Errors and calibration; None if the lane diverged or there was nothing to evaluate it on.
    error, top1_error, class_errors
        Fields of `scores`; `error` is the class-mean error. None if `scores` is.
    diverged : int or None
        The epoch, from 0, in which the loss was no longer finite.
    loss : float
        Mean training loss of the last epoch.
    seconds : float
        The lane's share of the training time.
    plan : dict
        The fields of the method, in words.
    recipe : Recipe
    data : str
        Fingerprint of the training data.
    uncertainty : str
        Digest of the class uncertainties that the method used; "" if it used none.
    device : str
    folds : int
        Number of networks where there is no test split; 0 otherwise.
    cost : float
        Cost of the training, in naive trainings. What measured the class uncertainties is not in it.
    parameters : int or None
        Number of a network that is not the package's own, so that showing the result need not build it.
    imported : bool
        Whether `cu results import` added it: it was not trained for this store.

    Examples
    --------
    >>> data = cu.load("digits-lt:20")
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> result = cu.fit(data.train, [cu.Lane("naive")], recipe=recipe, test=data.test).results[0]
    >>> result.method, len(result.class_errors), 0 <= result.error <= 100
    ('naive', 10, True)
    """

    method: str
    seed: int
    lr: float
    fold: tuple[int, int] | None
    scores: Scores | None
    diverged: int | None
    loss: float
    seconds: float
    plan: dict[str, Any]
    recipe: Recipe
    data: str
    uncertainty: str
    device: str
    folds: int = 0
    cost: float = 1.0
    parameters: int | None = None
    imported: bool = field(default=False, compare=False)

    def __repr__(self) -> str:
        """The lane and its error."""
        fold = f", fold {self.fold[0] + 1} of {self.fold[1]}" if self.fold else ""
        judged = "not judged" if self.error is None else f"class-mean error {self.error:.1f} %"
        reached = self.divergence or judged
        return f"Result({self.method}, seed {self.seed}, lr {self.lr:g}{fold}: {reached})"

    @property
    def divergence(self) -> str:
        """'diverged in epoch 3', counted from 1 as people do; "" if it did not."""
        return "" if self.diverged is None else f"diverged in epoch {self.diverged + 1}"

    @property
    def collapsed(self) -> bool:
        """Whether it is right on one class only, and always there: it predicts nothing else."""
        return sorted(error for error in self.class_errors or () if not math.isnan(error))[:2] == [0.0, 100.0]

    @property
    def revision(self) -> int:
        """That of the method it was trained by."""
        return self.plan.get("revision", 0)

    @property
    def is_older(self) -> bool:
        """Whether its method has been revised since."""
        row = METHODS.get(parse_name(self.method).row)
        return row is not None and self.revision < row.revision

    @property
    def error(self) -> float | None:
        """Mean of the class errors, in percent: every class counts the same."""
        return self.scores.error if self.scores else None

    @property
    def top1_error(self) -> float | None:
        """Error over all examples, in percent."""
        return self.scores.top1_error if self.scores else None

    @property
    def class_errors(self) -> tuple[float, ...] | None:
        """(C,) error of each class, in percent; NaN for a class without test examples."""
        return self.scores.class_errors if self.scores else None


@dataclass(frozen=True)
class Epoch:
    """An epoch that the lanes of a stack have just ended; losses, errors and rates are one a lane."""

    lanes: tuple[Lane, ...]
    epoch: int  # from 0
    epochs: int
    loss: tuple[float, ...]  # mean over the epoch
    error: tuple[float, ...]  # percent of the examples as they were drawn and augmented
    lr: tuple[float, ...]
    seconds: float
    speed: float  # examples of all these lanes a second; those of shared epochs count in each lane


Progress = Callable[[Epoch], object]


def describe(method: Method) -> dict[str, Any]:
    """The fields of a method in words, to store and to read; most of those at rest are left out."""
    words: dict[str, Any] = {}
    for name, knob in method.knobs.items():
        words[name] = f"{knob.measure.name} {knob.unit.__name__} {knob.ramp.__name__}"
    if focal := method.focal:
        form = "sigmoid" if focal.sigmoid else "softmax"
        words["focal"] = f"gamma {focal.gamma:g} {form} {focal.ramp.__name__}"
    words |= {"beta": method.beta, "head": method.head, "scale": method.scale, "reduction": method.reduction}
    fields = {name: getattr(method, name) for name in ("level", "learned", "dropout", "cycles", "share", "revision")}
    changed = {name: value for name, value in fields.items() if value != getattr(Method, name)}
    lists = {"augment": list(method.augment), "then": [_describe_stage(stage) for stage in method.then]}
    return words | changed | {name: value for name, value in lists.items() if value}


def _describe_stage(stage: Stage) -> dict[str, Any]:
    fields = {field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)}
    fields["recipe"] = {name: list(value) if isinstance(value, tuple) else value for name, value in stage.recipe}
    return {name: value for name, value in fields.items() if value} | {"method": describe(stage.method)}
