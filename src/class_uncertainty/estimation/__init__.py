"""Estimators: uses of fit() that say how uncertain networks are about the training examples."""

from class_uncertainty.estimation.estimate import Diverged, Estimate, read_by
from class_uncertainty.estimation.estimators import (
    ESTIMATORS,
    EstimateRequest,
    estimate,
    estimates_from,
    members_method,
)

__all__ = [
    "ESTIMATORS",
    "Diverged",
    "Estimate",
    "EstimateRequest",
    "estimate",
    "estimates_from",
    "members_method",
    "read_by",
]
