"""One network, several together, and students of them, on one fold that none of them saw."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.workflows.search import Evidence, fit_candidates, judge
from class_uncertainty.workflows.search_plan import STUDENT_RATES
from class_uncertainty.workflows.trial import Gain, Trial, teach, try_steps

ROW = cu.Candidate("cb-rs?rate=2&schedule=cosine")
MEAN = Goal("mean", np.full(10, 0.1))


@pytest.fixture(scope="module")
def context(digits: cu.Dataset) -> Iterator[Context]:
    with open_context(
        cu.Dataset("digits", digits.train), Settings(recipe=cu.Recipe("small-conv", epochs=3, batch=32))
    ) as context:
        yield context


@pytest.fixture(scope="module")
def evidence(context: Context) -> Evidence:
    networks = fit_candidates(context, [ROW], [0], [(k, 5) for k in range(5)], None)
    return judge(context, ROW, networks[ROW.name], MEAN)


def test_gains_are_of_networks_that_left_the_fold_out(context: Context, evidence: Evidence) -> None:
    """Everything by hand: three networks, their geometric mean, and a student at each rate."""
    train, recipe = context.train, replace(context.recipe, schedule="cosine")
    trial = try_steps(context, evidence, 3, STUDENT_RATES, MEAN, None)
    assert isinstance(trial, Trial)
    places = fold_indices(train, (0, 5))
    judged, labels = train.take(places), train.labels[places]
    adjustment = cu.fit_adjustment(
        evidence.p[len(places) :], evidence.labels[len(places) :], train.counts, usual_tau=0.0
    )
    lanes = [cu.Lane("cb-rs", seed, 2 * recipe.lr, (0, 5)) for seed in range(3)]
    fitted = cu.fit(train, lanes, recipe=recipe)
    p = fitted.probabilities(judged).astype(float)
    weights = 100 / (len(np.unique(labels)) * np.bincount(labels)[labels])
    alone = np.mean([weights * (adjustment(one).argmax(axis=1) != labels) for one in p], axis=0)
    together = adjustment(np.exp(np.log(p).mean(axis=0)) / np.exp(np.log(p).mean(axis=0)).sum(axis=1, keepdims=True))
    gains = alone - weights * (together.argmax(axis=1) != labels)
    assert trial.ensemble.gain == pytest.approx(gains.sum())
    assert trial.ensemble.standard_error == pytest.approx(np.sqrt((gains**2).sum()))
    teaching, by_name = cu.Teaching(tau=adjustment.tau), {}
    for rate in (2, 1):
        student = cu.Lane("naive", 0, rate * recipe.lr, (0, 5), teaching=teaching)
        taught = cu.fit(train, [student], recipe=recipe, teachers=fitted).probabilities(judged)[0].astype(float)
        by_name[f"naive?rate={rate}&schedule=cosine"] = taught
    assert list(trial.students) == list(trial.cooling) == list(by_name)
    for name, taught in by_name.items():
        gains = alone - weights * (taught.argmax(axis=1) != labels)
        assert trial.students[name].gain == pytest.approx(gains.sum())
        assert trial.cooling[name] == max(1, cu.fit_adjustment(taught, labels, train.counts, tau=0.0).temperature)
    assert (trial.members, trial.examples) == (3, len(places))
    assert trial.trainings == pytest.approx(2 + 2 + 3 / 3)  # the first network has been trained
    assert trial.seconds > 0


def test_what_is_tried_was_not_fitted_to_the_fold_that_judges(context: Context, evidence: Evidence) -> None:
    """Were it, a fold that only another tau gets right would change tau, and so the gains."""
    counts, hit = context.train.counts, np.isin(evidence.places, fold_indices(context.train, (0, 5)))
    p = counts**0.6 * (1 + 0.05 * np.eye(10)[evidence.labels])
    spoilt = replace(evidence, p=np.where(hit[:, None], p / p.sum(axis=1, keepdims=True), evidence.p))
    assert spoilt.adjustment(counts, MEAN).tau != evidence.adjustment(counts, MEAN).tau
    trial, same = (try_steps(context, one, 2, STUDENT_RATES, MEAN, None) for one in (evidence, spoilt))
    assert isinstance(trial, Trial)
    assert isinstance(same, Trial)
    assert (same.ensemble, same.students, same.cooling) == (trial.ensemble, trial.students, trial.cooling)


def test_students_of_several_seeds_are_of_the_lanes_that_were_given(context: Context, evidence: Evidence) -> None:
    rows = [ROW.student(1.0), ROW.student(0.5)]
    taught = teach(context, rows, evidence.networks.take([0]), [0, 1], (0, 5), cu.Teaching(tau=0.5))
    lr = context.recipe.lr
    assert [(lane.seed, lane.lr, lane.fold) for lane in taught.lanes] == [
        (seed, rate, (0, 5)) for rate in (2 * lr, lr) for seed in (0, 1)
    ]
    assert {lane.teaching.tau for lane in taught.lanes} == {0.5}
    assert taught.recipe.schedule == "cosine"


def test_students_that_diverge_do_not_count(context: Context, evidence: Evidence) -> None:
    trial = try_steps(context, evidence, 2, (1.0, 1e30), MEAN, None)
    assert isinstance(trial, Trial)
    assert list(trial.students) == ["naive?rate=2&schedule=cosine"] == [trial.student]
    none = try_steps(context, evidence, 2, (1e30,), MEAN, None)
    assert isinstance(none, Trial)
    assert (none.students, none.student) == ({}, None)
    assert none.ensemble == trial.ensemble
    untaught = try_steps(context, evidence, 2, (), MEAN, None)
    assert isinstance(untaught, Trial)
    assert (untaught.students, untaught.trainings) == ({}, 1)


def test_duq_has_no_students(digits: cu.Dataset) -> None:
    recipe, row = cu.Recipe("small-conv", epochs=1, batch=32), cu.Candidate("duq")
    with open_context(cu.Dataset("digits", digits.train), Settings(recipe=recipe)) as context:
        networks = fit_candidates(context, [row], [0], [(k, 5) for k in range(5)], None)
        trial = try_steps(context, judge(context, row, networks["duq"], MEAN), 2, STUDENT_RATES, MEAN, None)
    assert isinstance(trial, Trial)
    assert not trial.students


def test_networks_that_diverge_are_a_reason(context: Context, evidence: Evidence) -> None:
    lost = replace(evidence, candidate=cu.Candidate("cb-rs?lr=1e30"))
    assert try_steps(context, lost, 2, STUDENT_RATES, MEAN, None) == "a network of cb-rs?lr=1e30 diverged"


@pytest.mark.parametrize(
    ("gain", "error", "clear"), [(1.0, 0.9, True), (1.0, 1.0, False), (0.0, 0.0, False), (-1.0, 0.1, False)]
)
def test_a_gain_is_clear_beyond_a_standard_error(gain: float, error: float, clear: bool) -> None:
    assert Gain(gain, error).clear is clear
    assert Gain(gain + 1e-14, error).clear is clear  # the last bit decides nothing


def test_the_best_student_is_the_first_of_equals() -> None:
    gains = {"a": Gain(1, 1), "b": Gain(2, 9), "c": Gain(2, 1)}
    assert Trial(2, Gain(0, 0), gains, dict.fromkeys(gains, 1.0), 9, 1.0, 1.0).student == "b"
