"""One network, several together, and students of them, on one fold that none of them saw."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import fold_indices
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.workflows.alternatives import Gain, Trial, average_kinds, best_of_kinds, try_steps
from class_uncertainty.workflows.fix_plan import STUDENT_RATES
from class_uncertainty.workflows.ladder import fit_networks
from class_uncertainty.workflows.search import Evidence, Search, judge

ROW = cu.Candidate("cb-rs?rate=2&schedule=cosine")
MEAN = Goal("mean", np.full(10, 0.1))


@pytest.fixture(scope="module")
def context(digits):
    with open_context(
        cu.Dataset("digits", digits.train), Settings(recipe=cu.Recipe("small-conv", epochs=3, batch=32))
    ) as context:
        yield context


@pytest.fixture(scope="module")
def evidence(context):
    networks = fit_networks(context, [(ROW, 0, (k, 5)) for k in range(5)], None)
    return judge(context, ROW, networks[ROW], MEAN)


def tried(context: Context, evidence: Evidence, members: int, rates: Sequence[float] = STUDENT_RATES) -> Trial:
    trial = try_steps(context, evidence, members, rates, MEAN, None).trial
    assert trial is not None
    return trial


def test_gains_are_of_networks_that_left_the_fold_out(context, evidence):
    """Everything by hand: three networks, their geometric mean, and a student at each rate."""
    train, recipe = context.train, replace(context.recipe, schedule="cosine")
    trial = tried(context, evidence, 3)
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


def test_what_is_tried_was_not_fitted_to_the_fold_that_judges(context, evidence):
    """Were it, a fold that only another tau gets right would change tau, and so the gains."""
    counts, hit = context.train.counts, np.isin(evidence.places, fold_indices(context.train, (0, 5)))
    p = counts**0.6 * (1 + 0.05 * np.eye(10)[evidence.labels])
    spoilt = replace(evidence, p=np.where(hit[:, None], p / p.sum(axis=1, keepdims=True), evidence.p))
    assert spoilt.adjustment(counts, MEAN).tau != evidence.adjustment(counts, MEAN).tau
    trial, same = (tried(context, one, 2) for one in (evidence, spoilt))
    assert (same.ensemble, same.students, same.cooling) == (trial.ensemble, trial.students, trial.cooling)


def test_students_that_diverge_do_not_count(context, evidence):
    trial = tried(context, evidence, 2, (1.0, 1e30))
    assert list(trial.students) == ["naive?rate=2&schedule=cosine"] == [trial.student]
    none = tried(context, evidence, 2, (1e30,))
    assert (none.students, none.student) == ({}, None)
    assert none.ensemble == trial.ensemble
    untaught = tried(context, evidence, 2, ())
    assert (untaught.students, untaught.trainings) == ({}, 1)


def test_duq_has_no_students(digits):
    recipe, row = cu.Recipe("small-conv", epochs=1, batch=32), cu.Candidate("duq")
    with open_context(cu.Dataset("digits", digits.train), Settings(recipe=recipe)) as context:
        networks = fit_networks(context, [(row, 0, (k, 5)) for k in range(5)], None)
        assert not tried(context, judge(context, row, networks[row], MEAN), 2).students


def test_networks_that_diverge_are_a_reason(context, evidence):
    lost = replace(evidence, candidate=cu.Candidate("cb-rs?lr=1e30"))
    alternatives = try_steps(context, lost, 2, STUDENT_RATES, MEAN, None)
    assert (alternatives.trial, alternatives.why_none) == (None, "a network of cb-rs?lr=1e30 diverged")


@pytest.mark.parametrize(
    ("gain", "error", "clear"), [(1.0, 0.9, True), (1.0, 1.0, False), (0.0, 0.0, False), (-1.0, 0.1, False)]
)
def test_a_gain_is_clear_beyond_a_standard_error(gain, error, clear):
    assert Gain(gain, error).is_clear is clear
    assert Gain(gain + 1e-14, error).is_clear is clear  # the last bit decides nothing


def test_the_best_student_is_the_first_of_equals():
    gains = {"a": Gain(1, 1), "b": Gain(2, 9), "c": Gain(2, 1)}
    assert Trial(2, Gain(0, 0), gains, dict.fromkeys(gains, 1.0), 9, 1.0, 1.0).student == "b"


LABELS = np.arange(40) % 2
TWO_CLASSES = Goal("mean", np.full(2, 0.5))
TABLE = cu.Data(np.zeros((40, 2), np.float32), LABELS)


def evidence_of_kind(name: str, wrong: int, recipe: str = "forest") -> Evidence:
    """Sure of every label, and wrong in the last so many examples."""
    p = np.where(LABELS[:, None] == np.arange(2), 0.9, 0.1)
    p[len(p) - wrong :] = p[len(p) - wrong :, ::-1]
    networks = Fit.untrained(TABLE, [], RECIPES[recipe], "cpu", None)
    return Evidence(cu.Candidate(name), networks, np.arange(40), LABELS, p, p, 1.0)


def test_the_best_of_every_kind_is_averaged():
    finalists = [
        evidence_of_kind("naive", 9),
        evidence_of_kind("cb-rs", 2),
        evidence_of_kind("cb", 4, "boosting"),
        evidence_of_kind("ubrw", 9, "logistic"),
    ]
    best = best_of_kinds(finalists, finalists[1], TWO_CLASSES)
    assert [one.candidate.name for one in best] == ["cb-rs", "cb", "ubrw"]


@pytest.mark.parametrize(("others", "kept"), [(3, True), (20, False)])
def test_the_mean_is_kept_unless_one_model_is_clearly_better(others, kept):
    """Two that are wrong outvote one that is right."""
    right = evidence_of_kind("naive", 2)
    finalists = (right, evidence_of_kind("cb", others, "boosting"), evidence_of_kind("cb-rs", others, "logistic"))
    average = average_kinds(Search(right, finalists, (), {}), TWO_CLASSES).average
    assert average is not None
    assert average.is_kept is kept
    assert average.gain.gain == pytest.approx(100 * (2 - others) / 40)


def test_finalists_of_one_kind_are_not_averaged():
    finalists = (evidence_of_kind("naive", 2), evidence_of_kind("cb", 3))
    alternatives = average_kinds(Search(finalists[0], finalists, (), {}), TWO_CLASSES)
    assert (alternatives.average, alternatives.why_none) == (None, "the finalists are all of one kind")
