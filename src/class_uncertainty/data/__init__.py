"""Where examples come from, and how they are shaped."""

from class_uncertainty.data.core import Data, Dataset, check_fits, check_judge, check_trainable
from class_uncertainty.data.shaping import duplicate, hold_out, long_tail, mix_hardness, stratified, svci20, validation_split
from class_uncertainty.data.sources import SOURCES, load
from class_uncertainty.data.specs import Source

__all__ = [
    "SOURCES",
    "Data",
    "Dataset",
    "Source",
    "check_fits",
    "check_judge",
    "check_trainable",
    "duplicate",
    "hold_out",
    "load",
    "long_tail",
    "mix_hardness",
    "stratified",
    "svci20",
    "validation_split",
]
