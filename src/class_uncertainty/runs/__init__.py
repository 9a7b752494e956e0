"""Where results are kept, and which differences between them are real."""

from class_uncertainty.runs.significance import aso
from class_uncertainty.runs.store import Store, StoredDataset

__all__ = ["Store", "StoredDataset", "aso"]
