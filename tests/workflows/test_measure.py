"""cu.measure(): an estimate of a data set, its classes as rows, and the document of `cu measure --json`."""

import json
from dataclasses import replace

import numpy as np
import pandas
import pytest
from refusals import refused
from scipy.stats import spearmanr
from watching import Watched, no_training

import class_uncertainty as cu
from class_uncertainty.runs import Store
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.measure import EstimatorRow, estimator_rows

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


def test_it_is_the_estimate_with_a_row_for_every_class(digits):
    measured = cu.measure(digits, estimator="out-of-fold", members=2, recipe=RECIPE)
    estimate = cu.estimate(digits, "out-of-fold", 2, RECIPE)
    assert np.array_equal(measured.estimate.probabilities, estimate.probabilities)
    assert [row.count for row in measured.rows] == digits.train.counts.tolist()
    assert [row.uncertainty for row in measured.rows] == estimate.mu.tolist()
    assert measured.dataset is digits
    assert measured.folds == 0


def test_the_document_says_what_the_rows_say(digits):
    measured = cu.measure(digits, members=2, score="true-class", recipe=RECIPE)
    document = json.loads(json.dumps(measured.document()))
    assert (document["estimator"], document["score"], document["members"], document["cost"]) == (
        "ensemble",
        "true-class",
        2,
        2,
    )
    assert (document["data"], document["fingerprint"]) == (digits.name, digits.fingerprint)
    assert (document["network"], document["parameters"]) == ("small-conv", 6_274)
    for row, line in zip(measured.rows, document["classes"], strict=True):
        assert line == vars(row) | {"disagreement": row.disagreement}


def test_a_score_reads_the_same_networks_otherwise(digits, tmp_path):
    store = tmp_path / "runs.sqlite"
    plain = cu.measure(digits, members=2, recipe=RECIPE, store=store)
    other = cu.measure(digits, members=2, score="true-class", recipe=RECIPE, store=store, progress=no_training)
    assert np.array_equal(plain.estimate.probabilities, other.estimate.probabilities)
    train = digits.train
    missing = 1 - plain.estimate.probabilities.mean(axis=0)[np.arange(len(train)), train.labels]
    assert [row.raw for row in other.rows] == pytest.approx([missing[train.labels == c].mean() for c in range(10)])


def test_without_a_test_split_folds_judge(digits):
    measured = cu.measure(digits.train, estimator="single", recipe=RECIPE)
    assert (measured.folds, measured.document()["folds"]) == (5, 5)
    assert all(row.error is not None for row in measured.rows)


def test_a_budget_needs_a_store_and_with_one_it_goes_on_where_it_stopped(digits, tmp_path):
    with refused("budget", "store"):
        cu.measure(digits, members=2, recipe=RECIPE, budget=5.0)
    path, watched, stops, measured = tmp_path / "runs.sqlite", Watched(), 0, None
    while measured is None:
        try:
            measured = cu.measure(digits, members=2, recipe=RECIPE, store=path, budget=1e-3, progress=watched)
        except cu.Unfinished:
            stops += 1
            assert (tmp_path / "runs.sqlite.running").is_dir()
    assert stops >= 1
    epochs = [(lane.seed, news.epoch) for news in watched.news for lane in news.lanes]
    assert sorted(epochs) == [(seed, epoch) for seed in range(2) for epoch in range(2)]  # each once
    assert not (tmp_path / "runs.sqlite.running").exists()
    whole = cu.measure(digits, members=2, recipe=RECIPE)
    assert np.array_equal(measured.estimate.probabilities, whole.estimate.probabilities)


def test_a_store_may_be_open_or_a_path(digits, tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        cu.measure(digits, estimator="single", recipe=RECIPE, store=store)
        assert len(store.estimates(digits.fingerprint)) == 1
    cu.measure(digits, estimator="single", recipe=RECIPE, store=str(tmp_path / "runs.sqlite"), progress=no_training)


def test_wrong_input_is_refused_before_training(digits):
    with refused("'ensembel'", "'ensemble'"):
        cu.measure(digits, estimator="ensembel")
    with refused("'preditive'", "'predictive'"):
        cu.measure(digits, score="preditive", progress=no_training)
    with refused("members is 0"):
        cu.measure(digits, members=0)
    with refused("learning rate is -1"):
        cu.measure(digits, lr=-1.0)
    with refused("diverged in epoch 1"):
        cu.measure(digits, members=2, lr=1e30, recipe=RECIPE)


@pytest.fixture(scope="module")
def estimates(digits):
    return [cu.estimate(digits, name, 2, RECIPE, seed) for name, seed in (("ensemble", 0), ("single", 7), ("duq", 7))]


def rows_of(estimates: list[cu.Estimate], digits: cu.Dataset) -> list[EstimatorRow]:
    return estimator_rows(estimates, estimates[0], digits.train.counts.astype(float))


def rho(a, b) -> float:
    return spearmanr(a, b).statistic


def beyond(a, b, counts) -> float:
    """The partial rank correlation, from the three plain ones."""
    ab, ac, bc = rho(a, b), rho(a, counts), rho(b, counts)
    return (ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))


def test_correlations_are_scipys(estimates, digits):
    counts, errors = digits.train.counts, np.mean([result.class_errors for result in estimates[0].results], axis=0)
    *rows, _ = rows_of(estimates, digits)
    for row, estimate in zip(rows, estimates, strict=True):
        assert (row.estimator, row.score, row.lr, row.cost) == (estimate.estimator, estimate.score, 0.1, estimate.cost)
        assert row.ensemble == pytest.approx(rho(estimate.raw, estimates[0].raw))
        assert row.ensemble_beyond == pytest.approx(beyond(estimate.raw, estimates[0].raw, counts))
        assert row.error == pytest.approx(rho(estimate.raw, errors))
        assert row.error_beyond == pytest.approx(beyond(estimate.raw, errors, counts))
    assert (rows[0].ensemble, rows[0].ensemble_beyond) == (pytest.approx(1), pytest.approx(1))
    assert len({round(row.error, 6) for row in rows}) > 1


def test_cardinality_has_nothing_beyond_the_counts(estimates, digits):
    row = rows_of(estimates, digits)[-1]
    assert (row.estimator, row.score, row.lr, row.cost) == ("cardinality", "1 / N", 0.1, 0)
    assert row.ensemble == pytest.approx(rho(1 / digits.train.counts, estimates[0].raw))
    assert (row.ensemble_beyond, row.error_beyond) == (None, None)


def test_without_results_there_are_neither_errors_nor_a_learning_rate(estimates, digits):
    unjudged = [replace(estimate, results=()) for estimate in estimates]
    for row in rows_of(unjudged, digits):
        assert (row.lr, row.error, row.error_beyond) == (None, None, None)
        assert row.ensemble is not None


def test_forests_have_errors_and_no_learning_rate(estimates, digits):
    results = tuple(replace(result, recipe=RECIPES["forest"]) for result in estimates[0].results)
    for row in rows_of([replace(estimates[0], results=results)], digits):
        assert row.lr is None
        assert row.error is not None


def test_equal_counts_regress_nothing_out(estimates):
    *rows, cardinality = estimator_rows(estimates, estimates[0], np.full(10, 40.0))
    assert all(row.ensemble_beyond == pytest.approx(row.ensemble) for row in rows)
    assert (cardinality.ensemble, cardinality.error) == (None, None)


def test_estimators_have_other_seeds_than_the_ensemble_they_are_compared_with(digits):
    comparison = cu.compare_estimators(digits, ["single"], 2, recipe=RECIPE)
    ensemble, single = cu.estimate(digits, "ensemble", 2, RECIPE), cu.estimate(digits, "single", 2, RECIPE, seed=2)
    rows = {row.estimator: row for row in comparison.rows}
    assert list(rows) == ["ensemble", "single", "cardinality"]
    assert rows["single"].ensemble == pytest.approx(spearmanr(single.raw, ensemble.raw).statistic)
    assert rows["single"].error == pytest.approx(spearmanr(single.raw, ensemble.class_errors).statistic)


def test_a_score_after_an_equals_sign(digits, tmp_path, rng):
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


def test_an_estimator_that_diverges_takes_no_other_away(digits, tmp_path, monkeypatch):
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


def test_a_rate_at_which_the_ensemble_diverged_has_no_rows(digits):
    comparison = cu.compare_estimators(digits, ["single"], 2, lrs=[0.1, 1e30], recipe=RECIPE)
    assert {row.lr for row in comparison.rows} == {0.1}
    assert len(comparison.diverged) == 2


def test_without_a_test_split_folds_compare_estimators(digits):
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
def test_wrong_names_are_refused_before_training(digits, names, parts):
    with refused(*parts):
        cu.compare_estimators(digits, names, 2, recipe=RECIPE, progress=no_training)


def test_arrays_and_frames_are_measured_as_the_data_that_they_hold(rng, caplog):
    """What is noticed of a frame is logged once."""
    X, y = rng.normal(size=(40, 2)), ["no", "no", "no", "yes"] * 10
    recipe = cu.Recipe("linear", epochs=1, batch=8)
    names = ["no", "yes"]
    data = cu.Data(X, [names.index(label) for label in y], names)
    expected = cu.measure(data, members=2, recipe=recipe).document()["classes"]
    assert cu.measure(X, y, members=2, recipe=recipe).document()["classes"] == expected
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": y})
    assert cu.measure(frame, label="kind", members=2, recipe=recipe).document()["classes"] == expected
    caplog.clear()
    frame.loc[3, "a"] = np.nan
    with caplog.at_level("WARNING", "class_uncertainty"):
        cu.measure(frame, label="kind", members=2, recipe=recipe)
    (told,) = caplog.messages
    assert "missing" in told


def test_fix_and_compare_take_labels_too(rng):
    X, y = rng.normal(size=(40, 2)), [3, 3, 3, 5] * 10
    how = {"recipe": cu.Recipe("linear", epochs=1, batch=8)}
    assert cu.compare(X, y, methods=["naive"], seeds=1, **how).dataset.classes == ("3", "5")
    assert cu.fix(X, y, candidates=["naive"], trainings=2, seeds=1, **how).dataset.classes == ("3", "5")
    with refused("y is given", "labels of its own"):
        cu.fix(cu.Data(X, np.arange(40) % 2), y)
