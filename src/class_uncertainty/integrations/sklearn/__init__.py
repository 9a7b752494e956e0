"""Estimators for scikit-learn and imbalanced-learn."""

from class_uncertainty.integrations.sklearn.classifiers import DistilledClassifier, PriorAdjustedClassifier
from class_uncertainty.integrations.sklearn.uncertainty import ClassUncertainty, SamplingStrategy, UncertaintySampler

__all__ = [
    "ClassUncertainty", "DistilledClassifier", "PriorAdjustedClassifier", "SamplingStrategy", "UncertaintySampler",
]  # fmt: skip
