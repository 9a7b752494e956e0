"""Figures of two classes, against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as reference

from class_uncertainty.posthoc.two_classes import POINTS, threshold_at, two_classes


def example(rng, number=400, share=0.2, seeds=3):
    labels = (rng.random(number) < share).astype(np.int64)
    p = np.clip(np.round(rng.normal(0.3 + 0.25 * labels, 0.2, (seeds, number)), 2), 0, 1)  # with ties
    return np.stack([1 - p, p], axis=2), labels


@pytest.mark.parametrize(("counts", "positive"), [([90, 10], 1), ([10, 90], 0), ([50, 50], 1)])
def test_means_over_the_seeds_for_the_rarer_class(rng, counts, positive):
    p, labels = example(rng)
    two, truth = two_classes(p, labels, counts), labels == positive
    assert (two.positive, two.threshold) == (positive, 0.5)
    guesses = [of_seed.argmax(axis=1) == positive for of_seed in p]
    for name, score in {"precision": "precision_score", "recall": "recall_score", "f1": "f1_score"}.items():
        expected = np.mean([getattr(reference, score)(truth, guess) for guess in guesses])
        assert getattr(two, name) == pytest.approx(100 * expected)
    for name, score in {"auc": "roc_auc_score", "average_precision": "average_precision_score"}.items():
        expected = np.mean([getattr(reference, score)(truth, of_seed[:, positive]) for of_seed in p])
        assert getattr(two, name) == pytest.approx(100 * expected)


def test_the_curve_is_that_of_the_first_seed(rng):
    p, labels = example(rng)
    precision, recall, thresholds = reference.precision_recall_curve(labels, p[0, :, 1])
    expected = dict(zip(thresholds.tolist(), zip(precision.tolist(), recall.tolist(), strict=False), strict=False))
    curve = two_classes(p, labels, [90, 10]).curve
    assert 10 < len(curve) <= POINTS
    for point in curve:
        assert (point.precision / 100, point.recall / 100) == pytest.approx(expected[point.probability])
    assert curve[-1].recall == 100


def test_nothing_found_has_no_precision():
    p = np.array([[[0.9, 0.1], [0.8, 0.2]]])
    two = two_classes(p, np.array([0, 1]), [90, 10])
    assert (two.precision, two.recall, two.f1, two.auc) == (0, 0, 0, 100)


def test_costs_move_the_threshold(rng):
    """Missing a positive costs 9, a false alarm 1: predict it from 0.1 on."""
    p, labels = example(rng)
    costs = np.array([[0.0, 1], [9, 0]])
    two = two_classes(p, labels, [90, 10], costs)
    assert two.threshold == pytest.approx(0.1)
    expected = np.mean([reference.recall_score(labels, of_seed[:, 1] > 0.1 + 1e-9) for of_seed in p])
    assert two.recall == pytest.approx(100 * expected)
    assert two_classes(p, labels, [90, 10], np.zeros((2, 2))).threshold == 0.5


def test_given_decisions_are_judged_and_do_not_tell_the_threshold(rng):
    p, labels = example(rng, seeds=1)
    scores = p[0, :, 1]
    decisions = (scores >= 0.25).astype(np.int64)
    two = two_classes(p, labels, [90, 10], decisions=decisions[None])
    assert two.threshold is None  # anything between two scores explains them
    assert two.precision == pytest.approx(100 * reference.precision_score(labels, decisions))
    assert two.auc == two_classes(p, labels, [90, 10]).auc


@pytest.mark.parametrize("positive", [0, 1])
def test_the_threshold_moves_with_the_prior(positive):
    """By the odds: 1 to 9 where a miss costs 9 times a false alarm, times what the odds of the prior change by."""
    costs = np.array([[0.0, 1], [9, 0]])[:: 2 * positive - 1, :: 2 * positive - 1]
    prior, equal = np.array([0.8, 0.2])[:: 2 * positive - 1], [0.5, 0.5]
    assert threshold_at(equal, equal, None, positive) == 0.5
    assert threshold_at(prior, equal, None, positive) == pytest.approx(0.2)
    assert threshold_at(equal, prior, None, positive) == pytest.approx(0.8)
    assert threshold_at(prior, equal, costs, positive) == pytest.approx(1 / 37)
    assert threshold_at(None, None, costs, positive) == pytest.approx(0.1)
    assert threshold_at([0.0, 1.0], equal, costs, positive) is None


def test_one_class_alone_and_three_classes_have_no_such_figures():
    p = np.array([[[0.9, 0.1], [0.8, 0.2]]])
    assert two_classes(p, np.array([0, 0]), [90, 10]) is None
    assert two_classes(np.full((1, 3, 3), 1 / 3), np.array([0, 1, 2]), [9, 9, 9]) is None
