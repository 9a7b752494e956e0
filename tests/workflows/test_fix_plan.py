"""What a fix settles before anything trains, and what a number of trainings buys."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.fix_plan import (
    PLANS,
    FixPlan,
    SearchPlan,
    plan_fix,
    plan_search,
    student_cost,
    unit_cost,
)

UNITS = ([1.0], [1.0] * 3, [1.0] * 8, [1.0, 1.0, 2.0], [2.5, 0.5, 0.5], [0.25] * 5)
BUDGETS = [*np.arange(0.5, 12, 0.5), *range(12, 60, 3), 1000]


def spent(plan: SearchPlan, unit: float) -> float:
    """Every network that the plan trains, one after the other, each a candidate on a fold or what comes after."""
    trained = {(candidate, 0) for candidate in range(plan.candidates)}
    trained |= {(candidate, fold) for candidate in range(plan.finalists) for fold in range(plan.folds)}
    trained |= {(0, fold) for fold in range(plan.last_folds)}
    networks = float(len(trained))
    if not plan.members:
        return unit * (networks + 1)
    networks += plan.members - 1  # on the first fold, where the first of them has trained
    if plan.ensemble:
        return unit * (networks + 5)
    students = 2 + plan.members / 3  # at two rates; a forward pass of a teacher is a third of a step
    return unit * (networks + students + 1 + 5 / 3)


@pytest.mark.parametrize("rows", PLANS)
@pytest.mark.parametrize(("number", "ensemble"), list(product((1, 2, 3, 8), (False, True))))
def test_the_cost_is_that_of_every_network(rows, number, ensemble):
    finalists, folds, last_folds, members = rows
    plan = SearchPlan(number, min(finalists, number), folds, last_folds, members, ensemble)
    for unit in (1.0, 2.5):
        assert plan.cost(unit) == pytest.approx(spent(plan, unit))
    numbers, of_folds = zip(*plan.rungs, strict=True)
    assert numbers[0] == number
    assert list(numbers) == sorted(numbers, reverse=True)
    assert list(of_folds) == sorted(set(of_folds))
    assert of_folds[-1] == last_folds


@pytest.mark.parametrize("costs", UNITS, ids=str)
@pytest.mark.parametrize(("tries", "ensemble"), [(True, False), (True, True), (False, False)])
def test_more_trainings_buy_a_plan_that_is_at_least_as_telling_and_never_more_than_they_pay_for(costs, tries, ensemble):
    """More candidates, then the earlier plan of the list."""
    places, affordable = [], 0
    for trainings in BUDGETS:
        if trainings < 2 * costs[-1]:
            with refused(f"trainings is {trainings:g}", f"takes {2 * costs[-1]:g} at least"):
                plan_search(trainings, costs, tries, ensemble)
            continue
        plan = plan_search(trainings, costs, tries, ensemble)
        unit = max(costs[len(costs) - plan.candidates :])
        assert plan.cost(unit) <= trainings + 1e-6
        affordable += plan.members > 0
        rank = next(
            i
            for i, (finalists, *others) in enumerate(PLANS)
            if [min(finalists, plan.candidates), *others] == [plan.finalists, plan.folds, plan.last_folds, plan.members]
        )
        places.append((plan.candidates, -rank))
        assert plan.members == 0 or tries
        assert plan.ensemble is ensemble
    assert places == sorted(places)
    assert places[-1] == (len(costs), 0 if tries else -4)
    assert (affordable > 0) is tries


def test_no_better_plan_would_have_been_paid_for():
    """All plans of all numbers of candidates, by brute force."""
    costs = [3.0, 1.0, 2.0, 1.0]
    for trainings in BUDGETS[3:]:
        chosen = plan_search(trainings, costs, True, False)
        for number, (finalists, folds, last_folds, members) in product(range(1, 5), PLANS):
            plan = SearchPlan(number, min(finalists, number), folds, last_folds, members, False)
            if spent(plan, max(costs[-number:])) <= trainings:
                assert number <= chosen.candidates
    assert plan_search(1000, costs, True, False).candidates == 4


def test_twenty_trainings_try_a_student_of_three_among_six():
    assert plan_search(20, [1.0] * 6, True, False).members == 3
    assert plan_search(20, [1.0] * 6, True, True) == SearchPlan(6, 2, 3, 5, 3, True)  # or an ensemble of five
    assert plan_search(20, [1.0] * 6, False, False) == SearchPlan(6, 3, 5, 5, 0, False)
    assert plan_search(3, [1.0] * 6, True, False) == SearchPlan(2, 1, 1, 1, 0, False)


def test_measuring_is_spent_first():
    assert plan_search(25, [1.0] * 3, True, False, measuring=5) == plan_search(20, [1.0] * 3, True, False)
    with refused("trainings is 6", "takes 7 at least", "of which 5 measure class uncertainties"):
        plan_search(6, [1.0], True, False, measuring=5)


def planned(data: cu.Data, recipe: cu.Recipe, **options: Any) -> FixPlan:
    names = ("candidates", "deploy", "trainings", "seeds", "label_issues")
    return plan_fix(
        cu.Dataset("data", data), recipe, **dict.fromkeys(names) | {"goal": "mean", "embed_weights": False} | options
    )


NETWORK, HEADS, TREES = cu.Recipe("mlp", epochs=1, batch=32), RECIPES["embeddings"], RECIPES["forest"]
ROWS = cu.Data(np.zeros((2000, 3)), np.arange(2000) % 2)


@pytest.mark.parametrize(
    ("recipe", "settled"),
    [
        (NETWORK, ("one", 3, 20, False)),
        (HEADS, ("one", 3, 60, False)),
        (TREES, ("ensemble", 1, 60, True)),  # of logistic regression, forests and boosting
    ],
)
def test_the_recipe_settles_what_is_not_given(recipe, settled):
    plan = planned(ROWS, recipe)
    assert (plan.deploy, plan.seeds, plan.trainings, plan.averages_kinds) == settled
    asked = planned(ROWS, recipe, deploy="one", seeds=2, trainings=30)
    assert (asked.deploy, asked.seeds, asked.trainings, asked.averages_kinds) == ("one", 2, 30, False)


@pytest.mark.parametrize(
    ("recipe", "options", "why"),
    [
        (NETWORK, {}, ""),
        (NETWORK, {"trainings": 3}, "3 trainings do not pay"),
        (HEADS, {}, "differ too little"),
        (TREES, {}, "several models of one kind"),
    ],
)
def test_a_trial_that_the_plan_leaves_out_has_a_reason(recipe, options, why):
    plan = planned(ROWS, recipe, **options)
    assert bool(plan.search.members) is (why == "")
    assert why in plan.why_no_trial


def test_small_folds_try_an_ensemble_only_where_one_may_be_deployed(digits):
    one, several = (planned(digits.train, NETWORK, deploy=deploy) for deploy in ("one", "ensemble"))
    assert (one.search.members, "fewer than 250" in one.why_no_trial) == (0, True)
    assert (several.search.members, several.why_no_trial) == (3, "")


def test_few_trainings_try_the_last_candidates():
    names = ["naive", "cb", "ldam-rw", "cb-rs"]
    assert [row.name for row in planned(ROWS, NETWORK, candidates=names, trainings=3).candidates] == names[2:]
    assert [row.name for row in planned(ROWS, NETWORK, candidates=names, trainings=100).candidates] == names


def test_class_uncertainties_are_paid_for_where_a_candidate_uses_them():
    assert [planned(ROWS, NETWORK, candidates=[name]).measuring for name in ("cb-rs", "ubrw")] == [0, 5]


def test_a_training_costs_by_the_examples_that_it_sees(digits):
    train, recipe = digits.train, cu.Recipe("small-conv", epochs=1, batch=32)
    names = ("naive", "naive?epochs=3", "naive?rate=4", "naive?batch=100")
    costs = [unit_cost(train, recipe, cu.Candidate(name)) for name in names]
    kept = len(train) // 100 * 100 / (len(train) // 32 * 32)  # the last batch is dropped
    assert costs == pytest.approx([1, 3, 1, kept])


def test_students_ask_their_teachers_once_for_all():
    assert student_cost(5) == pytest.approx(1 + 5 / 3)
    assert student_cost(3, 2) == pytest.approx(3)


@pytest.mark.parametrize("trainings", [0, -1, float("nan"), float("inf")])
def test_a_number_that_buys_nothing_is_refused(trainings):
    with refused("trainings"):
        plan_search(trainings, [1.0], True, False)


def test_the_origin_of_what_is_saved_tells_data_and_options_apart(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    data, other = (cu.Data(rng.normal(size=(60, 3)), ["a", "b"] * 30) for _ in range(2))
    (tmp_path / "c.csv").write_text("class,a,b\na,0,1\nb,2,0\n")
    asked = (
        {"goal": "worst"}, {"goal": "cost:c.csv"}, {"deploy": "ensemble"}, {"trainings": 30}, {"seeds": 2},
        {"candidates": ["naive"]}, {"label_issues": True}, {"embed_weights": True},
    )  # fmt: skip
    origins = [planned(data, NETWORK, **options).made_from for options in ({}, *asked)]
    origins += [planned(other, NETWORK).made_from, planned(other, NETWORK, goal="cost:c.csv").made_from]
    origins.append(planned(data, cu.Recipe("mlp", epochs=2, batch=32)).made_from)
    assert len(set(origins)) == len(origins)
    assert planned(data, NETWORK).made_from == origins[0]
