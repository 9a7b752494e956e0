"""Training through the store: what is there already is not trained again."""

from collections.abc import Sequence

from class_uncertainty.data import Dataset
from class_uncertainty.estimation import Estimate, estimate, lanes_of
from class_uncertainty.measures import Stats
from class_uncertainty.results.store import Store, estimate_key, lane_key
from class_uncertainty.training import Lane, Recipe, Result
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.loop import Done, Progress, default_device, fit


def measured(
    store: Store, dataset: Dataset, recipe: Recipe, estimator: str, members: int, seed: int = 0, progress: Progress | None = None
) -> Estimate:
    """The estimate, from the store or trained now; its members' results are stored as the naive lanes they are."""
    keys = [_key(dataset, lane, recipe, None) for lane in lanes_of(estimator, members, seed)]
    key = estimate_key(estimator, keys)
    found = store.get_estimate(key)
    if found is None:
        done: Done = lambda at, result: store.add(keys[at], dataset.fingerprint, result)  # noqa: E731
        found = estimate(dataset, estimator, members, recipe, seed, progress=progress, done=done)
        store.add_estimate(key, dataset.fingerprint, found)
    return found


def missing(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None) -> list[Lane]:
    """The lanes that the store has no result of."""
    return [lane for lane in lanes if store.get(_key(dataset, lane, recipe, stats)) is None]


def run(
    store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, progress: Progress | None = None
) -> list[Result]:
    """The lanes' results in order, from the store or trained now."""
    todo = missing(store, dataset, lanes, recipe, stats)
    if todo:
        train(store, dataset, todo, recipe, stats, progress)
    return [result for lane in lanes if (result := store.get(_key(dataset, lane, recipe, stats)))]


def train(
    store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, progress: Progress | None = None
) -> Fit:
    """fit(), with every result stored as its stack ends."""
    return fit(
        dataset.train,
        lanes,
        recipe=recipe,
        stats=stats,
        test=dataset.test,
        progress=progress,
        done=lambda at, result: store.add(_key(dataset, lanes[at], recipe, stats), dataset.fingerprint, result),
    )


def _key(dataset: Dataset, lane: Lane, recipe: Recipe, stats: Stats | None) -> str:
    known = Stats(dataset.train.counts, stats.uncertainty if stats else None)
    return lane_key(dataset.fingerprint, lane, recipe, known, default_device())
