"""An adjustment as part of a plain network, and several networks as one."""

import numpy as np
import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.posthoc.adjustment import Adjustment, combined

LANES = ("naive", "ldam", "crt")


@pytest.fixture(scope="module")
def fitted(digits):
    recipe = cu.Recipe("small-conv", epochs=2, batch=32)
    return cu.fit(digits.train, [cu.Lane(method) for method in LANES], recipe=recipe)


@pytest.fixture(params=["equal", "train", "none of class 3"])
def adjustment(request, digits):
    counts = digits.train.counts.astype(float)
    prior = {"equal": np.ones(10), "train": counts}.get(request.param, np.arange(10) != 3)
    return Adjustment(1.3 * np.log(counts), prior / prior.sum(), 1.3, 1.7)


def probabilities(module: torch.nn.Module, data: cu.Data) -> np.ndarray:
    with torch.inference_mode():
        logits = module(torch.from_numpy(data.inputs))
        assert logits.isfinite().all()
        return logits.double().softmax(dim=1).numpy()


@pytest.mark.parametrize("lane", range(len(LANES)), ids=LANES)
def test_an_adjusted_network_is_the_adjustment_of_its_probabilities(fitted, digits, adjustment, lane):
    expected = adjustment(fitted.probabilities(digits.test)[lane].astype(np.float64))
    module = fitted.adjusted_module(lane, adjustment)
    np.testing.assert_allclose(probabilities(module, digits.test), expected, atol=2e-6)
    assert not module.training
    assert module.costs is None
    plain = fitted.module(lane)
    assert not plain.shift.any()
    assert all(
        torch.equal(value, plain.state_dict()[name]) for name, value in module.state_dict().items() if name != "shift"
    )


def test_an_ensemble_is_the_adjustment_of_the_geometric_mean(fitted, digits, adjustment):
    expected = adjustment(combined(fitted.probabilities(digits.test)))
    module = fitted.ensemble_module(adjustment)
    np.testing.assert_allclose(probabilities(module, digits.test), expected, atol=2e-6)
    assert not any(part.training for part in module.modules())
    assert (len(module.networks), module.classes) == (3, digits.classes)
    one = fitted.take([1])
    single, alone = one.ensemble_module(adjustment), one.adjusted_module(0, adjustment)
    np.testing.assert_allclose(probabilities(single, digits.test), probabilities(alone, digits.test), atol=2e-6)


def test_costs_change_no_probability(fitted, digits, adjustment):
    costs = np.random.default_rng(0).random((10, 10))
    for make in (
        lambda *more: fitted.adjusted_module(0, adjustment, *more),
        lambda *more: fitted.ensemble_module(adjustment, *more),
    ):
        by_cost, plain = make(costs), make()
        np.testing.assert_array_equal(probabilities(by_cost, digits.test), probabilities(plain, digits.test))
        np.testing.assert_allclose(by_cost.costs, costs, rtol=1e-6)
        assert (by_cost.rebuild["decides_by"], plain.rebuild["decides_by"]) == ("cost", "probability")
