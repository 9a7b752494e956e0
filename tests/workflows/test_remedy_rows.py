"""Remedies through the store: every row, on data with a test split and without."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import gmean
from watching import no_training

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc.remedies import REMEDIES, find_remedy
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate, load_or_fit
from class_uncertainty.runs.settings import Settings
from class_uncertainty.training import default_recipe
from class_uncertainty.training.folds import FOLDS, fold_indices, judged_folds
from class_uncertainty.workflows import remedy_rows
from class_uncertainty.workflows.remedy_rows import (
    RemedySetting,
    Tunings,
    choose_adjustments,
    choose_teaching,
    evaluate_remedies,
    trial_members,
)

NAMES = [*REMEDIES, "cb*2", "adjusted*2"]


@dataclass(frozen=True, eq=False)
class Measured:
    """A context, what was measured in it out-of-fold, and how many members that took."""

    context: Context
    estimate: cu.Estimate
    members: int

    def results(self, name: str, *seeds: int) -> list[cu.Result]:
        return remedied(self.context, name, seeds, self.members, estimate=self.estimate)

    def tunings(self) -> Tunings:
        """What is chosen for every fold that is judged, and for the network that is kept."""
        folds = dict.fromkeys([*judged_folds(self.context.dataset), None])
        adjustments = choose_adjustments(self.context, None, self.estimate, folds)
        return choose_teaching(
            self.context, adjustments, load_or_fit(self.context, trial_members(self.context, self.members, None))
        )


def remedied(
    context: Context,
    name: str,
    seeds: Sequence[int],
    members: int,
    lr: float | None = None,
    estimate: cu.Estimate | None = None,
) -> list[cu.Result]:
    remedy = find_remedy(name)
    assert remedy is not None
    return evaluate_remedies(context, {name: remedy}, seeds, members, lr, estimate, None)


@pytest.fixture(scope="module")
def recipe(digits):
    return default_recipe(digits.train, epochs=2)


@pytest.fixture(scope="module")
def measured(tmp_path_factory, digits, recipe):
    with open_context(
        digits, Settings(recipe=recipe, store=tmp_path_factory.mktemp("remedies") / "runs.sqlite")
    ) as context:
        (estimate,) = load_or_estimate(context, [EstimateRequest("out-of-fold", 3)])
        yield Measured(context, estimate, 3)


@cache
def students_by_hand(measured: Measured) -> tuple[np.ndarray, np.ndarray]:
    """Students at both temperatures (2, N, C) of the out-of-fold members, and the places (N,) of these examples.

    Each is asked about the fold that it and its teacher left out.
    """
    train, recipe, members = measured.context.train, measured.context.recipe, measured.members
    tau = cu.fit_adjustment(measured.estimate.probabilities[0], train.labels, train.counts).tau
    places, parts = [], []
    teachers = cu.fit(train, [cu.Lane("naive", 0, fold=(k, members)) for k in range(members)], recipe=recipe)
    for k, member in enumerate(teachers.lanes):
        lanes = [replace(member, lr=recipe.lr, teaching=cu.Teaching(tau=tau, temperature=t)) for t in (2.0, 4.0)]
        students = cu.fit(train, lanes, recipe=recipe, teachers=teachers.take([k]))
        unseen = fold_indices(train, (k, members))
        parts.append(students.probabilities(train.take(unseen)))
        places.append(unseen)
    return np.concatenate(parts, axis=1).astype(np.float64), np.concatenate(places)


def teaching_by_hand(measured: Measured, fold: tuple[int, int] | None = None) -> tuple[float, float]:
    """(T, cooling) by what students of the out-of-fold members say of examples outside that fold."""
    train, (p, order) = measured.context.train, students_by_hand(measured)
    kept = np.flatnonzero(~np.isin(order, [] if fold is None else fold_indices(train, fold)))
    labels = train.labels[order[kept]]
    wrong = [p_t[kept].argmax(axis=1) != labels for p_t in p]
    gain, variance = 0.0, 0.0
    for c in np.unique(labels):
        fewer = wrong[0][labels == c].astype(float) - wrong[1][labels == c]
        gain, variance = gain + fewer.mean(), variance + (fewer**2).sum() / len(fewer) ** 2
    chosen = int(gain > variance**0.5)
    return (2.0, 4.0)[chosen], cu.fit_adjustment(p[chosen][kept], labels, train.counts, tau=0.0).temperature


def by_hand(measured: Measured, name: str, seed: int) -> np.ndarray:
    """What a row says of the test examples, from plain networks and the formulas."""
    train, test, recipe = measured.context.train, measured.context.dataset.test, measured.context.recipe
    adjustment = cu.fit_adjustment(measured.estimate.probabilities[0], train.labels, train.counts)

    def probabilities(lanes: list[cu.Lane], teachers: cu.Fit | None = None) -> np.ndarray:
        return cu.fit(train, lanes, recipe=recipe, teachers=teachers).probabilities(test).astype(np.float64)

    if name == "distil":
        teachers = cu.fit(train, [cu.Lane("naive", s) for s in range(3)], recipe=recipe)
        temperature, cooling = teaching_by_hand(measured)
        teaching = cu.Teaching(tau=adjustment.tau, temperature=temperature)
        (p,) = probabilities([cu.Lane("naive", seed, teaching=teaching)], teachers)
        cooled = p ** (1 / cooling)
        return cooled / cooled.sum(axis=1, keepdims=True)
    number = {"adjusted": 1, "cb*2": 2, "adjusted*2": 2}.get(name, 3)
    p = probabilities([cu.Lane("cb" if name == "cb*2" else "naive", seed * number + i) for i in range(number)])
    mean = p.mean(axis=0) if "arithmetic" in name else gmean(p, axis=0)
    mean = mean / mean.sum(axis=1, keepdims=True)
    if "adjusted" not in name:
        return mean
    adjusted = (mean / train.counts**adjustment.tau) ** (1 / adjustment.temperature)
    return adjusted / adjusted.sum(axis=1, keepdims=True)


COSTS = {"adjusted": 4, "ensemble": 3, "ensemble-adjusted": 6, "ensemble-arithmetic": 3}
COSTS |= {"ensemble-arithmetic-adjusted": 6, "cb*2": 2, "adjusted*2": 5}
COSTS |= {"distil": 3 + 2 * 3 * (1 + 1 / 3) + 3 + 1 + 3 / 3}


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_what_it_says_and_costs_all_that_it_trains(measured, name):
    (result,) = measured.results(name, 1)
    context = measured.context
    assert (result.method, result.seed, result.lr, result.folds) == (name, 1, context.recipe.lr, 0)
    assert result.cost == pytest.approx(COSTS[name])
    expected = evaluate(by_hand(measured, name, 1), context.dataset.test.labels, context.train.counts)
    np.testing.assert_allclose(result.class_errors, expected.class_errors, atol=1e-9)
    np.testing.assert_allclose([result.scores.nll, result.scores.ece], [expected.nll, expected.ece], rtol=1e-3)


def test_stored_results_are_not_made_again(measured, monkeypatch):
    """Nothing is trained, and of networks only those on trial are read, which say how to teach."""
    before, ensemble = measured.results("distil", 0, 1), measured.results("ensemble", 1)
    quiet = Measured(replace(measured.context, watch=no_training), measured.estimate, measured.members)
    read, get_network = [], Store.get_network
    monkeypatch.setattr(Store, "get_network", lambda store, key: read.append(key) or get_network(store, key))
    assert quiet.results("distil", 0, 1) == before
    assert len(read) == len(set(read)) == 3 + 2 * 3
    read.clear()
    assert quiet.results("ensemble", 1) == ensemble
    assert read == []


def test_remedies_that_train_together_are_those_that_train_alone(measured, tmp_path, digits, recipe):
    """Two rows and two seeds in one call; the order is by row, then by seed."""
    names = ("ensemble-adjusted", "distil")
    with open_context(digits, Settings(recipe=recipe, store=tmp_path / "runs.sqlite")) as context:
        (estimate,) = load_or_estimate(context, [EstimateRequest("out-of-fold", 3)])
        remedies = {name: REMEDIES[name] for name in names}
        together = evaluate_remedies(context, remedies, [0, 1], 3, None, estimate, None)
    alone = [result for name in names for result in measured.results(name, 0, 1)]
    assert [(result.method, result.seed) for result in together] == [(name, seed) for name in names for seed in (0, 1)]
    assert [result.class_errors for result in together] == [result.class_errors for result in alone]


def test_tau_is_one_where_all_members_have_seen_all_examples(measured):
    context = measured.context
    (ensemble,) = load_or_estimate(context, [EstimateRequest("ensemble", 2)])
    for estimate in (None, ensemble):
        (result,) = remedied(context, "adjusted", [0], 2, estimate=estimate)
        assert (result.plan["tau"], result.plan["temperature"], result.cost) == (1.0, 1.0, 1)


@pytest.mark.parametrize("name", ["adjusted", "ensemble", "distil"])
def test_without_a_test_split_nothing_is_judged_by_what_saw_it(tmp_path, digits, recipe, name):
    """Neither the network nor any of its teachers trained on a judged example, and tau was not chosen on it."""
    few = np.concatenate([np.flatnonzero(digits.train.labels == c)[:15] for c in range(10)])
    train, remedy, parts = digits.train.take(few), REMEDIES[name], []
    with open_context(cu.Dataset("no-test", train), Settings(recipe=recipe, store=tmp_path / "runs.sqlite")) as context:
        (estimate,) = load_or_estimate(context, [EstimateRequest("out-of-fold", 2)])
        measured = Measured(context, estimate, 2)
        (result,) = measured.results(name, 0)
        tunings = measured.tunings() if remedy.distils else {}
    assert result.folds == FOLDS
    seeds = range(1 if name == "adjusted" else 2)
    naive = [cu.Lane("naive", seed, fold=(k, FOLDS)) for k in range(FOLDS) for seed in seeds]
    trained = cu.fit(train, naive, recipe=recipe)
    for fold in ((k, FOLDS) for k in range(FOLDS)):
        unseen = fold_indices(train, fold)
        rest = np.setdiff1d(np.arange(len(train)), unseen)
        chosen = cu.fit_adjustment(estimate.probabilities[0][rest], train.labels[rest], train.counts)
        networks = trained.take([i for i, lane in enumerate(naive) if lane.fold == fold])
        temperature = chosen.temperature
        if remedy.distils:
            t, temperature = teaching_by_hand(measured, fold)
            assert tunings[fold].cooling == pytest.approx(temperature, rel=1e-6)
            assert tunings[fold].teaching == cu.Teaching(tau=chosen.tau, temperature=t)
            student = cu.Lane("naive", 0, recipe.lr, fold, teaching=tunings[fold].teaching)
            networks = cu.fit(train, [student], recipe=recipe, teachers=networks)
        mean = gmean(networks.probabilities(train.take(unseen)).astype(np.float64), axis=0)
        if remedy.adjusts and not remedy.distils:
            mean = mean / train.counts**chosen.tau
        if remedy.adjusts:
            mean = mean ** (1 / temperature)
        parts.append(mean / mean.sum(axis=1, keepdims=True))
    labels = np.concatenate([train.labels[fold_indices(train, (k, FOLDS))] for k in range(FOLDS)])
    expected = evaluate(np.concatenate(parts), labels, train.counts)
    assert result.error == pytest.approx(expected.error)
    assert result.scores.nll == pytest.approx(expected.nll, rel=1e-3)


def test_what_is_chosen_is_in_the_key_and_in_the_plan(measured, monkeypatch):
    """Another cooling or tau makes another result of the same networks."""
    choice = measured.tunings()[None]
    adjustment = replace(choice.adjustment, tau=2 * choice.tau, bias=2 * choice.adjustment.bias)
    others = {"distil": replace(choice, cooling=2 * choice.cooling), "adjusted": replace(choice, adjustment=adjustment)}
    keys = set()
    for name, other in others.items():
        (result,) = measured.results(name, 1)
        with monkeypatch.context() as patch:
            patch.setattr(remedy_rows, "choose_teaching", lambda *_, o=other: {None: o})
            patch.setattr(remedy_rows, "choose_adjustments", lambda *_, o=other: {None: o})
            (changed,) = measured.results(name, 1)
        assert result.scores.nll != changed.scores.nll
        assert measured.results(name, 1) == [result]
        assert changed.plan["temperature"] == (other.cooling if name == "distil" else adjustment.temperature)
        assert changed.plan["tau"] == other.tau
        assert changed.plan.get("T", choice.teaching.temperature) == choice.teaching.temperature
        settings = [RemedySetting(measured.context, 3, None, {None: variant}) for variant in (choice, other)]
        keys |= {setting.key(name, REMEDIES[name], 1) for setting in settings}
    assert len(keys) == 4


def test_networks_of_a_remedy_have_results_of_their_own(tmp_path, digits, recipe):
    """A method's lanes in an ensemble have the results that they have alone."""
    lanes = [cu.Lane("cb", 0), cu.Lane("cb", 1)]
    with open_context(digits, Settings(recipe=recipe, store=tmp_path / "runs.sqlite")) as context:
        remedied(context, "cb*2", [0], 2)
        stored = load_or_evaluate(replace(context, watch=no_training), lanes)
    alone = cu.fit(digits.train, lanes, recipe=recipe, test=digits.test).results
    assert [result.scores for result in stored] == [result.scores for result in alone]


def test_one_seed_that_diverges_is_lost_alone(measured, monkeypatch):
    load_or_fit(measured.context, [cu.Lane("naive", seed) for seed in (30, 31, 32)])
    get_network = Store.get_network

    def lost(store: Store, key: str):
        network = get_network(store, key)
        return (replace(network[0], diverged=1), network[1]) if network and network[0].seed == 31 else network

    monkeypatch.setattr(Store, "get_network", lost)
    results = measured.results("adjusted", 30, 31, 32)
    assert [result.diverged for result in results] == [None, 1, None]


def test_results_with_another_tau_or_other_teachers_are_others(measured):
    (chosen,) = measured.results("distil", 1)
    (at_one,) = remedied(measured.context, "distil", [1], 3)
    assert (at_one.plan["tau"], at_one.cost) == (1.0, 3 + 1 + 3 / 3)
    (of_two,) = remedied(measured.context, "distil", [1], 2)
    assert of_two.plan["networks"] == 2
    assert len({repr(result.scores) for result in (chosen, at_one, of_two)}) == 3


@pytest.mark.parametrize("name", ["ensemble-adjusted", "distil"])
def test_a_remedy_of_networks_that_diverge_has_no_scores(tmp_path, digits, recipe, name):
    with open_context(digits, Settings(recipe=recipe, store=tmp_path / "runs.sqlite")) as context:
        (result,) = remedied(context, name, [0], 2, lr=1e30)
    assert (result.scores, result.diverged, result.lr) == (None, 0, 1e30)


def test_methods_that_use_uncertainty_get_it(measured):
    """Other class uncertainties make another ensemble."""
    context, remedy = measured.context, find_remedy("ubrw*2")
    assert remedy is not None
    vectors = (np.arange(1.0, 11), np.arange(10.0, 0, -1))
    results = [
        evaluate_remedies(context, {"ubrw*2": remedy}, [0], 2, None, None, cu.Stats(context.train.counts, vector))[0]
        for vector in vectors
    ]
    assert results[0].uncertainty != results[1].uncertainty
    assert results[0].scores.nll != results[1].scores.nll


@pytest.mark.parametrize("factor", [4, 0.25])
def test_students_learn_at_the_recipes_rate_or_at_the_teachers_where_that_is_lower(measured, factor):
    recipe = measured.context.recipe
    (tuning,) = choose_adjustments(measured.context, factor * recipe.lr, measured.estimate, [None]).values()
    rates = (tuning.candidate.lr(recipe), tuning.learner.lr(recipe))
    assert rates == (factor * recipe.lr, min(1, factor) * recipe.lr)
