"""Metrics against scikit-learn, SciPy and loops; errors are in percent."""

import math

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import balanced_accuracy_score, log_loss, precision_score, recall_score, zero_one_loss

from class_uncertainty.metrics import (
    calibration_error,
    evaluate,
    precisions_by_class,
    prior_weights,
    rank_correlation,
    reliability,
)

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


def reference_ece(confidence, correct, bins):
    """Guo et al. 2017: bins (k / M, (k + 1) / M], one at a time."""
    total = 0.0
    for k in range(bins):
        inside = [i for i, c in enumerate(confidence) if k / bins < c <= (k + 1) / bins]
        if inside:
            accuracy = sum(correct[i] for i in inside) / len(inside)
            mean = sum(confidence[i] for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(accuracy - mean)
    return 100 * total


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


# Rank correlations.


def sides(rng, classes=30, decimals=None):
    """Three vectors that go together in part; with few decimals there are ties."""
    z = rng.normal(0, 1, classes)
    a, b = z + rng.normal(0, 1, classes), 0.5 * z + rng.normal(0, 1, classes)
    return (a, b, z) if decimals is None else tuple(np.round(v, decimals) for v in (a, b, z))


def closed_form(a, b, z):
    """(r_ab - r_az r_bz) / sqrt((1 - r_az^2) (1 - r_bz^2)) on the ranks."""
    ab, az, bz = (spearmanr(*pair).statistic for pair in ((a, b), (a, z), (b, z)))
    return (ab - az * bz) / math.sqrt((1 - az**2) * (1 - bz**2))


@pytest.mark.parametrize("decimals", [None, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("classes", [3, 10, 100])
def test_rank_correlation_is_scipys(rng, classes, decimals):
    for _ in range(10):
        a, b, _ = sides(rng, classes, decimals)
        if min(len(set(a)), len(set(b))) > 1:
            assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


@pytest.mark.parametrize("decimals", [None, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("classes", [5, 10, 100])
def test_partial_rank_correlation_is_the_closed_form(rng, classes, decimals):
    compared = 0
    for _ in range(10):
        a, b, z = sides(rng, classes, decimals)
        if all(len(set(v)) > 1 for v in (a, b, z)) and max(abs(spearmanr(v, z).statistic) for v in (a, b)) < 0.999:
            assert rank_correlation(a, b, z) == pytest.approx(closed_form(a, b, z), abs=1e-10)
            compared += 1
    assert compared > 4


def test_hand_computed_partial_rank_correlation():
    """Ranks 1 2 3 4, 2 1 4 3 and 1 3 2 4: r = 0.6, 0.8 and 0, so (0.6 - 0) / sqrt(0.36 x 1) = 1."""
    a, b, z = [1, 2, 3, 4], [2, 1, 4, 3], [1, 3, 2, 4]
    assert rank_correlation(a, b) == pytest.approx(0.6)
    assert (rank_correlation(a, z), rank_correlation(b, z)) == (pytest.approx(0.8), pytest.approx(0, abs=1e-12))
    assert rank_correlation(a, b, z) == pytest.approx(1)


def test_rank_correlation_looks_at_ranks_alone(rng):
    a, b, z = sides(rng)
    assert rank_correlation(np.exp(a), b**3, np.arctan(z)) == pytest.approx(rank_correlation(a, b, z), abs=1e-12)
    assert rank_correlation(a, np.exp(a)) == 1
    assert rank_correlation(a, -a) == -1
    assert rank_correlation(rankdata(a), list(b)) == rank_correlation(a, b)


def test_rank_correlation_is_symmetric_and_changes_its_sign(rng):
    a, b, z = sides(rng)
    for given in (None, z):
        assert rank_correlation(b, a, given) == pytest.approx(rank_correlation(a, b, given), abs=1e-14)
        assert rank_correlation(a, -b, given) == pytest.approx(-rank_correlation(a, b, given), abs=1e-12)
    assert rank_correlation(a, b, -z) == pytest.approx(rank_correlation(a, b, z), abs=1e-12)


def test_what_is_known_and_constant_takes_nothing_out(rng):
    """On equal counts the partial correlation is the plain one."""
    a, b, _ = sides(rng)
    assert rank_correlation(a, b, np.full(30, 60)) == rank_correlation(a, b)


@pytest.mark.parametrize("size", [2, 7, 100, 1000])
def test_a_constant_side_has_no_rank_correlation(rng, size):
    a, flat = rng.normal(0, 1, size), np.full(size, 0.1)
    for given in (None, rng.normal(0, 1, size)):
        assert rank_correlation(a, flat, given) is None
        assert rank_correlation(flat, a, given) is None
        assert rank_correlation(flat, flat, given) is None


@pytest.mark.parametrize("size", [2, 7, 100, 1000])
def test_a_side_that_is_ranked_as_what_is_known_has_none_left(rng, size):
    """Whether in the same order or in the opposite one."""
    a, z = rng.normal(0, 1, size), rng.normal(0, 1, size)
    for same in (z, -z, np.exp(z)):
        assert rank_correlation(a, same, z) is None
        assert rank_correlation(same, a, z) is None


def test_a_side_that_differs_from_what_is_known_in_two_ranks_has_some_left():
    z = np.arange(1000.0)
    nearly = z.copy()
    nearly[[0, 1]] = nearly[[1, 0]]
    assert rank_correlation(nearly, -z + np.where(z == 0, -2000, 0), z) is not None


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
