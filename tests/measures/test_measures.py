"""Measures: the contracts for every row, and the formulas of Eqs. 6, 7, 9 and 10 and of Cui et al., written out."""

import math
from itertools import pairwise

import numpy as np
import pytest
from contracts import EXAMPLES, LONG_TAIL, UNORDERED, verify
from hypothesis import given
from hypothesis import strategies as st
from measure_contracts import measure_checks
from refusals import refused

from class_uncertainty import MEASURES, InputError, Stats, class_uncertainty, normalise
from class_uncertainty.measures import measure_named
from class_uncertainty.measures.measures import (
    Measure,
    cardinality,
    effective,
    geometric,
    mix,
    power,
    product,
    surprisal,
    uncertainty,
    uniform,
)

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check.__name__}")
        for name, row in MEASURES.items()
        for check in measure_checks(row)
    ],
)
def test_contract(name, check):
    verify(name, check, MEASURES[name])


POWERS = {
    name: measure_named(name)
    for name in ("uncertainty^0.5", "uncertainty^2", "cardinality^0.5", "surprisal^0.5", "effective^0.3")
}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check.__name__}")
        for name, row in POWERS.items()
        for check in measure_checks(row)
    ],
)
def test_contract_of_powers(name, check):
    check(POWERS[name])


FORMULAS = {
    "uniform": lambda n: 1.0,
    "cardinality": lambda n: 1 / n,
    "cardinality-root": lambda n: 1 / math.sqrt(n),
    "cardinality-quarter": lambda n: 1 / math.sqrt(math.sqrt(n)),
    "effective": lambda n: (1 - 0.9999) / (1 - 0.9999**n),
    "effective:beta=0.99": lambda n: (1 - 0.99) / (1 - 0.99**n),
    "effective:beta=.9^2": lambda n: ((1 - 0.9) / (1 - 0.9**n)) ** 2,
    "cardinality:power=0.25": lambda n: 1 / n**0.25,
    "cardinality:power=-5e-1": lambda n: math.sqrt(n),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    for stats in EXAMPLES:
        np.testing.assert_allclose(
            measure_named(name)(stats), [FORMULAS[name](int(count)) for count in stats.counts], rtol=1e-10
        )


def test_surprisal_is_minus_the_log_prior():
    np.testing.assert_allclose(
        MEASURES["surprisal"](Stats([1, 1, 2])), [math.log(4), math.log(4), math.log(2)], rtol=1e-14
    )


def test_uncertainty_is_the_class_means_as_given():
    assert MEASURES["uncertainty"](UNORDERED).tolist() == [0.5, 0.9, 0.1]


def test_cardinality_of_a_hand_computed_case():
    """1/2, 1/4, 1/4 of a class of 10, 20, 20."""
    np.testing.assert_allclose(normalise(cardinality()(Stats([10, 20, 20]))), [0.5, 0.25, 0.25], rtol=1e-15)


@pytest.mark.parametrize("stats", EXAMPLES, ids=["long-tail", "unordered", "two"])
def test_effective_runs_from_uniform_to_cardinality(stats):
    np.testing.assert_allclose(normalise(effective(1e-12)(stats)), normalise(uniform(stats)), rtol=1e-10)
    np.testing.assert_allclose(normalise(effective(1 - 1e-12)(stats)), normalise(cardinality()(stats)), rtol=1e-6)
    tail = [
        normalise(effective(beta)(stats))[stats.counts.argmin()]
        for beta in (1e-12, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-12)
    ]
    assert all(b >= a for a, b in pairwise(tail))
    assert tail[-1] > tail[0]


def test_effective_number_of_one_example_is_one():
    for beta in (0.1, 0.9, 0.9999, 1 - 1e-9):
        assert effective(beta)(Stats([1, 50]))[0] == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("beta", [0, 1, -0.5, 1.5, math.nan])
def test_effective_refuses(beta):
    with pytest.raises(InputError, match=r"^beta is .*: the effective number needs a value above 0 and below 1\.$"):
        effective(beta)


def test_mix_ends_and_middle():
    a, b = uncertainty, effective()
    np.testing.assert_allclose(mix(a, b, 1)(LONG_TAIL), normalise(a(LONG_TAIL)), rtol=1e-14)
    np.testing.assert_allclose(mix(a, b, 0)(LONG_TAIL), normalise(b(LONG_TAIL)), rtol=1e-14)
    np.testing.assert_allclose(
        mix(a, b, 0.3)(LONG_TAIL), 0.3 * normalise(a(LONG_TAIL)) + 0.7 * normalise(b(LONG_TAIL)), rtol=1e-14
    )


def test_mix_does_not_depend_on_the_scale_of_its_parts():
    large = Measure("large", "1000 / N_c", lambda stats: 1000 / stats.counts)
    np.testing.assert_allclose(
        mix(large, uniform, 0.5)(LONG_TAIL), mix(cardinality(), uniform, 0.5)(LONG_TAIL), rtol=1e-14
    )


def test_mix_needs_uncertainty_if_a_part_does():
    assert mix(uncertainty, uniform, 0.5).uses_uncertainty
    assert mix(uniform, uncertainty, 0.5).uses_uncertainty
    assert not mix(uniform, cardinality(), 0.5).uses_uncertainty


@pytest.mark.parametrize(
    ("name", "gamma", "beta"),
    [
        ("mix", 0.5, 0.9999),
        ("mix:gamma=0.3", 0.3, 0.9999),
        ("mix:beta=0.99", 0.5, 0.99),
        ("mix:beta=0.9:gamma=0.2", 0.2, 0.9),
    ],
)
def test_mixes_of_the_table(name, gamma, beta):
    """gamma of uncertainty, the rest of the effective number, as in the supplement."""
    for stats in EXAMPLES:
        inverse = [(1 - beta) / (1 - beta ** int(n)) for n in stats.counts]
        pairs = zip(stats.uncertainty, inverse, strict=True)
        expected = [gamma * u / sum(stats.uncertainty) + (1 - gamma) * e / sum(inverse) for u, e in pairs]
        np.testing.assert_allclose(measure_named(name)(stats), expected, rtol=1e-10)


def test_product_and_geometric_mean():
    """u / N_c, and its square root."""
    for stats in EXAMPLES:
        expected = [u / n for u, n in zip(stats.uncertainty, stats.counts, strict=True)]
        np.testing.assert_allclose(MEASURES["product"](stats), expected, rtol=1e-14)
        np.testing.assert_allclose(MEASURES["geometric"](stats), [math.sqrt(v) for v in expected], rtol=1e-14)


def test_hand_computed_product():
    """0.2 / 4 and 0.1 / 1: the rare class counts twice as much, in the geometric mean by a factor of sqrt(2)."""
    stats = Stats([4, 1], [0.2, 0.1])
    np.testing.assert_allclose(MEASURES["product"](stats), [0.05, 0.1], rtol=1e-15)
    assert np.divide(*MEASURES["geometric"](stats)[::-1]) == pytest.approx(math.sqrt(2))


def test_geometric_mean_with_itself_is_itself():
    np.testing.assert_allclose(geometric(surprisal, surprisal)(LONG_TAIL), surprisal(LONG_TAIL), rtol=1e-14)


@pytest.mark.parametrize("combine", [product, geometric])
def test_products_need_uncertainty_if_a_part_does(combine):
    assert combine(uncertainty, uniform).uses_uncertainty
    assert combine(uniform, uncertainty).uses_uncertainty
    assert not combine(uniform, cardinality()).uses_uncertainty
    assert power(combine(uniform, uncertainty), 2).uses_uncertainty


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2])
def test_power(exponent):
    for stats in EXAMPLES:
        np.testing.assert_allclose(
            power(uncertainty, exponent)(stats), [u**exponent for u in stats.uncertainty], rtol=1e-14
        )
    assert power(uncertainty, exponent).uses_uncertainty
    assert not power(uniform, exponent).uses_uncertainty


def test_power_0_is_uniform_and_1_is_itself():
    assert power(uncertainty, 0)(LONG_TAIL).tolist() == uniform(LONG_TAIL).tolist()
    assert power(uncertainty, 1)(LONG_TAIL).tolist() == uncertainty(LONG_TAIL).tolist()


def test_a_power_of_cardinality_is_cardinality_of_that_power():
    """1 / N_c ** 0.3 by two ways, and one name."""
    a, b = power(cardinality(), 0.3), cardinality(0.3)
    np.testing.assert_allclose(a(LONG_TAIL), b(LONG_TAIL), rtol=1e-14)
    assert a.name == b.name == "cardinality^0.3"


@pytest.mark.parametrize("exponent", [math.inf, -math.inf, math.nan])
def test_power_refuses(exponent):
    with pytest.raises(InputError, match=rf"^power is {exponent}: it must be a finite number\.$"):
        power(uniform, exponent)


@pytest.mark.parametrize("name", MEASURES)
def test_measure_by_name(name):
    assert measure_named(name) is MEASURES[name]
    np.testing.assert_allclose(measure_named(f"{name}^0.5")(LONG_TAIL), np.sqrt(MEASURES[name](LONG_TAIL)), rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "uncertanty",
            ("unknown measure 'uncertanty'", "did you mean 'uncertainty'?", "There are uniform, ", ", geometric"),
        ),
        ("uncertanty^2", ("unknown measure 'uncertanty'", "There are uniform, ")),
        ("", ("unknown measure ''", "there are uniform, ")),
        ("^2", ("unknown measure ''", "there are uniform, ")),
        ("effective:beta=1", ("measure 'effective:beta=1'", "beta is 1", "above 0 and below 1")),
        ("cardinality:power=x", ("measure 'cardinality:power=x'", "power is 'x'", "no finite number", "power=1")),
        ("cardinality:beta=1", ("unknown constant 'beta'", "power")),
        ("product:gamma=1", ("'product' takes no constants", "leave out ':gamma=1'")),
        ("mix^", ("'mix^'", "the power ''", "a number", "mix^0.5")),
        ("mix^half", ("'mix^half'", "the power 'half'", "a number", "mix^0.5")),
        ("mix^1,5", ("the power '1,5'", "a number")),
        ("mix^inf", ("power is inf", "finite")),
        ("mix^nan", ("power is nan", "finite")),
    ],
)
def test_name_refused(name, parts):
    with refused(*parts):
        measure_named(name)


def test_measures_have_names_of_their_own():
    """A stored result is read by its measure's name."""
    names = [measure.name for measure in MEASURES.values()]
    assert len(set(names)) == len(names)
    assert len({measure.about for measure in MEASURES.values()}) == len(names)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan])
def test_mix_refuses(gamma):
    with pytest.raises(InputError, match=r"^gamma is .*: a mix needs a value from 0 to 1\.$"):
        mix(uniform, uniform, gamma)


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=50))
def test_normalise_sums_to_one_and_keeps_ratios(values):
    mu = normalise(values)
    assert mu.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(mu * values[0], mu[0] * np.array(values), rtol=1e-9)


@pytest.mark.parametrize("mu", [[0.0, 0.0], [1e308, 1e308], [math.inf, 1.0], [math.nan, 1.0], [-1.0, 2.0]])
def test_normalise_refuses_a_vector_without_a_sum(mu):
    with pytest.raises(InputError):
        normalise(mu)


def test_duplicates_of_single_examples_are_weighed_as_examples():
    """Only a duplication of a whole class leaves its mean alone: twice the uncertain one of two is two thirds of the
    mean."""
    p = np.array([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]])
    np.testing.assert_allclose(class_uncertainty(p, [0, 0, 1]), [math.log(2) / 2, 0])
    np.testing.assert_allclose(class_uncertainty(p[:, [0, 1, 1, 2]], [0, 0, 0, 1]), [2 * math.log(2) / 3, 0])


@pytest.mark.parametrize(
    ("counts", "given", "message"),
    [
        pytest.param(
            [5, 0], None, r"^counts of class 1 is 0: every class needs a finite value above 0\.$", id="no examples"
        ),
        pytest.param([5, -3], None, r"^counts of class 1 is -3: ", id="negative"),
        pytest.param([math.nan, 5], None, r"^counts of class 0 is nan: ", id="nan"),
        pytest.param(
            [5],
            None,
            r"^counts has shape \(1,\): it needs one value for each of at least two classes\.$",
            id="one class",
        ),
        pytest.param([[5, 5]], None, r"^counts has shape \(1, 2\): ", id="a matrix"),
        pytest.param([5, 5], [0.1, math.inf], r"^uncertainty of class 1 is inf: ", id="infinite uncertainty"),
        pytest.param([5, 5], [0.1, 0.0], r"^uncertainty of class 1 is 0: ", id="no uncertainty"),
        pytest.param([5, 5], [0.1, 0.2, 0.3], r"^uncertainty has 3 classes, and counts has 2", id="lengths"),
    ],
)
def test_stats_refuses(counts, given, message):
    with pytest.raises(InputError, match=message):
        Stats(counts, given)


def test_stats_refuses_what_is_not_a_number():
    with pytest.raises(InputError):
        Stats(["many", "few"])


def test_stats_keep_their_own_read_only_copy():
    given = np.array([5.0, 6.0])
    stats = Stats(given)
    given[0] = 9
    assert stats.counts.tolist() == [5, 6]
    with pytest.raises(ValueError, match="read-only"):
        stats.counts[0] = 9
