"""What to do with members once they are trained."""

from class_uncertainty.remedies.adjust import Adjustment, adjust, best_tau
from class_uncertainty.remedies.calibration import fit_adjustment
from class_uncertainty.remedies.ensemble import combined
from class_uncertainty.remedies.table import REMEDIES, Remedy, remedy_named

__all__ = ["REMEDIES", "Adjustment", "Remedy", "adjust", "best_tau", "combined", "fit_adjustment", "remedy_named"]
