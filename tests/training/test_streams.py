"""Streams: what a lane draws depends on its seed, the purpose and the epoch, and follows the distributions it
should."""

import itertools

import numpy as np
import pytest
import torch
from contracts import LONG_TAIL, global_random_untouched
from scipy.stats import chisquare, ks_2samp, kstest, norm, uniform
from torch import nn

from class_uncertainty import METHODS, plan
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.streams import STREAMS, bootstrap, draw_order, initial_state, stream

COUNTS = np.array([400, 90, 12, 3])
LABELS = np.random.default_rng(8).permutation(np.repeat(np.arange(4), COUNTS))
LENGTH = 40_000


def drawn(alpha, seed=0, length=LENGTH):
    return draw_order(stream(seed, "order"), LABELS, np.array(alpha), natural=False, length=length)


ALPHAS = {
    "uniform": [0.25] * 4,
    "natural": (COUNTS / COUNTS.sum()).tolist(),
    "towards the tail": [0.1, 0.2, 0.3, 0.4],
    "no last class": [0.5, 0.5, 0.0, 0.0],
    "no first class": [0.0, 0.3, 0.0, 0.7],
}


@pytest.mark.parametrize("case", ALPHAS)
def test_classes_come_as_often_as_alpha_says(case):
    alpha = np.array(ALPHAS[case])
    seen = np.bincount(LABELS[drawn(alpha)], minlength=4)
    assert (seen[alpha == 0] == 0).all()
    assert chisquare(seen[alpha > 0], LENGTH * alpha[alpha > 0]).pvalue > 0.01


def test_a_single_class_can_be_all_there_is():
    assert set(LABELS[drawn([0.0, 0.0, 1.0, 0.0], length=500)]) == {2}


def test_the_chi_square_would_see_a_wrong_alpha():
    seen = np.bincount(LABELS[drawn([0.25] * 4)], minlength=4)
    assert chisquare(seen, LENGTH * np.array([0.26, 0.25, 0.25, 0.24])).pvalue < 1e-4


@pytest.mark.parametrize("c", range(4))
def test_examples_of_a_class_come_equally_often(c):
    """Eq. 3: uniform within the class, and every one of its examples."""
    seen = np.bincount(drawn([0.25] * 4), minlength=len(LABELS))[np.equal(LABELS, c)]
    assert len(seen) == COUNTS[c]
    assert chisquare(seen).pvalue > 0.01


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.alpha])
def test_every_sampling_row_meets_its_alpha(name):
    at = plan(METHODS[name], LONG_TAIL, 4, 5)
    labels = np.repeat(np.arange(10), LONG_TAIL.counts.astype(int))
    order = draw_order(stream(1, "order", 4), labels, at.alpha, at.natural, 20_000)
    assert chisquare(np.bincount(labels[order], minlength=10), 20_000 * at.alpha).pvalue > 0.001


def test_draws_are_independent():
    """One draw says nothing of the next: pairs of classes are as frequent as the product of their shares."""
    classes = LABELS[drawn([0.25] * 4)]
    pairs = np.bincount(4 * classes[0::2] + classes[1::2], minlength=16)
    assert chisquare(pairs).pvalue > 0.01


def test_at_rest_an_epoch_is_a_permutation():
    order = draw_order(stream(0, "order"), LABELS, COUNTS / COUNTS.sum(), natural=True, length=len(LABELS))
    assert sorted(order) == list(range(len(LABELS)))
    assert not np.array_equal(order, np.arange(len(LABELS)))


@pytest.mark.parametrize("length", [100, 505, 1300])
def test_at_rest_nothing_comes_twice_before_all_came_once(length):
    order = draw_order(stream(0, "order"), LABELS, COUNTS / COUNTS.sum(), natural=True, length=length)
    assert len(order) == length
    assert np.ptp(np.bincount(order, minlength=len(LABELS))) == (length % len(LABELS) > 0)


@pytest.mark.parametrize("natural", [True, False])
def test_order_is_a_function_of_its_stream(natural):
    alpha = COUNTS / COUNTS.sum()
    with global_random_untouched():
        same = [draw_order(stream(5, "order", 2), LABELS, alpha, natural, 100) for _ in range(2)]
        others = [
            draw_order(stream(*key), LABELS, alpha, natural, 100)
            for key in ((6, "order", 2), (5, "order", 3), (5, "crop", 2))
        ]
    assert np.array_equal(*same)
    assert not any(np.array_equal(same[0], other) for other in others)


def test_a_bootstrap_leaves_every_class_its_size():
    """With replacement: some come twice, and about a share of 1 / e of the largest class not at all."""
    with global_random_untouched():
        chosen, again, other = (bootstrap(stream(seed, "bootstrap"), LABELS) for seed in (5, 5, 6))
    assert np.array_equal(np.bincount(LABELS[chosen], minlength=4), COUNTS)
    assert np.array_equal(chosen, again)
    assert not np.array_equal(chosen, other)
    missing = 1 - len(set(chosen[LABELS[chosen] == 0])) / COUNTS[0]
    assert missing == pytest.approx(np.exp(-1), abs=0.08)


@pytest.mark.parametrize("c", range(4))
def test_a_bootstrap_draws_every_example_of_a_class_equally_often(c):
    seen = sum(np.bincount(bootstrap(stream(seed, "bootstrap"), LABELS), minlength=len(LABELS)) for seed in range(100))
    own = seen[np.equal(LABELS, c)]
    assert own.sum() == 100 * COUNTS[c]
    assert chisquare(own).pvalue > 0.01


def test_a_bootstrap_of_classes_that_are_not_there():
    """Labels 1 and 3 of five classes."""
    labels = np.array([3, 1, 3, 3])
    assert sorted(labels[bootstrap(stream(0, "bootstrap"), labels)]) == [1, 3, 3, 3]


def test_streams_differ_by_seed_purpose_and_epoch():
    keys = list(itertools.product(range(4), STREAMS, range(4)))
    firsts = {stream(*key).bytes(16) for key in keys}
    assert len(firsts) == len(keys)
    assert stream(3, "flip", 1).bytes(16) == stream(3, "flip", 1).bytes(16)


def test_streams_are_not_correlated():
    seed, purpose, epoch = (
        stream(*key).standard_normal(5000) for key in ((1, "order", 0), (0, "crop", 0), (0, "order", 1))
    )
    here = stream(0, "order", 0).standard_normal(5000)
    assert max(abs(np.corrcoef(here, other)[0, 1]) for other in (seed, purpose, epoch)) < 0.05


# The first weights.


def torch_normal(layer):
    """torch's own He initialisation of a layer like it."""
    return nn.init.kaiming_normal_(
        torch.empty(layer.weight.shape), nonlinearity="relu", generator=torch.Generator().manual_seed(0)
    ).flatten()


@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions_start_as_he_et_al(groups):
    layer = nn.Conv2d(32, 64, 3, groups=groups, bias=False)
    values = initial_state(nn.Sequential(layer), 0)["0.weight"].ravel()
    inputs = 32 // groups * 9
    assert values.std() == pytest.approx(np.sqrt(2 / inputs), rel=0.03)
    assert kstest(values, norm(0, np.sqrt(2 / inputs)).cdf).pvalue > 0.01
    assert ks_2samp(values, torch_normal(layer).numpy()).pvalue > 0.01


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_linear_layers_start_as_torchs(name):
    """Uniform within 1 / sqrt(inputs), weights and biases."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.Linear(50, 800)
    values = initial_state(nn.Sequential(layer), 0)[f"0.{name}"].ravel()
    bound = 1 / np.sqrt(50)
    assert np.abs(values).max() <= bound
    assert np.abs(values).max() > 0.99 * bound
    assert kstest(values, uniform(-bound, 2 * bound).cdf).pvalue > 0.01
    assert ks_2samp(values, getattr(layer, name).detach().numpy().ravel()).pvalue > 0.01


@pytest.fixture(scope="module")
def network():
    return Classifier("small-conv", (1, 8, 8), tuple("abcde"))


def test_every_parameter_is_initialised(network):
    state = initial_state(network, 0)
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    assert {name: value.shape for name, value in state.items()} == shapes
    assert all(value.dtype == np.float32 for value in state.values())


def test_batch_norm_starts_at_one_and_zero(network):
    state = initial_state(network, 0)
    layers = [name for name, layer in network.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(layers) == 3
    for layer in layers:
        assert (state[f"{layer}.weight"] == 1).all()
        assert (state[f"{layer}.bias"] == 0).all()


def test_first_weights_are_a_function_of_the_seed(network):
    """Not of what the module held before, nor of torch's own generator."""
    with global_random_untouched():
        first = initial_state(network, 4)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1)
    again, other = initial_state(network, 4), initial_state(network, 5)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first if name.startswith("head"))


def test_layers_do_not_repeat_each_other():
    state = initial_state(nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 9)), 0)
    assert abs(np.corrcoef(state["0.weight"].ravel(), state["1.weight"].ravel())[0, 1]) < 0.5
