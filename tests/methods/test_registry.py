"""Rows with constants: each constant changes the plan as its formula says, and what the row says of itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
from contracts import EXAMPLES, LONG_TAIL
from method_contracts import same_plan

from class_uncertainty import MEASURES, METHODS, Method, plan
from class_uncertainty.measures import MEASURE_MAKERS, constants_of, measure_named, normalise
from class_uncertainty.methods import MAKERS, Focal, Knob, named
from class_uncertainty.methods.method import always, late, to_classes, to_max
from class_uncertainty.text import short
from class_uncertainty.training import describe

pytestmark = pytest.mark.usefixtures("no_global_random")
SOFTMAX = ("cb-focal-softmax", "ubrw-focal-softmax", "2s-cb-focal-softmax", "2s-ubrw-focal-softmax")
EFFECTIVE = ("cb", "cb-literal", "cb-focal", "2s-cb-focal", "2s-cb-focal-literal", "ldam-rw", "ubm-ldam-cbrw")
EFFECTIVE += ("cb-focal-softmax", "2s-cb-focal-softmax")
FOCAL = ("focal", "cb-focal", "ubrw-focal", "2s-focal", "2s-cb-focal", "2s-ubrw-focal", *SOFTMAX)
LITERAL = ("2s-focal-literal", "2s-cb-focal-literal", "2s-ubrw-focal-literal")
LDAM = ("ldam", "ldam-rw", "ubm-ldam", "ubm-ldam-rw", "ubm-ldam-cbrw")
ALL = [(name, constant) for name in MAKERS for constant in constants_of(name, MAKERS)]


def class_balanced(stats, beta):
    inverse = [(1 - beta) / (1 - beta ** int(n)) for n in stats.counts]
    return [len(inverse) * value / sum(inverse) for value in inverse]


def last(name, stats, stage=0):
    return plan(named(name).stages[stage], stats, 199, 200)


@pytest.mark.parametrize(("name", "constant"), ALL)
def test_the_constants_are_these(name, constant):
    """With their defaults; the tests below change each of them."""
    defaults = {
        "beta": (0.9999, EFFECTIVE),
        "gamma": (2.0, (*FOCAL, *LITERAL)),
        "tau": (0.5, LDAM),
        "epsilon": (1.0, ("dro", "ubm-dro")),
        "kappa": (1.0, ("logit-adjust", "vs")),
        "cycles": (5, ("cyclic",)),
        "rate": (0.5, ("dropout",)),
        "q": (0.5, ("power-rs",)),
    }
    default, names = (0.3, ("vs",)) if (name, constant) == ("vs", "gamma") else defaults[constant]
    assert name in names
    assert constants_of(name, MAKERS)[constant] == default


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99, 0.9999999])
@pytest.mark.parametrize("name", EFFECTIVE)
def test_beta_is_the_effective_number_s(name, beta):
    for stats in EXAMPLES:
        np.testing.assert_allclose(last(f"{name}:beta={beta}", stats).weight, class_balanced(stats, beta), rtol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", [*FOCAL, *LITERAL])
def test_gamma_is_the_focal_loss_s(name, gamma):
    """Throughout, or in the second stage alone where the row is the literal reading; nothing else changes."""
    method = named(f"{name}:gamma={gamma}")
    first, second = (plan(method, LONG_TAIL, epoch, 200) for epoch in (0, 199))
    assert (first.gamma, second.gamma) == (0 if name in LITERAL else gamma, gamma)
    assert same_plan(replace(second, gamma=2.0), last(name, LONG_TAIL))


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", LDAM)
def test_tau_is_the_largest_margin(name, tau):
    for stats in EXAMPLES:
        raw = [n**-0.25 for n in stats.counts] if name.startswith("ldam") else stats.uncertainty
        margin = last(f"{name}:tau={tau}", stats).margin
        np.testing.assert_allclose(margin, [tau * value / max(raw) for value in raw], rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 4.0])
def test_epsilon_scales_the_margins_of_dro(epsilon):
    """epsilon / sqrt(N_c); by uncertainty the margins sum to epsilon."""
    for stats in EXAMPLES:
        margin = last(f"dro:epsilon={epsilon}", stats, 1).margin
        np.testing.assert_allclose(margin, [epsilon / math.sqrt(n) for n in stats.counts], rtol=1e-12)
        margin = last(f"ubm-dro:epsilon={epsilon}", stats, 1).margin
        np.testing.assert_allclose(margin, epsilon * stats.uncertainty / sum(stats.uncertainty), rtol=1e-12)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.2])
@pytest.mark.parametrize("name", ["logit-adjust", "vs"])
def test_kappa_scales_the_log_prior(name, kappa):
    for stats in EXAMPLES:
        at = last(f"{name}:kappa={kappa}", stats)
        np.testing.assert_allclose(at.margin, [-kappa * math.log(n / sum(stats.counts)) for n in stats.counts])
        assert at.beta == 1


@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0])
def test_gamma_of_vector_scaling_is_a_power(gamma):
    for stats in EXAMPLES:
        at = last(f"vs:gamma={gamma}:kappa=1.2", stats)
        np.testing.assert_allclose(at.divisor, [(max(stats.counts) / n) ** gamma for n in stats.counts], rtol=1e-12)
        np.testing.assert_allclose(at.margin, [-1.2 * math.log(n / sum(stats.counts)) for n in stats.counts])


@pytest.mark.parametrize("q", [0.0, 0.3, 1.0])
def test_q_is_the_power_of_the_counts(q):
    for stats in EXAMPLES:
        drawn = [n**q for n in stats.counts]
        np.testing.assert_allclose(last(f"power-rs:q={q}", stats).alpha, np.divide(drawn, sum(drawn)), rtol=1e-12)


def test_cycles_and_rate():
    cyclic, dropout = named("cyclic:cycles=3"), named("dropout:rate=0.3")
    assert (cyclic.cycles, type(cyclic.cycles), dropout.dropout) == (3, int, 0.3)


@pytest.mark.parametrize(("name", "constant"), ALL)
def test_a_default_that_is_written_out_is_the_row_itself(name, constant):
    """Down to what is stored of it; another value is another method, whose line says so."""
    row, default = METHODS[name], constants_of(name, MAKERS)[constant]
    same, other = named(f"{name}:{constant}={default}"), named(f"{name}:{constant}={default * 3 / 5}")
    assert (same.about, describe(same), same.origin) == (row.about, describe(row), row.origin)
    assert describe(other) != describe(row)
    value = default * 60 if constant == "rate" else default * 3 / 5
    assert short(value) in other.about
    assert other.about != row.about


def test_constants_of_row_and_measure_are_their_own():
    """w = 3/10 u + 7/10 of the effective number by beta 0.99, both normalised; the loss is focal with gamma 1."""
    at = last("ubrw-focal:gamma=1@mix:gamma=0.3:beta=0.99", LONG_TAIL)
    inverse = normalise(class_balanced(LONG_TAIL, 0.99))
    np.testing.assert_allclose(at.weight, 10 * (0.3 * normalise(LONG_TAIL.uncertainty) + 0.7 * inverse), rtol=1e-9)
    assert at.gamma == 1


@pytest.mark.parametrize("name", MEASURES)
def test_measures_by_their_defaults_are_the_rows(name):
    for constant, default in constants_of(name, MEASURE_MAKERS).items():
        measure = measure_named(f"{name}:{constant}={default}")
        assert (measure.name, measure.about) == (MEASURES[name].name, MEASURES[name].about)
        assert measure(LONG_TAIL).tolist() == MEASURES[name](LONG_TAIL).tolist()


EFFECTIVE_NUMBER, UNCERTAINTY, CARDINALITY = (MEASURES[name] for name in ("effective", "uncertainty", "cardinality"))
AS_RUN = {  # what the rows under the paper's names are, put together by hand
    "cb": Method(weight=Knob(EFFECTIVE_NUMBER, to_classes), reduction="weights"),
    "cb-literal": Method(weight=Knob(EFFECTIVE_NUMBER, to_classes)),
    "cb-focal": Method(weight=Knob(EFFECTIVE_NUMBER, to_classes), focal=Focal(2.0)),
    "ubrw-focal": Method(weight=Knob(UNCERTAINTY, to_classes), focal=Focal(2.0)),
    "ldam": Method(margin=Knob(MEASURES["cardinality-quarter"], to_max(0.5)), head="cosine", scale=30.0),
    "2s-csce": Method(weight=Knob(CARDINALITY, to_classes, late), reduction="weights"),
    "2s-csce-literal": Method(weight=Knob(CARDINALITY, to_classes, late)),
    "2s-focal": Method(weight=Knob(CARDINALITY, to_max(1), late), focal=Focal(2.0, ramp=always)),
    "2s-focal-literal": Method(focal=Focal(2.0, ramp=late)),
    "2s-cb-focal": Method(weight=Knob(EFFECTIVE_NUMBER, to_classes, late), focal=Focal(2.0, ramp=always)),
    "2s-cb-focal-literal": Method(weight=Knob(EFFECTIVE_NUMBER, to_classes, late), focal=Focal(2.0, ramp=late)),
    "2s-ubrw-focal": Method(weight=Knob(UNCERTAINTY, to_classes, late), focal=Focal(2.0, ramp=always)),
    "2s-ubrw-focal-literal": Method(weight=Knob(UNCERTAINTY, to_classes, late), focal=Focal(2.0, ramp=late)),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_the_softmax_form_is_all_that_differs(name):
    sigmoid = METHODS[name.removesuffix("-softmax")]
    assert sigmoid.focal is not None
    assert describe(METHODS[name]) == describe(replace(sigmoid, focal=replace(sigmoid.focal, sigmoid=False)))
    assert describe(METHODS[name]) != describe(sigmoid)


@pytest.mark.parametrize("name", AS_RUN)
def test_what_is_stored_of_a_row(name):
    assert describe(METHODS[name]) == describe(AS_RUN[name])
    for epoch in (0, 159, 160, 199):
        assert same_plan(*(plan(method, LONG_TAIL, epoch, 200) for method in (METHODS[name], AS_RUN[name])))
