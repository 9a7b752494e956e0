"""Networks are trained, taught, combined and judged, for `cu compare` and `cu fix` alike."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import gmean

import class_uncertainty as cu
from class_uncertainty.posthoc.remedies import REMEDIES, Remedy
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.folds import FOLDS, fold_indices
from class_uncertainty.workflows.ladder import (
    Part,
    Row,
    Tuning,
    climb,
    fit_networks,
    judged_by_folds,
    leaving_out,
    teach,
)

NAIVE, OTHER = cu.Candidate("naive"), cu.Candidate("cb-rs?rate=2&schedule=cosine")
EVERY_FOLD = [(k, FOLDS) for k in range(FOLDS)]
ALONE = Remedy("one network", adjusts=True, together=1, mean="")


@pytest.fixture(scope="module")
def context(digits):
    with open_context(digits, Settings(recipe=cu.Recipe("small-conv", epochs=1, batch=32))) as context:
        yield context


@pytest.fixture(scope="module")
def networks(context):
    """Two seeds of two candidates, without each fold and without the test split."""
    wanted = [(row, seed, fold) for row in (NAIVE, OTHER) for fold in (*EVERY_FOLD, None) for seed in (1, 0)]
    return fit_networks(judged_by_folds(context), wanted, None)


def adjusting(counts: np.ndarray, tau: float, temperature: float = 1.5) -> cu.Adjustment:
    return replace(cu.Adjustment.of(counts, tau), temperature=temperature)


def renormalised(p: np.ndarray) -> np.ndarray:
    return p / p.sum(axis=-1, keepdims=True)


def test_candidates_of_one_recipe_train_together_and_as_if_alone(context):
    rows = [cu.Candidate(name) for name in ("naive", "cb-rs?rate=2", "naive?epochs=2")]
    together = fit_networks(context, [(row, seed, None) for row in rows for seed in (0, 1)], None)
    assert [len(fitted.lanes) for fitted in together.values()] == [2, 2, 2]
    for row, epochs in zip(rows, (1, 1, 2), strict=True):
        recipe = replace(context.recipe, epochs=epochs)
        lanes = [cu.Lane(row.method, seed, row.rate * recipe.lr) for seed in range(2)]
        alone = cu.fit(context.train, lanes, recipe=recipe)
        assert together[row].lanes == lanes
        assert np.array_equal(together[row].probabilities(context.train), alone.probabilities(context.train))


def test_networks_are_picked_by_the_fold_that_they_left_out_in_the_order_of_the_seeds(networks):
    for fold in (None, (2, FOLDS)):
        for seeds in ([0, 1], [1], [1, 0]):
            lanes = leaving_out(networks[NAIVE], fold, seeds).lanes
            assert [(lane.seed, lane.fold) for lane in lanes] == [(seed, fold) for seed in seeds]


def test_students_differ_in_rate_teaching_and_seed(context, networks):
    counts, fold = context.train.counts, (0, FOLDS)
    tuning = Tuning(OTHER, adjusting(counts, 1.0), cu.Teaching(tau=0.5), student=OTHER.student(1.0))
    other = replace(tuning, student=OTHER.student(0.5), teaching=cu.Teaching(tau=0.7))
    taught = teach(context, [tuning, other], [0, 1], fold, leaving_out(networks[OTHER], fold, [0]))
    lr = context.recipe.lr
    assert [(lane.method, lane.seed, lane.lr, lane.fold, lane.teaching.tau) for lane in taught.lanes] == [
        ("naive", seed, rate, fold, tau) for rate, tau in ((2 * lr, 0.5), (lr, 0.7)) for seed in (0, 1)
    ]
    assert taught.recipe.schedule == "cosine"


def test_one_network_is_left_as_it_is_and_several_are_averaged(rng):
    counts = np.array([50, 20, 5])
    tuning, members = Tuning(NAIVE, adjusting(counts, 0.5)), list(rng.dirichlet(np.ones(3), (4, 20)))
    assert np.array_equal(tuning.averaged(members[:1], replace(ALONE, adjusts=False)), members[0])
    mean = renormalised(gmean(members, axis=0))
    np.testing.assert_allclose(tuning.averaged(members, REMEDIES["ensemble"]), mean)
    np.testing.assert_allclose(tuning.averaged(members, REMEDIES["ensemble-arithmetic"]), np.mean(members, axis=0))
    adjusted = renormalised((mean / counts**0.5) ** (1 / 1.5))
    np.testing.assert_allclose(tuning.averaged(members, REMEDIES["ensemble-adjusted"]), adjusted)


def test_a_student_keeps_only_its_temperature():
    tuning = Tuning(NAIVE, adjusting(np.array([50, 20, 5]), 0.5), cooling=1.25)
    assert (tuning.cooled.bias.tolist(), tuning.cooled.temperature) == ([0.0] * 3, 1.25)
    assert np.array_equal(tuning.cooled.prior, tuning.adjustment.prior)


@pytest.mark.parametrize("by_folds", [False, True])
def test_every_fold_is_judged_by_networks_and_tunings_that_left_it_out(context, networks, by_folds):
    """All steps by hand: one network, a mean, a mean of two kinds, a student. Each fold has a tau of its own."""
    train, counts = context.train, context.train.counts
    dataset = judged_by_folds(context).dataset if by_folds else context.dataset
    folds = EVERY_FOLD if by_folds else [None]
    taus = dict(zip(folds, np.linspace(0.2, 1, len(folds)), strict=True))
    one = {fold: Tuning(NAIVE, adjusting(counts, tau), cooling=2.0) for fold, tau in taus.items()}
    kinds = {
        fold: replace(one[fold], parts=(Part(OTHER, adjusting(counts, 0.0)), Part(NAIVE, adjusting(counts, tau))))
        for fold, tau in taus.items()
    }
    rows = [
        Row("single", ALONE, one, {0: [0], 1: [1]}),
        Row("mean", REMEDIES["ensemble-adjusted"], one, {7: [0, 1]}),
        Row("kinds", REMEDIES["ensemble-adjusted"], kinds, {1: [1]}),
        Row("student", REMEDIES["distil"], one, {0: [0, 1]}),
    ]
    students = {fold: leaving_out(networks[OTHER], fold, [0]) for fold in folds}
    p = climb(dataset, rows, networks, students)

    expected: dict[tuple[str, int], list[np.ndarray]] = {key: [] for key in p}
    for fold in folds:
        judged = train.take(fold_indices(train, fold)) if fold else context.dataset.test
        naive, other = (leaving_out(networks[row], fold, [0, 1]).probabilities(judged) for row in (NAIVE, OTHER))
        adjusted = [renormalised((p_seed / counts ** taus[fold]) ** (1 / 1.5)) for p_seed in naive]
        mean = renormalised(gmean(naive.astype(float), axis=0))
        expected["single", 0].append(adjusted[0])
        expected["single", 1].append(adjusted[1])
        expected["mean", 7].append(renormalised((mean / counts ** taus[fold]) ** (1 / 1.5)))
        softened = renormalised(other[1].astype(float) ** (1 / 1.5))
        expected["kinds", 1].append(renormalised(gmean([softened, adjusted[1]], axis=0)))
        expected["student", 0].append(renormalised(other[0].astype(float) ** (1 / 2)))
    for key, parts in expected.items():
        np.testing.assert_allclose(p[key], np.concatenate(parts), rtol=1e-6)
