"""Knobs, methods as values, their registry and their names. `methods.losses` needs torch."""

from class_uncertainty.methods.method import AUGMENTATIONS, MIXING, Focal, Knob, Method, Plan, Stage, plan
from class_uncertainty.methods.names import named, parse_name
from class_uncertainty.methods.registry import MAKERS, METHODS

__all__ = [
    "AUGMENTATIONS", "MAKERS", "METHODS", "MIXING", "Focal", "Knob", "Method", "Plan", "Stage", "named", "parse_name",
    "plan",
]  # fmt: skip
