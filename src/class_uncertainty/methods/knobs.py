"""A method is a value: measures plugged into knobs on a schedule. `plan` says what the knobs are in an epoch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from class_uncertainty.boundary import check_field, check_least, checked
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import Measure, Stats, Vector, normalise

Ramp = Callable[[int, int], float]  # (epoch from 0, epochs) -> strength from 0 (at rest) to 1 (on target)
Unit = Callable[[Vector], Vector]  # raw measure (C,) -> the knob's scale (C,)


def always(epoch: int, epochs: int) -> float:
    """On from the first epoch."""
    return 1.0


def linear(epoch: int, epochs: int) -> float:
    """t / T with t from 1: progressive balancing as Bag-of-Tricks counts it."""
    return (epoch + 1) / epochs


def late(epoch: int, epochs: int) -> float:
    """The second stage: the last fifth of the epochs, from epoch 160 of 200; one epoch at least."""
    return float(epoch >= epochs - max(1, round(epochs / 5)))


def late_linear(epoch: int, epochs: int) -> float:
    """Progressive in the second stage, by the absolute epoch as in Bag-of-Tricks: it starts at 0.8, not at 0."""
    return late(epoch, epochs) * linear(epoch, epochs)


def to_classes(raw: Vector) -> Vector:
    """Sums to the number of classes (Eq. 11)."""
    return normalise(raw) * len(raw)


def to_max(tau: float) -> Unit:
    """Largest is tau (Eq. 12)."""

    def unit(raw: Vector) -> Vector:
        return tau * raw / np.max(raw)

    unit.__name__ = f"to_max({tau:g})"
    return unit


def to_min(raw: Vector) -> Vector:
    """Smallest is 1."""
    return raw / np.min(raw)


def as_is(raw: Vector) -> Vector:
    return raw


@checked
@dataclass(frozen=True)
class Knob:
    """A measure, the unit it is brought to, and how it comes in over the epochs."""

    measure: Measure
    unit: Unit
    ramp: Ramp = always
    fixed: bool = False  # part of the method itself: no other measure takes its place

    def at(self, rest: Vector, stats: Stats, epoch: int, epochs: int) -> Vector:
        """Interpolated from rest to target by the ramp."""
        strength = self.ramp(epoch, epochs)
        return rest if strength == 0 else (1 - strength) * rest + strength * self.unit(self.measure(stats))


@checked
@dataclass(frozen=True)
class Focal:
    """(1 - p) ** gamma on the loss; sigmoid as in Cui et al. and Bag-of-Tricks, or softmax as in LDAM-DRW."""

    gamma: float = 2.0
    sigmoid: bool = True
    ramp: Ramp = always

    def __post_init__(self) -> None:
        check_field(self, "gamma", "a finite number from 0", lambda gamma: 0 <= gamma < math.inf)


AUGMENTATIONS = {
    "autoaugment": "two operations of a policy learnt on CIFAR-10, after crop and flip (Cubuk et al. 2019)",
    "cutout": "a black square, half as wide as the picture: 16 pixels of 32 (DeVries and Taylor 2017)",
    "mixup": "pairs of examples and of their labels are mixed, one share for a batch (Zhang et al. 2018)",
    "remix": "mixup whose label goes to the rarer class of a pair (Chou et al. 2020)",
}


@checked
@dataclass(frozen=True)
class Method:
    """What differs from the naive classifier. Everything at rest: that is the naive classifier."""

    about: str = ""
    counterpart: str = ""  # the row with cardinality in the place of uncertainty
    alpha: Knob | None = None  # which class the next example comes from
    weight: Knob | None = None  # factor on an example's loss
    margin: Knob | None = None  # subtracted from the logit, or added to the distance from the class's centroid
    divisor: Knob | None = None  # divides the logit (vs only)
    beta: float = 0.0  # 1: margins act on every class's logit; 0: on the example's own class alone (Eq. 5)
    focal: Focal | None = None
    head: str = "linear"  # or "cosine", or "rbf": distances to centroids (DUQ)
    scale: float = 1.0  # of the logits, after the margin
    reduction: str = "mean"  # 1 / m as in Eq. 4; "weights": divided by the batch's weights, as torch does
    level: str = "logits"  # or "features": margins act on distances to class centroids (DRO-LT)
    learned: bool = False  # whether margins at the features are only where learned ones start
    dropout: float = 0.0  # share of the features left out while training
    cycles: int = 0  # so many times the learning rate falls by a cosine to 0, in the place of warm-up and drops
    augment: tuple[str, ...] = ()  # of AUGMENTATIONS, beside the recipe's crop and flip
    share: float = 1.0  # of the recipe's epochs, where stages follow
    then: "tuple[Stage, ...]" = ()

    def __post_init__(self) -> None:
        choices: dict[str, tuple] = {
            "head": ("linear", "cosine", "rbf"),
            "reduction": ("mean", "weights"),
            "beta": (0, 1),
            "level": ("logits", "features"),
        }
        for field, allowed in choices.items():
            if getattr(self, field) not in allowed:
                raise InputError(f"{field} is {getattr(self, field)!r}: it must be {' or '.join(map(repr, allowed))}.")
        check_field(self, "dropout", "a share from 0 to below 1", lambda share: 0 <= share < 1)
        check_field(self, "share", "above 0, and 1 at most", lambda share: 0 < share <= 1)
        check_field(self, "scale", "a finite number above 0", lambda scale: 0 < scale < math.inf)
        check_least("cycles", self.cycles, 0)
        if self.learned and self.level == "logits":
            raise InputError("learned margins act at the features: level must be 'features'.")
        if self.head == "rbf" and (self.focal or self.knobs.keys() - {"alpha"} or self.level != "logits"):
            raise InputError("head 'rbf' has a loss of its own: weights, margins and focal have no place in it.")
        if any((method.head == "rbf") != (self.head == "rbf") for method in self.stages):
            raise InputError("head 'rbf' has other weights than the others: all stages must have it, or none.")
        for name in self.augment:
            if name not in AUGMENTATIONS:
                raise unknown("augmentation", name, AUGMENTATIONS)
        object.__setattr__(self, "augment", tuple(name for name in AUGMENTATIONS if name in self.augment))  # each once, in one order
        if {"mixup", "remix"} <= set(self.augment):
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
    def uses_uncertainty(self) -> bool:
        return any(knob.measure.uses_uncertainty for method in self.stages for knob in method.knobs.values())

    @checked
    def using(self, measure: Measure) -> "Method":
        """The same method driven by another measure: any measure x any method that acts on a knob."""
        if not self.can_be_driven:
            raise InputError("this method acts on no knob, so no measure can drive it.")
        knobs: dict[str, Any] = {name: replace(knob, measure=measure) for name, knob in self._free.items()}
        then = tuple(replace(stage, method=stage.method.using(measure)) if stage.method._free else stage for stage in self.then)
        return replace(self, **knobs, then=then)

    @property
    def can_be_driven(self) -> bool:
        """Whether a measure has a place in it."""
        return any(method._free for method in self.stages)

    @property
    def _free(self) -> dict[str, Knob]:
        return {name: knob for name, knob in self.knobs.items() if not knob.fixed}

    @checked
    def augmented(self, *names: str) -> "Method":
        """The same method with more augmentations, in every stage."""
        then = tuple(replace(stage, method=stage.method.augmented(*names)) for stage in self.then)
        return replace(self, augment=(*self.augment, *names), then=then)


@checked
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
    balanced: bool = False  # whether an epoch is as long as if every class had as many examples as the largest

    def __post_init__(self) -> None:
        if self.trains not in ("all", "head", "body"):
            raise InputError(f"trains is {self.trains!r}: it must be 'all', 'head' or 'body'.")
        if not 0 < self.epochs < math.inf or not 0 < self.rate < math.inf:
            raise InputError(
                f"a stage has {self.epochs!r} of the epochs at {self.rate!r} of the learning rate: both must be above 0 and finite."
            )
        if self.method.then:
            raise InputError("the method of a stage has stages of its own: put them one after the other.")


@checked
@dataclass(frozen=True, eq=False)
class Plan:
    """What reaches the loop in one epoch."""

    alpha: Vector  # (C,) sums to 1
    weight: Vector  # (C,) sums to C
    margin: Vector  # (C,)
    divisor: Vector  # (C,)
    beta: float
    gamma: float
    sigmoid: bool
    scale: float
    natural: bool  # alpha is the data's own: an epoch is a permutation


@checked
def plan(method: Method, stats: Stats, epoch: int, epochs: int) -> Plan:
    """The knobs of `method` in `epoch` (from 0) of `epochs`."""
    if not 0 <= epoch < epochs:
        raise InputError(f"epoch is {epoch}: it must be from 0 to {epochs - 1}.")
    classes = len(stats.counts)
    rest = {"alpha": normalise(stats.counts), "weight": np.ones(classes), "margin": np.zeros(classes), "divisor": np.ones(classes)}
    value = rest | {name: knob.at(rest[name], stats, epoch, epochs) for name, knob in method.knobs.items()}
    focus = method.focal.ramp(epoch, epochs) if method.focal else 0.0
    return Plan(
        **value,
        beta=method.beta,
        gamma=focus * method.focal.gamma if method.focal else 0.0,
        sigmoid=bool(method.focal and method.focal.sigmoid and focus > 0),
        scale=method.scale,
        natural=np.allclose(value["alpha"], rest["alpha"], rtol=1e-9, atol=0),
    )
