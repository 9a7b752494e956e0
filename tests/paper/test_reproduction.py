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
from class_uncertainty.paper.catalogue import Experiment
from class_uncertainty.paper.ledger import Ledger
from class_uncertainty.paper.needs import SIX_NAIVE, Lookup, Measuring
from class_uncertainty.paper.reproduction import MeasuredData, summarise

EXPERIMENT = Experiment("A table and a measurement", TABLE, measured=(DATA,), naive=(DATA,))


@pytest.fixture
def lookup() -> Lookup:
    rows = [
        result(method, error + seed, seed) for method, error in (("naive", 20.0), ("cb-rs", 18.0)) for seed in (0, 1)
    ]
    rows += [result("ubrs", 15.0 + seed, seed, 0.2) for seed in (0, 1)]
    made = ledger(rows, choosing("ubrs", 20, 14, 17, 18))
    made.add(stored().fingerprint, [replace(result("naive", 12.0), method=SIX_NAIVE)])
    return Lookup(made, RECIPE)


def test_measures_of_a_data_set() -> None:
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


def test_cardinality_is_of_what_the_members_saw() -> None:
    """Drawn by N ** q, as many as the copies that `duplicate` makes with the strength 1 - q."""
    drawn = MeasuredData(stored(), measurement(estimator="ensemble:power-rs:q=0.3"))
    inverse = np.array(stored().counts) ** -0.3
    assert drawn.cardinality == pytest.approx(inverse / inverse.sum())


def test_how_far_measures_move() -> None:
    """Half the sum of the absolute changes: 0 for none, 1 where all of it has moved."""
    one, turned = MeasuredData(stored(), measurement()), {"predictive": (0.3, 0.2, 0.1)}
    other = MeasuredData(replace(stored(), counts=(10, 30, 90)), replace(measurement(), raw=turned))
    assert one.distance(one) == (0, 0)
    cardinality, uncertainty = one.distance(other)
    assert uncertainty == pytest.approx(1 / 3)
    shares = np.array([1 / 13, 3 / 13, 9 / 13])
    assert cardinality == pytest.approx(0.5 * np.abs(shares - shares[::-1]).sum())


def test_all_that_is_known_of_an_experiment(lookup: Lookup) -> None:
    made = summarise("toy", EXPERIMENT, ("paper",), lookup)
    assert [(one.cell.row.label, one.mean) for one in made.outcomes] == [
        ("Naive", 20.5),
        ("CB", 18.5),
        ("UBRs", 15.5),
        ("New", None),
    ]
    assert made.six_naive[DATA].error == 12.0
    assert [one.error for one in made.naive[DATA]] == [20.0, 21.0]
    assert [one.data.name for one in made.measured] == [DATA]
    assert (made.tests, made.ablated, made.unfinished) == ((), (), "")


def test_nothing_is_known_of_other_recipes_or_data(lookup: Lookup) -> None:
    for empty in (Lookup(Ledger(), RECIPE), replace(lookup, recipe=replace(RECIPE, epochs=3))):
        made = summarise("toy", EXPERIMENT, ("paper", "equal"), empty)
        assert {one.verdict for one in made.outcomes} == {"not run"}
        assert (made.measured, made.naive, made.six_naive) == ((), {}, {})
    assert summarise("toy", EXPERIMENT, ("paper",), lookup, only="digits-lt:20").outcomes == ()


def test_other_estimators_are_shown_of_their_own_data(lookup: Lookup) -> None:
    drawn = EstimateRequest("ensemble:power-rs:q=0.3")
    lookup.ledger.add(stored().fingerprint, [], [measurement(estimator=drawn.estimator)])
    for data, names in ((DATA, ["ensemble", drawn.estimator]), ("digits-lt:20", ["ensemble"])):
        experiment = Experiment("", measured=(DATA,), by_others=(Measuring(data, drawn),))
        assert [one.measurement.estimator for one in summarise("if2", experiment, (), lookup).measured] == names


def test_several_estimators_are_shown_beside_each_other(lookup: Lookup) -> None:
    rows = (*TABLE.rows, replace(TABLE.rows[2], note="by DUQ", estimator="duq"))
    experiment = Experiment("DUQ", replace(TABLE, rows=rows))
    assert summarise("table1", Experiment("", TABLE), (), lookup).measured == ()  # one estimator is compared with none
    assert [one.measurement.estimator for one in summarise("duq", experiment, (), lookup).measured] == ["ensemble"]
    lookup.ledger.add(stored().fingerprint, [], [measurement(estimator="duq", members=1)])
    names = [one.measurement.estimator for one in summarise("duq", experiment, (), lookup).measured]
    assert names == ["ensemble", "duq"]


def test_the_ablation_stands_beside_the_cell_at_the_recipe_s_rate() -> None:
    data, other = "cifar10-lt:50", "cifar10-lt:50?jpeg=95"
    table = replace(TABLE, columns=(data,), ablation="jpeg=95", ablated=("naive",))
    made = Ledger()
    for name, error in ((data, 20.0), (other, 22.0)):
        made.data[name] = stored(name)
        made.add(stored(name).fingerprint, [result("naive", error + seed, seed) for seed in (0, 1)])
    ((one, errors),) = summarise("toy", Experiment("", table), ("equal",), Lookup(made, RECIPE)).ablated
    assert (one.lr, one.errors, errors) == (0.1, (20.0, 21.0), (22.0, 23.0))


def test_the_document_is_json_with_every_number(lookup: Lookup) -> None:
    document = json.loads(json.dumps(summarise("toy", EXPERIMENT, ("paper",), lookup).document()))
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


def test_naive_runs_that_diverged_have_no_gap() -> None:
    rows = [result("naive", None, 0), result("naive", 20.0, 1)]
    made = summarise("toy", EXPERIMENT, (), Lookup(ledger(rows), RECIPE))
    assert [one.error for one in made.naive[DATA]] == [20.0]
    assert summarise("toy", EXPERIMENT, (), Lookup(ledger(rows[:1]), RECIPE)).naive == {}


def test_only_the_significance_table_has_tests(lookup: Lookup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "significance", lambda protocol, *_: [protocol])
    made = {name: summarise(name, EXPERIMENT, ("paper", "equal"), lookup).tests for name in ("table1", "significance")}
    assert made == {"table1": (), "significance": ("paper", "equal")}
