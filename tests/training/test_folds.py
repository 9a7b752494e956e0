"""Judging by folds: every example by a network that never saw it."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.metrics import Outcomes, evaluate
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.folds import FOLDS, fold_indices, folded, pooled

RECIPE = cu.Recipe("mlp", epochs=3, batch=16)


@pytest.fixture(scope="module")
def blobs():
    """Three classes of 40, 12 and 3: the last is missing from two folds."""
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1, 2], [40, 12, 3])
    return cu.Data(rng.normal(size=(55, 4)) + 2 * labels[:, None], labels, ["a", "b", "c"])


def test_folds_part_the_examples(blobs):
    parts = [fold_indices(blobs, lane.fold) for lane in folded(cu.Lane("naive"))]
    assert sorted(np.concatenate(parts)) == list(range(55))
    assert {len(part) for part in parts} == {11}


def test_pooled_result_is_that_of_the_networks_that_never_saw_an_example(blobs):
    """Against one fit a fold and probabilities asked for afterwards."""
    lanes = folded(cu.Lane("naive", 3))
    together = cu.fit(blobs, lanes, recipe=RECIPE)
    alone = np.empty((55, 3), np.float32)
    for k, lane in enumerate(lanes):
        assert together.results[k].scores is None
        where = fold_indices(blobs, lane.fold)
        alone[where] = cu.fit(blobs, [lane], recipe=RECIPE).probabilities(blobs)[0][where]
    result = pooled(blobs, together.results, together.unseen)
    assert result.scores == evaluate(alone, blobs.labels, blobs.counts)
    assert (result.folds, result.fold, result.seed) == (FOLDS, None, 3)


def test_a_network_never_saw_what_it_judges(blobs):
    """Spoil the inputs of one fold: the network that sees them changes, the one that leaves them out does not."""
    statistics = ([0.0] * 4, [1.0] * 4)  # the same standardising on both sides
    spoilt = fold_indices(blobs, (0, FOLDS))
    clean, dirty = blobs.inputs, blobs.inputs.copy()
    dirty[spoilt] += 100
    fits = [
        cu.fit(cu.Data(inputs, blobs.labels, statistics=statistics), folded(cu.Lane("naive"))[:2], recipe=RECIPE)
        for inputs in (clean, dirty)
    ]
    first, second = (fitted.probabilities(cu.Data(clean, blobs.labels, statistics=statistics)) for fitted in fits)
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])


def test_a_fold_that_diverges_diverges_the_result(blobs):
    fitted = cu.fit(blobs, folded(cu.Lane("naive")), recipe=RECIPE)
    results = [replace(result, diverged=2 if k == 3 else None) for k, result in enumerate(fitted.results)]
    result = pooled(blobs, results, fitted.unseen)
    assert (result.diverged, result.scores) == (2, None)


@pytest.mark.parametrize("fold", [None, (0, 5)])
def test_a_last_step_can_be_one_too_many(blobs, fold):
    """Its loss was finite, what came of it is not: with folds, and without anything to judge on."""
    once = replace(RECIPE, epochs=1, batch=len(blobs))
    (result,) = cu.fit(blobs, [cu.Lane("naive", lr=1e38, fold=fold)], recipe=once).results
    assert (np.isfinite(result.loss), result.diverged) == (True, 0)


def test_with_a_test_split_nothing_is_pooled(blobs):
    assert cu.fit(blobs, folded(cu.Lane("naive"))[:1], recipe=RECIPE, test=blobs).unseen == [None]


def test_results_of_data_without_a_test_split(blobs, tmp_path, monkeypatch):
    with open_context(blobs, Settings(recipe=RECIPE, store=tmp_path / "runs.sqlite")) as context:
        lanes = [cu.Lane("naive", 0), cu.Lane("cb-rs", 0), cu.Lane("naive", 1)]
        results = load_or_evaluate(context, lanes)
        assert [(result.method, result.seed, result.folds) for result in results] == [
            ("naive", 0, 5),
            ("cb-rs", 0, 5),
            ("naive", 1, 5),
        ]
        assert all(len(result.class_errors) == 3 for result in results)
        again = cu.fit(blobs, folded(lanes[2]), recipe=RECIPE)
        assert results[2].scores == pooled(blobs, again.results, again.unseen).scores
        monkeypatch.setattr(cu.training.stage_runner.StageRunner, "run", lambda *_: pytest.fail("trained again"))
        assert load_or_evaluate(context, lanes) == results


def test_measuring_without_a_test_split(blobs, tmp_path):
    """Members see every example; the errors are the naive lane's, by folds."""
    with open_context(blobs, Settings(recipe=RECIPE, store=tmp_path / "runs.sqlite")) as context:
        (found,) = load_or_estimate(context, [EstimateRequest("ensemble", 2)])
        assert found.probabilities.shape == (2, 55, 3)
        np.testing.assert_array_equal(found.probabilities, cu.estimate(blobs, members=2, recipe=RECIPE).probabilities)
        assert [result.folds for result in found.results] == [FOLDS]
        assert found.results == tuple(load_or_evaluate(context, [cu.Lane("naive", 0)]))
        assert len(context.store.results(context.dataset.fingerprint)) == 1


def test_a_stop_while_the_folds_train_keeps_the_members(blobs, tmp_path):
    """The same call then trains none of them again, and leaves no checkpoint behind."""

    def stop(news):
        if any(lane.fold for lane in news.lanes):
            raise KeyboardInterrupt

    def estimate(progress):
        with open_context(
            blobs, Settings(recipe=RECIPE, store=tmp_path / "runs.sqlite", progress=lambda *_: nullcontext(progress))
        ) as context:
            return load_or_estimate(context, [EstimateRequest("ensemble", 2)])

    told = []
    with pytest.raises(KeyboardInterrupt):
        estimate(stop)
    (found,) = estimate(told.append)
    assert {lane.fold for news in told for lane in news.lanes} == {(k, FOLDS) for k in range(FOLDS)}
    np.testing.assert_array_equal(found.probabilities, cu.estimate(blobs, members=2, recipe=RECIPE).probabilities)
    assert not (tmp_path / "runs.sqlite.running").exists()


@pytest.mark.parametrize("method", ["crt", "duq", "naive+mixup"])
def test_methods_of_several_stages_and_other_heads_are_judged_by_folds(blobs, method):
    """What a lane says of its own fold at the end of its last stage."""
    lanes = folded(cu.Lane(method, 1))
    fitted = cu.fit(blobs, lanes, recipe=RECIPE)
    p = fitted.probabilities(blobs)
    for k, lane in enumerate(lanes):
        where = fold_indices(blobs, lane.fold)
        wanted, mine = Outcomes.of(p[k][where], blobs.labels[where]), fitted.unseen[k]
        for part in ("labels", "guesses", "p_label", "p_guess"):
            np.testing.assert_array_equal(getattr(mine, part), getattr(wanted, part))
    assert pooled(blobs, fitted.results, fitted.unseen).method == method
