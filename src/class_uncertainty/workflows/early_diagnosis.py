"""What is wrong with naive networks, known long before a fix ends: on examples that they never saw."""

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.posthoc.diagnosis import diagnose, spoken
from class_uncertainty.runs.watcher import Diagnosed


def diagnose_early(
    train: Data, labels: NDArray[np.int64], p: NDArray[np.float64], groups: NDArray[np.int64] | None = None
) -> Diagnosed:
    """Verdicts on the classes that these examples say something of; labels and groups (n,), probabilities (n, C)."""
    verdicts = diagnose(labels, p, train.counts, classes=train.classes, groups=groups)
    told = tuple(verdict for verdict in spoken(verdicts) if verdict.kind != "unknown")
    return Diagnosed(told, len(labels), sum(verdict.kind == "unknown" for verdict in verdicts))
