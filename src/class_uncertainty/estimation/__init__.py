"""Estimators: uses of fit() that say how uncertain networks are about the training examples."""

from class_uncertainty.estimation.estimators import ESTIMATORS, Estimate, Estimator, estimate, lanes_of

__all__ = ["ESTIMATORS", "Estimate", "Estimator", "estimate", "lanes_of"]
