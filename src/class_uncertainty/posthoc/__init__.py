"""What to do with trained networks: pure functions of their probabilities."""

from class_uncertainty.posthoc.adjustment import Adjustment, adjust, best_tau, combined
from class_uncertainty.posthoc.calibration import cross_adjusted, fit_adjustment
from class_uncertainty.posthoc.goal import Goal, parse_goal
from class_uncertainty.posthoc.noise_model import LabelNoise, label_noise
from class_uncertainty.posthoc.remedies import REMEDIES, Remedy, find_remedy

__all__ = [
    "REMEDIES", "Adjustment", "Goal", "LabelNoise", "Remedy", "adjust", "best_tau", "combined", "cross_adjusted",
    "find_remedy", "fit_adjustment", "label_noise", "parse_goal",
]  # fmt: skip
