"""Training through the store: what it has is not trained again, and only plain lanes are stored as results."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from refusals import refused
from watching import Watched, no_training

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import (
    add_fold_results,
    fit_and_store,
    load_or_estimate,
    load_or_evaluate,
    load_or_fit,
)
from class_uncertainty.runs.rows import OLDER
from class_uncertainty.runs.settings import Settings
from class_uncertainty.runs.watcher import Watch
from class_uncertainty.training.fit import train_here
from class_uncertainty.training.folds import fold_indices, folded
from class_uncertainty.training.lane import Epoch

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)
NAMES = ("ensemble", "bootstrap", "out-of-fold", "single", "online", "snapshot", "mc-dropout", "duq")
EVERYTHING = [EstimateRequest(name, 2, seed=3) for name in NAMES]


@pytest.fixture(scope="module")
def without_test(digits):
    return cu.Dataset("no-test", digits.train)


@pytest.fixture
def checkpoints_every_epoch(monkeypatch):
    monkeypatch.setattr("class_uncertainty.runs.context.EVERY", 1)


def estimates(
    store: Store,
    dataset: cu.Dataset,
    requests: Sequence[EstimateRequest],
    progress: Watch | None = None,
    recipe: cu.Recipe = RECIPE,
) -> list[cu.Estimate]:
    with open_context(dataset, Settings(recipe=recipe, store=store, progress=progress)) as context:
        return load_or_estimate(context, requests)


def results(
    store: Store, dataset: cu.Dataset, lanes: Sequence[cu.Lane], progress: Watch | None = None
) -> list[cu.Result]:
    with open_context(dataset, Settings(recipe=RECIPE, store=store, progress=progress)) as context:
        return load_or_evaluate(context, lanes)


def naive(*seeds: int) -> list[cu.Lane]:
    return [cu.Lane("naive", seed) for seed in seeds]


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory, digits):
    """Every kind of estimate, trained together."""
    watched = Watched()
    with Store(tmp_path_factory.mktemp("all") / "runs.sqlite") as store:
        trained = estimates(store, digits, EVERYTHING, watched)
        assert (watched.announced, watched.trained) == ([11], 11)
        yield store, trained


def test_estimates_of_the_store_are_those_of_estimate(all_kinds, digits):
    """A second call trains nothing."""
    store, first = all_kinds
    again = estimates(store, digits, EVERYTHING, no_training)
    for request, one, two in zip(EVERYTHING, first, again, strict=True):
        alone = cu.estimate(digits, request.estimator, 2, RECIPE, 3)
        assert one.estimator == two.estimator == request.estimator
        assert np.array_equal(one.probabilities, alone.probabilities)
        assert np.array_equal(two.uncertainty, alone.uncertainty)
        assert (two.score, two.cost) == (alone.score, alone.cost)


def test_only_plain_members_are_results_of_a_method(all_kinds, digits):
    """Those of the ensemble are. Folds, bootstraps, cycles, dropout and DUQ are not."""
    store, _ = all_kinds
    stored = {(result.method, result.seed): result for result in store.results(digits.fingerprint)}
    assert set(stored) == {("naive", 3), ("naive", 4)}
    assert all(result.fold is None for result in stored.values())
    plain = cu.fit(digits.train, naive(3, 4), recipe=RECIPE, test=digits.test)
    assert [stored["naive", seed].scores for seed in (3, 4)] == [result.scores for result in plain.results]
    assert [result.seed for result in results(store, digits, naive(4, 3), no_training)] == [4, 3]


@pytest.mark.parametrize("name", ["bootstrap", "out-of-fold", "snapshot"])
def test_members_that_are_not_plain_leave_naive_alone(name, store, digits):
    """A naive lane of the same seed is then trained on all examples."""
    estimates(store, digits, [EstimateRequest(name, 2)])
    assert store.results(digits.fingerprint) == []
    (result,) = results(store, digits, naive(0))
    assert result.scores == cu.fit(digits.train, naive(0), recipe=RECIPE, test=digits.test).results[0].scores


def test_of_several_estimates_only_missing_ones_are_trained(store, digits):
    watched = Watched()
    first = estimates(store, digits, [EstimateRequest("ensemble", 2), EstimateRequest("online", 2)], watched)
    assert watched.trained == 3
    requests = [EstimateRequest(name, 2) for name in ("snapshot", "ensemble", "out-of-fold", "online")]
    more = estimates(store, digits, requests, watched)
    assert (watched.announced, watched.trained) == ([3, 3], 6)
    assert [estimate.estimator for estimate in more] == [request.estimator for request in requests]
    assert np.array_equal(more[1].probabilities, first[0].probabilities)
    assert np.array_equal(more[3].uncertainty, first[1].uncertainty)


def test_of_several_lanes_only_missing_ones_are_trained(store, digits):
    """Results come in the order of the lanes."""
    watched = Watched()
    first = results(store, digits, naive(0, 1), watched)
    assert results(store, digits, naive(0, 1), no_training) == first
    more = results(store, digits, naive(2, 1, 0), watched)
    assert (watched.announced, watched.trained) == ([2, 1], 3)
    assert [result.seed for result in more] == [2, 1, 0]
    assert more[1:] == first[::-1]


def test_learning_rates_are_told_apart(store, digits):
    slow, fast = estimates(store, digits, [EstimateRequest("single", lr=lr) for lr in (0.01, 0.2)])
    assert [estimate.results[0].lr for estimate in (slow, fast)] == [0.01, 0.2]
    assert not np.array_equal(slow.probabilities, fast.probabilities)
    by_default, by_name = (estimates(store, digits, [EstimateRequest("single", lr=lr)])[0] for lr in (None, RECIPE.lr))
    assert np.array_equal(by_default.probabilities, by_name.probabilities)
    assert len(store.estimates(digits.fingerprint)) == 3


def test_a_result_of_another_method_in_the_place_of_one_is_refused(store, digits):
    """Whoever writes a file of results chooses its keys."""
    with open_context(digits, Settings(recipe=RECIPE, store=store)) as context:
        key = context.stored_result_key(cu.Lane("naive"))
        (result,) = load_or_evaluate(context, [cu.Lane("cb-rs")])
        store.add(key, digits.fingerprint, result)
        with refused(store.path.name, "'cb-rs'", "'naive'"):
            load_or_evaluate(context, [cu.Lane("naive")])


@pytest.mark.usefixtures("checkpoints_every_epoch")
def test_checkpoints_are_gone_at_the_end(store, digits, without_test):
    folder = store.path.with_name("runs.sqlite.running")
    requests = [EstimateRequest(name, 2) for name in ("out-of-fold", "snapshot", "online", "mc-dropout")]
    for dataset in (digits, without_test):
        numbers = set[int]()
        watched = Watched(lambda _, numbers=numbers: numbers.add(len(list(folder.glob("*")))))
        estimates(store, dataset, requests, watched, replace(RECIPE, epochs=3))
        assert max(numbers) >= 3
        assert not folder.exists()


def test_errors_without_a_test_split_come_from_folds(store, without_test):
    """They are of one naive lane, for all estimates at a learning rate; no member's own are stored."""
    requests = [EstimateRequest(name, 2) for name in ("ensemble", "out-of-fold", "duq")]
    requests += [EstimateRequest("ensemble", 2, lr=0.3)]
    watched, train = Watched(), without_test.train
    trained = estimates(store, without_test, requests, watched)
    assert (watched.announced, watched.trained) == ([7 + 2 * 5], 7 + 2 * 5)
    (judge, other) = store.results(without_test.fingerprint)
    assert (judge.method, judge.seed, judge.folds, judge.lr, other.lr) == ("naive", 0, 5, 0.1, 0.3)
    assert [estimate.results for estimate in trained] == [(judge,), (judge,), (judge,), (other,)]
    assert np.array_equal(trained[0].class_errors, judge.class_errors)
    parts = cu.fit(train, [cu.Lane("naive", 0, fold=(k, 5)) for k in range(5)], recipe=RECIPE)
    wrong = np.zeros(len(train), dtype=bool)
    for outcomes, lane in zip(parts.unseen, parts.lanes, strict=True):
        places = fold_indices(train, lane.fold)
        wrong[places] = outcomes.guesses != train.labels[places]
    assert judge.class_errors == pytest.approx([100 * wrong[train.labels == c].mean() for c in range(10)])
    estimates(store, without_test, requests, no_training)


def test_a_file_is_read_anew(store, digits, without_test, tmp_path, rng):
    """It trains nothing, has no errors, and replaces what was read before."""
    request = EstimateRequest(f"probabilities:{tmp_path / 'p.npy'}")
    for dataset in (digits, without_test):
        for p in rng.dirichlet(np.ones(10), (2, len(digits.train))):
            np.save(tmp_path / "p.npy", p)
            (estimate,) = estimates(store, dataset, [request], no_training)
            np.testing.assert_allclose(estimate.probabilities[0], p, atol=1e-7)
            assert (estimate.results, estimate.class_errors, estimate.cost) == ((), None, 0)
        assert len(store.estimates(dataset.fingerprint)) == 1


@pytest.mark.usefixtures("checkpoints_every_epoch")
@pytest.mark.parametrize("kind", ["judged on a test split", "judged by folds"])
def test_a_stop_keeps_what_is_finished(kind, digits, without_test, tmp_path):
    """Stopped in the last of three stacks, the same call trains no network twice and ends with the same bits."""
    dataset, recipe = digits if "test" in kind else without_test, replace(RECIPE, epochs=3)
    requests = [EstimateRequest("ensemble", 6), EstimateRequest("out-of-fold", 5)]  # five lanes of a stack
    others_ended, ended = Event(), 0

    def stop(news: Epoch) -> None:
        nonlocal ended
        if (4, 5) in [lane.fold for lane in news.lanes]:
            others_ended.wait(30)
            raise KeyboardInterrupt
        ended += news.epoch == 2
        if ended == 2:
            others_ended.set()

    watched, running = Watched(), tmp_path / "stopped.sqlite.running"
    with Store(tmp_path / "stopped.sqlite") as stopped, Store(tmp_path / "whole.sqlite") as whole:
        with pytest.raises(KeyboardInterrupt):
            estimates(stopped, dataset, requests, Watched(stop), recipe)
        assert len(list(running.iterdir())) >= 5
        resumed = estimates(stopped, dataset, requests, watched, recipe)
        assert not running.exists()
        for one, two in zip(resumed, estimates(whole, dataset, requests, recipe=recipe), strict=True):
            assert np.array_equal(one.probabilities, two.probabilities)
            assert [result.scores for result in one.results] == [result.scores for result in two.results]
    assert watched.trained <= 1 + (0 if dataset.test else 5)


def test_members_come_from_the_store(store, digits):
    """Those of an ensemble that was measured are not trained again; other lanes and other recipes are."""
    (ensemble,) = estimates(store, digits, [EstimateRequest("ensemble", 2, 20)])
    watched = Watched()
    with open_context(digits, Settings(recipe=RECIPE, store=store, progress=watched)) as context:
        fitted = load_or_fit(context, naive(20, 21, 22))
    assert watched.lanes == naive(22)
    np.testing.assert_array_equal(fitted.probabilities(digits.train)[:2], ensemble.probabilities)
    with open_context(digits, Settings(recipe=replace(RECIPE, epochs=1), store=store, progress=watched)) as context:
        again = load_or_fit(context, naive(20, 21))
    assert watched.announced == [1, 2]
    assert [result.recipe.epochs for result in again.results] == [1, 1]


def test_a_lane_that_is_given_twice_is_trained_and_read_once(store, digits, monkeypatch):
    watched, keys, get_network = Watched(), [], Store.get_network
    monkeypatch.setattr(Store, "get_network", lambda store, key: keys.append(key) or get_network(store, key))
    with open_context(digits, Settings(recipe=RECIPE, store=store, progress=watched)) as context:
        fitted = load_or_fit(context, naive(0, 1, 0))
    assert watched.trained == len(keys) == 2
    p = fitted.probabilities(digits.test)
    assert np.array_equal(p[0], p[2])
    assert not np.array_equal(p[0], p[1])


def test_networks_of_the_store_are_those_that_were_trained(store, digits):
    """Students too, whose teachers are part of the key."""
    students = [cu.Lane("naive", 0, teaching=cu.Teaching(temperature=t)) for t in (2.0, 4.0)]
    with open_context(digits, Settings(recipe=RECIPE, store=store)) as context:
        teachers = load_or_fit(context, naive(0, 1))
        trained = load_or_fit(context, students, teachers=teachers)
    with open_context(digits, Settings(recipe=RECIPE, store=store, progress=no_training)) as context:
        read = load_or_fit(context, students, teachers=load_or_fit(context, naive(0, 1)))
    assert read.keys == trained.keys
    assert np.array_equal(read.probabilities(digits.test), trained.probabilities(digits.test))
    alone = cu.fit(digits.train, students, recipe=RECIPE, teachers=cu.fit(digits.train, naive(0, 1), recipe=RECIPE))
    assert np.array_equal(read.probabilities(digits.test), alone.probabilities(digits.test))
    watched = Watched()
    with open_context(digits, Settings(recipe=RECIPE, store=store, progress=watched)) as context:
        load_or_fit(context, students[:1], teachers=teachers.take([1]))
    assert watched.trained == 1


class Elsewhere:
    """An executor, in this process."""

    device = "cpu"
    train = staticmethod(train_here)


def test_a_network_that_an_executor_trains_is_the_same(digits):
    answers = []
    for where in ({"device": "cpu"}, {"on": Elsewhere()}):
        with open_context(digits, Settings(recipe=RECIPE, **where)) as context:
            answers.append(fit_and_store(context, cu.Lane("cb")).probabilities(digits.test))
    assert np.array_equal(*answers)


def test_fit_and_store_always_trains_and_keeps_naive_networks(store, digits):
    watched, uncertainty = Watched(), cu.Stats(digits.train.counts, np.arange(1.0, 11))
    with open_context(digits, Settings(recipe=RECIPE, store=store, progress=watched)) as context:
        for _ in range(2):
            fitted = fit_and_store(context, cu.Lane("naive"))
            context.drop_checkpoints([cu.Lane("naive")])
        assert watched.trained == 2
        kept = store.get_network(context.network_key(cu.Lane("naive")))
        assert kept is not None
        assert kept[0] == store.get(context.result_key(cu.Lane("naive"))) == fitted.results[0]
        fit_and_store(context, cu.Lane("ubrw"), uncertainty)
        assert store.get_network(context.network_key(cu.Lane("ubrw"), uncertainty)) is None
        assert store.get(context.result_key(cu.Lane("ubrw"), uncertainty)) is not None


def test_results_by_folds_of_networks_at_hand_are_those_of_the_lane(store, without_test, tmp_path):
    (lane,) = naive(0)
    with open_context(without_test, Settings(recipe=RECIPE, store=store)) as context:
        add_fold_results(context, [lane], load_or_fit(context, folded(lane)))
    (result,) = results(store, without_test, [lane], no_training)
    with Store(tmp_path / "other.sqlite") as other:
        (alone,) = results(other, without_test, [lane])
    assert result.class_errors == alone.class_errors
    assert (result.scores.nll, result.cost, result.plan) == (
        pytest.approx(alone.scores.nll, rel=1e-5),
        alone.cost,
        alone.plan,
    )


def test_a_member_that_diverged_is_not_trained_again(store, digits):
    request = EstimateRequest("ensemble", 2, lr=1e30)
    first = estimates(store, digits, [request])
    assert not isinstance(first[0], cu.Estimate)
    again = estimates(store, digits, [request], no_training)
    assert str(again[0]) == str(first[0])
    assert "diverged in epoch 1" in str(first[0])


def test_a_disk_that_does_not_keep_what_is_written(store, digits, monkeypatch):
    monkeypatch.setattr(Store, "get", lambda store, key: None)
    with pytest.raises(cu.MachineFault, match=r"runs\.sqlite.*does not give back"):
        results(store, digits, naive(0))


@pytest.fixture
def of_older_revision(store, digits, monkeypatch):
    """A store with a row, networks, an estimate and a remedy of dro-learned, from before it was revised."""
    with monkeypatch.context() as before:
        before.setitem(cu.METHODS, "dro-learned", replace(cu.METHODS["dro-learned"], revision=0))
        everything_of_dro(store, digits)
    return store


def everything_of_dro(store: Store, digits: cu.Dataset, retrain_older: bool = False) -> dict[str, bool]:
    """Whether what is shown is of an older revision."""
    rows = cu.compare(
        digits,
        methods=["naive", "dro-learned", "dro-learned*2"],
        seeds=1,
        recipe=RECIPE,
        store=store,
        retrain_older=retrain_older,
    ).rows
    with open_context(digits, Settings(recipe=RECIPE, store=store, retrain_older=retrain_older)) as context:
        (network,) = load_or_fit(context, [cu.Lane("dro-learned")]).results
        (estimate,) = load_or_estimate(context, [EstimateRequest("ensemble:dro-learned", 2)])
    shown = {row.method: OLDER in row.marks for row in rows}
    return shown | {"network": network.is_older, "estimate": any(result.is_older for result in estimate.results)}


def test_what_an_older_revision_trained_counts_and_is_marked(of_older_revision, digits, forbid_training):
    forbid_training()
    shown = everything_of_dro(of_older_revision, digits)
    assert shown.pop("naive") is False
    assert set(shown.values()) == {True}
    measured = cu.measure(digits, estimator="ensemble:dro-learned", members=2, recipe=RECIPE, store=of_older_revision)
    assert measured.document()["marks"] == [OLDER]


def test_it_is_trained_again_on_request_and_kept(of_older_revision, digits):
    before = of_older_revision.results(digits.fingerprint)
    shown = everything_of_dro(of_older_revision, digits, retrain_older=True)
    assert set(shown.values()) == {False}
    results = of_older_revision.results(digits.fingerprint)
    assert all(result in results for result in before)
    assert set(everything_of_dro(of_older_revision, digits).values()) == {False}  # the newest is taken


def test_a_remedy_of_older_networks_is_marked(of_older_revision, digits):
    """Only networks are stored: what is averaged now is no newer than they are."""
    of_older_revision.connection.execute("DELETE FROM results")
    rows = cu.compare(digits, methods=["dro-learned*2"], seeds=1, recipe=RECIPE, store=of_older_revision).rows
    assert [row.marks for row in rows] == [(OLDER,)]
    again = cu.compare(
        digits, methods=["dro-learned*2"], seeds=1, recipe=RECIPE, store=of_older_revision, retrain_older=True
    )
    assert [row.marks for row in again.rows] == [()]
