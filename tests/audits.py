"""Predictions to audit, and audits of them."""

from functools import cache
from itertools import pairwise

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


def lopsided(seed: int, sharpness: float) -> tuple[np.ndarray, np.ndarray]:
    """The same with fewer examples of rare classes: class-mean and overall errors differ."""
    labels, p = predictions(seed, 160, sharpness)
    kept = np.arange(len(labels)) % (labels + 1) == 0
    return labels[kept], p[kept]


def binned_ece(p: np.ndarray, hits: np.ndarray, bins: int = 15) -> float:
    """Of probabilities (N,) of what is so or not (N,), in percent, by a loop over the bins."""
    total = 0.0
    for low, high in pairwise(np.linspace(0, 1, bins + 1)):
        inside = (p > low) & (p <= high)
        if inside.any():
            total += inside.mean() * abs(hits[inside].mean() - p[inside].mean())
    return 100 * total


@cache
def audited(seed: int = 0, each: int = 100, sharpness: float = 3.0) -> cu.Audit:
    labels, p = predictions(seed, each, sharpness)
    return cu.audit(labels, p, CLASSES, counts=COUNTS)
