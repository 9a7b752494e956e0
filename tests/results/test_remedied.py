"""Remedies through the store: every row, on data with a test split and without."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gmean

import class_uncertainty as cu
from class_uncertainty.metrics import evaluate
from class_uncertainty.remedies.ensemble import combined
from class_uncertainty.remedies.table import REMEDIES, remedy_named
from class_uncertainty.results import Store
from class_uncertainty.results.remedied import remedied
from class_uncertainty.results.runs import measured, run, trained
from class_uncertainty.results.ward import Ward
from class_uncertainty.training import default_recipe
from class_uncertainty.training.folds import FOLDS, held_out

NAMES = [*REMEDIES, "cb*2", "adjusted*2"]


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture(scope="module")
def recipe(digits: cu.Dataset) -> cu.Recipe:
    return default_recipe(digits.train, epochs=3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory):
    with Store(tmp_path_factory.mktemp("remedied") / "runs.sqlite") as store:
        yield store


@pytest.fixture(scope="module")
def ward(store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> Ward:
    (found,) = measured(store, digits, recipe, [cu.estimation.Asked("out-of-fold", 3)])
    return Ward(store, digits, recipe, members=3, estimate=found)


def lesson_by_hand(ward: Ward, fold: tuple[int, int] | None = None) -> tuple[float, float]:
    """(T, cooling): students of the out-of-fold members, each asked about the fold that it and its teacher left out."""
    train, tau = ward.dataset.train, ward.adjustment().tau
    places, parts = [], []
    for k in range(ward.members):
        member = cu.Lane("naive", 0, ward.lr, fold=(k, ward.members))
        slower = min(ward.recipe.lr, ward.lr or ward.recipe.lr)
        lanes = [replace(member, lr=slower, teaching=cu.Teaching(tau=tau, temperature=t)) for t in (2.0, 4.0)]
        teacher = cu.fit(train, [member], recipe=ward.recipe)
        unseen = held_out(train, (k, ward.members))
        parts.append(cu.fit(train, lanes, recipe=ward.recipe, teachers=teacher).probabilities(train.take(unseen)))
        places.append(unseen)
    asked, said = np.concatenate(places), np.concatenate(parts, axis=1).astype(np.float64)
    kept = [i for i, place in enumerate(asked) if fold is None or place not in held_out(train, fold)]
    labels = train.labels[asked[kept]]
    wrong = [np.array([np.argmax(row) for row in p[kept]]) != labels for p in said]
    gain, variance = 0.0, 0.0
    for c in np.unique(labels):
        less = wrong[0][labels == c].astype(float) - wrong[1][labels == c]
        gain, variance = gain + less.mean(), variance + (less**2).sum() / len(less) ** 2
    chosen = int(gain > variance**0.5)
    return (2.0, 4.0)[chosen], cu.fit_adjustment(said[chosen][kept], labels, train.counts, tau=0.0).temperature


def by_hand(ward: Ward, name: str, seed: int) -> np.ndarray:
    """What a row says of the test examples, from plain networks and the formulas."""
    test, adjustment = ward.dataset.test, ward.adjustment()
    assert test is not None

    def said(lanes: list[cu.Lane], teachers: cu.Fit | None = None) -> np.ndarray:
        return cu.fit(ward.dataset.train, lanes, recipe=ward.recipe, teachers=teachers).probabilities(test).astype(np.float64)

    if name == "distil":
        teachers = cu.fit(ward.dataset.train, [cu.Lane("naive", s) for s in range(3)], recipe=ward.recipe)
        temperature, cooling = lesson_by_hand(ward)
        (p,) = said([cu.Lane("naive", seed, teaching=cu.Teaching(tau=adjustment.tau, temperature=temperature))], teachers)
        cooled = p ** (1 / cooling)
        return cooled / cooled.sum(axis=1, keepdims=True)
    number = {"adjusted": 1, "cb*2": 2, "adjusted*2": 2}.get(name, 3)
    p = said([cu.Lane("cb" if name == "cb*2" else "naive", seed * number + i) for i in range(number)])
    mean = p.mean(axis=0) if "arithmetic" in name else gmean(p, axis=0)
    mean = mean / mean.sum(axis=1, keepdims=True)
    if "adjusted" not in name:
        return mean
    weighed = (mean / ward.dataset.train.counts**adjustment.tau) ** (1 / adjustment.temperature)
    return weighed / weighed.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_what_it_says(ward: Ward, name: str) -> None:
    (result,) = remedied(ward, name, [1])
    assert (result.method, result.seed, result.lr, result.folds) == (name, 1, ward.recipe.lr, 0)
    test = ward.dataset.test
    assert test is not None
    wanted = evaluate(by_hand(ward, name, 1), test.labels, ward.dataset.train.counts)
    assert result.scores is not None
    np.testing.assert_allclose(result.scores.class_errors, wanted.class_errors, atol=1e-9)
    np.testing.assert_allclose([result.nll, result.ece], [wanted.nll, wanted.ece], rtol=1e-3)


COSTS = {"adjusted": 4, "ensemble": 3, "ensemble-adjusted": 6, "ensemble-arithmetic": 3, "ensemble-arithmetic-adjusted": 6}
COSTS |= {"distil": 3 + 2 * 3 * (1 + 1 / 3) + 3 + 1 + 3 / 3, "cb*2": 2, "adjusted*2": 5}


@pytest.mark.parametrize("name", NAMES)
def test_costs_are_all_trainings_that_it_takes(ward: Ward, name: str) -> None:
    (result,) = remedied(ward, name, [1])
    assert result.cost == pytest.approx(COSTS[name])


def test_what_is_stored_is_not_made_again(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    before = remedied(ward, "distil", [0, 1])

    def broken(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("class_uncertainty.results.runs.fit", broken)
    monkeypatch.setattr(Ward, "said", broken)
    assert remedied(ward, "distil", [0, 1]) == before


def test_members_come_from_the_store(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an ensemble that was measured, and a comparison's naive lanes, are not trained again; others are."""
    lanes = [cu.Lane("naive", seed) for seed in (20, 21)]
    found = measured(ward.store, ward.dataset, ward.recipe, [cu.estimation.Asked("ensemble", 2, 20)])[0]
    trainings = []
    fit = cu.fit
    monkeypatch.setattr("class_uncertainty.results.runs.fit", lambda *a, **k: trainings.append(a[1]) or fit(*a, **k))
    fitted = trained(ward.store, ward.dataset, [*lanes, cu.Lane("naive", 22)], ward.recipe)
    assert trainings == [[cu.Lane("naive", 22)]]
    np.testing.assert_array_equal(fitted.probabilities(ward.dataset.train)[:2], found.probabilities)
    again = trained(ward.store, ward.dataset, lanes, replace(ward.recipe, epochs=2))
    assert len(trainings) == 2
    assert [result.recipe.epochs for result in again.results] == [2, 2]


def test_tau_is_one_where_all_have_seen_all(store: Store, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    (found,) = measured(store, digits, recipe, [cu.estimation.Asked("ensemble", 2)])
    for estimate in (None, found):
        ward = Ward(store, digits, recipe, members=2, estimate=estimate)
        assert (ward.adjustment().tau, ward.adjustment().temperature, ward.chosen) == (1.0, 1.0, False)
        assert remedied(ward, "adjusted", [0])[0].cost == 1


@pytest.mark.parametrize("name", ["adjusted", "ensemble", "distil"])
def test_without_a_test_split_nothing_is_judged_by_what_saw_it(tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe, name: str) -> None:
    """Neither the network nor any of its teachers trained on a judged example, and tau was not chosen on it."""
    train = digits.train
    dataset = cu.Dataset("no-test", train)
    with Store(tmp_path / "runs.sqlite") as store:
        (found,) = measured(store, dataset, recipe, [cu.estimation.Asked("out-of-fold", 2)])
        ward = Ward(store, dataset, recipe, members=2, estimate=found)
        (result,) = remedied(ward, name, [0])
        assert result.folds == FOLDS
        row, parts = REMEDIES[name], []
        for fold in ward.folds:
            lanes, teachers = ward.lanes(row, [0], fold)
            unseen = held_out(train, fold)
            assert all(lane.fold == fold for lane in (*lanes, *teachers))
            rest = np.setdiff1d(np.arange(len(train)), unseen)
            chosen = cu.fit_adjustment(found.probabilities[0][rest], train.labels[rest], train.counts)
            assert (ward.adjustment(fold).tau, ward.adjustment(fold).temperature) == (chosen.tau, chosen.temperature)
            known = cu.fit(train, teachers, recipe=recipe) if teachers else None
            p = cu.fit(train, lanes, recipe=recipe, teachers=known).probabilities(train.take(unseen)).astype(np.float64)
            mean = gmean(p, axis=0)
            if row.adjusts and not row.distils:
                mean = mean / train.counts**chosen.tau
            temperature = chosen.temperature
            if row.distils:
                t, temperature = lesson_by_hand(ward, fold)
                assert ward.lesson(fold).cooling == pytest.approx(temperature, rel=1e-6)
                assert lanes[0].teaching == cu.Teaching(tau=chosen.tau, temperature=t)
            if row.adjusts:
                mean = mean ** (1 / temperature)
            parts.append(mean / mean.sum(axis=1, keepdims=True))
        labels = np.concatenate([train.labels[held_out(train, fold)] for fold in ward.folds])
        wanted = evaluate(np.concatenate(parts), labels, train.counts)
        assert result.class_mean_error == pytest.approx(wanted.class_mean_error)
        assert result.nll == pytest.approx(wanted.nll, rel=1e-3)


def test_how_to_teach_is_chosen_on_what_was_tried(ward: Ward, digits: cu.Dataset) -> None:
    """Without the judged fold; where every student diverged, as if nothing had been tried."""
    train = digits.train
    right = 0.9 * np.eye(10)[train.labels] + 0.01
    wrong = np.roll(right, 1, axis=1)
    by_folds = cu.Dataset("no-test", train)
    places = np.arange(len(train))
    judged = held_out(train, (1, FOLDS))

    def tried(said: dict[float, np.ndarray], dataset: cu.Dataset = digits) -> Ward:
        other = replace(ward, dataset=dataset)
        other.__dict__["tried"] = (places, said)
        return other

    chosen = tried({2.0: wrong, 4.0: right}).lesson()
    assert (chosen.teaching.tau, chosen.teaching.temperature) == (ward.adjustment().tau, 4.0)
    assert chosen.cooling < 0.7  # of probabilities that are always right, and say 0.91
    better_there = wrong.copy()
    better_there[judged] = right[judged]
    other = tried({2.0: wrong, 4.0: better_there}, by_folds)
    assert [other.lesson(fold).teaching.temperature for fold in ((0, FOLDS), (1, FOLDS), None)] == [4.0, 2.0, 4.0]
    for fold, rest in (((1, FOLDS), np.setdiff1d(places, judged)), (None, places)):
        said = (wrong if fold else better_there)[rest]
        wanted = cu.fit_adjustment(said, train.labels[rest], train.counts, tau=0.0).temperature
        assert other.lesson(fold).cooling == pytest.approx(wanted)
    assert other.lesson((1, FOLDS)).cooling > 1.1 * other.lesson().cooling
    assert tried({2.0: right, 4.0: right}).lesson().teaching.temperature == 2.0
    nothing = tried({}).lesson()
    assert (nothing.teaching, nothing.cooling) == (cu.Teaching(tau=ward.adjustment().tau), 1.0)


@pytest.mark.parametrize("factor", [4, 0.25])
def test_students_on_trial_learn_as_students_do(store: Store, digits: cu.Dataset, recipe: cu.Recipe, factor: float) -> None:
    """At the recipe's learning rate, or at the teachers' where that is lower."""
    lr = factor * recipe.lr
    (found,) = measured(store, digits, recipe, [cu.estimation.Asked("out-of-fold", 2, lr=lr)])
    ward = Ward(store, digits, recipe, 2, lr, found)
    lesson = ward.lesson()
    assert (lesson.teaching.temperature, lesson.cooling) == pytest.approx(lesson_by_hand(ward))
    assert [lane.lr for lane in ward.students([0])] == [min(lr, recipe.lr)]


def test_a_temperature_at_which_a_student_on_trial_diverged_is_out(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    get, lost = Store.get_network, {4.0: (1, 3)}

    def some_lost(store: Store, key: str):
        result, state = get(store, key)
        return (replace(result, diverged=1), state) if lost.get(result.plan.get("temperature")) == result.fold else (result, state)

    places, whole = replace(ward).tried
    monkeypatch.setattr(Store, "get_network", some_lost)
    again, said = replace(ward).tried
    np.testing.assert_array_equal(again, places)
    assert list(whole) == [2.0, 4.0]
    assert list(said) == [2.0]
    np.testing.assert_array_equal(said[2.0], whole[2.0])
    assert len(said[2.0]) == len(ward.dataset.train)
    lost[2.0] = (0, 3)
    assert replace(ward).tried[1] == {}


def test_what_is_chosen_is_in_the_key_and_in_the_plan(ward: Ward) -> None:
    """Another cooling, T or tau makes another result of the same networks."""
    lesson, adjustment = ward.lesson(), ward.adjustment()
    cooler, stronger = replace(ward), replace(ward)
    cooler.lessons[None] = replace(lesson, cooling=2 * lesson.cooling)
    stronger.fitted[None] = replace(adjustment, tau=2 * adjustment.tau, bias=2 * adjustment.bias)
    for name, other in (("distil", cooler), ("adjusted", stronger)):
        (mine,), (theirs,) = remedied(ward, name, [1]), remedied(other, name, [1])
        assert mine.nll != theirs.nll
        assert remedied(replace(ward), name, [1]) == [mine]
    plan = remedied(cooler, "distil", [1])[0].plan
    assert (plan["T"], plan["temperature"], plan["tau"]) == (lesson.teaching.temperature, 2 * lesson.cooling, adjustment.tau)
    assert remedied(stronger, "adjusted", [1])[0].plan["tau"] == 2 * adjustment.tau


def test_students_are_tried_on_as_many_examples_as_it_takes(ward: Ward, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """405 digits and three members: each has left 135 out. Four examples have four folds."""
    for examples, members in ((1, 1), (135, 1), (136, 2), (271, 3), (9999, 3)):
        monkeypatch.setattr("class_uncertainty.results.ward.ENOUGH", examples)
        assert ward.trials == [cu.Lane("naive", 0, ward.lr, fold=(k, 3)) for k in range(members)]
        assert len(replace(ward, dataset=cu.Dataset("no-test", digits.train)).trials) == 3
    few = cu.Dataset("few", cu.Data(np.arange(4.0)[:, None], [0, 0, 1, 1]), cu.Data(np.arange(4.0)[:, None], [0, 0, 1, 1]))
    assert [lane.fold for lane in replace(ward, dataset=few, members=5).trials] == [(k, 5) for k in range(4)]


def test_what_is_trained_for_a_remedy_is_judged_too(tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    """A method's lanes in an ensemble have the results that they have alone."""
    with Store(tmp_path / "runs.sqlite") as store:
        remedied(Ward(store, digits, recipe, members=2), "cb*2", [0])
        for lane in (cu.Lane("cb", 0), cu.Lane("cb", 1)):
            (kept,) = run(store, digits, [lane], recipe, None)
            (alone,) = cu.fit(digits.train, [lane], recipe=recipe, test=digits.test).results
            assert kept.scores == alone.scores


def test_one_seed_that_diverges_is_lost_alone(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    get = Store.get_network

    def lost(store: Store, key: str):
        if (kept := get(store, key)) is None:
            return None
        result, state = kept
        return (replace(result, diverged=1), state) if result.seed == 31 else (result, state)

    monkeypatch.setattr(Store, "get_network", lost)
    results = remedied(ward, "adjusted", [30, 31, 32])
    assert [result.diverged for result in results] == [None, 1, None]


def test_results_with_another_tau_or_other_teachers_are_others(ward: Ward) -> None:
    (mine,) = remedied(ward, "distil", [1])
    assert ward.estimate is not None
    other = replace(ward, estimate=None)
    (theirs,) = remedied(other, "distil", [1])
    assert (theirs.plan["tau"], theirs.cost) == (1.0, 3 + 1 + 3 / 3)
    (two,) = remedied(replace(other, members=2), "distil", [1])
    assert two.plan["networks"] == 2
    assert len({repr(each.scores) for each in (mine, theirs, two)}) == 3


def test_a_network_that_diverges_is_said(tmp_path: Path, digits: cu.Dataset, recipe: cu.Recipe) -> None:
    with Store(tmp_path / "runs.sqlite") as store:
        (result,) = remedied(Ward(store, digits, recipe, members=2, lr=1e30), "ensemble-adjusted", [0])
        assert result.scores is None
        assert result.diverged == 0


def test_means(rng: np.random.Generator) -> None:
    p = rng.dirichlet(np.ones(4), size=(3, 20))
    np.testing.assert_allclose(combined(p, "arithmetic"), p.mean(axis=0))
    geometric = gmean(p, axis=0)
    np.testing.assert_allclose(combined(p), geometric / geometric.sum(axis=1, keepdims=True))
    with pytest.raises(cu.InputError, match="unknown mean 'harmonic'"):
        combined(p, "harmonic")


def test_names() -> None:
    assert remedy_named("naive") is None
    assert remedy_named("cb-rs@product+mixup") is None
    row = remedy_named("cb@product*3")
    assert row is not None
    assert (row.method, row.together, row.adjusts) == ("cb@product", 3, False)
    for name, words in (
        ("cb*1", "an ensemble of 1"),
        ("cb*1001", "from 2 to 1,000"),
        ("distil*3", "--members says how many"),
        ("cbb*3", "unknown method 'cbb'.*'cb'"),
    ):
        with pytest.raises(cu.InputError, match=words):
            remedy_named(name)
