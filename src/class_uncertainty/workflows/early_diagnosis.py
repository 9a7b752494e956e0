"""What is wrong with naive networks, known long before a fix ends: on examples that they never saw."""

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.measures.scores import predictive
from class_uncertainty.posthoc.diagnosis import findings
from class_uncertainty.runs.watcher import Diagnosed

TELLING = 20  # unseen examples of a class: with fewer, nothing is said of it


def diagnose(train: Data, labels: NDArray[np.int64], p: NDArray[np.float64]) -> Diagnosed:
    """Findings on classes of which TELLING examples at least are among these; labels (n,), probabilities (n, C)."""
    number = len(train.classes)
    examples, rows = np.bincount(labels, minlength=number), np.maximum(np.bincount(labels, minlength=number), 1)
    confusion = np.zeros((number, number))
    np.add.at(confusion, (labels, p.argmax(axis=-1)), 100.0)
    confusion /= rows[:, None]
    uncertainty = np.bincount(labels, predictive(p[None]), minlength=number) / rows
    errors, telling = 100.0 - np.diag(confusion), examples >= TELLING
    if not telling.any():
        return Diagnosed((), len(labels), number)
    errors[~telling] = errors[telling].min()  # no finding is about them
    names = {name for name, tells in zip(train.classes, telling, strict=True) if tells} | {""}
    told = findings(train.classes, train.counts, errors, confusion, uncertainty)
    return Diagnosed(tuple(one for one in told if one.label in names), len(labels), int((~telling).sum()))
