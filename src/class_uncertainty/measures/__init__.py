"""Stats and the measures over them; scores of member probabilities."""

from class_uncertainty.measures.measures import (
    MEASURE_MAKERS,
    MEASURES,
    Measure,
    Stats,
    Vector,
    constants_of,
    digest,
    measure_named,
    normalise,
    row_with,
    split_constants,
)
from class_uncertainty.measures.uncertainty import SCORES, class_means

__all__ = [
    "MEASURES", "MEASURE_MAKERS", "SCORES", "Measure", "Stats", "Vector", "class_means", "constants_of", "digest",
    "measure_named", "normalise", "row_with", "split_constants",
]  # fmt: skip
