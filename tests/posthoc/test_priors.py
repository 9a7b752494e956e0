"""The one rule for priors, against Bayes' rule on distributions that are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import refused
from scipy.optimize import approx_fprime, minimize
from scipy.stats import norm

from class_uncertainty.posthoc.adjustment import adjust
from class_uncertainty.posthoc.priors import at_prior, find_prior, measured_prior, shift_loss

MEANS = np.array([-1.0, 0.5, 2.0])
priors = hnp.arrays(float, 3, elements=st.floats(0.01, 1)).map(lambda values: values / values.sum())


def posterior(x: np.ndarray, prior: np.ndarray) -> np.ndarray:
    joint = prior * norm.pdf(x[:, None], MEANS)
    return joint / joint.sum(axis=1, keepdims=True)


@given(priors, priors)
def test_it_is_bayes_rule(start, end):
    x = np.linspace(-4, 5, 40)
    np.testing.assert_allclose(at_prior(posterior(x, start), start, end), posterior(x, end), rtol=1e-9)


@given(priors)
def test_there_and_back(start):
    p = posterior(np.linspace(-4, 5, 40), start)
    np.testing.assert_allclose(at_prior(at_prior(p, start, [0.2, 0.3, 0.5]), [0.2, 0.3, 0.5], start), p, rtol=1e-9)


def test_the_same_prior_changes_no_bit():
    p = np.random.default_rng(0).dirichlet([1, 1], 50).astype(np.float32)
    assert at_prior(p, [0.3, 0.7], [0.3, 0.7]) is p


def test_from_the_counts_it_is_the_adjustment():
    """The rule of `cu adjust` at tau 1 starts from the frequencies of training."""
    p = np.random.default_rng(0).dirichlet([1, 1, 1], 50)
    start = find_prior("train", [60, 30, 10])
    np.testing.assert_allclose(at_prior(p, start, find_prior("equal", [60, 30, 10])), adjust(p, [60, 30, 10]))


def test_certainty_and_impossible_classes():
    p = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], dtype=np.float32)
    q = at_prior(p, [0.5, 0.5, 0.0], [0.2, 0.3, 0.5])  # the third could not be: it has no probability to start from
    np.testing.assert_allclose(q, [[1, 0, 0], [0.4, 0.6, 0]], atol=1e-6)
    assert q.dtype == np.float32
    np.testing.assert_allclose(at_prior(p, [0.4, 0.3, 0.3], [0.0, 0.5, 0.5]), [[0, 0.5, 0.5], [0, 1, 0]], atol=1e-6)
    with refused("0 for every class that the model can predict"):
        at_prior(p, [0.5, 0.5, 0.0], [0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("prior", "expected"), [("train", [0.75, 0.25]), ("equal", [0.5, 0.5]), ([0.1, 0.9], [0.1, 0.9])]
)
def test_priors_by_name(prior, expected):
    np.testing.assert_allclose(find_prior(prior, [30, 10]), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prior", "facts"),
    [
        ([0.5, 0.3, 0.2], ("2 probabilities", "3 of sum 1")),
        ([0.5, 0.6], ("sum to 1", "2 of sum 1.1")),
        ([1.5, -0.5], ("2 probabilities",)),
    ],
)
def test_a_prior_of_another_length_or_sum(prior, facts):
    with refused("prior", *facts):
        find_prior(prior, [30, 10])


@pytest.mark.parametrize("stands_for", [[0.4, 0.3, 0.3], [0.1, 0.2, 0.7]])
def test_the_prior_of_probabilities_is_found_by_their_labels(stands_for):
    """Exact posteriors under one prior, of examples that are drawn under another."""
    rng, frequent = np.random.default_rng(0), np.array([0.7, 0.2, 0.1])
    labels = rng.choice(3, 40_000, p=frequent)
    p = posterior(rng.normal(MEANS[labels]), np.array(stands_for))
    measured = measured_prior(p, labels, np.ones(3) / 3)
    np.testing.assert_allclose(measured, stands_for, atol=0.01)
    shares = np.bincount(labels) / len(labels)
    np.testing.assert_allclose(at_prior(p, measured, shares).mean(axis=0), shares, atol=1e-3)


def test_what_is_known_by_heart_says_nothing_about_the_prior():
    labels = np.arange(300) % 10 // 8
    p = np.where(np.eye(2)[labels] > 0, 1 - 1e-7, 1e-7)
    np.testing.assert_allclose(measured_prior(p, labels, [0.3, 0.7]), [0.3, 0.7], atol=1e-3)
    np.testing.assert_array_equal(measured_prior(p, labels, [1.0, 0.0]), [1.0, 0.0])  # a class that is ruled out stays


def test_the_measured_prior_is_at_the_minimum_of_its_formula():
    """Few examples, where the term that pulls towards the start matters; against a search without a gradient."""
    rng, start = np.random.default_rng(1), np.array([0.2, 0.3, 0.5])
    labels = np.array([0] * 6 + [1] * 3 + [2] * 2)
    p, frequent = rng.dirichlet([1, 1, 1], len(labels)), np.bincount(labels) / len(labels)

    def formula(log_m: np.ndarray) -> float:
        q = p * frequent / np.exp(log_m)
        nll = -np.log((q / q.sum(axis=1, keepdims=True))[np.arange(len(labels)), labels]).sum()
        return nll + ((log_m - np.log(start)) ** 2).sum() / 2

    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000}
    prior = np.exp(minimize(formula, np.log(start), method="Nelder-Mead", options=options).x)
    np.testing.assert_allclose(measured_prior(p, labels, start), prior / prior.sum(), atol=1e-4)
    at_start, shift = np.log(frequent / start), rng.normal(size=3)
    value, gradient = shift_loss(shift, at_start, np.log(p), labels)
    assert value == pytest.approx(formula(np.log(frequent) - shift))
    numeric = approx_fprime(shift, lambda x: shift_loss(x, at_start, np.log(p), labels)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)


def test_a_class_without_examples_keeps_its_prior():
    rng, start = np.random.default_rng(0), np.array([0.2, 0.5, 0.3])
    labels = rng.choice([0, 2], 2000, p=[0.8, 0.2])
    p = posterior(rng.normal(MEANS[labels]), np.array([0.4, 0.3, 0.3]))
    prior = measured_prior(p, labels, start)
    assert prior[1] == 0.5
    assert prior.sum() == pytest.approx(1)
    without = p[:, [0, 2]] / p[:, [0, 2]].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(prior[[0, 2]], measured_prior(without, labels // 2, [0.4, 0.6]) / 2, atol=1e-4)
