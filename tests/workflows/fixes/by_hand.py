"""What a fix does, by hand: networks without a fold, errors, and means of members."""

from typing import Any

import numpy as np
import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.training.folds import fold_indices

ROWS = ["naive", "cb-rs?rate=2", "balanced-softmax?rate=4"]  # the second is the best by far
FOLDS = [(k, 5) for k in range(5)]


def fit_fold_networks(train: cu.Data, recipe: cu.Recipe, row: str) -> cu.Fit:
    candidate = cu.Candidate(row)
    return cu.fit(train, [cu.Lane(candidate.method, 0, candidate.lr(recipe), fold) for fold in FOLDS], recipe=recipe)


def fold_order(train: cu.Data) -> np.ndarray:
    return np.concatenate([fold_indices(train, fold) for fold in FOLDS])


def unseen_of(train: cu.Data, recipe: cu.Recipe, row: str) -> tuple[np.ndarray, np.ndarray]:
    """(p, labels) of every training example by the network that left it out, fold after fold."""
    order = fold_order(train)
    return fit_fold_networks(train, recipe, row).out_of_fold(train)[order].astype(float), train.labels[order]


def class_mean_error(p: np.ndarray, labels: np.ndarray) -> float:
    wrong = p.argmax(axis=-1) != labels
    return float(np.mean([100 * wrong[labels == c].mean() for c in np.unique(labels)]))


def errors_of(p: np.ndarray, labels: np.ndarray) -> Any:
    return pytest.approx([class_mean_error(p_seed, labels) for p_seed in p])


def softmax_of(fix: cu.Fix, inputs: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return fix.module(torch.from_numpy(inputs)).double().softmax(dim=-1).numpy()


def class_errors_of(fix: cu.Fix, judged: cu.Data | None) -> np.ndarray:
    """In percent, by the predictions that the report keeps for its page."""
    assert judged
    assert fix.report.predictions
    wrong = fix.report.predictions.outcomes(judged.labels).guesses != judged.labels
    return 100 * np.bincount(judged.labels, weights=wrong) / judged.counts
