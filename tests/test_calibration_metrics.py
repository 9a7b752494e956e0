"""Calibration: reliability and its errors against plain loops, with weights and under priors."""

import math

import numpy as np
import pytest
from reference_metrics import reference_ece
from refusals import refused
from scipy.special import softmax
from sklearn.metrics import log_loss

from class_uncertainty.metrics import calibration_error, evaluate, prior_weights, reliability

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.mark.parametrize("bins", [1, 5, 10, 15])
def test_calibration_error_is_the_loop(bins, rng):
    confidence = rng.uniform(0.01, 1, 300)
    correct = rng.random(300) < confidence**2
    assert calibration_error(confidence, correct, bins) == pytest.approx(
        reference_ece(confidence, correct, bins), rel=1e-12
    )


def test_calibration_error_of_a_hand_computed_case():
    """Three of four at 0.9 are right: |0.75 - 0.9|; the one at 0.5 is wrong: 0.5. (4 x 0.15 + 0.5) / 5 = 22 %."""
    confidence, correct = np.array([0.9, 0.9, 0.9, 0.9, 0.5]), np.array([True, True, True, False, False])
    assert calibration_error(confidence, correct) == pytest.approx(22)


def test_calibration_error_does_not_cancel_between_bins():
    """Too sure by 0.4 here, not sure enough by 0.4 there: over one bin that is 0, over fifteen 40 %."""
    confidence, correct = np.array([0.9, 0.9, 0.1, 0.1]), np.array([True, False, True, False])
    assert calibration_error(confidence, correct, 1) == pytest.approx(0, abs=1e-12)
    assert calibration_error(confidence, correct) == pytest.approx(40)


@pytest.mark.parametrize("k", range(1, 16))
def test_calibration_bins_include_their_upper_edge(k):
    """k / 15 belongs to the bin that ends there, where a too low confidence cancels it; the next bin would not."""
    edge, below = k / 15, k / 15 - 0.01
    confidence, correct = np.array([edge, below]), np.array([True, False])
    assert calibration_error(confidence, correct) == pytest.approx(100 * abs(1 - edge - below) / 2, abs=1e-9)


def test_a_calibrated_coin_has_no_calibration_error():
    assert calibration_error(np.full(10, 0.5), np.arange(10) < 5) == pytest.approx(0, abs=1e-12)


COUNTS = np.array([400, 120, 40, 12])
PRIOR = np.array([0.1, 0.2, 0.3, 0.4])


def drawn(rng, per_class):
    """Probabilities (N, 4) of a model that leans to what is frequent, and labels."""
    labels = np.repeat(np.arange(4), per_class)
    z = rng.normal(0, 1, (len(labels), 4)) + 1.5 * np.eye(4)[labels]
    return softmax(1.5 * z + np.log(COUNTS), axis=1), labels


def reference_weights(labels, prior):
    share = {c: float(np.mean(labels == c)) for c in set(labels.tolist())}
    raw = np.array([prior[c] / share[c] for c in labels.tolist()])
    return raw / raw.sum()


def reference_bins(confidence, correct, weights, bins):
    """Guo et al. 2017 with weights: bins (k / M, (k + 1) / M], one at a time."""
    found = []
    for k in range(bins):
        inside = [i for i, c in enumerate(confidence) if k / bins < c <= (k + 1) / bins]
        size = sum(weights[i] for i in inside)
        if size:
            mean = sum(weights[i] * confidence[i] for i in inside) / size
            accuracy = sum(weights[i] for i in inside if correct[i]) / size
            found.append((size / sum(weights), mean, accuracy))
    return np.array(found)


@pytest.mark.parametrize("bins", [1, 7, 15])
@pytest.mark.parametrize("weighted", [False, True])
def test_reliability_and_calibration_error_are_the_loop(rng, bins, weighted):
    confidence = rng.uniform(0.3, 1, 200)
    correct = rng.random(200) < confidence**2
    weights = rng.uniform(0, 3, 200) if weighted else None
    expected = reference_bins(confidence, correct, weights if weighted else np.ones(200), bins)
    np.testing.assert_allclose(reliability(confidence, correct, weights, bins), expected, rtol=1e-12)
    ece = 100 * sum(share * abs(accuracy - mean) for share, mean, accuracy in expected)
    assert calibration_error(confidence, correct, bins, weights=weights) == pytest.approx(ece, rel=1e-12)


def test_a_weight_of_2_is_the_example_twice(rng):
    confidence, weights = rng.uniform(0.2, 1, 60), rng.integers(0, 3, 60)
    correct = rng.random(60) < 0.6
    twice = np.repeat(np.arange(60), weights)
    assert calibration_error(confidence, correct, weights=weights) == pytest.approx(
        calibration_error(confidence[twice], correct[twice])
    )
    np.testing.assert_allclose(
        reliability(confidence, correct, weights), reliability(confidence[twice], correct[twice]), rtol=1e-12
    )


def test_confidences_of_0_and_1_have_bins():
    found = reliability(np.array([0.0, 1.0, 1.0]), np.array([False, True, False]))
    np.testing.assert_allclose(found, [(1 / 3, 0, 0), (2 / 3, 1, 0.5)])


@pytest.mark.parametrize("prior", [np.full(4, 1 / 4), PRIOR], ids=["equal", "other"])
def test_calibration_under_a_prior_is_the_loop(rng, prior):
    p, labels = drawn(rng, [50, 20, 9, 4])
    weights = reference_weights(labels, prior)
    scores = evaluate(p, labels, COUNTS, prior)
    correct = p.argmax(axis=1) == labels
    assert scores.nll == pytest.approx(log_loss(labels, p, sample_weight=weights), rel=1e-12)
    bins = reference_bins(p.max(axis=1), correct, weights, 15)
    ece = 100 * sum(share * abs(accuracy - mean) for share, mean, accuracy in bins)
    assert scores.ece == pytest.approx(ece, rel=1e-12)
    assert scores.prior_error == pytest.approx(100 * weights @ ~correct)


def test_a_prior_changes_calibration_alone_and_nothing_where_classes_are_that_frequent(rng):
    p, labels = drawn(rng, [50, 20, 9, 4])
    p[0], p[1] = [0, 1, 0, 0], [1, 0, 0, 0]
    plain, equal = evaluate(p, labels, COUNTS), evaluate(p, labels, COUNTS, np.full(4, 1 / 4))
    as_drawn = evaluate(p, labels, COUNTS, np.bincount(labels) / len(labels))
    assert plain.prior_error is None
    assert as_drawn.prior_error == pytest.approx(plain.top1_error)
    assert equal.prior_error == pytest.approx(plain.error)
    for name in ("error", "top1_error", "class_errors", "many", "medium", "few", "worst", "spread"):
        assert getattr(plain, name) == getattr(as_drawn, name) == getattr(equal, name)
    assert (as_drawn.nll, as_drawn.ece) == pytest.approx((plain.nll, plain.ece), rel=1e-12)
    assert equal.nll != pytest.approx(plain.nll, rel=0.01)


def test_classes_without_examples_are_left_out():
    p = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
    scores = evaluate(p, np.array([0, 0, 1]), [30, 20, 10], [0.2, 0.2, 0.6])
    assert (scores.error, scores.worst, scores.prior_error) == (50, 100, 50)
    assert math.isnan(scores.class_errors[2])
    assert scores.top1_error == pytest.approx(100 / 3)
    assert scores.nll == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 4 - np.log(0.1) / 2)


@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.5, 0.4, 0.4, 0.4), (1.5, -0.5, 0, 0), (np.nan, 0.5, 0.25, 0.25)])
def test_a_prior_is_refused_by_name(rng, prior):
    p, labels = drawn(rng, [5, 4, 3, 2])
    with refused("prior", "4 probabilities"):
        evaluate(p, labels, COUNTS, prior)


def test_a_prior_without_any_of_the_examples_is_refused(rng):
    p, labels = drawn(rng, [5, 4, 3, 0])
    with refused("the prior is 0"):
        evaluate(p, labels, COUNTS, [0, 0, 0, 1])


def test_weights_sum_to_the_prior_of_each_class(rng):
    labels = rng.permutation(np.repeat(np.arange(4), [50, 20, 9, 1]))
    found = prior_weights(labels, PRIOR)
    np.testing.assert_allclose([found[labels == c].sum() for c in range(4)], PRIOR)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e300])
def test_weights_count_within_their_class_however_small_they_are(size, rng):
    """All of class 0 in another unit: a class weighs what its prior says."""
    labels, units = np.arange(40) % 4, rng.integers(1, 5, 40).astype(float)
    other_unit = np.where(labels == 0, units * size, units)
    np.testing.assert_allclose(prior_weights(labels, PRIOR, other_unit), prior_weights(labels, PRIOR, units))
    sums = np.bincount(labels, units)
    np.testing.assert_allclose(prior_weights(labels, PRIOR, units), PRIOR[labels] * units / sums[labels])
