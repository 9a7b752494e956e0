"""The prior of a method: that of the distribution whose posterior a network learns that can learn anything."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import class_uncertainty as cu
from class_uncertainty.methods import named
from class_uncertainty.methods.method import trained_prior

STATS = cu.Stats([600, 300, 100], [0.2, 0.3, 0.5])
FREQUENCIES = STATS.counts / STATS.counts.sum()
EPOCHS = 10
KNOWN = {
    "naive": FREQUENCIES,
    "cb-rs": np.ones(3) / 3,
    "pb-rs": np.ones(3) / 3,
    "2s-cb-rs": np.ones(3) / 3,
    "crt": np.ones(3) / 3,
    "balanced-softmax": np.ones(3) / 3,
    "ubrs": np.array([0.2, 0.3, 0.5]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_priors(name):
    np.testing.assert_allclose(trained_prior(named(name), STATS, EPOCHS), KNOWN[name])


LEARNT = {name: named(name) for name in ("naive", "cb-rs", "cb", "ubrw", "2s-csce", "logit-adjust:kappa=0.5")}
LEARNT["logit-adjust, scaled"] = replace(LEARNT["logit-adjust:kappa=0.5"], scale=3.0)


@pytest.mark.parametrize("method", LEARNT.values(), ids=LEARNT)
def test_a_network_that_can_learn_anything_has_that_posterior(method):
    """Four values of x, a free logit for each class: the expected loss is minimised numerically."""
    last = cu.plan(method, STATS, EPOCHS - 1, EPOCHS)
    likelihood = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1], [0.2, 0.1, 0.3, 0.4]])  # (C, x)
    shares = (last.alpha * last.weight)[:, None] * likelihood

    def expected_loss(z: np.ndarray) -> float:
        logits = last.scale * (z.reshape(4, 3) - last.margin)
        return -float((shares.T * log_softmax(logits, axis=1)).sum()) + 1e-9 * float(z @ z)

    fitted = minimize(expected_loss, np.zeros(12), method="BFGS", options={"gtol": 1e-9}).x.reshape(4, 3)
    joint = trained_prior(method, STATS, EPOCHS)[:, None] * likelihood
    np.testing.assert_allclose(softmax(last.scale * fitted, axis=1), (joint / joint.sum(axis=0)).T, atol=1e-4)
