"""What a fix announces is what it trains, or a little more."""

from dataclasses import replace
from pathlib import Path

import pytest
from workflows.heard import FOREST, RECIPE, SHARING, Heard, as_features, network_epochs, without_test

import class_uncertainty as cu
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.watcher import Decided, Diagnosed, RungsJudged
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.search_plan import SearchPlan
from class_uncertainty.workflows.work_ahead import _kind, fix_stages


def test_a_fix_counts_shared_epochs_once(digits: cu.Dataset) -> None:
    heard = Heard()
    options = {"candidates": ["naive", "2s-cb-rs"], "seeds": 1, "trainings": 11, "progress": heard}
    fixed = cu.fix(digits, recipe=SHARING, **options)
    first = heard.stages[0]
    assert first.spared == pytest.approx(0.4 * first.networks)
    assert heard.work["rung 1"] == pytest.approx(first.work)
    ladder = heard.work.pop("ladder")
    assert network_epochs(heard) <= sum(heard.work.values()) + ladder
    heard.watched.news = [news for news in heard.watched.news if all(lane.fold for lane in news.lanes)]
    assert network_epochs(heard) == pytest.approx(sum(heard.work.values()))
    searched = sum(row.trainings for rung in fixed.report.rungs for row in rung.rows)
    assert searched == first.networks + sum(stage.networks for stage in heard.stages if stage.name == "rung 2")


def test_a_fix_goes_on_with_what_it_lacks(digits: cu.Dataset, tmp_path: Path) -> None:
    settings = {"recipe": RECIPE, "store": tmp_path / "runs.sqlite", "seeds": 2, "trainings": 8}
    heard, again = Heard(), Heard()
    cu.fix(digits, candidates=["naive", "cb-rs"], progress=heard, **settings)
    cu.fix(digits, candidates=["naive", "cb-rs"], progress=again, **settings)
    for side, trained in ((heard, heard.watched.trained), (again, 0)):
        shares = [share for left in side.left.values() for part in left for share in part]
        assert sum(share > 0 for share in shares) >= trained
        assert (0 in map(sum, side.left["rung 1"])) == (side is again)
    assert sum(sum(part) for left in again.left.values() for part in left) == again.watched.trained == 0


@pytest.mark.parametrize(
    ("split", "ensemble", "trial", "ladder"),
    [
        (True, False, (2, 2), (2, 2, 2)),
        (True, True, (2, 0), (2, 5, 0)),
        # before: two seeds by folds; after: the same and one on all examples, less the seed that the rungs trained;
        # students: likewise, and three teachers for each fold
        (False, False, (2, 2), (10, 10 + 1 - 5, 10 + 1 + 15)),
        (False, True, (2, 0), (10, 25 + 5 - 5, 0)),
    ],
)
def test_the_networks_of_a_fix(
    split: bool, ensemble: bool, trial: tuple[int, int], ladder: tuple[int, int, int], digits: cu.Dataset
) -> None:
    """Two candidates that cost 1 and 3, two seeds; a trial of three networks, of which one is of the rungs."""
    plan = SearchPlan(candidates=2, finalists=2, folds=5, last_folds=5, members=3, ensemble=ensemble)
    candidates = [cu.Candidate("naive"), cu.Candidate("cb-rs")]
    with open_context(digits if split else without_test(digits), RECIPE) as context:
        first, tried, last = fix_stages(context, plan, candidates, [1.0, 3.0], seeds=2)
    assert (first.together, first.unit, first.kinds) == ((10,), 2.0, ())
    students = 0 if ensemble else 2 + 3 / 3  # whose teachers only predict, a third of a step
    assert (tried.together, tried.unit * tried.networks) == (trial, pytest.approx(2.0 * (2 + students)))
    assert (last.together, last.unit) == (ladder, 2.0)


def test_kinds_of_models_that_train_apart_are_named(digits: cu.Dataset) -> None:
    plan = SearchPlan(candidates=2, finalists=2, folds=5, last_folds=5, members=0, ensemble=True, kept=2)
    rows = [cu.Candidate("naive?recipe=logistic"), cu.Candidate("cb-rs?recipe=forest")]
    with open_context(as_features(digits), FOREST) as context:
        first, last = fix_stages(context, plan, rows, [1.0, 1.0], seeds=1)
    assert first.together == (5, 5)
    assert [kind.network for kind in first.kinds] == ["linear", "forest"]
    assert last.together == (5, 2 * (5 + 1 - 5), 0)


def test_a_fix(digits: cu.Dataset) -> None:
    heard = Heard()
    cu.fix(digits, recipe=RECIPE, candidates=["naive", "cb-rs", "ubrs"], seeds=2, progress=heard)
    names = [stage.name for stage in heard.stages]
    assert names == ["measuring", "rung 1", "rung 2", "rung 3", "ladder"]
    assert [name for name in heard.begun if name in names] == names[1:]
    assert heard.stages[1].about == "3 candidates on 1 fold"
    assert heard.stages[2].about.startswith("the best ")  # also where the stage before is stored
    assert heard.stages[-1].about == "2 networks before and after"
    trained = heard.watched.trained
    assert trained <= heard.announced <= trained + 4
    kinds = [type(news) for news in heard.news]
    assert kinds[:2] == [RungsJudged, Diagnosed]
    assert kinds[-1] is Decided
    assert [len(news.rungs) for news in heard.news if isinstance(news, RungsJudged)] == [1, 2, 3]


def test_a_fix_with_a_trial_and_folds(digits: cu.Dataset) -> None:
    heard = Heard()
    options = {"candidates": ["naive"], "deploy": "ensemble", "seeds": 2, "trainings": 40}
    cu.fix(without_test(digits), recipe=RECIPE, progress=heard, **options)
    abouts = [stage.about for stage in heard.stages]
    assert "a trial of 5 networks" in abouts
    assert abouts[-1] == "2 networks before and after, each on 5 folds"
    assert heard.watched.trained <= heard.announced


def test_kinds_of_models_are_told_apart_and_networks_of_one_kind_are_not() -> None:
    """Trees and heads take as long as their recipes say; networks of the usual kind only take more or fewer passes."""
    trees, logistic = RECIPES["forest"], RECIPES["logistic"]
    assert _kind(trees, trees) == trees
    assert _kind(logistic, trees) == logistic
    assert _kind(replace(trees, trees=7), trees).trees == 7
    assert _kind(replace(RECIPE, epochs=9, schedule="cosine"), RECIPE) == RECIPE
