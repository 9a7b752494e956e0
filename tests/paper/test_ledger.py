"""The ledger: what was trained is found by what it is, wherever it was trained."""

from dataclasses import replace

import numpy as np
import pytest
from example_results import DATA, RECIPE, STATS, add_data, make_measurement, make_result
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.runs.store import StoredDataset

LANE = cu.Lane("ubrw", 1, 0.2)
OTHER = replace(DATA, fingerprint="0" * 32, name="other")


@pytest.fixture
def ledger():
    ledger = Ledger(RECIPE)
    ledger.add(OTHER, [])
    ledger.add(DATA, [make_result(LANE, STATS)], [make_measurement()])
    return ledger


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
def test_a_lane_is_found_whatever_its_device(device):
    ledger, result = Ledger(RECIPE), make_result(LANE, STATS, device=device)
    ledger.add(DATA, [result])
    assert ledger.results(DATA.name, LANE, STATS).get(LANE.seed) == result


@pytest.mark.parametrize(
    ("lane", "stats", "data"),
    [
        (replace(LANE, lr=0.1), STATS, DATA.name),
        (replace(LANE, lr=None), STATS, DATA.name),
        (replace(LANE, seed=0), STATS, DATA.name),
        (replace(LANE, fold=(0, 5)), STATS, DATA.name),
        (replace(LANE, method="naive"), STATS, DATA.name),
        (replace(LANE, method="ubrw@uncertainty^0.5"), STATS, DATA.name),
        (LANE, cu.Stats(DATA.counts, np.nextafter(STATS.uncertainty, 1)), DATA.name),
        (LANE, None, DATA.name),
        (LANE, STATS, OTHER.name),
        (LANE, STATS, "unknown"),
    ],
)
def test_another_lane_is_not_found(ledger, lane, stats, data):
    assert ledger.results(DATA.name, LANE, STATS).get(LANE.seed)
    assert ledger.results(data, lane, stats).get(lane.seed) is None


def test_what_another_recipe_trained_is_not_found():
    ledger = Ledger(replace(RECIPE, epochs=3))
    ledger.add(DATA, [make_result(LANE, STATS)], [make_measurement()])
    assert ledger.results(DATA.name, LANE, STATS) == {}
    assert ledger.measurement(DATA.name, EstimateRequest()) is None


def test_a_method_that_has_changed_since_is_not_found(ledger, monkeypatch):
    monkeypatch.setitem(cu.METHODS, "ubrw", replace(cu.METHODS["ubrw"], scale=2.0))
    assert ledger.results(DATA.name, cu.Lane("ubrw", 1, 0.2), STATS) == {}


def test_uncertainties_that_a_method_does_not_use_do_not_matter():
    ledger, lane = Ledger(RECIPE), cu.Lane("cb")
    ledger.add(DATA, [make_result(lane)])
    for stats in (None, STATS):
        assert ledger.results(DATA.name, lane, stats) == {lane.seed: make_result(lane)}


def test_results_of_all_seeds_and_the_first_of_two_devices(ledger):
    here = make_result(LANE, STATS, device="cpu")
    ledger.add(DATA, [here, make_result(replace(LANE, seed=7), STATS, device="cpu")])
    results = ledger.results(DATA.name, LANE, STATS)
    assert {seed: result.device for seed, result in results.items()} == {1: "cuda", 7: "cpu"}


def test_six_naive_networks_are_found_at_the_recipe_s_rate_adjusted_by_tau_1(ledger):
    """They have no lane."""
    six = replace(make_result(cu.Lane("naive")), method="adjusted*6", plan={"networks": 6, "tau": 1.0})
    ledger.add(DATA, [replace(six, lr=0.7), replace(six, plan={"networks": 6, "tau": 1.3})])
    assert ledger.six_naive(DATA.name) is None
    ledger.add(DATA, [six])
    assert ledger.six_naive(DATA.name) == six
    assert [ledger.six_naive(name) for name in (OTHER.name, "unknown")] == [None, None]


def test_what_was_trained_is_found_by_the_lane_that_was_trained():
    """For real, with the uncertainties that a measurement has."""
    random = np.random.default_rng(0)
    data = cu.Data(random.normal(size=(24, 2)).astype(np.float32), np.arange(24) % 3)
    recipe = cu.Recipe("linear", epochs=1, batch=8)
    stats = make_measurement().stats(tuple(data.counts.tolist()))
    lanes = [cu.Lane("ubrw", 1, 0.2), cu.Lane("2s-ubrs"), cu.Lane(cu.Method(scale=2.0)), cu.Lane(fold=(0, 2))]
    stored = StoredDataset.of(cu.Dataset("table", data, data))
    ledger = Ledger(recipe)
    results = cu.fit(data, lanes, recipe=recipe, stats=stats, test=data, device="cpu").results
    ledger.add(stored, results)
    assert [ledger.results("table", lane, stats).get(lane.seed) for lane in lanes] == results


@pytest.mark.parametrize(
    ("request_", "data"),
    [
        (EstimateRequest("duq"), DATA.name),
        (EstimateRequest(members=4), DATA.name),
        (EstimateRequest(seed=5), DATA.name),
        (EstimateRequest(lr=0.3), DATA.name),
        (EstimateRequest(), OTHER.name),
        (EstimateRequest(), "unknown"),
    ],
)
def test_a_measurement_is_found_by_its_request(ledger, request_, data):
    for right in (EstimateRequest(), EstimateRequest(lr=RECIPE.lr)):
        assert ledger.measurement(DATA.name, right) == make_measurement()
    assert ledger.measurement(data, request_) is None


def test_measurements_of_two_seeds_are_told_apart(ledger):
    other = make_measurement(seed=5, device="cpu")
    ledger.add(DATA, [], [other])
    assert ledger.measurement(DATA.name, EstimateRequest(seed=5)) == other
    assert ledger.measurement(DATA.name, EstimateRequest()) == make_measurement()


def test_a_store_is_read_by_the_names_of_data(store):
    for data in (DATA, OTHER):
        add_data(store, data)
        store.add(data.name, data.fingerprint, make_result(LANE, STATS))
        store.add_measurement(data.name, data.fingerprint, make_measurement())
    ledger = Ledger.read(store, RECIPE, [DATA.name, "unknown"])
    assert ledger.data == {DATA.name: DATA}
    assert ledger.results(DATA.name, LANE, STATS).get(LANE.seed) == make_result(LANE, STATS)
    assert ledger.measurement(DATA.name, EstimateRequest()) == make_measurement()
    assert ledger.results(OTHER.name, LANE, STATS).get(LANE.seed) is None


def test_two_data_sets_of_one_name_are_refused(store):
    add_data(store)
    add_data(store, OTHER, name=DATA.name)
    with refused(DATA.name, DATA.fingerprint, OTHER.fingerprint, store.path):
        Ledger.read(store, RECIPE, [DATA.name])
    assert Ledger.read(store, RECIPE, ["unknown"]).data == {}


def test_results_of_another_engine_are_refused(store):
    store.add("a", DATA.fingerprint, make_result(LANE))
    assert Ledger.read(store, RECIPE, []).data == {}
    store.connection.execute("UPDATE results SET engine = 1")
    with refused(store.path, "engine 1"):
        Ledger.read(store, RECIPE, [])


def test_of_several_revisions_the_newest_is_found_and_an_older_one_where_it_is_alone(store):
    lane, other = cu.Lane("dro", 1), cu.Lane("dro", 2)
    newest = make_result(lane)
    plan = {name: value for name, value in newest.plan.items() if name != "revision"}
    older = [make_result(one, plan=plan) for one in (lane, other)]
    for number, result in enumerate([*older, newest]):
        store.add(str(number), DATA.fingerprint, result)
    add_data(store)
    found = Ledger.read(store, RECIPE, [DATA.name]).results(DATA.name, lane)
    assert {seed: result.is_older for seed, result in found.items()} == {1: False, 2: True}
    without = Ledger.read(store, RECIPE, [DATA.name], without_older=True)
    assert list(without.results(DATA.name, lane)) == [1]
