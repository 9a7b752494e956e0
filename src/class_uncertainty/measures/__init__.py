"""Stats and the measures over them; scores of member probabilities."""

from class_uncertainty.measures.measures import MEASURES, Measure, Stats, Vector, digest, measure_named, normalise
from class_uncertainty.measures.scores import SCORES, class_means

__all__ = ["MEASURES", "SCORES", "Measure", "Stats", "Vector", "class_means", "digest", "measure_named", "normalise"]
