"""Stats and the measures over them; scores of member probabilities."""

from class_uncertainty.measures.scores import (
    SCORES,
    aleatoric,
    class_means,
    class_uncertainty,
    epistemic,
    kwon,
    least_confidence,
    predictive,
    true_class,
)
from class_uncertainty.measures.stats import MEASURES, Measure, Stats, Vector, digest, measure_named, normalise

__all__ = [
    "MEASURES",
    "SCORES",
    "Measure",
    "Stats",
    "Vector",
    "aleatoric",
    "class_means",
    "class_uncertainty",
    "digest",
    "epistemic",
    "kwon",
    "least_confidence",
    "measure_named",
    "normalise",
    "predictive",
    "true_class",
]
