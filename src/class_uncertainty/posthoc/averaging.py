"""Several networks as one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import unknown
from class_uncertainty.measures.scores import check_probabilities
from class_uncertainty.metrics import log_probabilities
from class_uncertainty.training.lane import MEANS


def combined(probabilities: Any, mean: str = "geometric") -> NDArray[np.float64]:
    """The members' mean (T, N, C) -> (N, C): of their probabilities, or of the logarithms and renormalised.

    The geometric mean stays as sure as one member, so a tau or a temperature that suits one suits all together.
    """
    from scipy.special import softmax

    if mean not in MEANS:
        raise unknown("mean", mean, MEANS)
    p = check_probabilities(probabilities)
    return p.mean(axis=0) if mean == "arithmetic" else softmax(log_probabilities(p).mean(axis=0), axis=-1)
