"""REMEDIES, their names and what they cost."""

import pytest
from refusals import refused

from class_uncertainty.posthoc.remedies import REMEDIES, find_remedy


def test_every_row_is_found_by_its_name():
    assert {name: find_remedy(name) for name in REMEDIES} == REMEDIES


@pytest.mark.parametrize("name", ["naive", "cb-rs@product+mixup", "2s-ubrw"])
def test_a_method_is_no_remedy(name):
    assert find_remedy(name) is None


def test_an_ensemble_of_any_method_is_a_remedy():
    remedy = find_remedy("cb@product*3")
    assert remedy is not None
    assert (remedy.method, remedy.together, remedy.adjusts, remedy.trainings(5)) == ("cb@product", 3, False, 3)
    adjusted = find_remedy("adjusted*4")
    assert adjusted is not None
    assert (adjusted.method, adjusted.together, adjusted.adjusts, adjusted.trainings(5)) == ("naive", 4, True, 4)


def test_costs_are_in_naive_trainings():
    """A student asks each teacher at every step, for a third of what a step costs."""
    costs = {name: remedy.trainings(6) for name, remedy in REMEDIES.items()}
    assert costs.pop("distil") == pytest.approx(6 + 1 + 6 / 3)
    assert costs.pop("adjusted") == 1
    assert set(costs.values()) == {6}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cb*1", ["'cb*1'", "from 2"]),
        ("cb*1001", ["'cb*1001'", "1,000"]),
        ("distil*3", ["'distil*3'", "--members"]),
        ("cbb*3", ["'cbb'", "'cb'"]),
        ("distil+mixup", ["'distil+mixup'", "'distil'"]),
        ("adjusted@product", ["'adjusted@product'", "'adjusted'"]),
    ],
)
def test_names_that_are_refused(name, parts):
    with refused(*parts):
        find_remedy(name)
