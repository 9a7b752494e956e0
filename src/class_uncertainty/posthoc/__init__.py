"""What to do with trained networks: pure functions of their probabilities."""

from class_uncertainty.posthoc.adjustment import Adjustment, adjust, best_tau
from class_uncertainty.posthoc.averaging import combined
from class_uncertainty.posthoc.calibration import fit_adjustment
from class_uncertainty.posthoc.remedies import REMEDIES, Remedy, find_remedy

__all__ = ["REMEDIES", "Adjustment", "Remedy", "adjust", "best_tau", "combined", "find_remedy", "fit_adjustment"]
