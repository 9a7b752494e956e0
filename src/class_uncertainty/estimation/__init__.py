"""Estimators: uses of fit() that say how uncertain networks are about the training examples."""

from class_uncertainty.estimation.core import Estimate, Estimator, Scored
from class_uncertainty.estimation.table import ESTIMATORS, Asked, Diverged, estimate, estimates, read_by

__all__ = ["ESTIMATORS", "Asked", "Diverged", "Estimate", "Estimator", "Scored", "estimate", "estimates", "read_by"]
