"""Predictions to audit, and audits of them."""

from functools import cache

import numpy as np
from scipy.special import softmax

import class_uncertainty as cu

CLASSES = ("cat", "dog", "fox", "yak")
COUNTS = (500, 200, 60, 20)


def predictions(seed: int = 0, each: int = 100, sharpness: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """(labels, probabilities) of a model that leans to frequent classes; the same labels for every seed."""
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(9).permutation(np.repeat(np.arange(len(CLASSES)), each))
    z = 1.5 * rng.normal(size=(len(labels), len(CLASSES))) + sharpness * np.eye(len(CLASSES))[labels] + np.log(COUNTS)
    return labels, softmax(z, axis=1)


@cache
def audited(seed: int = 0, each: int = 100, sharpness: float = 3.0) -> cu.Audit:
    labels, p = predictions(seed, each, sharpness)
    return cu.audit(labels, p, CLASSES, counts=COUNTS)
