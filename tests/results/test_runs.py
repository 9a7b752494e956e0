"""Training through the store: what is there is not trained again, and only what is a result of a method is stored as one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.estimation import Asked
from class_uncertainty.results import Store
from class_uncertainty.results.runs import measured, missing, run, unmeasured
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.job import Epoch

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)
NAMES = ("ensemble", "bootstrap", "out-of-fold", "single", "online", "snapshot", "mc-dropout", "duq")
EVERYTHING = [Asked(name, 2, seed=3) for name in NAMES]


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture(scope="module")
def own() -> cu.Dataset:
    """Without a test split."""
    return cu.Dataset("own", cu.load("digits-lt:20").train)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.sqlite") as store:
        yield store


class Told(list[Epoch]):
    """All that progress was told."""

    @property
    def trained(self) -> int:
        """How many networks ended."""
        return sum(len(news.lanes) for news in self if news.epoch + 1 == news.epochs)


def no_training(_: Epoch) -> None:
    pytest.fail("trained again")


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory, digits: cu.Dataset) -> Iterator[tuple[Store, list[cu.Estimate]]]:
    """Every kind of estimate, trained together."""
    told = Told()
    with Store(tmp_path_factory.mktemp("all") / "runs.sqlite") as store:
        assert unmeasured(store, digits, RECIPE, EVERYTHING) == 11
        found = measured(store, digits, RECIPE, EVERYTHING, progress=told.append)
        assert told.trained == 11
        yield store, found


def test_estimates_of_the_store_are_those_of_estimate(all_kinds: tuple[Store, list[cu.Estimate]], digits: cu.Dataset) -> None:
    """A second call trains nothing."""
    store, first = all_kinds
    assert unmeasured(store, digits, RECIPE, EVERYTHING) == 0
    again = measured(store, digits, RECIPE, EVERYTHING, progress=no_training)
    for asked, one, two in zip(EVERYTHING, first, again, strict=True):
        alone = cu.estimate(digits, asked.estimator, 2, RECIPE, 3)
        assert one.estimator == two.estimator == asked.estimator
        assert np.array_equal(one.probabilities, alone.probabilities)
        assert np.array_equal(two.uncertainty, alone.uncertainty)
        assert (two.score, two.cost) == (alone.score, alone.cost)


def test_only_plain_members_are_results_of_a_method(all_kinds: tuple[Store, list[cu.Estimate]], digits: cu.Dataset) -> None:
    """The two of the ensemble, whose first is that of single and online. Folds, bootstraps, cycles, dropout and DUQ are not."""
    store, _ = all_kinds
    kept = {(result.method, result.seed): result for result in store.results(digits.fingerprint)}
    assert set(kept) == {("naive", 3), ("naive", 4)}
    assert all(result.fold is None for result in kept.values())
    plain = cu.fit(digits.train, [cu.Lane("naive", 3), cu.Lane("naive", 4)], recipe=RECIPE, test=digits.test)
    assert [kept["naive", seed].scores for seed in (3, 4)] == [result.scores for result in plain.results]
    assert missing(store, digits, [cu.Lane("naive", seed) for seed in (3, 4, 5)], RECIPE, None) == [cu.Lane("naive", 5)]


@pytest.mark.parametrize("name", ["bootstrap", "out-of-fold", "snapshot"])
def test_members_that_are_not_plain_leave_naive_alone(name: str, store: Store, digits: cu.Dataset) -> None:
    """Also where they alone were trained: a naive lane of the same seed is trained then, on all examples."""
    measured(store, digits, RECIPE, [Asked(name, 2)])
    assert store.results(digits.fingerprint) == []
    (naive,) = run(store, digits, [cu.Lane("naive", 0)], RECIPE, None)
    assert naive.scores == cu.fit(digits.train, [cu.Lane("naive", 0)], recipe=RECIPE, test=digits.test).results[0].scores


def test_of_a_set_only_what_is_missing_is_trained(store: Store, digits: cu.Dataset) -> None:
    told = Told()
    first = measured(store, digits, RECIPE, [Asked("ensemble", 2), Asked("online", 2)], progress=told.append)
    assert told.trained == 3
    wanted = [Asked("snapshot", 2), Asked("ensemble", 2), Asked("out-of-fold", 2), Asked("online", 2)]
    assert unmeasured(store, digits, RECIPE, wanted) == 3
    found = measured(store, digits, RECIPE, wanted, progress=told.append)
    assert told.trained == 6
    assert [each.estimator for each in found] == [asked.estimator for asked in wanted]
    assert np.array_equal(found[1].probabilities, first[0].probabilities)
    assert np.array_equal(found[3].uncertainty, first[1].uncertainty)


def test_learning_rates_are_told_apart(store: Store, digits: cu.Dataset) -> None:
    slow, fast = measured(store, digits, RECIPE, [Asked("single", lr=lr) for lr in (0.01, 0.2)])
    assert [found.results[0].lr for found in (slow, fast)] == [0.01, 0.2]
    assert not np.array_equal(slow.probabilities, fast.probabilities)
    named, unnamed = (measured(store, digits, RECIPE, [Asked("single", lr=lr)])[0] for lr in (None, RECIPE.lr))
    assert np.array_equal(named.probabilities, unnamed.probabilities)
    assert len(store.estimates(digits.fingerprint)) == 3


def test_checkpoints_are_gone_at_the_end(store: Store, digits: cu.Dataset, own: cu.Dataset, tmp_path: Path) -> None:
    for dataset in (digits, own):
        kept = Checkpoints(tmp_path / "running")
        seen = set[int]()

        def look(_: Epoch, seen: set[int] = seen) -> None:
            seen.add(len(list((tmp_path / "running").glob("*"))))

        asked = [Asked(name, 2) for name in ("out-of-fold", "snapshot", "online", "mc-dropout")]
        measured(store, dataset, replace(RECIPE, epochs=3), asked, progress=look, checkpoints=kept, every=1)
        assert max(seen) >= 3
        assert not (tmp_path / "running").exists()


def test_errors_without_a_test_split_come_from_folds(store: Store, own: cu.Dataset) -> None:
    """Of one naive lane, for all estimates at a learning rate; no member's own is stored."""
    told, asked = Told(), [Asked("ensemble", 2), Asked("out-of-fold", 2), Asked("duq", 2), Asked("ensemble", 2, lr=0.3)]
    assert unmeasured(store, own, RECIPE, asked) == 7 + 2 * 5
    found = measured(store, own, RECIPE, asked, progress=told.append)
    assert told.trained == 7 + 2 * 5
    (judge, other) = store.results(own.fingerprint)
    assert (judge.method, judge.seed, judge.folds, judge.lr, other.lr) == ("naive", 0, 5, 0.1, 0.3)
    assert [each.results for each in found] == [(judge,), (judge,), (judge,), (other,)]
    assert np.array_equal(found[0].class_errors, judge.class_errors)
    parts = cu.fit(own.train, [cu.Lane("naive", 0, fold=(k, 5)) for k in range(5)], recipe=RECIPE)
    wrong = np.zeros(len(own.train), dtype=bool)
    for part, lane in zip(parts.unseen, parts.lanes, strict=True):
        places = cu.training.folds.held_out(own.train, lane.fold)
        wrong[places] = part.guesses != own.train.labels[places]
    assert judge.class_errors == pytest.approx([100 * wrong[own.train.labels == c].mean() for c in range(10)])
    measured(store, own, RECIPE, asked, progress=no_training)


def test_a_file_is_read_anew(store: Store, digits: cu.Dataset, own: cu.Dataset, tmp_path: Path, rng: np.random.Generator) -> None:
    """It trains nothing, has no errors, and replaces what was read before."""
    asked = [Asked(f"probabilities:{tmp_path / 'p.npy'}")]
    for dataset in (digits, own):
        for p in rng.dirichlet(np.ones(10), (2, len(digits.train))):
            np.save(tmp_path / "p.npy", p)
            (found,) = measured(store, dataset, RECIPE, asked, progress=no_training)
            np.testing.assert_allclose(found.probabilities[0], p, atol=1e-7)
            assert (found.results, found.class_errors, found.cost) == ((), None, 0)
        assert len(store.estimates(dataset.fingerprint)) == 1
    assert unmeasured(store, digits, RECIPE, asked) == 0


@pytest.mark.parametrize("kind", ["judged on a test split", "judged by folds"])
def test_a_stop_keeps_what_is_finished(kind: str, digits: cu.Dataset, own: cu.Dataset, tmp_path: Path, monkeypatch) -> None:
    """Stopped in the last of three stacks, the same call trains no network twice and ends with the same bits."""
    dataset = digits if "test" in kind else own
    asked, recipe = [Asked("ensemble", 6), Asked("out-of-fold", 5)], replace(RECIPE, epochs=3)  # five lanes of a stack
    ended, others = Event(), 0

    def stop(news: Epoch) -> None:
        nonlocal others
        if (4, 5) in [lane.fold for lane in news.lanes]:
            ended.wait(30)
            raise KeyboardInterrupt
        others += news.epoch == 2
        if others == 2:
            ended.set()

    def call(store: Store, progress: Callable[[Epoch], object]) -> list[cu.Estimate]:
        return measured(store, dataset, recipe, asked, progress=progress, checkpoints=Checkpoints(tmp_path / "running"), every=1)

    told = Told()
    with Store(tmp_path / "stopped.sqlite") as stopped, Store(tmp_path / "whole.sqlite") as whole:
        with pytest.raises(KeyboardInterrupt):
            call(stopped, stop)
        assert len(list((tmp_path / "running").iterdir())) >= 5
        resumed = call(stopped, told.append)
        assert not (tmp_path / "running").exists()
        for one, two in zip(resumed, measured(whole, dataset, recipe, asked), strict=True):
            assert np.array_equal(one.probabilities, two.probabilities)
            assert [result.scores for result in one.results] == [result.scores for result in two.results]
    assert told.trained <= 1 + (0 if dataset.test else 5)
