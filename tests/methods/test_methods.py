"""Methods: the contracts for every row of the table, and the published numbers written out."""

import math
from dataclasses import fields

import numpy as np
import pytest
from contracts import EXAMPLES, LONG_TAIL, UNORDERED, method_checks, same_plan, verify

from class_uncertainty import METHODS, InputError, Method, Plan, Stats, plan
from class_uncertainty.methods import Focal, Knob, named
from class_uncertainty.methods.knobs import always, late, late_linear, linear, to_classes
from class_uncertainty.training import describe

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.mark.parametrize(
    ("name", "check"),
    [pytest.param(name, check, id=f"{name}-{check.__name__}") for name, row in METHODS.items() for check in method_checks(name, row)],
)
def test_contract(name, check):
    verify(name, check, METHODS[name])


@pytest.mark.parametrize("name", METHODS)
def test_counterpart_names_a_row(name):
    counterpart = METHODS[name].counterpart
    assert counterpart in METHODS or not counterpart
    assert counterpart != name


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
            expected = [t / epochs * goal + (1 - t / epochs) * rest for goal, rest in zip(target, share(stats), strict=True)]
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

    @pytest.mark.parametrize("name", ["cb-rs", "2s-cb-rs"])
    def test_class_balanced_sampling(self, stats, name):
        np.testing.assert_allclose(plan(METHODS[name], stats, 199, 200).alpha, 1 / len(stats.counts), rtol=1e-14)

    @pytest.mark.parametrize("name", ["ubrs", "2s-ubrs"])
    def test_uncertainty_sampling(self, stats, name):
        np.testing.assert_allclose(plan(METHODS[name], stats, 199, 200).alpha, mu(stats), rtol=1e-14)

    @pytest.mark.parametrize("name", ["ubrw", "ubrw-focal", "2s-ubrw", "2s-ubrw-focal", "ubm-ldam-rw"])
    def test_uncertainty_weights(self, stats, name):
        """w = mu^U |C| (Eq. 11)."""
        np.testing.assert_allclose(plan(METHODS[name], stats, 199, 200).weight, [m * len(stats.counts) for m in mu(stats)], rtol=1e-14)

    @pytest.mark.parametrize("name", ["cb", "cb-focal", "2s-cb-focal", "ldam-rw", "ubm-ldam-cbrw"])
    def test_class_balanced_weights(self, stats, name):
        np.testing.assert_allclose(plan(METHODS[name], stats, 199, 200).weight, class_balanced(stats), rtol=1e-10)

    def test_cost_sensitive_weights(self, stats):
        """N_min / N_c up to the factor that brings the sum to C."""
        w = plan(METHODS["2s-csce"], stats, 199, 200).weight
        np.testing.assert_allclose(w / w.max(), [min(stats.counts) / n for n in stats.counts], rtol=1e-12)

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


@pytest.mark.parametrize(
    ("second", "first"),
    [
        ("2s-cb-rs", "cb-rs"),
        ("2s-ubrs", "ubrs"),
        ("2s-focal", "focal"),
        ("2s-cb-focal", "cb-focal"),
        ("2s-ubrw", "ubrw"),
        ("2s-ubrw-focal", "ubrw-focal"),
    ],
)
def test_second_stage_is_the_one_stage_row(second, first):
    for epoch in (160, 199):
        assert same_plan(plan(METHODS[second], LONG_TAIL, epoch, 200), plan(METHODS[first], LONG_TAIL, epoch, 200), 1e-12)


@pytest.mark.parametrize("name", ["ldam-rw", "ubm-ldam-rw", "ubm-ldam-cbrw"])
def test_ldam_weights_come_in_the_second_stage(name):
    assert plan(METHODS[name], LONG_TAIL, 159, 200).weight.tolist() == [1] * 10
    assert not np.allclose(plan(METHODS[name], LONG_TAIL, 160, 200).weight, 1)


FORMS = {  # gamma, sigmoid form, head, scale, beta, reduction at the last epoch, recipes.md 1.6 and 8; reductions: Eq. 4, LDAM-DRW
    "naive": (0, False, "linear", 1, 0, "mean"),
    "focal": (2, True, "linear", 1, 0, "mean"),
    "cb": (0, False, "linear", 1, 0, "mean"),
    "cb-focal": (2, True, "linear", 1, 0, "mean"),
    "ubrw": (0, False, "linear", 1, 0, "mean"),
    "ubrw-focal": (2, True, "linear", 1, 0, "mean"),
    "ldam": (0, False, "cosine", 30, 0, "mean"),
    "ldam-rw": (0, False, "cosine", 30, 0, "weights"),
    "ubm-ldam": (0, False, "cosine", 30, 0, "mean"),
    "2s-csce": (0, False, "linear", 1, 0, "mean"),
    "2s-cb-focal": (2, True, "linear", 1, 0, "mean"),
    "logit-adjust": (0, False, "linear", 1, 1, "mean"),
    "vs": (0, False, "linear", 1, 1, "mean"),
}


@pytest.mark.parametrize("name", FORMS)
def test_form_of_the_loss(name):
    at, method = plan(METHODS[name], LONG_TAIL, 199, 200), METHODS[name]
    assert (at.gamma, at.sigmoid, method.head, at.scale, at.beta, method.reduction) == FORMS[name]


@pytest.mark.parametrize(
    ("ramp", "values"),
    [
        (always, [1, 1, 1, 1, 1]),
        (linear, [0.2, 0.4, 0.6, 0.8, 1]),
        (late, [0, 0, 0, 0, 1]),
        (late_linear, [0, 0, 0, 0, 1]),
    ],
)
def test_ramp(ramp, values):
    assert [ramp(epoch, 5) for epoch in range(5)] == pytest.approx(values)


@pytest.mark.parametrize("epochs", range(2, 41))
def test_second_stage_is_the_last_fifth_and_never_empty(epochs):
    """A two-stage method whose second stage never comes would be reported under a name it has not earned."""
    on = [late(epoch, epochs) for epoch in range(epochs)]
    assert on == sorted(on)
    assert abs(sum(on) - epochs / 5) <= 0.5 or epochs < 3
    assert on[-1] == 1


def test_softmax_focal_comes_in_by_its_ramp():
    method = Method(focal=Focal(1.0, sigmoid=False, ramp=linear))
    assert [plan(method, UNORDERED, epoch, 4).gamma for epoch in range(4)] == [0.25, 0.5, 0.75, 1]
    assert not plan(method, UNORDERED, 3, 4).sigmoid


def test_any_measure_drives_any_method():
    """UBRs is cb-rs driven by uncertainty, and so on."""
    for name, row in METHODS.items():
        if row.counterpart and len({knob.measure for knob in row.knobs.values()}) == 1:
            driven = METHODS[row.counterpart].using(next(iter(row.knobs.values())).measure)
            assert same_plan(plan(driven, LONG_TAIL, 199, 200), plan(row, LONG_TAIL, 199, 200), 1e-14), name


def test_strength_interpolates_from_rest():
    knob = Knob(named("ubrw").weight.measure, to_classes, lambda epoch, epochs: 0.25)
    weight = plan(Method(weight=knob), Stats([10, 20], [0.1, 0.3]), 0, 1).weight
    np.testing.assert_allclose(weight, [0.75 + 0.25 * 0.5, 0.75 + 0.25 * 1.5], rtol=1e-14)


@pytest.mark.parametrize(("epoch", "epochs"), [(-1, 5), (5, 5), (0, 0)])
def test_epoch_refused(epoch, epochs):
    with pytest.raises(InputError, match=rf"^epoch is {epoch}: it must be from 0 to {epochs - 1}\.$"):
        plan(METHODS["naive"], UNORDERED, epoch, epochs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "cosin"}, r"^head is 'cosin': it must be 'linear' or 'cosine'\.$"),
        ({"reduction": "sum"}, r"^reduction is 'sum': it must be 'mean' or 'weights'\.$"),
        ({"beta": 0.5}, r"^beta is 0\.5: it must be 0 or 1\.$"),
    ],
    ids=["head", "reduction", "beta"],
)
def test_method_refuses(changes, message):
    with pytest.raises(InputError, match=message):
        Method(**changes)


def test_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match=r"^unknown method 'ubrz': did you mean 'ubr[sw]'\? There are naive, cb-rs, "):
        named("ubrz")


def test_rows_say_what_they_are():
    assert all(row.about for row in METHODS.values())
    assert len({row.about for row in METHODS.values()}) == len(METHODS)


def test_stored_words_name_every_unit():
    """What a result says of its method is read by people; a lambda says nothing."""
    assert [name for name, row in METHODS.items() if "lambda" in str(describe(row))] == []


def test_plan_has_no_field_that_the_contracts_do_not_know():
    """A new knob must come with its unit in check_plan_units."""
    assert [f.name for f in fields(Plan)] == ["alpha", "weight", "margin", "divisor", "beta", "gamma", "sigmoid", "scale", "natural"]
