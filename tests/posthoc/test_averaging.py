"""combined(): several networks as one."""

import numpy as np
import pytest
from scipy.stats import gmean

import class_uncertainty as cu
from class_uncertainty.posthoc.averaging import combined


def test_means(rng: np.random.Generator) -> None:
    p = rng.dirichlet(np.ones(4), size=(3, 20))
    np.testing.assert_allclose(combined(p, "arithmetic"), p.mean(axis=0))
    geometric = gmean(p, axis=0)
    np.testing.assert_allclose(combined(p), geometric / geometric.sum(axis=1, keepdims=True))
    with pytest.raises(cu.InputError, match="unknown mean 'harmonic'"):
        combined(p, "harmonic")
