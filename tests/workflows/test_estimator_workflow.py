"""cu.compare_estimators() as a workflow: what it trains, which seeds it takes, and estimators that diverge."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from scipy.stats import spearmanr
from watching import Watched, no_training

import class_uncertainty as cu

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


def test_estimators_have_other_seeds_than_the_ensemble_they_are_compared_with(digits: cu.Dataset) -> None:
    comparison = cu.compare_estimators(digits, ["single"], 2, recipe=RECIPE)
    ensemble, single = cu.estimate(digits, "ensemble", 2, RECIPE), cu.estimate(digits, "single", 2, RECIPE, seed=2)
    rows = {row.estimator: row for row in comparison.rows}
    assert list(rows) == ["ensemble", "single", "cardinality"]
    assert rows["single"].ensemble == pytest.approx(spearmanr(single.raw, ensemble.raw).statistic)
    assert rows["single"].error == pytest.approx(spearmanr(single.raw, ensemble.class_errors).statistic)


def test_a_score_after_an_equals_sign(digits: cu.Dataset, tmp_path: Path, rng: np.random.Generator) -> None:
    """A file's name may have an equals sign too."""
    file = tmp_path / "seed=3.npy"
    np.save(file, rng.dirichlet(np.ones(10), len(digits.train)))
    names = ["online", "online=predictive", f"probabilities:{file}", f"probabilities:{file}=predictive"]
    watched = Watched()
    with refused("given twice", "predictive"):
        cu.compare_estimators(digits, names, 2, recipe=RECIPE)
    comparison = cu.compare_estimators(digits, names[:3], 2, recipe=RECIPE, progress=watched)
    assert [(row.estimator, row.score) for row in comparison.rows] == [
        ("ensemble", "predictive"),
        ("online", "true-class"),
        ("online", "predictive"),
        (f"probabilities:{file}", "predictive"),
        ("cardinality", "1 / N"),
    ]
    assert watched.trained == 3  # two members, and one network that both scores of it read


def test_an_estimator_that_diverges_takes_no_other_away(
    digits: cu.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = replace(cu.ESTIMATORS["single"], lanes=lambda members, seed: [cu.Lane("naive", seed, lr=1e30)])
    monkeypatch.setitem(cu.ESTIMATORS, "wild", wild)
    store = tmp_path / "runs.sqlite"
    comparison = cu.compare_estimators(digits, ["wild", "single"], 2, recipe=RECIPE, store=store)
    assert [row.estimator for row in comparison.rows] == ["ensemble", "single", "cardinality"]
    (sentence,) = comparison.diverged
    assert all(part in sentence for part in ("wild", "seed 2", "epoch 1", "0.1"))
    again = cu.compare_estimators(digits, ["wild", "single"], 2, recipe=RECIPE, store=store, progress=no_training)
    assert (again.rows, again.diverged) == (comparison.rows, comparison.diverged)
    with refused("diverged in epoch 1", "1e+30"):
        cu.compare_estimators(digits, ["ensemble"], 2, lrs=[1e30], recipe=RECIPE)


def test_a_rate_at_which_the_ensemble_diverged_has_no_rows(digits: cu.Dataset) -> None:
    comparison = cu.compare_estimators(digits, ["single"], 2, lrs=[0.1, 1e30], recipe=RECIPE)
    assert {row.lr for row in comparison.rows} == {0.1}
    assert len(comparison.diverged) == 2


def test_without_a_test_split_folds_judge(digits: cu.Dataset) -> None:
    comparison = cu.compare_estimators(digits.train, ["single"], 2, recipe=RECIPE)
    assert (comparison.folds, comparison.document()["folds"]) == (5, 5)
    assert comparison.rows[0].error is not None


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["onlin"], ["'onlin'", "'online'"]),
        (["online="], ["'online='"]),
        (["single", "single"], ["single"]),
        (["single=epistemic"], ["single"]),
        (["single=predictve"], ["'predictve'"]),
    ],
)
def test_wrong_names_are_refused_before_training(digits: cu.Dataset, names: list[str], parts: list[str]) -> None:
    with refused(*parts):
        cu.compare_estimators(digits, names, 2, recipe=RECIPE, progress=no_training)
