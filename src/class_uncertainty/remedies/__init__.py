"""What to do with members once they are trained."""

from class_uncertainty.remedies.adjust import Adjustment, adjust, best_tau
from class_uncertainty.remedies.calibration import fit_adjustment

__all__ = ["Adjustment", "adjust", "best_tau", "fit_adjustment"]
