"""Training through the store: what is there already is not trained again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from class_uncertainty.data import Dataset
from class_uncertainty.estimation import Estimate, estimate, lanes_of
from class_uncertainty.measures import Stats
from class_uncertainty.results.store import Store, estimate_key
from class_uncertainty.training import Lane, Recipe, Result
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.folds import FOLDS, folded, pooled
from class_uncertainty.training.keys import lane_key
from class_uncertainty.training.loop import Done, Unseen, default_device, fit


def networks(dataset: Dataset) -> int:
    """How many a lane's result takes: one, or one for each fold where there is no test split."""
    return FOLDS if dataset.test is None else 1


def measured(store: Store, dataset: Dataset, recipe: Recipe, estimator: str, members: int, seed: int = 0, **options: Any) -> Estimate:
    """The estimate, from the store or trained now; `options` go to fit().

    Its members' results are stored as the naive lanes they are; without a test split the errors are those of one naive lane by folds.
    """
    lanes = lanes_of(estimator, members, seed)
    keys = [_key(dataset, lane, recipe, None) for lane in lanes]
    key = estimate_key(estimator, keys)
    found = store.get_estimate(key)
    if found is None:
        folds = () if dataset.test else tuple(run(store, dataset, [Lane("naive", seed)], recipe, None, **options))
        done: Done = lambda at, result, _: store.add(keys[at], dataset.fingerprint, result)  # noqa: E731
        found = estimate(dataset, estimator, members, recipe, seed, done=done if dataset.test else None, **options)
        found = replace(found, results=folds or found.results)
        store.add_estimate(key, dataset.fingerprint, found)
    forget(options.get("checkpoints"), dataset, lanes, recipe)
    return found


def missing(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None) -> list[Lane]:
    """The lanes that the store has no result of."""
    return [lane for lane in lanes if store.get(_key(dataset, lane, recipe, stats)) is None]


def run(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, **options: Any) -> list[Result]:
    """The lanes' results in order, from the store or trained now; `options` go to fit()."""
    todo = missing(store, dataset, lanes, recipe, stats)
    if todo:
        (train if dataset.test else _train_folds)(store, dataset, todo, recipe, stats, **options)
    forget(options.get("checkpoints"), dataset, lanes, recipe, stats, folds=dataset.test is None)
    return [result for lane in lanes if (result := store.get(_key(dataset, lane, recipe, stats)))]


def train(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, **options: Any) -> Fit:
    """fit() on all training examples, with every result that was judged stored as its stack ends."""

    def done(at: int, result: Result, _: Unseen) -> None:
        if dataset.test:
            store.add(_key(dataset, lanes[at], recipe, stats), dataset.fingerprint, result)

    return fit(dataset.train, lanes, recipe=recipe, stats=stats, test=dataset.test, done=done, **options)


def _train_folds(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, **options: Any) -> None:
    """Every lane once for each fold, and its pooled result stored as the last of them ends."""
    ended: dict[int, dict[int, tuple[Result, Unseen]]] = {i: {} for i in range(len(lanes))}

    def done(at: int, result: Result, unseen: Unseen) -> None:
        i, k = divmod(at, FOLDS)
        ended[i][k] = result, unseen
        if len(ended[i]) == FOLDS:
            parts = ended.pop(i)
            results, probabilities = zip(*(parts[k] for k in range(FOLDS)), strict=True)
            store.add(_key(dataset, lanes[i], recipe, stats), dataset.fingerprint, pooled(dataset.train, results, probabilities))

    parts = [part for lane in lanes for part in folded(lane)]
    fit(dataset.train, parts, recipe=recipe, stats=stats, done=done, **options)


def _key(dataset: Dataset, lane: Lane, recipe: Recipe, stats: Stats | None) -> str:
    return lane_key(dataset.fingerprint, lane, recipe, Stats.of(dataset.train.counts, stats), default_device())


def forget(
    kept: Checkpoints | None, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None = None, folds: bool = False
) -> None:
    """Remove the checkpoints of lanes, or of those that they are by folds: what they were kept for is done."""
    if kept:
        known, parts = Stats.of(dataset.train.counts, stats), [part for lane in lanes for part in (folded(lane) if folds else [lane])]
        kept.remove(lane_key(dataset.train.fingerprint, lane, recipe, known, default_device()) for lane in parts)
