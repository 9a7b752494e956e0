"""Estimators for scikit-learn and imbalanced-learn."""

from class_uncertainty.integrations.sklearn.class_shares import SamplingStrategy
from class_uncertainty.integrations.sklearn.distilled_classifier import DistilledClassifier
from class_uncertainty.integrations.sklearn.prior_adjusted import PriorAdjustedClassifier
from class_uncertainty.integrations.sklearn.uncertainty_meter import ClassUncertainty
from class_uncertainty.integrations.sklearn.uncertainty_sampler import UncertaintySampler

__all__ = [
    "ClassUncertainty", "DistilledClassifier", "PriorAdjustedClassifier", "SamplingStrategy", "UncertaintySampler",
]  # fmt: skip
