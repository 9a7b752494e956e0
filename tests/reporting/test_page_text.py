"""The sentences at the head of a section."""

from dataclasses import replace

import pytest
from reporting.examples import BETTER, FULL, LOST, NAIVE, TEN_CLASSES, WORSE, method_row

from class_uncertainty.reporting.page_text import class_lead, key_facts, method_lead, stored_facts
from class_uncertainty.reporting.section import Section
from class_uncertainty.training.network_size import NetworkSize

BEST = "<b>ubrs</b> has the lowest mean error: 8.00 ± 0.50 % over 5 runs, 2.00 points below naive’s 10.00"
EASIER = (
    "<b>class 9</b>, <b>class 8</b>, <b>class 7</b> and 1 more are easier than their counts suggest, by uncertainty"
)


@pytest.mark.parametrize(
    ("methods", "present", "absent"),
    [
        ((NAIVE, BETTER, LOST), BEST, "few"),
        ((NAIVE, BETTER, LOST), "5 runs diverged and are left out", "5 runs are few"),
        ((NAIVE, BETTER), "ranges do not overlap", "diverged"),
        ((NAIVE, method_row("cb", 9.5)), "ranges overlap", "do not overlap"),
        ((NAIVE, method_row("cb", 9.5, None, runs=1)), "1 run is few", "overlap"),
        ((NAIVE, WORSE), "No method here has a lower mean error than <b>naive</b>: 10.00", "points"),
        ((method_row("cb", 10.0), NAIVE), "lower mean error than <b>naive</b>", "<b>cb</b>"),
        ((NAIVE,), "<b>naive</b> has a mean error of 10.00 ± 0.50 % over 5 runs.", "lowest"),
        ((replace(NAIVE, runs=2),), "has a mean error of 10.00 ± 0.50 % over 2 runs.", "order"),
        ((NAIVE, method_row("cb", 9.5, 0.0, runs=2, seedless=True)), "every seed gives the same", "overlap"),
        ((NAIVE, method_row("cb", 9.5, 0.0, runs=2, seedless=True)), "9.50 ± 0.00 % over 2 runs", "few"),
        ((NAIVE, method_row("cb", 9.5, 0.0, runs=2)), "2 runs are few", "same network"),  # alike by chance
        ((BETTER, method_row("cb", 9.0)), "naive has no result at that learning rate", "below"),
        ((replace(NAIVE, lr=1.0), NAIVE, replace(BETTER, lr=1.0)), "Of 3 pairs of method and learning rate", "few"),
        ((replace(NAIVE, lr=1.0), replace(BETTER, naive_lr=1.0)), "naive’s 10.00 ± 0.50 % at learning rate 1;", "few"),
        ((replace(NAIVE, lr=1.0), replace(BETTER, naive_lr=None)), "naive has no result", "below"),
        ((NAIVE, replace(WORSE, collapsed=1)), "1 of 5 runs predicts one class only, and counts in the mean", "few"),
        ((LOST,), "No run of any method finished", "lowest"),
    ],
)
def test_the_lead_about_methods(methods, present, absent):
    (lead,) = method_lead(methods)
    assert present in str(lead).replace("\N{NO-BREAK SPACE}", " ")
    assert absent not in lead
    assert "significan" not in lead


def test_the_strip_names_the_parameters_or_else_the_network():
    sized = replace(FULL, network=NetworkSize("resnet18", 11_173_962))
    assert ("11.2 M", "parameters of resnet18") in key_facts(sized)
    assert ("resnet18", "network") in key_facts(replace(FULL, network=NetworkSize("resnet18")))
    assert not [fact for fact in key_facts(FULL) if "network" in fact or "parameters" in fact[1]]


def every(**fields):
    return [replace(row, **fields) for row in FULL.classes]


@pytest.mark.parametrize(
    ("rows", "present"),
    [
        (FULL.classes, EASIER),
        ([replace(row, rank_uncertainty=row.rank_cardinality) for row in FULL.classes], "Rarity ranks all classes"),
        (every(count=7), "equally many training examples"),
        (every(uncertainty=0.1), "All classes are equally uncertain."),
    ],
    ids=["disagreement", "agreement", "equal counts", "equal uncertainty"],
)
def test_the_lead_about_classes(rows, present):
    (lead,) = class_lead(rows)
    assert present in lead


def test_uncertainty_without_an_error_that_agrees_says_nothing():
    """The first class has rank 10 by rarity, 1 by uncertainty, and no error at all."""
    (lead,) = class_lead(FULL.classes)
    assert "harder" not in lead
    worse = [replace(FULL.classes[0], error=50.0, low=40.0, high=60.0), *FULL.classes[1:]]
    assert "größe 犬</b> is harder than its count suggests, by uncertainty and by error." in class_lead(worse)[0]
    unsure = [replace(worse[0], low=1.0), *FULL.classes[1:]]
    assert "harder" not in class_lead(unsure)[0]


def test_a_class_as_wrong_as_most_is_not_called_harder():
    """Nine of ten classes are always wrong: the mean error is below that of every one of them."""
    tied = [replace(row, error=100.0, low=97.0, high=100.0) for row in FULL.classes[:-1]]
    assert "harder" not in class_lead([*tied, replace(FULL.classes[-1], error=0.0, low=0.0, high=3.0)])[0]


def test_a_fix_opens_without_what_else_is_stored():
    fixed = replace(FULL, fix_report=TEN_CLASSES)
    assert [what for _, what in key_facts(fixed)] == ["classes", "training examples"]
    assert [what for _, what in stored_facts(fixed)] == ["ensemble members", "methods", "runs"]


def test_nothing_leads_to_nothing():
    assert (class_lead(()), method_lead(()), key_facts(Section("nothing", (), (), 0))) == ([], [], [])


def test_key_facts_count_what_is_there():
    facts = dict(key_facts(FULL))
    assert facts == {
        "10": "classes",
        f"{sum(row.count for row in FULL.classes):,}": "training examples",
        "5": "ensemble members",
        "4": "methods",
        "15": "runs",
    }
    online = key_facts(replace(FULL, estimator="online", score="aleatoric"))
    assert ("online", "measured by") in online
    assert ("aleatoric", "score") in online
