"""evaluate_seeds(): networks of several seeds against scikit-learn and plain loops."""

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax
from sklearn import metrics as reference
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, log_loss

from class_uncertainty.posthoc.evaluation import POINTS, evaluate_seeds, two_classes

COUNTS = np.array([60, 20, 5, 2])


@pytest.fixture
def labels(rng):
    labels = rng.choice(4, size=200, p=[0.6, 0.25, 0.1, 0.05])
    labels[:4] = range(4)
    return labels


@pytest.fixture
def p(rng, labels):
    return softmax(rng.normal(0, 1, (3, 200, 4)) + np.eye(4)[labels], axis=-1)


def test_errors_and_confusions_are_scikit_learns(p, labels):
    evaluation = evaluate_seeds(p, labels, COUNTS)
    guesses = p.argmax(axis=2)
    np.testing.assert_allclose(
        evaluation.errors, [100 * (1 - balanced_accuracy_score(labels, guess)) for guess in guesses]
    )
    matrices = 100 * np.array([confusion_matrix(labels, guess, normalize="true") for guess in guesses])
    np.testing.assert_allclose(evaluation.confusion, matrices.mean(axis=0))
    np.testing.assert_allclose(evaluation.class_errors, 100 - matrices.diagonal(axis1=1, axis2=2))
    np.testing.assert_allclose(
        evaluation.worst, np.max(evaluation.class_errors, axis=1)
    )  # a tenth of four classes is one
    np.testing.assert_allclose(evaluation.means, 100 - matrices.mean(axis=0).diagonal())


@pytest.mark.parametrize("prior", [None, (0.7, 0.1, 0.2, 0.0)])
def test_calibration_weighs_classes_by_the_prior(p, labels, prior):
    """scikit-learn's weighted log loss; the calibration error as a plain loop over bins."""
    evaluation = evaluate_seeds(p, labels, COUNTS, prior)
    wanted = np.full(4, 0.25) if prior is None else np.array(prior)
    weights = (wanted / np.bincount(labels))[labels]
    assert evaluation.nll == pytest.approx(log_loss(labels, p[0], sample_weight=weights, labels=range(4)))
    sure = p[0].max(axis=1)
    right = p[0].argmax(axis=1) == labels
    ece = 0.0
    numbers = []
    for low in np.arange(15) / 15:
        inside = (sure > low) & (sure <= low + 1 / 15)
        ece += abs((weights * (right - sure.astype(float)))[inside].sum())
        numbers.append((inside & (weights > 0)).sum())
    assert [one.examples for one in evaluation.bins] == [number for number in numbers if number]
    assert evaluation.ece == pytest.approx(100 * ece)
    assert sum(bin.share for bin in evaluation.bins) == pytest.approx(1)
    assert sum(bin.share * bin.accuracy for bin in evaluation.bins) == pytest.approx(weights @ right)
    assert sum(bin.share * bin.confidence for bin in evaluation.bins) == pytest.approx(weights @ sure)


@pytest.mark.parametrize("prior", [None, (0.2, 0.3, 0.4, 0.1)])
def test_a_class_without_examples_is_left_out_of_every_mean(p, labels, prior):
    """The others are weighed as if the prior were of them alone."""
    kept = labels < 3
    guesses = p[:, kept].argmax(axis=2)
    evaluation = evaluate_seeds(p[:, kept], labels[kept], COUNTS, prior)
    errors = np.array([[100 * (guess != c)[labels[kept] == c].mean() for c in range(3)] for guess in guesses])
    np.testing.assert_allclose(evaluation.class_errors, np.column_stack([errors, np.full(3, np.nan)]))
    np.testing.assert_allclose(evaluation.errors, np.nanmean(evaluation.class_errors, axis=1))
    np.testing.assert_allclose(evaluation.worst, errors.max(axis=1))
    np.testing.assert_allclose(evaluation.means, [*errors.mean(axis=0), np.nan])
    assert np.isnan(evaluation.confusion[3]).all()
    assert not np.isnan(evaluation.confusion[:3]).any()
    wanted = np.full(3, 1 / 3) if prior is None else np.array(prior[:3]) / sum(prior[:3])
    weights = (wanted / np.bincount(labels[kept]))[labels[kept]]
    assert evaluation.nll == pytest.approx(-(weights @ np.log(p[0, kept][np.arange(kept.sum()), labels[kept]])))
    assert sum(bin.share for bin in evaluation.bins) == pytest.approx(1)


def test_an_evaluation_does_not_depend_on_how_often_a_class_is_judged(p, labels):
    again = np.concatenate([np.arange(200), np.flatnonzero(labels == 0)])
    once, twice = evaluate_seeds(p, labels, COUNTS), evaluate_seeds(p[:, again], labels[again], COUNTS)
    assert (twice.nll, twice.ece) == pytest.approx((once.nll, once.ece))
    assert evaluate_seeds(p, labels, COUNTS, (0.7, 0.1, 0.1, 0.1)).nll != pytest.approx(once.nll)
    assert evaluate_seeds(p, labels, COUNTS, np.full(4, 0.2502)).nll == pytest.approx(
        once.nll, rel=1e-9
    )  # rounded, as people write them


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_an_evaluation_of_coarse_probabilities(p, labels, kind):
    assert evaluate_seeds(p.astype(kind), labels, COUNTS).nll == pytest.approx(
        evaluate_seeds(p, labels, COUNTS).nll, rel=1e-3
    )


def test_an_evaluation_of_sure_networks_is_finite():
    evaluation = evaluate_seeds(np.array([[[1.0, 0.0], [1.0, 0.0]]]), [0, 1], [2, 2])
    assert (evaluation.errors, evaluation.class_errors, evaluation.confusion) == (
        (50.0,),
        ((0.0, 100.0),),
        ((100.0, 0.0), (100.0, 0.0)),
    )
    assert [(bin.share, bin.confidence, bin.accuracy) for bin in evaluation.bins] == [(1.0, 1.0, 0.5)]
    assert evaluation.ece == 50
    assert 0 < evaluation.nll < 100


def test_an_evaluation_is_refused_by_name(p, labels):
    with refused("(3,)", "4 classes"):
        evaluate_seeds(p, labels, COUNTS[:3])
    for prior in ((0.5, 0.5), (0.5, 0.5, 0.5, -0.5), (np.nan, 0.5, 0.25, 0.25), (1, 1, 1, 1)):
        with refused("prior", "4 probabilities"):
            evaluate_seeds(p, labels, COUNTS, prior)
    with refused("not finite"):
        evaluate_seeds(np.full_like(p, np.nan), labels, COUNTS)
    with refused("two classes"):
        evaluate_seeds(np.ones((1, 3, 1)), [0, 0, 0], [3])
    with refused("shape"):
        evaluate_seeds(p[0], labels, COUNTS)
    with refused("shape"):
        evaluate_seeds(p[:, :0], labels[:0], COUNTS)


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


def test_one_class_alone_and_three_classes_have_no_such_figures():
    p = np.array([[[0.9, 0.1], [0.8, 0.2]]])
    assert two_classes(p, np.array([0, 0]), [90, 10]) is None
    assert two_classes(np.full((1, 3, 3), 1 / 3), np.array([0, 1, 2]), [9, 9, 9]) is None
