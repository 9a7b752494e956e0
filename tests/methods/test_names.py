"""The names of the command line: what they mean, how wrong ones are refused, and that every row of the paper's tables
has one."""

import re

import numpy as np
import pytest
from contracts import LONG_TAIL
from hypothesis import given
from hypothesis import strategies as st
from method_contracts import free, same_plan
from refusals import refused

from class_uncertainty import MEASURES, METHODS, plan
from class_uncertainty.measures import normalise
from class_uncertainty.methods import AUGMENTATIONS, named, parse_name
from class_uncertainty.methods.names import MethodName

pytestmark = pytest.mark.usefixtures("no_global_random")


@pytest.mark.parametrize("name", METHODS)
def test_a_row_is_named_as_it_is(name):
    assert named(name) is METHODS[name]


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_drives_a_method(measure):
    assert named(f"ubrw@{measure}") == METHODS["ubrw"].using(MEASURES[measure])
    assert named(f"ub-crt@{measure}") == METHODS["ub-crt"].using(MEASURES[measure])


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if any(free(each) for each in row.stages)])
def test_every_method_with_a_knob_is_driven(name):
    """In whichever stage the knobs stand."""
    driven = [knob.measure.name for each in named(f"{name}@uncertainty^0.5").stages for knob in free(each).values()]
    assert driven
    assert set(driven) == {"uncertainty^0.5"}


@pytest.mark.parametrize(("text", "power"), [("0.5", 0.5), ("2", 2), ("-1", -1), ("0", 0), ("1e-1", 0.1)])
def test_powers(text, power):
    """w_c = C u_c ** power / sum u ** power."""
    raised = [u**power for u in LONG_TAIL.uncertainty]
    np.testing.assert_allclose(
        plan(named(f"ubrw@uncertainty^{text}"), LONG_TAIL, 0, 1).weight, [10 * r / sum(raised) for r in raised]
    )


def test_a_power_of_a_combination():
    product = [u / n for u, n in zip(LONG_TAIL.uncertainty, LONG_TAIL.counts, strict=True)]
    np.testing.assert_allclose(
        plan(named("ubrs@product^0.5"), LONG_TAIL, 0, 1).alpha, normalise(np.sqrt(product)), rtol=1e-14
    )


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_every_augmentation(augmentation):
    assert named(f"cb+{augmentation}") == METHODS["cb"].augmented(augmentation)


def test_several_augmentations_in_whatever_order_are_the_same():
    assert named("cb+cutout+mixup+autoaugment").augment == ("autoaugment", "cutout", "mixup")


def test_an_augmentation_twice_is_there_once():
    assert named("mixup+mixup") == named("mixup")
    assert named("dro+cutout+cutout") == named("dro+cutout")


def test_a_measure_and_augmentations():
    method = named("2s-cam-rs@uncertainty+mixup")
    assert [each.augment for each in method.stages] == [("mixup",)] * 2
    assert method.then[0].method.alpha.measure is MEASURES["uncertainty"]


def test_mixup_is_naive_with_mixup():
    assert same_plan(plan(named("mixup"), LONG_TAIL, 0, 5), plan(named("naive+mixup"), LONG_TAIL, 0, 5))
    assert named("mixup").augment == named("naive+mixup").augment


PARTS = {
    "cb": MethodName("cb"),
    "ubrw@product^0.5": MethodName("ubrw", "product^0.5"),
    "cb+mixup+cutout": MethodName("cb", None, ("mixup", "cutout")),
    "ubrw@mix+remix*5": MethodName("ubrw", "mix", ("remix",), 5),
    "nothing@such+thing": MethodName("nothing", "such", ("thing",)),
    "ubrw@": MethodName("ubrw", ""),
    "cb+": MethodName("cb", None, ("",)),
    "cb*x": MethodName("cb*x"),
    "": MethodName(""),
    "cb-focal:beta=0.990:gamma=1": MethodName("cb-focal", constants=("beta=0.990", "gamma=1")),
    "ubrw-focal:gamma=1@mix:gamma=0.3:beta=0.99^0.5+mixup*5": MethodName(
        "ubrw-focal", "mix:gamma=0.3:beta=0.99^0.5", ("mixup",), 5, ("gamma=1",)
    ),
    "cb:": MethodName("cb", constants=("",)),
    "cb:beta": MethodName("cb", constants=("beta",)),
    "cb::=1=2": MethodName("cb", constants=("", "=1=2")),
    ":@:": MethodName("", ":", constants=("",)),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_parts_of_a_name(name):
    """Whether they exist or not; together they are the name again."""
    parts = parse_name(name)
    assert parts == PARTS[name]
    assert str(parts) == name
    assert parts.single == (name.partition("*")[0] if parts.networks else name)


@given(st.text(alphabet=":=@^+*.abz019-", max_size=30))
def test_a_name_is_the_same_again(name):
    """Whatever is written, but for zeros before the number of networks."""
    assert str(parse_name(name)) == re.sub(r"(?<=.\*)0+(?=\d+$)", "", name)


def test_several_networks_are_no_method():
    with refused("method", "'cb*5'"):
        named("cb*5")


def test_an_origin_is_no_part_of_a_method():
    """Rows say where they come from; equality, repr and keys do not see it."""
    method = METHODS["cb"]
    assert "Table I" in method.origin.paper
    assert method == method.cited("elsewhere")
    assert repr(method) == repr(method.cited("elsewhere"))
    assert {name for name, row in METHODS.items() if not any(row.origin)} == {
        "ub-crt",
        "remix",
        "balanced-softmax",
        "vs",
        "cyclic",
        "dropout",
    }


REFUSED = {
    "ubrz": ("unknown method 'ubrz'", "did you mean 'ubr", "among them ubrw, ubrs, ", "'cu list methods' lists all"),
    "UBRW": ("unknown method 'UBRW'", "did you mean 'ubrw'?", "among them ubrw, "),
    "": ("unknown method ''", "among them naive, cb-rs"),
    "@uncertainty": ("unknown method ''", "among them naive, cb-rs"),
    "+mixup": ("unknown method ''", "among them naive, cb-rs"),
    "ubrw @uncertainty": ("unknown method 'ubrw '", "did you mean 'ubrw'?"),
    "ubrz@nonsense+nothing": ("unknown method 'ubrz'",),
    "ubrw@uncertanty": (
        "unknown measure 'uncertanty'",
        "did you mean 'uncertainty'?",
        "There are uniform, cardinality, ",
    ),
    "ubrw@uncertanty^2": ("unknown measure 'uncertanty'", "did you mean 'uncertainty'?"),
    "ubrw@": ("unknown measure ''", "there are uniform"),
    "ubrw@^2": ("unknown measure ''", "there are uniform"),
    "ubrw@uncertainty@mix": ("unknown measure 'uncertainty@mix'", "There are uniform"),
    "ubrw@uncertainty^": ("'uncertainty^'", "the power ''", "a number", "uncertainty^0.5"),
    "ubrw@product^two": ("'product^two'", "the power 'two'", "a number", "product^0.5"),
    "ubrw@uncertainty^2^2": ("'uncertainty^2^2'", "the power '2^2'", "a number"),
    "ubrw@uncertainty^inf": ("power is inf", "finite number"),
    "ubrw@uncertainty^-1e999": ("power is -inf", "finite number"),
    "ubrw@uncertainty^nan": ("power is nan", "finite number"),
    "ubrw+mixip": (
        "unknown augmentation 'mixip'",
        "did you mean 'mixup'?",
        "There are autoaugment, cutout, mixup, remix",
    ),
    "ubrw+": ("unknown augmentation ''", "there are autoaugment, cutout, mixup, remix"),
    "ubrw+cutout@product": ("unknown augmentation 'cutout@product'", "did you mean 'cutout'?"),
    "naive+mixup+remix": ("mixup and remix are given", "one way"),
    "mixup+remix": ("mixup and remix are given", "one way"),
    "remix+mixup": ("mixup and remix are given", "one way"),
    "cb:bet=0.9": ("unknown constant 'bet'", "did you mean 'beta'?", "only beta"),
    "cb-focal:delta=1": ("unknown constant 'delta'", "beta, gamma"),
    "cb-focal:=1": ("unknown constant ''", "beta, gamma"),
    "cb-focal:": ("unknown constant ''", "beta, gamma"),
    "vs:tau=1": ("unknown constant 'tau'", "gamma, kappa"),
    "naive:gamma=1": ("'naive' takes no constants", "leave out ':gamma=1'"),
    "balanced-softmax:kappa=2": ("'balanced-softmax' takes no constants", "leave out ':kappa=2'"),
    "cb-bot": ("unknown method 'cb-bot'",),
    "cb:beta": ("'cb:beta'", "beta is ''", "no finite number", "beta=0.9999"),
    "cb:beta=": ("'cb:beta='", "beta is ''", "no finite number", "beta=0.9999"),
    "cb:beta=half": ("'cb:beta=half'", "beta is 'half'", "no finite number", "beta=0.9999"),
    "cb:beta=0.9=0.8": ("beta is '0.9=0.8'", "no finite number"),
    "focal:gamma=inf": ("gamma is 'inf'", "no finite number", "gamma=2"),
    "focal:gamma=nan": ("gamma is 'nan'", "no finite number", "gamma=2"),
    "focal:gamma=1e999": ("gamma is '1e999'", "no finite number", "gamma=2"),
    "focal:gamma=1_0": ("gamma is '1_0'", "no finite number"),
    "focal:gamma= 1": ("gamma is ' 1'", "no finite number"),
    "focal:gamma=1:gamma=1": ("'focal:gamma=1:gamma=1'", "'gamma' is given twice"),
    "cb:beta=1": ("'cb:beta=1'", "beta is 1", "above 0 and below 1"),
    "cb:beta=1.0000001": ("'cb:beta=1.0000001'", "beta is 1.0000001", "above 0 and below 1"),
    "focal:gamma=-1": ("'focal:gamma=-1'", "gamma is -1", "from 0"),
    "ldam:tau=-0.1": ("'ldam:tau=-0.1'", "tau is -0.1", "from 0"),
    "dro:epsilon=-1": ("'dro:epsilon=-1'", "epsilon is -1", "from 0"),
    "logit-adjust:kappa=-1": ("'logit-adjust:kappa=-1'", "kappa is -1", "from 0"),
    "vs:gamma=-1": ("'vs:gamma=-1'", "gamma is -1", "from 0"),
    "dropout:rate=1": ("'dropout:rate=1'", "rate is 1", "from 0 to below 1"),
    "cyclic:cycles=0": ("'cyclic:cycles=0'", "cycles is 0", "whole number from 1"),
    "cyclic:cycles=2.5": ("'cyclic:cycles=2.5'", "cycles is 2.5", "whole number"),
    "ubrw@mix:gama=1": ("unknown constant 'gama'", "did you mean 'gamma'?", "There are gamma, beta"),
    "ubrw@uncertainty:beta=1": ("'uncertainty' takes no constants", "leave out ':beta=1'"),
    "ubrw@mix:gamma=2^0.5": ("'mix:gamma=2'", "gamma is 2", "from 0 to 1"),
    "ubrw@mix^0.5:gamma=0.3": ("the power '0.5:gamma=0.3'", "a number"),
    "ubrw@mix-0.3": ("unknown measure 'mix-0.3'", "did you mean 'mix'?"),
    "naive@uncertainty": ("no knob", "leave out '@"),
    "focal@uncertainty": ("no knob", "leave out '@"),
    "mixup@cardinality": ("no knob", "leave out '@"),
    "duq@uncertainty^2": ("no knob", "leave out '@"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with refused(*REFUSED[name]):
        named(name)


@pytest.mark.parametrize("name", ["power-rs:q=0.3@uncertainty", "cb:beta=0.9@cardinality"])
def test_a_constant_that_a_measure_replaces_is_refused(name):
    row, _, measure = name.partition("@")
    with refused(f"@{measure}", row.partition(":")[2]):
        named(name)
    named(f"{row.partition(':')[0]}@{measure}")
    named("ubm-ldam:tau=0.3@cardinality")  # tau is not the measure's
