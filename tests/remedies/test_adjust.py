"""adjust() and best_tau()."""

import numpy as np
import pytest
import torch
from scipy.special import softmax as scipy_softmax

import class_uncertainty as cu
from class_uncertainty.remedies import best_tau

COUNTS = np.array([500, 60, 7])


@pytest.fixture
def p(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.ones(3), size=(4, 9))  # (4, 9, 3)


@pytest.mark.parametrize("tau", [0, 0.3, 1, 2])
def test_it_is_the_quotient(p, tau):
    quotient = p / COUNTS**tau
    np.testing.assert_allclose(cu.adjust(p, COUNTS, tau), quotient / quotient.sum(axis=-1, keepdims=True), rtol=1e-12)


def test_it_is_what_logits_less_tau_log_n_give(rng):
    z = rng.normal(0, 5, (20, 3))
    np.testing.assert_allclose(cu.adjust(scipy_softmax(z, axis=1), COUNTS, 0.7), scipy_softmax(z - 0.7 * np.log(COUNTS), axis=1), rtol=1e-9)


def test_bayes(rng):
    """A model that knows p(x | y) exactly: adjusted at tau 1 its posterior is the one under equal priors, or under a given one."""
    likelihood = rng.uniform(0.1, 1, (50, 3))
    trained, other = COUNTS / COUNTS.sum(), np.array([0.2, 0.5, 0.3])

    def posterior(prior):
        return likelihood * prior / (likelihood * prior).sum(axis=1, keepdims=True)

    np.testing.assert_allclose(cu.adjust(posterior(trained), COUNTS), posterior(np.full(3, 1 / 3)), rtol=1e-12)
    np.testing.assert_allclose(cu.adjust(posterior(trained), COUNTS, prior=other), posterior(other), rtol=1e-12)
    np.testing.assert_allclose(cu.adjust(posterior(trained), COUNTS, prior=trained), posterior(trained), rtol=1e-12)


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 4, 5, 3), (0, 3)])
def test_any_leading_shape_and_kind(rng, shape):
    p = rng.dirichlet(np.ones(3), size=shape[:-1])
    for given in (p, p.astype(np.float32), torch.tensor(p, dtype=torch.float32), torch.tensor(p)):
        found = cu.adjust(given, COUNTS)
        assert (type(found), found.dtype, tuple(found.shape)) == (type(given), given.dtype, shape)
        np.testing.assert_allclose(np.asarray(found), cu.adjust(p, COUNTS), rtol=1e-5, atol=1e-6)


def test_extremes_stay_finite():
    p = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1e-300, 1 - 1e-12, 1e-12]])
    found = cu.adjust(p, [10**9, 1, 10**6], 2)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found[0].argmax() == 0
    assert found[1].argmax() == 2


def test_the_given_array_is_left_alone(p):
    before = p.copy()
    cu.adjust(p, COUNTS)
    assert np.array_equal(p, before)


def test_best_tau_is_that_of_a_plain_search(rng):
    """A prior-shifted posterior: the best tau by brute force over scikit-learn's balanced accuracy."""
    from sklearn.metrics import balanced_accuracy_score

    labels = rng.choice(3, size=400, p=COUNTS / COUNTS.sum())
    labels[:3] = 0, 1, 2
    z = rng.normal(0, 1, (400, 3)) + 1.5 * np.eye(3)[labels] + np.log(COUNTS)
    p = scipy_softmax(z, axis=1)
    grid = [0, 0.5, 1, 1.5]
    accuracy = [balanced_accuracy_score(labels, (p / COUNTS**tau).argmax(axis=1)) for tau in grid]
    chosen = best_tau(p, labels, COUNTS, grid)
    assert accuracy[grid.index(chosen)] == pytest.approx(max(accuracy))
    assert chosen > 0


def test_of_equal_errors_the_likelier_tau_wins():
    """All right at any tau: the class-mean likelihood of the sure examples decides."""
    p, labels = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1])
    assert best_tau(p, labels, [1, 1], [0, 1]) == 0
    shifted = cu.adjust(p, [1, 2], 1)
    assert best_tau(shifted, labels, [2, 1], [0, 1]) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p: cu.adjust(p, [500, 60]), r"probabilities have the shape \(4, 9, 3\), and counts are of 2 classes"),
        (lambda p: cu.adjust(p, [500, 60, 0]), "counts of class 2 is 0"),
        (lambda p: cu.adjust(p, COUNTS, -0.1), "tau is -0.1: it must be a finite number from 0"),
        (lambda p: cu.adjust(p, COUNTS, float("nan")), "tau is nan"),
        (lambda p: cu.adjust(p, COUNTS, "auto"), "tau is 'auto'"),
        (lambda p: cu.adjust(p, COUNTS, True), "tau is True"),
        (lambda p: cu.adjust(2 * p, COUNTS), "sum to 2"),
        (lambda p: cu.adjust(p, COUNTS, prior=[0.5, 0.5]), "prior must be 3 probabilities that sum to 1"),
        (lambda p: cu.adjust(p, COUNTS, prior=[0.5, 0.4, 0.4]), "prior must be 3 probabilities"),
        (lambda p: cu.adjust(p, COUNTS, prior=[1.5, -0.5, 0]), "prior must be 3 probabilities"),
        (lambda p: best_tau(p[0], np.zeros(9, int), COUNTS, []), "the grid of tau is empty"),
        (lambda p: best_tau(p[0], np.full(9, 3), COUNTS), "label of example 0 is 3"),
    ],
)
def test_refusals(p, call, sentence):
    with pytest.raises(cu.InputError, match=sentence):
        call(p)
