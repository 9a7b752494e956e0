"""Stats and the measures over them; scores of member probabilities."""

from class_uncertainty.measures.scores import (
    SCORES,
    aleatoric,
    class_means,
    class_uncertainty,
    epistemic,
    kwon,
    predictive,
)
from class_uncertainty.measures.stats import MEASURES, Measure, Stats, Vector, digest, normalise

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
    "normalise",
    "predictive",
]
