"""Where examples come from, and how they are shaped."""

from class_uncertainty.data.core import Data, Dataset, check_judge, check_trainable
from class_uncertainty.data.shaping import long_tail, stratified
from class_uncertainty.data.sources import SOURCES, Source, load

__all__ = ["SOURCES", "Data", "Dataset", "Source", "check_judge", "check_trainable", "load", "long_tail", "stratified"]
