"""cu.measure(): an estimate of a data set, its classes as rows, and the document of `cu measure --json`."""

import json
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from watching import Watched, no_training

import class_uncertainty as cu
from class_uncertainty.runs import Store

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


def test_it_is_the_estimate_with_a_row_for_every_class(digits: cu.Dataset) -> None:
    measured = cu.measure(digits, "out-of-fold", 2, recipe=RECIPE)
    estimate = cu.estimate(digits, "out-of-fold", 2, RECIPE)
    assert np.array_equal(measured.estimate.probabilities, estimate.probabilities)
    assert [row.count for row in measured.rows] == digits.train.counts.tolist()
    assert [row.uncertainty for row in measured.rows] == estimate.mu.tolist()
    assert measured.dataset is digits
    assert measured.folds == 0


def test_the_document_says_what_the_rows_say(digits: cu.Dataset) -> None:
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


def test_a_score_reads_the_same_networks_otherwise(digits: cu.Dataset, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    plain = cu.measure(digits, members=2, recipe=RECIPE, store=store)
    other = cu.measure(digits, members=2, score="true-class", recipe=RECIPE, store=store, progress=no_training)
    assert np.array_equal(plain.estimate.probabilities, other.estimate.probabilities)
    train = digits.train
    missing = 1 - plain.estimate.probabilities.mean(axis=0)[np.arange(len(train)), train.labels]
    assert [row.raw for row in other.rows] == pytest.approx([missing[train.labels == c].mean() for c in range(10)])


def test_without_a_test_split_folds_judge(digits: cu.Dataset) -> None:
    measured = cu.measure(digits.train, "single", recipe=RECIPE)
    assert (measured.folds, measured.document()["folds"]) == (5, 5)
    assert all(row.error is not None for row in measured.rows)


def test_a_budget_needs_a_store_and_with_one_it_goes_on_where_it_stopped(digits: cu.Dataset, tmp_path: Path) -> None:
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


def test_a_store_may_be_open_or_a_path(digits: cu.Dataset, tmp_path: Path) -> None:
    with Store(tmp_path / "runs.sqlite") as store:
        cu.measure(digits, "single", recipe=RECIPE, store=store)
        assert len(store.estimates(digits.fingerprint)) == 1
    cu.measure(digits, "single", recipe=RECIPE, store=str(tmp_path / "runs.sqlite"), progress=no_training)


def test_wrong_input_is_refused_before_training(digits: cu.Dataset) -> None:
    with refused("'ensembel'", "'ensemble'"):
        cu.measure(digits, "ensembel")
    with refused("'preditive'", "'predictive'"):
        cu.measure(digits, score="preditive", progress=no_training)
    with refused("members is 0"):
        cu.measure(digits, members=0)
    with refused("learning rate is -1"):
        cu.measure(digits, lr=-1.0)
    with refused("diverged in epoch 1"):
        cu.measure(digits, members=2, lr=1e30, recipe=RECIPE)
