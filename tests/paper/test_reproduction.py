"""What a ledger says about an experiment: measures against errors, how far they move, everything as one document."""

import json
from dataclasses import replace

import numpy as np
import pytest
from ledgers import DATA, RECIPE, TABLE, choosing, ledger, measurement, result, stored
from scipy.stats import spearmanr

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.paper import reproduction
from class_uncertainty.paper.experiments import SIX_NAIVE, Experiment, Measuring
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.reproduction import MeasuredData, shift, summarise

EXPERIMENT = Experiment("A table and a measurement", TABLE, measured=(Measuring(DATA),), naive=(DATA,))


@pytest.fixture
def known():
    rows = [
        result(method, error + seed, seed) for method, error in (("naive", 20.0), ("cb-rs", 18.0)) for seed in (0, 1)
    ]
    rows += [result("ubrs", 15.0 + seed, seed, 0.2) for seed in (0, 1)]
    rows += [replace(result("naive", 12.0), method=SIX_NAIVE)]
    return ledger(rows, choosing("ubrs", 20, 14, 17, 18))


def test_measures_of_a_data_set():
    one = MeasuredData(stored(), measurement())
    inverse = 1 / np.array(stored().counts)
    assert one.cardinality == pytest.approx(inverse / inverse.sum())
    assert one.uncertainty == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    by_epistemic = replace(one, measurement=replace(one.measurement, score="epistemic"))
    assert by_epistemic.uncertainty == pytest.approx([3 / 6, 2 / 6, 1 / 6])
    errors = one.measurement.class_errors
    for mu in (one.cardinality, by_epistemic.uncertainty):
        assert one.correlation(mu) == pytest.approx(spearmanr(mu, errors).statistic)
    assert replace(one, measurement=replace(one.measurement, class_errors=None)).correlation(one.cardinality) is None


def test_cardinality_is_of_what_the_members_saw():
    """Drawn by N ** q, as many as the copies that `duplicate` makes with the strength 1 - q."""
    drawn = MeasuredData(stored(), measurement(estimator="ensemble:power-rs:q=0.3"))
    inverse = np.array(stored().counts) ** -0.3
    assert drawn.cardinality == pytest.approx(inverse / inverse.sum())


def test_how_far_measures_move():
    """Half the sum of the absolute changes: 0 for none, 1 where all of it has moved."""
    one, turned = MeasuredData(stored(), measurement()), {"predictive": (0.3, 0.2, 0.1)}
    other = MeasuredData(replace(stored(), counts=(10, 30, 90)), replace(measurement(), raw=turned))
    assert shift(one.uncertainty, one.uncertainty) == 0
    assert shift(one.uncertainty, other.uncertainty) == pytest.approx(1 / 3)
    shares = np.array([1 / 13, 3 / 13, 9 / 13])
    assert shift(one.cardinality, other.cardinality) == pytest.approx(0.5 * np.abs(shares - shares[::-1]).sum())


def test_all_that_is_known_of_an_experiment(known):
    made = summarise("toy", EXPERIMENT, ("paper",), known)
    assert [(one.cell.row.label, one.mean) for one in made.outcomes] == [
        ("Naive", 20.5),
        ("CB", 18.5),
        ("UBRs", 15.5),
        ("New", None),
    ]
    assert made.six_naive[DATA].error == 12.0
    assert [one.error for one in made.naive[DATA]] == [20.0, 21.0]
    assert [one.data.name for one in made.measured] == [DATA]
    assert (made.tests, made.ablations, made.unfinished) == ((), (), "")


def test_nothing_is_known_of_other_data(known):
    made = summarise("toy", EXPERIMENT, ("paper", "equal"), Ledger(RECIPE))
    assert {one.verdict for one in made.outcomes} == {"not run"}
    assert (made.measured, made.naive, made.six_naive) == ((), {}, {})
    assert summarise("toy", EXPERIMENT, ("paper",), known, only="digits-lt:20").outcomes == ()


def test_class_uncertainties_are_shown_by_each_estimator(known):
    drawn = EstimateRequest("ensemble:power-rs:q=0.3")
    known.add(stored(), [], [measurement(estimator=drawn.estimator)])
    experiment = Experiment("", measured=(Measuring(DATA), Measuring(DATA, drawn), Measuring("digits-lt:20")))
    names = [one.measurement.estimator for one in summarise("if2", experiment, (), known).measured]
    assert names == ["ensemble", drawn.estimator]


def test_the_ablation_stands_beside_the_cell_at_the_recipe_s_rate():
    data, other = "cifar10-lt:50", "cifar10-lt:50?jpeg=95"
    table = replace(TABLE, columns=(data,), ablation="jpeg=95", ablated=("naive",))
    made = Ledger(RECIPE)
    for name, error in ((data, 20.0), (other, 22.0)):
        made.add(stored(name), [result("naive", error + seed, seed) for seed in (0, 1)])
    shown = summarise("toy", Experiment("", table), ("equal",), made)
    ((one, changed),) = shown.ablations
    assert (one.lr, one.errors, changed.errors) == (0.1, (20.0, 21.0), (22.0, 23.0))
    (document,) = shown.document()["ablation"]
    assert (document["data"], document["errors_with_other_pixels"]) == (data, (22.0, 23.0))


def test_the_document_is_json_with_every_number(known):
    document = json.loads(json.dumps(summarise("toy", EXPERIMENT, ("paper",), known).document()))
    cell = document["cells"][2]
    assert {
        name: cell[name] for name in ("row", "method", "data", "protocol", "printed", "error", "lr", "verdict")
    } == {
        "row": "UBRs",
        "method": "ubrs",
        "data": DATA,
        "protocol": "paper",
        "printed": 15.0,
        "error": 15.5,
        "lr": 0.2,
        "verdict": "agrees",
    }
    assert document["gains"][0]["gain"] == pytest.approx(3.0)
    assert document["six_naive"] == {DATA: 12.0}
    measured = document["measured"][0]
    assert measured["uncertainty"] == pytest.approx(list(cu.normalise([1, 2, 3])))
    assert measured["estimator"] == "ensemble"
    assert measured["rho_by_score"] == pytest.approx({"predictive": 1.0, "epistemic": -1.0})


def test_naive_runs_that_diverged_have_no_gap():
    rows = [result("naive", None, 0), result("naive", 20.0, 1)]
    made = summarise("toy", EXPERIMENT, (), ledger(rows))
    assert [one.error for one in made.naive[DATA]] == [20.0]
    assert summarise("toy", EXPERIMENT, (), ledger(rows[:1])).naive == {}


def test_only_the_significance_table_has_tests(known, monkeypatch):
    monkeypatch.setattr(reproduction, "significance", lambda protocol, *_: [protocol])
    made = {name: summarise(name, EXPERIMENT, ("paper", "equal"), known).tests for name in ("table1", "significance")}
    assert made == {"table1": (), "significance": ("paper", "equal")}
