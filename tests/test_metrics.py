"""Metrics against scikit-learn, SciPy and loops; errors are in percent."""

import math

import numpy as np
import pytest
from reference_metrics import reference_ece
from sklearn.metrics import balanced_accuracy_score, log_loss, precision_score, recall_score, zero_one_loss

from class_uncertainty.metrics import evaluate, precisions_by_class

pytestmark = pytest.mark.usefixtures("no_global_random")
CLASSES = 6


@pytest.fixture
def judged(rng):
    """Probabilities (N, C) that are right more often than not, and labels with classes of very different sizes."""
    labels = np.repeat(np.arange(CLASSES), [90, 40, 25, 12, 5, 3])
    logits = rng.normal(0, 1, (len(labels), CLASSES))
    logits[np.arange(len(labels)), labels] += 1.2
    p = np.exp(logits)
    return p / p.sum(axis=1, keepdims=True), labels


def perfect_but(wrong, classes, each=4):
    """Probabilities with `wrong[c]` of the `each` examples of class c given to the next class."""
    labels = np.repeat(np.arange(classes), each)
    told = labels.copy()
    for c, count in enumerate(wrong):
        told[c * each : c * each + count] = (c + 1) % classes
    return np.eye(classes)[told], labels


def test_top_1_error_is_scikit_learns(judged):
    p, labels = judged
    assert evaluate(p, labels, [50] * CLASSES).top1_error == pytest.approx(
        100 * zero_one_loss(labels, p.argmax(axis=1)), rel=1e-12
    )


def test_class_errors_are_scikit_learns(judged):
    p, labels = judged
    scores = evaluate(p, labels, [50] * CLASSES)
    np.testing.assert_allclose(
        scores.class_errors, 100 * (1 - recall_score(labels, p.argmax(axis=1), average=None)), rtol=1e-12
    )
    assert scores.error == pytest.approx(100 * (1 - balanced_accuracy_score(labels, p.argmax(axis=1))), rel=1e-12)
    assert scores.error != pytest.approx(scores.top1_error, abs=1)  # on unequal classes the two differ


@pytest.mark.parametrize("never", [None, 1])
def test_precisions_are_scikit_learns(judged, never):
    """Of a class that is never predicted there is none."""
    p, labels = judged
    if never is not None:
        p[:, never] = 0
    guesses = p.argmax(axis=1)
    options = {"labels": range(CLASSES), "average": None, "zero_division": np.nan}
    expected = 100 * precision_score(labels, guesses, **options)
    np.testing.assert_allclose(precisions_by_class(guesses, labels, CLASSES), expected, rtol=1e-12)
    assert np.flatnonzero(np.isnan(expected)).tolist() == ([] if never is None else [never])


def test_nll_is_scikit_learns(judged):
    p, labels = judged
    assert evaluate(p, labels, [50] * CLASSES).nll == pytest.approx(log_loss(labels, p), rel=1e-12)


def test_nll_of_a_zero_is_finite_and_that_of_a_sure_hit_is_zero():
    p = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert evaluate(p, np.array([0, 1]), [50, 50]).nll == pytest.approx(-math.log(1e-30) / 2)
    assert evaluate(np.eye(2), np.array([0, 1]), [50, 50]).nll == 0


def test_spread_is_the_standard_deviation_over_the_classes():
    p, labels = perfect_but([0, 2, 4], 3)
    scores = evaluate(p, labels, [50] * 3)
    assert scores.class_errors == (0, 50, 100)
    assert scores.spread == pytest.approx(math.sqrt((50**2 + 0 + 50**2) / 3))
    assert scores.error == scores.top1_error == 50


def test_groups_at_their_boundaries():
    """Many is over 100, few under 20; exactly 100 and exactly 20 are medium."""
    counts = [101, 100, 20, 19]
    p, labels = perfect_but([1, 2, 3, 4], 4)
    scores = evaluate(p, labels, counts)
    assert (scores.many, scores.medium, scores.few) == (25, (50 + 75) / 2, 100)


@pytest.mark.parametrize(
    ("counts", "empty"),
    [
        ([500, 500], {"medium", "few"}),
        ([50, 100], {"many", "few"}),
        ([5, 19], {"many", "medium"}),
        ([5, 500], {"medium"}),
    ],
)
def test_groups_without_classes_are_none(counts, empty):
    scores = evaluate(*perfect_but([1, 2], 2), counts)
    assert {group for group in ("many", "medium", "few") if getattr(scores, group) is None} == empty


@pytest.mark.parametrize(("classes", "worst"), [(10, 1), (15, 2), (100, 10), (2, 1), (11, 2)])
def test_worst_tenth(classes, worst):
    """The mean over the worst ceil(C / 10) classes, wherever they stand."""
    wrong = [0] * classes
    for c in range(worst):
        wrong[(7 * c + 1) % classes] = 4 if c % 2 == 0 else 3
    expected = sum(sorted(wrong)[-worst:]) / worst * 25
    assert evaluate(*perfect_but(wrong, classes), [50] * classes).worst == pytest.approx(expected)
    assert expected > 50


def test_calibration_error_in_the_scores_is_that_of_the_top_class(judged):
    p, labels = judged
    expected = reference_ece(p.max(axis=1), p.argmax(axis=1) == labels, 15)
    assert evaluate(p, labels, [50] * CLASSES).ece == pytest.approx(expected, rel=1e-12)


def test_a_narrow_type_changes_nothing_but_the_last_digits(judged):
    p, labels = judged
    narrow, wide = (evaluate(q, labels, [50] * CLASSES) for q in (p.astype(np.float32), p))
    assert narrow.class_errors == wide.class_errors
    assert narrow.nll == pytest.approx(wide.nll, rel=1e-6)
    assert narrow.ece == pytest.approx(wide.ece, rel=1e-4)
