"""Plans by the formulas that were published, and by hand."""

import math

import numpy as np
import pytest
from contracts import EXAMPLES
from methods.rows import ROWS

from class_uncertainty import METHODS, Stats, plan
from class_uncertainty.methods import named

pytestmark = pytest.mark.usefixtures("no_global_random")
BETA_ROWS = ("cb", "cb-literal", "cb-focal", "2s-cb-focal", "2s-cb-focal-literal", "ldam-rw", "ubm-ldam-cbrw")


def share(stats):
    return [n / sum(stats.counts) for n in stats.counts]


def mu(stats):
    return [u / sum(stats.uncertainty) for u in stats.uncertainty]


def class_balanced(stats, beta=0.9999):
    """Cui et al.'s code in float64: effective numbers, their inverses, normalised to the number of classes."""
    effective_number = 1.0 - np.power(beta, stats.counts)
    weights = (1.0 - beta) / np.array(effective_number)
    return weights / np.sum(weights) * len(stats.counts)


@pytest.mark.parametrize("stats", EXAMPLES, ids=["long-tail", "unordered", "two"])
class TestPublished:
    """Values of the knobs, straight from the papers and their code."""

    @pytest.mark.parametrize("epochs", [1, 7, 200])
    @pytest.mark.parametrize("name", ["pb-rs", "pb-ubrs"])
    def test_progressive(self, stats, name, epochs):
        """(t / T) target + (1 - t / T) N_c / N with t from 1."""
        target = mu(stats) if name == "pb-ubrs" else [1 / len(stats.counts)] * len(stats.counts)
        for t in range(1, epochs + 1):
            expected = [
                t / epochs * goal + (1 - t / epochs) * rest for goal, rest in zip(target, share(stats), strict=True)
            ]
            np.testing.assert_allclose(plan(METHODS[name], stats, t - 1, epochs).alpha, expected, rtol=1e-12)

    def test_progressive_in_the_second_stage_counts_from_the_first_epoch(self, stats):
        classes = len(stats.counts)
        for t in (161, 180, 200):
            expected = [t / 200 / classes + (1 - t / 200) * rest for rest in share(stats)]
            np.testing.assert_allclose(plan(METHODS["2s-pb-rs"], stats, t - 1, 200).alpha, expected, rtol=1e-12)

    def test_naive(self, stats):
        at, classes = plan(METHODS["naive"], stats, 3, 10), len(stats.counts)
        np.testing.assert_allclose(at.alpha, share(stats), rtol=1e-15)
        assert at.weight.tolist() == at.divisor.tolist() == [1] * classes
        assert at.margin.tolist() == [0] * classes
        assert (at.beta, at.gamma, at.sigmoid, at.scale, at.natural) == (0, 0, False, 1, True)

    @pytest.mark.parametrize(
        "name", ["cb-rs", "2s-cb-rs", "2s-cam-rs/1", "2s-cam-pb-rs/1", "crt/1", "dro/1", "dro/2", "ubm-dro/1"]
    )
    def test_class_balanced_sampling(self, stats, name):
        np.testing.assert_allclose(plan(ROWS[name], stats, 199, 200).alpha, 1 / len(stats.counts), rtol=1e-14)

    def test_square_root_sampling(self, stats):
        """p ~ sqrt(N) in CAM-based resampling's second stage."""
        roots = [math.sqrt(n) for n in stats.counts]
        np.testing.assert_allclose(
            plan(ROWS["2s-cam-sqrt-rs/1"], stats, 0, 40).alpha, [r / sum(roots) for r in roots], rtol=1e-14
        )

    def test_progressive_with_pasted_foregrounds_starts_anew(self, stats):
        """recipes.md 1.5: in CAM's second stage t / T counts from 1 again, with T = 40."""
        classes = len(stats.counts)
        for t in (1, 20, 40):
            expected = [t / 40 / classes + (1 - t / 40) * rest for rest in share(stats)]
            np.testing.assert_allclose(plan(ROWS["2s-cam-pb-rs/1"], stats, t - 1, 40).alpha, expected, rtol=1e-12)

    @pytest.mark.parametrize("name", ["ubrs", "2s-ubrs", "ub-crt/1"])
    def test_uncertainty_sampling(self, stats, name):
        np.testing.assert_allclose(plan(ROWS[name], stats, 199, 200).alpha, mu(stats), rtol=1e-14)

    @pytest.mark.parametrize(
        "name",
        [
            "ubrw",
            "ubrw-focal",
            "2s-ubrw",
            "2s-ubrw-focal",
            "ubm-ldam-rw",
            "ubrw-bot",
            "2s-ubrw-bot",
            "2s-ubrw-focal-literal",
        ],
    )
    def test_uncertainty_weights(self, stats, name):
        """w = mu^U |C| (Eq. 11)."""
        np.testing.assert_allclose(
            plan(METHODS[name], stats, 199, 200).weight, [m * len(stats.counts) for m in mu(stats)], rtol=1e-14
        )

    @pytest.mark.parametrize(
        ("name", "beta"),
        [
            *((name, 0.9999) for name in BETA_ROWS),
            *((f"{name}:beta={beta}", beta) for name in BETA_ROWS for beta in (0.99, 0.9)),
            ("cb-focal:gamma=1", 0.9999),
            ("2s-cb-focal:gamma=1", 0.9999),
        ],
    )
    def test_class_balanced_weights(self, stats, name, beta):
        np.testing.assert_allclose(plan(named(name), stats, 199, 200).weight, class_balanced(stats, beta), rtol=1e-10)

    @pytest.mark.parametrize("name", ["2s-csce", "2s-csce-literal"])
    def test_cost_sensitive_weights(self, stats, name):
        """N_min / N_c up to the factor that brings the sum to C."""
        w = plan(METHODS[name], stats, 199, 200).weight
        np.testing.assert_allclose(w / w.max(), [min(stats.counts) / n for n in stats.counts], rtol=1e-12)

    def test_cost_sensitive_weights_of_focal_as_they_are(self, stats):
        """Bag-of-Tricks' two-stage focal loss divides by the batch's size, so that the scale of N_min / N_c counts."""
        w = plan(METHODS["2s-focal"], stats, 199, 200).weight
        np.testing.assert_allclose(w, [min(stats.counts) / n for n in stats.counts], rtol=1e-12)

    def test_robust_margins(self, stats):
        """recipes.md 5: 1 / sqrt(N_c); by uncertainty they sum to 1; learned ones start at 1."""
        np.testing.assert_allclose(
            plan(ROWS["dro/1"], stats, 0, 80).margin, [1 / math.sqrt(n) for n in stats.counts], rtol=1e-14
        )
        np.testing.assert_allclose(plan(ROWS["ubm-dro/1"], stats, 0, 80).margin, mu(stats), rtol=1e-14)
        assert plan(ROWS["dro-learned/1"], stats, 0, 80).margin.tolist() == [1] * len(stats.counts)

    @pytest.mark.parametrize("name", ["dro", "dro-learned", "ubm-dro"])
    def test_robust_cross_entropy_undoes_the_resampling(self, stats, name):
        """N_c / N_max, which torch divides by the weights of the batch."""
        w = plan(ROWS[f"{name}/1"], stats, 0, 80).weight
        np.testing.assert_allclose(w / w.max(), [n / max(stats.counts) for n in stats.counts], rtol=1e-14)
        assert ROWS[f"{name}/1"].reduction == "weights"

    @pytest.mark.parametrize("name", ["ldam", "ldam-rw"])
    def test_ldam_margins(self, stats, name):
        """LDAM-DRW: m = 1 / sqrt(sqrt(N)); m * (0.5 / max m)."""
        m = 1.0 / np.sqrt(np.sqrt(stats.counts))
        for epoch in (0, 199):
            np.testing.assert_allclose(plan(METHODS[name], stats, epoch, 200).margin, m * (0.5 / np.max(m)), rtol=1e-12)

    @pytest.mark.parametrize("name", ["ubm-ldam", "ubm-ldam-rw", "ubm-ldam-cbrw"])
    def test_uncertainty_margins(self, stats, name):
        """tau mu / max mu, raw uncertainties (Eq. 12)."""
        expected = [0.5 * u / max(stats.uncertainty) for u in stats.uncertainty]
        for epoch in (0, 199):
            np.testing.assert_allclose(plan(METHODS[name], stats, epoch, 200).margin, expected, rtol=1e-14)

    @pytest.mark.parametrize("name", ["logit-adjust", "balanced-softmax", "vs"])
    def test_prior_margins(self, stats, name):
        at = plan(METHODS[name], stats, 0, 200)
        np.testing.assert_allclose(at.margin, [-math.log(p) for p in share(stats)], rtol=1e-12)
        assert at.beta == 1

    def test_vector_scaling(self, stats):
        divisor = plan(METHODS["vs"], stats, 0, 200).divisor
        np.testing.assert_allclose(divisor, [(max(stats.counts) / n) ** 0.3 for n in stats.counts], rtol=1e-12)


def test_hand_computed_ldam_margins():
    """CIFAR-10-LT at 100: the head has 5000, the tail 50 examples, 0.5 (50 / 5000) ** (1/4) = 0.1581."""
    margin = plan(METHODS["ldam"], Stats([5000, 50]), 0, 1).margin
    np.testing.assert_allclose(margin, [0.158113883, 0.5], rtol=1e-8)


def test_hand_computed_class_balanced_weights():
    """beta 0.9999 and N = 5000, 50: 1 / 3935.1 and 1 / 49.88, normalised to the sum 2."""
    weight = plan(METHODS["cb"], Stats([5000, 50]), 0, 1).weight
    np.testing.assert_allclose(weight, [0.025033, 1.974967], atol=1e-5)
