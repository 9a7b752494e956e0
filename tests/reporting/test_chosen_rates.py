"""Which networks have chosen the learning rates of the rows of a report."""

from dataclasses import replace

import pytest
from example_results import RECIPE, SCORES, STATS, add_data, make_result

import class_uncertainty as cu
from class_uncertainty.measures import digest
from class_uncertainty.reporting.chosen_rates import chosen_rates
from class_uncertainty.runs import Store

UNCERTAINTY = digest(STATS.uncertainty)
ROWS = [make_result(cu.Lane(method), STATS) for method in ("naive", "ubrw", "cb")]
ROWS += [replace(ROWS[0], method=remedy) for remedy in ("naive*2", "adjusted")]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        yield store


def chose(store: Store, name: str, fingerprint: str, best: float, method: str = "naive", **changes: object) -> None:
    """Networks of seed 1000 at 0.1 and 0.2 on the data of that name, the best of which is at the given rate."""
    if not fingerprint.endswith("folds"):
        add_data(store, name=name, fingerprint=fingerprint)
    for lr in (0.1, 0.2):
        scores = replace(SCORES, error=10.0 if lr == best else 20.0)
        made = make_result(cu.Lane(method, 1000, lr), STATS, scores=scores, **changes)
        store.add(f"{name} {fingerprint} {method} {lr}", fingerprint, made)


def test_rates_come_from_the_last_data_with_another_test_split(store):
    """Remedies have the rate of what they are made of; a method that was not tried has none."""
    data = add_data(store, name="folder:photos?size=32", fingerprint="train-test")
    assert chosen_rates(store, data, ROWS, UNCERTAINTY) == ({}, None)
    chose(store, "folder:photos?judge=validation&size=32", "train-first", 0.1)
    chose(store, "folder:photos?judge=validation", "train-last", 0.2)
    chose(store, "folder:photos?judge=validation", "train-last", 0.2, "ubrw")
    chose(store, "folder:photos?duplicate=1&size=32", "more-test", 0.1)  # judged by what judges the rows
    chose(store, "folder:pictures?size=32", "other-images", 0.1)
    expected = dict.fromkeys(("naive", "ubrw", "naive*2", "adjusted"), 0.2)
    assert chosen_rates(store, data, ROWS, UNCERTAINTY) == (expected, "folder:photos?judge=validation")


def test_folds_come_first(store):
    data = add_data(store, name="digits", fingerprint="train-test")
    chose(store, "digits?validation=2", "other-rest", 0.1)
    chose(store, "digits", "train-folds", 0.2)
    rates, place = chosen_rates(store, data, ROWS, UNCERTAINTY)
    assert (rates["naive"], place) == (0.2, None)


def test_features_of_a_backbone_are_chosen_on_features_of_the_same(store):
    data = add_data(store, name="folder:photos by timm:net", fingerprint="train-test")
    chose(store, "folder:photos?judge=validation by timm:other", "train-first", 0.1)
    assert chosen_rates(store, data, ROWS, UNCERTAINTY) == ({}, None)
    chose(store, "folder:photos?judge=validation by timm:net", "train-second", 0.1)
    assert chosen_rates(store, data, ROWS, UNCERTAINTY)[0]["naive"] == 0.1


OTHERWISE = [{"device": "cpu"}, {"recipe": replace(RECIPE, epochs=9)}, {"uncertainty": "of others"}, {"seed": 7}]


@pytest.mark.parametrize("changes", OTHERWISE)
def test_networks_that_were_trained_otherwise_choose_nothing(store, changes):
    data = add_data(store, name="digits", fingerprint="train-test")
    chose(store, "digits?validation=2", "other-rest", 0.1, **changes)
    assert chosen_rates(store, data, ROWS, UNCERTAINTY) == ({}, None)


def test_one_rate_is_no_choice(store):
    data = add_data(store, name="digits", fingerprint="train-test")
    add_data(store, name="digits?validation=2", fingerprint="other-rest")
    store.add("one", "other-rest", make_result(cu.Lane("naive", 1000, RECIPE.lr)))
    assert chosen_rates(store, data, ROWS, UNCERTAINTY) == ({}, None)
