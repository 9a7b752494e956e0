"""Biases around tau log N: against plain searches, under priors, with weights and with little evidence."""

import numpy as np
import pytest
from posthoc.drawn_predictions import COUNTS, EQUAL, PRIOR, drawn, judge
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score

from class_uncertainty.data import stratified
from class_uncertainty.posthoc import calibration
from class_uncertainty.posthoc.calibration import _biases, fit_adjustment

pytestmark = pytest.mark.usefixtures("no_global_random")


def reference_loss(b, p, labels, towards, strength, prior, weights=None):
    """The objective of the bias as a loop over the classes; classes without examples are held where they are."""
    classes = sorted(set(labels.tolist()))
    q = p * prior * np.exp(-b)
    q = q / q[:, classes].sum(axis=1, keepdims=True)
    share = {c: prior[c] / prior[classes].sum() for c in classes}
    loss = sum((b[c] - towards[c]) ** 2 for c in range(len(b)) if c not in classes)
    for c in classes:
        w = np.ones((labels == c).sum()) if weights is None else weights[labels == c]
        effective = w.sum() ** 2 / (w**2).sum()  # Kish
        loss += share[c] * np.average(-np.log(q[labels == c, c]), weights=w)
        loss += share[c] * strength * (b[c] - towards[c]) ** 2 / effective
    return loss


def bias_at(place, p, labels, counts, tau, prior, monkeypatch):
    """The bias that fit_adjustment fits at one strength of SHRINKAGE, whatever a cross-validation would choose."""
    strengths = calibration.SHRINKAGE[: place + 1]
    with monkeypatch.context() as patch:
        patch.setattr(calibration, "SHRINKAGE", strengths)
        ranks = iter(range(len(strengths), 0, -1))  # the last strength counts as the best
        patch.setattr(calibration, "weighted_means", lambda losses, weights: (next(ranks), 0.0))
        return fit_adjustment(p, labels, counts, tau=tau, prior=prior, bias=True, temperature=False).bias


@pytest.mark.parametrize("prior", [EQUAL, np.array([0.6, 0.2, 0.1, 0.1])], ids=["equal", "other"])
@pytest.mark.parametrize("per_class", [[60, 20, 9, 2], [40, 1, 9, 1], [40, 20, 0, 3]])
def test_the_bias_is_that_of_a_plain_search(rng, per_class, prior, monkeypatch):
    """Against SciPy's Nelder-Mead, which needs no gradient."""
    p, labels = drawn(rng, per_class)
    towards = 0.5 * np.log(COUNTS)
    assert np.array_equal(bias_at(0, p, labels, COUNTS, 0.5, prior, monkeypatch), towards)
    options = {"xatol": 1e-7, "fatol": 1e-13, "maxiter": 10_000, "maxfev": 10_000}
    for place in (1, 3, 5):
        known = (p, labels, towards, calibration.SHRINKAGE[place], prior)
        bias = bias_at(place, p, labels, COUNTS, 0.5, prior, monkeypatch)
        best = minimize(reference_loss, towards, known, method="Nelder-Mead", options=options)
        assert reference_loss(bias, *known) == pytest.approx(best.fun, abs=1e-7)
        np.testing.assert_allclose(bias, best.x, atol=0.01)


@pytest.mark.parametrize("spread", [0, 2])
def test_lambda_is_that_of_a_plain_cross_validation(rng, spread, monkeypatch):
    """By scikit-learn's balanced accuracy on held-out examples, then by the class-mean likelihood."""
    monkeypatch.setattr(calibration, "SHRINKAGE", (np.inf, 10.0, 1.0))
    chosen = set()
    for _ in range(3):
        p, labels = drawn(rng, [30, 20, 9, 4], counts=np.exp(rng.normal(0, 1, 4)))
        weights, fold = rng.lognormal(0, spread, len(labels)), stratified(labels, 5)
        held_out = np.empty((len(calibration.SHRINKAGE), *p.shape))
        for out in (fold == k for k in range(5)):
            biases = reference_biases(p[~out], labels[~out], weights[~out])
            for at_strength, bias in zip(held_out, biases, strict=True):
                q = p[out] / np.exp(bias)
                at_strength[out] = q / q.sum(axis=1, keepdims=True)
        nll = [reference_loss(np.zeros(4), q, labels, np.zeros(4), 0.0, EQUAL, weights) for q in held_out]
        guesses = [q.argmax(axis=1) for q in held_out]
        accuracy = [round(balanced_accuracy_score(labels, made, sample_weight=weights), 9) for made in guesses]
        best = max(range(len(held_out)), key=lambda i: (accuracy[i], -nll[i]))
        chosen.add(best)
        bias = fit_adjustment(p, labels, COUNTS, tau=0, bias=True, temperature=False, weights=weights).bias
        np.testing.assert_allclose(bias, reference_biases(p, labels, weights)[best], atol=1e-3)
    assert len(chosen) > 1  # or this would not tell them apart


def reference_biases(p, labels, weights):
    """The minimum of reference_loss at every strength, for equally frequent classes and tau 0."""
    zero = np.zeros(p.shape[1])
    known = [(p, labels, zero, strength, EQUAL, weights) for strength in calibration.SHRINKAGE[1:]]
    searches = [minimize(reference_loss, zero, about, method="BFGS") for about in known]
    return [zero, *(search.x for search in searches)]


def test_a_free_bias_gives_every_class_its_share(rng, monkeypatch):
    """Without shrinkage the class-mean probability of each class is 1 / C: where the likelihood has its maximum."""
    monkeypatch.setattr(calibration, "SHRINKAGE", (np.inf, 1e-6))
    p, labels = drawn(rng, [60, 20, 15, 12])
    q = softmax(np.log(p) - bias_at(1, p, labels, COUNTS, 0, EQUAL, monkeypatch), axis=1)
    np.testing.assert_allclose(np.mean([q[labels == c].mean(axis=0) for c in range(4)], axis=0), 0.25, atol=1e-3)


def test_rare_classes_stay_nearer_to_tau_log_n(rng, monkeypatch):
    """The same examples, of one class ten times each: what they say of it is believed more."""
    z = rng.normal(0, 1, (40, 2)) + np.eye(2)[np.arange(40) % 2] + [0, 3]
    p, labels = softmax(z, axis=1), np.arange(40) % 2
    repeated = np.repeat(np.arange(40), np.where(labels == 1, 10, 1))
    for place in range(1, len(calibration.SHRINKAGE)):
        few = bias_at(place, p, labels, [20, 20], 0, [0.5, 0.5], monkeypatch)
        many = bias_at(place, p[repeated], labels[repeated], [20, 20], 0, [0.5, 0.5], monkeypatch)
        assert abs(many[1]) > abs(few[1])


def test_biases_do_not_hang_on_examples_that_hardly_count(rng):
    p, labels = drawn(rng, 40)
    again = np.repeat(np.arange(len(labels)), 1 + 50 * (labels == 0))
    hardly = np.where(np.diff(again, prepend=-1) > 0, 1.0, 1e-9)
    alone, both = (
        _biases(np.log(p[rows]), labels[rows], weights, np.zeros(4), EQUAL)
        for rows, weights in ((np.arange(len(labels)), np.ones(len(labels))), (again, hardly))
    )
    np.testing.assert_allclose(both, alone, atol=1e-3)


def test_lambda_is_chosen_under_the_prior(rng, monkeypatch):
    """By the error and the NLL on what was held out, where classes are as frequent as the prior says."""
    given = []
    monkeypatch.setattr(calibration, "weighted_means", lambda losses, weight: given.append(weight) or (0.0, 0.0))
    p, labels = drawn(rng, [60, 40, 20, 10])
    fit_adjustment(p, labels, COUNTS, tau=1, prior=PRIOR, bias=True, temperature=False)
    assert len(given) == len(calibration.SHRINKAGE)
    for weight in given:
        np.testing.assert_allclose(weight, (PRIOR / np.bincount(labels))[labels])


def test_a_bias_under_a_prior_gives_every_class_its_share(rng, monkeypatch):
    """Without shrinkage the weighted mean probability of a class is its prior; a class of prior 0 has no say."""
    monkeypatch.setattr(calibration, "SHRINKAGE", (np.inf, 1e-6))
    monkeypatch.setattr(calibration, "weighted_means", lambda losses, weight: (0.0, float(weight @ losses[1])))
    p, labels = drawn(rng, [200, 150, 100, 80])
    prior = np.array([0.5, 0.3, 0.2, 0.0])
    adjustment = fit_adjustment(p, labels, COUNTS, tau=0.3, prior=prior, bias=True, temperature=False)
    weight = (prior / np.bincount(labels))[labels]
    np.testing.assert_allclose(weight @ adjustment(p), prior, atol=1e-3)
    assert adjustment.bias[3] == pytest.approx(0.3 * np.log(COUNTS[3]))


def test_a_class_without_unseen_examples_is_not_pushed_off(rng):
    """It keeps tau log N, and is predicted among later examples as often as without a bias."""
    p, labels = drawn(rng, [200, 200, 200, 0])
    test, truth = drawn(rng, [200] * 4)
    plain, own = (fit_adjustment(p, labels, COUNTS, tau=1, bias=bias) for bias in (False, True))
    assert own.bias[3] == plain.bias[3]
    shares = [(adjustment(test)[truth == 3].argmax(axis=1) == 3).mean() for adjustment in (plain, own)]
    assert shares[1] == pytest.approx(shares[0], abs=0.05)


def test_a_bias_corrects_what_tau_cannot(rng):
    """Equal counts, but the model leans to one class: tau log N is flat, the bias is not."""
    p, labels = drawn(rng, [200] * 4, counts=np.array([1, 1, 30, 1]))
    test, truth = drawn(rng, [200] * 4, counts=np.array([1, 1, 30, 1]))
    plain, own = (fit_adjustment(p, labels, [200] * 4, bias=bias) for bias in (False, True))
    assert judge(own(test), truth).error < judge(plain(test), truth).error - 5
    assert own.bias[2] - own.bias[0] == pytest.approx(np.log(30), abs=0.4)


def test_without_evidence_the_bias_stays_near_tau_log_n(rng):
    """One example a class: held out, nothing is known of it, and it stays where it was."""
    p, labels = drawn(rng, 1)
    adjustment = fit_adjustment(p, labels, COUNTS, tau=1, bias=True)
    assert np.isfinite(adjustment.bias).all()
    assert np.abs(adjustment.bias - np.log(COUNTS)).max() < 1
