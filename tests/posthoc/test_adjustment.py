"""adjust(), Adjustment and best_tau()."""

import numpy as np
import pytest
import torch
from scipy.special import softmax as scipy_softmax
from scipy.stats import gmean

import class_uncertainty as cu
from class_uncertainty.posthoc.adjustment import Adjustment, best_tau, combined

COUNTS = np.array([500, 60, 7])


@pytest.fixture
def p(rng):
    return rng.dirichlet(np.ones(3), size=(4, 9))  # (4, 9, 3)


@pytest.mark.parametrize("tau", [0, 0.3, 1, 2])
def test_it_is_the_quotient(p, tau):
    quotient = p / COUNTS**tau
    np.testing.assert_allclose(cu.adjust(p, COUNTS, tau), quotient / quotient.sum(axis=-1, keepdims=True), rtol=1e-12)


def test_it_is_what_logits_less_tau_log_n_give(rng):
    z = rng.normal(0, 5, (20, 3))
    np.testing.assert_allclose(
        cu.adjust(scipy_softmax(z, axis=1), COUNTS, 0.7), scipy_softmax(z - 0.7 * np.log(COUNTS), axis=1), rtol=1e-9
    )


def test_bayes(rng):
    """A model that knows p(x | y): at tau 1 its posterior becomes that under equal or given priors."""
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
        adjusted = cu.adjust(given, COUNTS)
        assert (type(adjusted), adjusted.dtype, tuple(adjusted.shape)) == (type(given), given.dtype, shape)
        np.testing.assert_allclose(np.asarray(adjusted), cu.adjust(p, COUNTS), rtol=1e-5, atol=1e-6)


def test_extremes_stay_finite():
    p = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1e-300, 1 - 1e-12, 1e-12]])
    adjusted = cu.adjust(p, [10**9, 1, 10**6], 2)
    assert np.isfinite(adjusted).all()
    np.testing.assert_allclose(adjusted.sum(axis=1), 1)
    assert adjusted[0].argmax() == 0
    assert adjusted[1].argmax() == 2


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


@pytest.mark.parametrize(("p", "chosen"), [([0.9, 0.99, 0.69, 0.99, 0.35], 0), ([0.46, 0.99, 0.09, 0.02, 0.69], 1)])
def test_fewer_errors_go_before_likelihood(p, chosen):
    """Class-mean errors at tau 0 and 1 are 1/4 and 5/12, then 7/12 and 1/3; the likelihood disagrees in both."""
    p, labels = np.stack([p, 1 - np.array(p)], axis=1), np.array([0, 0, 0, 1, 1])
    nll = [-np.log(cu.adjust(p, [4, 1], tau)[np.arange(5), labels]) for tau in (0, 1)]
    assert np.argmin([one[:3].mean() + one[3:].mean() for one in nll]) == 1 - chosen
    assert best_tau(p, labels, [4, 1], [0, 1]) == chosen


@pytest.mark.parametrize("grid", [[0, 1], [1, 0]])
def test_of_equal_errors_the_likelier_tau_wins(grid):
    """All are right at both: the class-mean likelihood decides, whichever comes first."""
    p, labels = np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([0, 1])
    assert best_tau(p, labels, [2, 1], grid) == 0
    shifted = p * [2, 1] / (p * [2, 1]).sum(axis=1, keepdims=True)
    assert best_tau(shifted, labels, [2, 1], grid) == 1
    both, labels = np.concatenate([p, shifted]), np.tile(labels, 2)
    for tau, weights in enumerate(([1, 1, 0.01, 0.01], [0.01, 0.01, 1, 1])):
        assert best_tau(both, labels, [2, 1], grid, weights=np.array(weights)) == tau


@pytest.mark.parametrize("spread", [0, 2])
def test_a_usual_tau_is_kept_unless_another_gains_more_than_a_standard_error(rng, spread):
    """By hand: the gain of the best tau over the usual one, and the norm of the examples' shares in it."""
    kept = []
    for size in (12, *[60] * 8, 3000):
        labels = rng.permutation(np.arange(size) % 3)
        weights = rng.lognormal(0, spread, size)
        z = rng.normal(0, 1, (size, 3)) + 1.5 * np.eye(3)[labels] + np.log(COUNTS)
        p = scipy_softmax(z, axis=1)
        for usual in (0.0, 0.9, 1.03):
            free = best_tau(p, labels, COUNTS, weights=weights)
            wrong = {tau: cu.adjust(p, COUNTS, tau).argmax(axis=1) != labels for tau in (free, usual)}
            gains = (wrong[usual] * 1.0 - wrong[free]) * weights / np.bincount(labels, weights)[labels]
            clear = gains.sum() > np.sqrt((gains**2).sum())
            assert best_tau(p, labels, COUNTS, usual=usual, weights=weights) == (free if clear else usual)
            by_weight = {"usual_tau": usual, "weights": weights, "temperature": False}
            assert cu.fit_adjustment(p, labels, COUNTS, **by_weight).tau == (free if clear else usual)
            kept.append(not clear)
    assert kept[-1]  # a tau that is nearly right
    assert not all(kept)  # no adjustment at all, on many examples


def test_equal_counts_need_no_tau(rng):
    """Nothing depends on it then but the last bits of a likelihood."""
    for _ in range(50):
        p = scipy_softmax(rng.normal(0, 2, (90, 3)), axis=1)
        assert best_tau(p, np.arange(90) % 3, [30, 30, 30]) == 0


@pytest.mark.parametrize(("tau", "prior"), [(1, None), (0.4, None), (0, [0.2, 0.5, 0.3]), (1.7, [0.2, 0.5, 0.3])])
def test_an_adjustment_at_temperature_1_is_adjust(p, tau, prior):
    assert np.array_equal(Adjustment.of(COUNTS, tau, prior)(p), cu.adjust(p, COUNTS, tau, prior))


def test_an_adjustment_is_the_powers(p):
    """(p_c / e^b_c) ** (1 / T) prior_c, renormalised: no logarithm in it."""
    bias, prior, temperature = np.array([1.0, -0.5, 0.3]), np.array([0.2, 0.5, 0.3]), 2.5
    powers = (p / np.exp(bias)) ** (1 / temperature) * prior
    adjusted = Adjustment(bias, prior, 1.0, temperature)(p)
    np.testing.assert_allclose(adjusted, powers / powers.sum(axis=-1, keepdims=True), rtol=1e-12)


def test_a_last_layer_can_absorb_it(rng):
    """softmax(z / temperature + shift), of logits: what a network with other weights in its last layer gives."""
    z = torch.tensor(rng.normal(0, 4, (20, 3)))
    how = Adjustment(np.array([1.0, -0.5, 0.3]), np.array([0.2, 0.5, 0.3]), 1.0, 1.8)
    absorbed = (z / how.temperature + torch.tensor(how.shift)).softmax(dim=1)
    np.testing.assert_allclose(absorbed, how(z.softmax(dim=1)), rtol=1e-9)


def test_a_class_that_cannot_occur(p):
    """A prior of 0 is a probability of 0, also where the model was sure of that class."""
    adjusted = cu.adjust(np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]), [1, 1, 1], prior=[0, 0.5, 0.5])
    np.testing.assert_allclose(adjusted, [[0, 0.5, 0.5], [0, 0.375, 0.625]])


@pytest.mark.parametrize("kind", [np.float16, torch.float16, torch.bfloat16])
def test_half_precision(p, kind):
    given = p.astype(kind) if kind is np.float16 else torch.tensor(p, dtype=kind)
    adjusted = cu.adjust(given, COUNTS)
    assert adjusted.dtype == given.dtype
    exact = np.asarray(given, dtype=np.float64) if kind is np.float16 else given.double().numpy()
    exact = exact / COUNTS
    exact /= exact.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(
        adjusted.astype(float) if kind is np.float16 else adjusted.double(), exact, rtol=2**-7, atol=1e-6
    )


def test_a_list_and_a_tensor_that_has_a_gradient():
    assert cu.adjust([0.5, 0.5], [3, 1]).tolist() == pytest.approx([0.25, 0.75])
    given = torch.tensor([[0.5, 0.5]], requires_grad=True)
    assert cu.adjust(given, [3, 1]).tolist() == [pytest.approx([0.25, 0.75])]
    assert (
        best_tau([[0.9, 0.1], [0.6, 0.4]], [0, 1], [3, 1])
        == best_tau(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), [0, 1], [3, 1])
        > 0
    )


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
        (lambda p: cu.adjust(p, COUNTS, prior=["a", "b", "c"]), "prior must be 3 probabilities"),
        (lambda p: cu.adjust(p, COUNTS, prior=[np.nan, 0.5, 0.5]), "prior must be 3 probabilities"),
        (lambda p: cu.adjust(p, COUNTS, float("inf")), "tau is inf"),
        (lambda p: cu.adjust(np.where(p > 0.5, np.nan, p), COUNTS), "are not finite"),
        (lambda p: cu.adjust(p[..., :1] ** 0, [5]), "at least two classes"),
        (lambda p: cu.adjust(np.float64(1), COUNTS), r"the shape \(\), and counts are of 3 classes"),
        (
            lambda p: Adjustment(np.zeros(3), np.full(3, 1 / 3), 1.0, 0.0),
            "temperature is 0.0: it must be a finite number above 0",
        ),
        (lambda p: Adjustment(np.zeros(3), np.full(3, 1 / 3), 1.0, np.nan), "temperature is nan"),
        (lambda p: Adjustment(np.array([0, np.nan, 0]), np.full(3, 1 / 3)), "bias must be finite numbers"),
        (lambda p: best_tau(p, np.zeros(9, int), COUNTS), r"the shape \(4, 9, 3\): they need \(examples, classes\)"),
        (lambda p: best_tau(p[0], np.zeros(9, int), COUNTS, []), "the grid of tau is empty"),
        (lambda p: cu.adjust(p, COUNTS, 1e308), r"tau is 1e\+308: tau log N must be finite numbers"),
        (lambda p: best_tau(p[0], np.full(9, 3), COUNTS), "label of example 0 is 3"),
    ],
)
def test_refusals(p, call, sentence):
    with pytest.raises(cu.InputError, match=sentence):
        call(p)


def test_means(rng):
    p = rng.dirichlet(np.ones(4), size=(3, 20))
    np.testing.assert_allclose(combined(p, "arithmetic"), p.mean(axis=0))
    geometric = gmean(p, axis=0)
    np.testing.assert_allclose(combined(p), geometric / geometric.sum(axis=1, keepdims=True))
    with pytest.raises(cu.InputError, match="unknown mean 'harmonic'"):
        combined(p, "harmonic")
