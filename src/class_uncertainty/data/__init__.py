"""Data: where examples come from (`load`, SOURCES), what they are (Data, Dataset), and subsets of them."""

from class_uncertainty.data.dataset import Dataset, check_fits, check_judge, check_trainable
from class_uncertainty.data.examples import Data
from class_uncertainty.data.folding import stratified
from class_uncertainty.data.sources import SOURCES, load
from class_uncertainty.data.splits import duplicate, long_tail, mix_hardness, svci20, validation_split

__all__ = [
    "SOURCES", "Data", "Dataset", "check_fits", "check_judge", "check_trainable", "duplicate", "load", "long_tail",
    "mix_hardness", "stratified", "svci20", "validation_split",
]  # fmt: skip
