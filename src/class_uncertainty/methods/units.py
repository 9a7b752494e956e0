"""Units: the scale that a knob brings a measure to."""

from collections.abc import Callable
from functools import cache

import numpy as np

from class_uncertainty.measures import Vector, normalise
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
