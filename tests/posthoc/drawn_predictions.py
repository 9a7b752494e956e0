"""Predictions of a model whose faults are known."""

import numpy as np
from scipy.special import softmax

from class_uncertainty.metrics import Scores, evaluate

COUNTS = np.array([400, 120, 40, 12])
EQUAL = np.full(4, 1 / 4)
PRIOR = np.array([0.1, 0.2, 0.3, 0.4])
SIGNAL = 1.5


def judge(p: np.ndarray, labels: np.ndarray, prior: np.ndarray | None = None) -> Scores:
    """Scores under a prior; without one every class is equally frequent."""
    return evaluate(p, labels, COUNTS, EQUAL if prior is None else prior)


def drawn(rng, per_class, sharpness=SIGNAL, counts=COUNTS):
    """Probabilities (N, C) and labels. The true logits are SIGNAL z + log N; a model has `sharpness` z + log N."""
    labels = np.repeat(np.arange(len(counts)), per_class)
    z = rng.normal(0, 1, (len(labels), len(counts))) + SIGNAL * np.eye(len(counts))[labels]
    return softmax(sharpness * z + np.log(counts), axis=1), labels
