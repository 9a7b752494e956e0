"""Where results are kept, and which differences between them are real."""

from class_uncertainty.results.significance import aso
from class_uncertainty.results.store import Known, Store

__all__ = ["Known", "Store", "aso"]
