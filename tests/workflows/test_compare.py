"""cu.compare(): methods and remedies side by side."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from runs.exchanged import exported, imported, written
from watching import Watched, no_training

import class_uncertainty as cu
from class_uncertainty.runs import Store
from class_uncertainty.runs.comparison_checks import check_seeds
from class_uncertainty.runs.rows import method_rows
from class_uncertainty.training import RECIPES

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


def test_results_are_those_of_the_lanes_in_the_order_of_the_methods(digits: cu.Dataset) -> None:
    comparison = cu.compare(digits, ["cb", "adjusted", "naive"], [4, 2], [0.2, 0.1], recipe=RECIPE)
    place = [(result.method, result.lr, result.seed) for result in comparison.results]
    assert place == [
        (method, lr, seed) for method in ("cb", "adjusted", "naive") for lr in (0.2, 0.1) for seed in (4, 2)
    ]
    lanes = [cu.Lane(method, seed, lr) for method in ("cb", "naive") for lr in (0.2, 0.1) for seed in (4, 2)]
    alone = cu.fit(digits.train, lanes, recipe=RECIPE, test=digits.test).results
    methods = [result for result in comparison.results if result.method != "adjusted"]
    assert [result.scores for result in methods] == [result.scores for result in alone]
    assert comparison.estimate is None
    assert comparison.rows == tuple(method_rows(comparison.results))
    assert comparison.strengths == {0.2: 1.0, 0.1: 1.0}


def test_uncertainty_is_measured_where_a_method_uses_it(digits: cu.Dataset) -> None:
    """By the estimator and the score that are given; the rows cost what measuring costs."""
    comparison = cu.compare(
        digits, ["naive", "ubrw"], 1, estimator="out-of-fold", members=2, score="least-confidence", recipe=RECIPE
    )
    estimate = cu.estimate(digits, "out-of-fold", 2, RECIPE, score="least-confidence")
    stats = estimate.stats
    (alone,) = cu.fit(digits.train, [cu.Lane("ubrw")], recipe=RECIPE, stats=stats, test=digits.test).results
    assert comparison.results[1].scores == alone.scores
    assert comparison.estimate.score == "least-confidence"
    assert [row.cost for row in comparison.rows] == [1, 3]


def test_the_document_has_a_row_for_every_method_and_rate(digits: cu.Dataset) -> None:
    comparison = cu.compare(digits, ["naive", "cb"], 2, recipe=RECIPE)
    document = json.loads(json.dumps(comparison.document()))
    assert [row["method"] for row in document["methods"]] == ["naive", "cb"]
    assert document["methods"][1]["gain"] == pytest.approx(comparison.rows[0].error - comparison.rows[1].error)
    assert (document["estimator"], document["score"], document["folds"]) == (None, None, 0)
    assert (document["network"], document["parameters"]) == ("small-conv", 6_274)


def test_equal_cost_adds_ensembles_of_cheap_rows(digits: cu.Dataset) -> None:
    """distil costs 2 + 1 + 2/3: three naive networks do not cost more; adjusted*3 is there already."""
    names = ["naive", "adjusted", "ubrs", "distil", "adjusted*3"]
    comparison = cu.compare(digits, names, 1, members=2, equal_cost=True, recipe=RECIPE)
    assert [row.method for row in comparison.rows] == [*names, "naive*3"]
    costs = {row.method: row.cost for row in comparison.rows}
    assert costs["naive*3"] == 3
    assert max(costs.values()) == costs["distil"] == pytest.approx(2 + 1 + 2 / 3)


def test_what_the_store_has_is_not_trained_again(digits: cu.Dataset, tmp_path: Path) -> None:
    path, watched = tmp_path / "runs.sqlite", Watched()
    first = cu.compare(digits, ["naive", "ensemble"], 1, members=2, recipe=RECIPE, store=path, progress=watched)
    assert watched.announced == [1, 1]  # the first member of the ensemble is the naive lane of seed 0
    assert [lane.seed for lane in watched.lanes] == [0, 1]
    again = cu.compare(digits, ["ensemble", "naive"], 1, members=2, recipe=RECIPE, store=path, progress=no_training)
    assert again.results == first.results[::-1]


def test_class_vectors_of_another_machine_are_not_measured_again(digits: cu.Dataset, tmp_path: Path) -> None:
    """The members train only where tau is chosen on their probabilities."""
    here, there = {"recipe": RECIPE, "store": tmp_path / "a"}, {"recipe": RECIPE, "store": tmp_path / "b"}
    out_of_fold = {"estimator": "out-of-fold", "members": 2}
    cu.compare(digits, ["ubrs"], 1, members=2, **here)
    cu.compare(digits, ["ubrs"], 1, **out_of_fold, **here)
    with Store(tmp_path / "a") as first, Store(tmp_path / "b") as second:
        imported(second, written(tmp_path / "a.jsonl", exported(first)))
    for options in ({"members": 2}, {"members": 2, "score": "true-class"}, out_of_fold):
        watched = Watched()
        comparison = cu.compare(digits, ["naive", "ubrs", "ubrw"], 1, **options, **there, progress=watched)
        assert {lane.name for lane in watched.lanes} <= {"ubrs", "ubrw"}
        as_usual = cu.compare(digits, ["naive", "ubrs", "ubrw"], 1, **options, **here)
        assert [result.scores for result in comparison.results] == [result.scores for result in as_usual.results]
        assert tuple(replace(row, marks=()) for row in comparison.rows) == as_usual.rows
        assert (comparison.uncertainty_imported, as_usual.uncertainty_imported) == (True, False)
    cu.train(digits, "ubrw", members=2, **there, progress=(watched := Watched()))
    assert [lane.name for lane in watched.lanes] == ["ubrw"]
    watched = Watched()
    cu.compare(digits, ["ubrs", "adjusted"], 1, **out_of_fold, **there, progress=watched)
    assert {lane.fold for lane in watched.lanes} >= {(0, 2), (1, 2)}


def test_without_a_test_split_folds_judge_methods_and_remedies(digits: cu.Dataset) -> None:
    comparison = cu.compare(digits.train, ["naive", "adjusted"], 1, recipe=RECIPE)
    assert comparison.folds == 5
    assert {result.folds for result in comparison.results} == {5}
    naive, adjusted = comparison.results
    assert np.isfinite(adjusted.class_errors).all()
    assert adjusted.error != naive.error


def test_rows_are_tested_against_one_of_them(digits: cu.Dataset) -> None:
    names = ["cb-rs", "naive", "cb-rs@uncertainty"]
    comparison = cu.compare(digits, names, 2, members=2, against="naive", recipe=RECIPE)
    assert [row.aso_against for row in comparison.rows] == ["naive", None, "naive"]
    document = comparison.document()
    assert document["aso"] == {"against": "naive", "tests": 2, "confidence": 1 - 0.05 / 2}
    assert [row["aso_against"] for row in document["methods"]] == ["naive", None, "naive"]
    counterparts = cu.Comparison(comparison.dataset, comparison.results, comparison.estimate)
    assert [row.aso_against for row in counterparts.rows] == [None, None, "cb-rs"]
    alone = cu.compare(digits, ["naive"], 1, recipe=RECIPE).document()["aso"]
    assert alone == {"against": "counterpart", "tests": 0, "confidence": None}


def test_a_test_against_a_row_that_is_not_compared_is_refused(digits: cu.Dataset, tmp_path: Path) -> None:
    with refused("'cb-r'", "'cb-rs'", "counterpart", "naive"):
        cu.compare(digits, ["naive", "cb-rs"], against="cb-r", store=tmp_path / "runs.sqlite")
    with refused("'naive'", "cb-rs"):
        cu.compare(digits, ["cb-rs", "ubrs"], against="naive", store=tmp_path / "runs.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_seeds_are_how_many_or_which() -> None:
    assert check_seeds(3) == [0, 1, 2]
    assert check_seeds((7, 5)) == [7, 5]
    for seeds in (0, -1, 1001):
        with refused(f"seeds is {seeds}", "1,000"):
            check_seeds(seeds)


def test_wrong_input_is_refused_before_training(digits: cu.Dataset) -> None:
    for methods, parts in ((["ubr"], ["'ubr'", "'ubrw'"]), (["distil*2"], ["'distil*2'"]), (["cb@x"], ["'x'"])):
        with refused(*parts):
            cu.compare(digits, methods, progress=no_training)
    with refused("'epistemc'", "'epistemic'"):
        cu.compare(digits, ["ubrw"], score="epistemc", progress=no_training)
    with refused("budget", "store"):
        cu.compare(digits, ["naive"], budget=1.0)


@pytest.mark.parametrize(
    ("lists", "facts"),
    [
        ({"methods": []}, ("no method",)),
        ({"methods": ["naive", "naive"]}, ("method naive", "twice")),
        ({"methods": ["naive"], "lrs": [0.1, 0.1]}, ("learning rate 0.1", "twice")),
        ({"methods": ["naive"], "seeds": [0, 0]}, ("seed 0", "twice")),
        ({"methods": ["naive"], "seeds": []}, ("no seed",)),
    ],
)
def test_nothing_is_compared_twice_or_not_at_all(digits: cu.Dataset, lists: dict, facts: tuple[str, ...]) -> None:
    with refused(*facts):
        cu.compare(digits, **lists)


@pytest.mark.parametrize(("method", "fact"), [("ldam", "margins"), ("ubrw-focal", "focal"), ("distil", "teachers")])
def test_what_does_not_suit_the_recipe_is_refused_before_anything_is_announced(method: str, fact: str) -> None:
    table, watched = cu.Data(np.random.default_rng(0).normal(0, 1, (40, 3)), np.arange(40) % 2), Watched()
    with refused(f"'{method}' has {fact}", "network 'forest'"):
        cu.compare(table, ["naive", method], seeds=1, recipe=RECIPES["forest"], progress=watched)
    assert watched.announced == []


@pytest.mark.parametrize(
    ("method", "recipe", "facts"),
    [
        ("cb+cutout", {}, ("cutout", "features")),
        ("2s-cam-rs", {}, ("2s-cam-rs", "features")),
        ("naive", {"network": "small-conv"}, ("small-conv", "features")),
        ("naive", {"batch": 1}, ("batch",)),
    ],
)
def test_what_does_not_fit_the_data_is_refused(method: str, recipe: dict, facts: tuple[str, ...]) -> None:
    """As cu.fit refuses it: by every workflow that trains."""
    table = cu.Data(np.random.default_rng(0).normal(0, 1, (40, 3)), np.arange(40) % 2)
    recipe = cu.Recipe(**({"network": "mlp", "epochs": 1, "batch": 8} | recipe))
    with refused(*facts):
        cu.compare(table, [method], seeds=1, recipe=recipe)
    with refused(*facts):
        cu.train(table, method, recipe=recipe)
