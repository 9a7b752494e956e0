"""Knobs, methods as values, and the table of them. Losses are in `methods.losses`, which needs torch."""

from class_uncertainty.errors import unknown
from class_uncertainty.methods.knobs import Focal, Knob, Method, Plan, plan
from class_uncertainty.methods.table import METHODS


def named(name: str) -> Method:
    """The row of METHODS with that name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


__all__ = ["METHODS", "Focal", "Knob", "Method", "Plan", "named", "plan"]
