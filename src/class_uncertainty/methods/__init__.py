"""Knobs, methods as values, and the table of them. Losses are in `methods.losses`, which needs torch."""

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.measures import measure_named
from class_uncertainty.methods.knobs import AUGMENTATIONS, Focal, Knob, Method, Plan, Stage, plan
from class_uncertainty.methods.table import METHODS


def named(name: str) -> Method:
    """A row of METHODS; 'row@measure' is driven by that measure, as in ubrw@product^0.5; 'row+augmentation' has one or more besides."""
    driven, *augment = name.split("+")
    row, at, measure = driven.partition("@")
    if row not in METHODS:
        raise unknown("method", row, METHODS)
    if at and not METHODS[row].can_be_driven:
        raise InputError(f"method {row!r} acts on no knob, so no measure can drive it: leave out '@{measure}'.")
    method = METHODS[row].using(measure_named(measure)) if at else METHODS[row]
    return method.augmented(*augment) if augment else method


__all__ = ["AUGMENTATIONS", "METHODS", "Focal", "Knob", "Method", "Plan", "Stage", "named", "plan"]
