"""A method is a value: measures plugged into knobs on a schedule. `plan` gives the knobs in an epoch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from class_uncertainty.checks import check, check_field, check_fields, check_least
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import Measure, Stats, Vector, normalise
from class_uncertainty.measures.measures import span
from class_uncertainty.text import short

Unit = Callable[[Vector], Vector]  # raw measure (C,) -> the knob's scale (C,)


def to_classes(raw: Vector) -> Vector:
    """Sums to the number of classes (Eq. 11)."""
    return normalise(raw) * len(raw)


@cache  # equal knobs compare equal
def to_max(tau: float) -> Unit:
    """Largest is tau (Eq. 12)."""

    def unit(raw: Vector) -> Vector:
        return tau * raw / np.max(raw)

    unit.__name__ = f"to_max({short(tau)})"
    return unit


def to_min(raw: Vector) -> Vector:
    """Smallest is 1."""
    return raw / np.min(raw)


def as_is(raw: Vector) -> Vector:
    """The measure itself."""
    return raw


@cache
def times(factor: float, unit: Unit = as_is) -> Unit:
    """A unit times a factor; times 1 it is the unit itself."""
    if factor == 1:
        return unit

    def scaled(raw: Vector) -> Vector:
        return factor * unit(raw)

    scaled.__name__ = f"{short(factor)}*{unit.__name__}"
    return scaled


Ramp = Callable[[int, int], float]  # (epoch from 0, epochs) -> strength


def always(epoch: int, epochs: int) -> float:
    """On from the first epoch."""
    return 1.0


def linear(epoch: int, epochs: int) -> float:
    """t / T with t from 1: progressive balancing as Bag-of-Tricks counts it."""
    return (epoch + 1) / epochs


def second_stage(epochs: int) -> int:
    """The epoch in which it begins: the last fifth of the epochs, from epoch 160 of 200; one epoch at least."""
    return epochs - max(1, round(epochs / 5))


def late(epoch: int, epochs: int) -> float:
    """On in the second stage."""
    return float(epoch >= second_stage(epochs))


def late_linear(epoch: int, epochs: int) -> float:
    """Progressive in the second stage, by the absolute epoch as in Bag-of-Tricks: it starts at 0.8, not at 0."""
    return late(epoch, epochs) * linear(epoch, epochs)


LATE = (late, late_linear)  # at rest before the second stage


@dataclass(frozen=True)
class Knob:
    """A measure, the unit it is brought to, and how it comes in over the epochs: interpolated from rest by the ramp."""

    measure: Measure
    unit: Unit
    ramp: Ramp = always
    fixed: bool = False  # part of the method itself: no other measure takes its place

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Focal:
    """(1 - p) ** gamma on the loss; sigmoid as in Cui et al. and Bag-of-Tricks, or softmax as in LDAM-DRW."""

    gamma: float = 2.0
    sigmoid: bool = True
    ramp: Ramp = always

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "gamma", "a finite number from 0", lambda gamma: 0 <= gamma < math.inf)


class Origin(NamedTuple):
    """Where a row of METHODS comes from."""

    paper: str = ""  # its table and row; "" where the paper has none
    released: str = ""  # what public code does differently under that name


HEADS, LEVELS = ("linear", "cosine", "rbf"), ("logits", "features")
CHOICES: dict[str, tuple] = {"head": HEADS, "reduction": ("mean", "weights"), "beta": (0, 1), "level": LEVELS}
AUGMENTATIONS = {
    "autoaugment": "two operations of a policy learnt on CIFAR-10, after crop and flip (Cubuk et al. 2019)",
    "cutout": "a black square, half as wide as the image: 16 pixels of 32 (DeVries and Taylor 2017)",
    "mixup": "pairs of examples and of their labels are mixed, one share for a batch (Zhang et al. 2018)",
    "remix": "mixup whose label goes to the rarer class of a pair (Chou et al. 2020)",
}
MIXING = frozenset({"mixup", "remix"})  # those that pair the examples of a batch


@dataclass(frozen=True)
class Method:
    """What differs from the naive classifier: measures on knobs. With every field at rest it is the naive classifier.

    Parameters
    ----------
    about : str
        What it does, in one line.
    counterpart : str
        The row of METHODS with cardinality in place of uncertainty.
    alpha, weight, margin, divisor : Knob, optional
        The class of the next example, the factor on the loss, what is subtracted from the logit (or added to the
        distance from the class centroid), and what divides the logit.
    beta : float
        1 if margins act on the logit of every class, 0 if on that of the example's own class (Eq. 5).
    focal : Focal, optional
    head : str
        "linear", "cosine", or "rbf": distances to centroids (DUQ).
    scale : float
        Of the logits, after the margin.
    reduction : str
        "mean" is 1 / m as in Eq. 4; "weights" divides by the weights of the batch, as torch does.
    level : str
        "logits", or "features": margins act on distances to class centroids (DRO-LT).
    learned : bool
        Whether margins at the features are only where learned ones start.
    dropout : float
        Share of the features that is left out while training.
    cycles : int
        How often the learning rate falls by a cosine to 0, in place of warm-up and drops.
    augment : tuple of str
        Keys of AUGMENTATIONS, beside crop and flip of the recipe.
    share : float
        Of the epochs of the recipe, where stages follow.
    then : tuple of Stage
        The stages that follow.
    revision : int
        Raised when the package changes the results of a method: those of older revisions still count, and are marked.
    origin : Origin
        Where it comes from; no part of what the method does.

    Examples
    --------
    >>> method = cu.METHODS["cb-rs"].using(cu.MEASURES["uncertainty"])
    >>> cu.plan(method, cu.Stats([100, 10], [0.2, 0.6]), epoch=0, epochs=10).alpha
    array([0.25, 0.75])
    """

    about: str = ""
    counterpart: str = ""
    alpha: Knob | None = None
    weight: Knob | None = None
    margin: Knob | None = None
    divisor: Knob | None = None
    beta: float = 0.0
    focal: Focal | None = None
    head: str = "linear"
    scale: float = 1.0
    reduction: str = "mean"
    level: str = "logits"
    learned: bool = False
    dropout: float = 0.0
    cycles: int = 0
    augment: tuple[str, ...] = ()
    share: float = 1.0
    then: "tuple[Stage, ...]" = ()
    revision: int = 0
    origin: Origin = field(default=Origin(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        for name, allowed in CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise InputError(f"{name} is {value!r}: it must be {' or '.join(map(repr, allowed))}.")
        check_field(self, "dropout", "a share from 0 to below 1", lambda share: 0 <= share < 1)
        check_field(self, "share", "above 0, and 1 at most", lambda share: 0 < share <= 1)
        check_field(self, "scale", "a finite number above 0", lambda scale: 0 < scale < math.inf)
        check_least("cycles", self.cycles, 0)
        if self.learned and self.level == "logits":
            raise InputError("learned margins act at the features: level must be 'features'.")
        if self.head == "rbf" and (self.focal or self.knobs.keys() - {"alpha"} or self.level != "logits"):
            raise InputError("head 'rbf' has a loss of its own: weights, margins and focal have no place in it.")
        if any((stage.method.head == "rbf") != (self.head == "rbf") for stage in self.then):
            raise InputError("head 'rbf' has other weights than the others: all stages must have it, or none.")
        for name in self.augment:
            if name not in AUGMENTATIONS:
                raise unknown("augmentation", name, AUGMENTATIONS)
        in_order = tuple(name for name in AUGMENTATIONS if name in self.augment)  # each once
        object.__setattr__(self, "augment", in_order)
        if set(self.augment) >= MIXING:
            raise InputError("mixup and remix are given: a method mixes in one way.")

    @property
    def knobs(self) -> dict[str, Knob]:
        """The knobs that are not at rest, by name."""
        return {name: knob for name in ("alpha", "weight", "margin", "divisor") if (knob := getattr(self, name))}

    @property
    def stages(self) -> "tuple[Method, ...]":
        """This method and those of the stages that follow."""
        return self, *(stage.method for stage in self.then)

    @property
    def is_steady(self) -> bool:
        """Whether its plan is the same in every epoch."""
        return all(part.ramp is always for part in (*self.knobs.values(), self.focal) if part)

    @property
    def uses_uncertainty(self) -> bool:
        return any(knob.measure.uses_uncertainty for method in self.stages for knob in method.knobs.values())

    def using(self, measure: Measure) -> "Method":
        """The same method driven by another measure: any measure x any method that acts on a knob."""
        check(Measure, measure=measure)
        if not self.can_be_driven:
            raise InputError("this method acts on no knob, so no measure can drive it.")
        knobs: dict[str, Any] = {name: replace(knob, measure=measure) for name, knob in self._free.items()}
        methods = [stage.method.using(measure) if stage.method._free else stage.method for stage in self.then]
        then = tuple(replace(stage, method=method) for stage, method in zip(self.then, methods, strict=True))
        return replace(self, **knobs, then=then)

    @property
    def can_be_driven(self) -> bool:
        """Whether a measure has a place in it."""
        return any(method._free for method in self.stages)

    @property
    def _free(self) -> dict[str, Knob]:
        return {name: knob for name, knob in self.knobs.items() if not knob.fixed}

    def cited(self, paper: str = "", released: str = "") -> "Method":
        """The same method with its origin: the row of the paper, and what public code does differently."""
        return replace(self, origin=Origin(paper, released))

    def augmented(self, *names: str) -> "Method":
        """The same method with more augmentations, in every stage."""
        then = tuple(replace(stage, method=stage.method.augmented(*names)) for stage in self.then)
        return replace(self, augment=(*self.augment, *names), then=then)


@dataclass(frozen=True)
class Stage:
    """A training that goes on from the one before it, by a method of its own and a recipe that differs."""

    method: Method
    epochs: float  # as a share of the recipe's
    rate: float = 1.0  # factor of the lane's learning rate
    recipe: tuple[tuple[str, Any], ...] = ()  # other fields of the recipe that differ
    trains: str = "all"  # "head": the features stay as they are, batch statistics too; "body": the head stays as it is
    fresh: bool = False  # whether the head starts anew
    pasted: bool = False  # whether every class is filled up with pasted foregrounds (CAM-based resampling)
    released: bool = False  # whether they are pasted as Bag-of-Tricks' code does it
    balanced: bool = False  # whether an epoch is as long as if every class had as many examples as the largest

    def __post_init__(self) -> None:
        check_fields(self)
        if self.trains not in ("all", "head", "body"):
            raise InputError(f"trains is {self.trains!r}: it must be 'all', 'head' or 'body'.")
        if not 0 < self.epochs < math.inf or not 0 < self.rate < math.inf:
            raise InputError(f"a stage has epochs={self.epochs!r}, rate={self.rate!r}: both must be above 0, finite.")
        if self.released and not self.pasted:
            raise InputError("a stage has released=True and pasted=False: it says how foregrounds are pasted.")
        if self.method.then:
            raise InputError("the method of a stage has stages of its own: put them one after the other.")


@dataclass(frozen=True, eq=False)
class Plan:
    """The knobs of a method in one epoch.

    Attributes
    ----------
    alpha : array (C,)
        Probability that the next example is of each class; sums to 1.
    weight : array (C,)
        Factor on the loss; sums to C.
    margin, divisor : arrays (C,)
        Subtracted from the logit, and dividing it.
    beta, gamma, sigmoid, scale
        Of the loss: whether margins act on all classes, the focal gamma and form, the scale of the logits.
    natural : bool
        Whether alpha is the frequency of the classes: then an epoch is a permutation of the examples.

    Examples
    --------
    >>> cu.plan(cu.METHODS["naive"], cu.Stats([30, 10]), epoch=0, epochs=10).natural
    True
    """

    alpha: Vector
    weight: Vector
    margin: Vector
    divisor: Vector
    beta: float
    gamma: float
    sigmoid: bool
    scale: float
    natural: bool

    def __repr__(self) -> str:
        knobs = ", ".join(f"{name} {span(getattr(self, name))}" for name in ("alpha", "weight", "margin", "divisor"))
        return f"Plan({len(self.alpha):,} classes, {knobs})"


def plan(method: Method, stats: Stats, epoch: int, epochs: int) -> Plan:
    """The knobs of a method in an epoch.

    Parameters
    ----------
    method : Method
    stats : Stats
        Counts of the classes, and uncertainties for methods that use them.
    epoch, epochs : int
        The epoch from 0, and how many there are.

    Returns
    -------
    Plan

    Examples
    --------
    >>> stats = cu.Stats([30, 10])
    >>> cu.plan(cu.METHODS["pb-rs"], stats, epoch=0, epochs=2).alpha
    array([0.625, 0.375])
    >>> cu.plan(cu.METHODS["pb-rs"], stats, epoch=1, epochs=2).alpha
    array([0.5, 0.5])
    """
    check(Method, method=method)
    check(Stats, stats=stats)
    check(int, epoch=epoch, epochs=epochs)
    if not 0 <= epoch < epochs:
        raise InputError(f"epoch is {epoch}: it must be from 0 to {epochs - 1}.")
    ones, natural = np.ones(len(stats.counts)), normalise(stats.counts)
    rest = {"alpha": natural, "weight": ones, "margin": np.zeros(len(ones)), "divisor": ones}
    knobs = dict(rest)
    for name, knob in method.knobs.items():
        if strength := knob.ramp(epoch, epochs):
            knobs[name] = (1 - strength) * rest[name] + strength * knob.unit(knob.measure(stats))
    focal = method.focal or Focal(gamma=0.0)
    strength = focal.ramp(epoch, epochs) if method.focal else 0.0
    gamma, sigmoid = strength * focal.gamma, focal.sigmoid and strength > 0
    rests = np.allclose(knobs["alpha"], natural, rtol=1e-9, atol=0)
    return Plan(**knobs, beta=method.beta, gamma=gamma, sigmoid=sigmoid, scale=method.scale, natural=rests)


def trained_prior(method: Method, stats: Stats, epochs: int) -> Vector:
    """(C,) of sum 1: alpha_c w_c exp(beta scale Delta_c) in the last epoch of the last stage, normalised.

    Classes that are drawn with probability alpha and whose losses weigh w count like classes of the frequency alpha w.
    A margin that acts on every logit is a shift of them, which the trained network makes up for. So the prior of
    'naive' is that of the training examples, and 'cb-rs' and 'balanced-softmax' stand for equally frequent classes.
    Margins of the example's own class alone, focal losses and divisors have no such prior, and are left out of it.
    """
    last = plan(method.stages[-1], stats, epochs - 1, epochs)
    return normalise(last.alpha * last.weight * np.exp(last.beta * last.scale * (last.margin - last.margin.min())))
