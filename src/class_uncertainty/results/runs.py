"""Training through the store: what is there already is not trained again."""

import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from class_uncertainty.data import Dataset
from class_uncertainty.errors import MachineFault
from class_uncertainty.estimation import Asked, Diverged, Estimate, estimates
from class_uncertainty.measures import Stats
from class_uncertainty.metrics import Outcomes
from class_uncertainty.results.store import Store, estimate_key
from class_uncertainty.training import Lane, Recipe, Result
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.fitted import Fit, standardising
from class_uncertainty.training.folds import FOLDS, folded, held_out, pooled
from class_uncertainty.training.keys import checkpoint_keys, lane_key
from class_uncertainty.training.loop import End, default_device, fit

T = TypeVar("T")


def networks(dataset: Dataset) -> int:
    """How many a lane's result takes: one, or one for each fold where there is no test split."""
    return FOLDS if dataset.test is None else 1


def measured(store: Store, dataset: Dataset, recipe: Recipe, asked: Sequence[Asked], **options: Any) -> list[Estimate | Diverged]:
    """Estimates, from the store or trained now, all together; `options` go to fit(). Of what diverged, naive members are known again.

    Members that are plain lanes are stored as what they are; without a test split errors are those of one naive lane by folds.
    """
    todo, lost, began = _todo(store, dataset, recipe, asked), dict[Asked, Diverged](), time.monotonic()
    if todo:
        lanes = [lane for each in todo for lane in each.lanes]

        def done(end: End) -> None:
            if dataset.test and _is_plain(lanes[end.place]):
                store.add(_key(dataset, lanes[end.place], recipe, None), dataset.fingerprint, _result(end))
            _keep(store, dataset, lanes[end.place], recipe, end)

        for each, found in zip(todo, estimates(dataset, todo, recipe, done=done, **options), strict=True):
            if isinstance(found, Diverged):
                lost[each] = found
                continue
            if dataset.test is None and found.results:
                if options.get("budget"):
                    options["budget"], began = max(options["budget"] - (time.monotonic() - began), 1e-3), time.monotonic()
                found = replace(found, results=tuple(run(store, dataset, [_judge(each)], recipe, None, **options)))
            store.add_estimate(_estimate_key(dataset, each, recipe), dataset.fingerprint, found)
    known: Iterable[Estimate | Diverged | None] = (
        lost.get(each) or store.get_estimate(_estimate_key(dataset, each, recipe)) or _lost(store, dataset, recipe, each) for each in asked
    )
    estimated: list[Estimate | Diverged] = read_back(store, known)
    for each in asked:
        forget(options.get("checkpoints"), dataset, each.lanes, recipe)
    return estimated


def unmeasured(store: Store, dataset: Dataset, recipe: Recipe, asked: Sequence[Asked]) -> int:
    """How many networks the estimates still have to train: their lanes, and those that judge where there is no test split."""
    todo = _todo(store, dataset, recipe, asked)
    judges = list({_judge(each) for each in todo if each.lanes}) if dataset.test is None else []
    return sum(len(each.lanes) for each in todo) + FOLDS * len(missing(store, dataset, judges, recipe, None))


def _judge(asked: Asked) -> Lane:
    """Whose errors, by folds, are an estimate's where there is no test split: the same whatever it is measured with."""
    return Lane("naive", 0, asked.lr)


def _todo(store: Store, dataset: Dataset, recipe: Recipe, asked: Sequence[Asked]) -> list[Asked]:
    """What the store does not have; what is read from a file is always read anew."""
    return [
        each
        for each in asked
        if not each.lanes or not (store.has_estimate(_estimate_key(dataset, each, recipe)) or _lost(store, dataset, recipe, each))
    ]


def _lost(store: Store, dataset: Dataset, recipe: Recipe, asked: Asked) -> Diverged | None:
    """A naive member that is known to have diverged."""
    keys = (network_key(dataset, lane, recipe, None) for lane in asked.lanes if lane.name == "naive")
    results = (kept[0] for key in keys if (kept := store.get_network(key)))
    lost = next((result for result in results if result.diverged is not None), None)
    return Diverged(asked.estimator, lost.seed, lost.diverged or 0) if lost else None


def _is_plain(lane: Lane) -> bool:
    """Whether its result is one of the naive method, trained on everything."""
    return lane.fold is None and not lane.bootstrap and lane.name == "naive"


def _estimate_key(dataset: Dataset, asked: Asked, recipe: Recipe) -> str:
    return estimate_key(asked.estimator, [_key(dataset, lane, recipe, None) for lane in asked.lanes] or [dataset.fingerprint])


def missing(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None) -> list[Lane]:
    """The lanes that the store has no result of."""
    return [lane for lane in lanes if store.get(_key(dataset, lane, recipe, stats)) is None]


def run(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, **options: Any) -> list[Result]:
    """The lanes' results in order, from the store or trained now; `options` go to fit()."""
    todo = missing(store, dataset, lanes, recipe, stats)
    if todo:
        (train if dataset.test else _train_folds)(store, dataset, todo, recipe, stats, **options)
    results = read_back(store, (store.get(_key(dataset, lane, recipe, stats)) for lane in lanes))
    forget(options.get("checkpoints"), dataset, lanes, recipe, stats, folds=dataset.test is None)
    return results


def read_back(store: Store, rows: Iterable[T | None]) -> list[T]:
    """What was written just now, or found before."""
    kept = list(rows)
    if any(row is None for row in kept):
        raise MachineFault(f"store {store.path} does not give back what was written to it: the disk may be failing.")
    return [row for row in kept if row is not None]


def train(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, **options: Any) -> Fit:
    """fit() on all training examples, with every result that was judged stored as its stack ends."""

    def done(end: End) -> None:
        if dataset.test:
            store.add(_key(dataset, lanes[end.place], recipe, stats), dataset.fingerprint, _result(end))
        _keep(store, dataset, lanes[end.place], recipe, end)

    return fit(dataset.train, lanes, recipe=recipe, stats=stats, test=dataset.test, done=done, **options)


def trained(
    store: Store,
    dataset: Dataset,
    lanes: Sequence[Lane],
    recipe: Recipe,
    stats: Stats | None = None,
    teachers: Fit | None = None,
    **options: Any,
) -> Fit:
    """The lanes with their weights, from the store or trained now; `options` go to fit().

    "watch", given their number and what they are, says how they are looked at.
    """
    whose = teachers.keys if teachers else ()
    watch, keys = options.pop("watch", None), [network_key(dataset, lane, recipe, stats, whose) for lane in lanes]
    what = options.pop("what", "students" if teachers else "networks")
    stored = {key: store.get_network(key) for key in keys}
    todo = {key: lane for key, lane in zip(keys, lanes, strict=True) if stored[key] is None}
    if todo:
        names = list(todo)

        def done(end: End) -> None:
            lane = todo[names[end.place]]
            store.add_network(names[end.place], _result(end), end.lane.state)
            if dataset.test and not lane.fold and not lane.teaching:
                store.add(_key(dataset, lane, recipe, stats), dataset.fingerprint, _result(end))

        with watch(len(todo), what) if watch else nullcontext() as progress:
            more: dict[str, Any] = {"stats": stats, "teachers": teachers, "test": dataset.test, "done": done, "progress": progress}
            fit(dataset.train, list(todo.values()), recipe=recipe, **more, **options)
    forget(options.get("checkpoints"), dataset, lanes, recipe, stats, teachers=teachers)
    stored |= {key: store.get_network(key) for key in todo}
    found = read_back(store, (stored[key] for key in keys))
    device, train = default_device(), dataset.train
    return Fit(
        recipe,
        train.shape,
        train.classes,
        list(lanes),
        device,
        standardising(train).to(device),
        [state for _, state in found],
        [result for result, _ in found],
        [None] * len(found),
        [{}] * len(found),
        keys,
        train.encoding,
        store.path.parent,
    )


def keep_folds(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe) -> None:
    """The results of lanes by folds, of networks that the store has of every fold."""
    train = dataset.train
    for lane in lanes:
        if store.get(_key(dataset, lane, recipe, None)) is None:
            fitted = trained(store, dataset, folded(lane), recipe)
            unseen = []
            for k, part in enumerate(folded(lane)):
                judged = train.take(held_out(train, part.fold)) if part.fold else train
                unseen.append(Outcomes.of(fitted.take([k]).probabilities(judged)[0], judged.labels))
            store.add(_key(dataset, lane, recipe, None), dataset.fingerprint, pooled(train, fitted.results, unseen))


def network_key(dataset: Dataset, lane: Lane, recipe: Recipe, stats: Stats | None, teachers: Sequence[str] = ()) -> str:
    """Of a network: it depends on what it was trained on, not on what it was judged on."""
    known = Stats.of(dataset.train.counts, stats)
    return lane_key(dataset.train.fingerprint, lane, recipe, known, default_device(), teachers)


def _keep(store: Store, dataset: Dataset, lane: Lane, recipe: Recipe, end: End) -> None:
    """Naive networks with their weights: they may be averaged, or teach, later."""
    if lane.name == "naive":
        store.add_network(network_key(dataset, lane, recipe, None), _result(end), end.lane.state)


def _result(end: End) -> Result:
    assert end.result is not None  # told only of lanes at the end of their last stage
    return end.result


def _train_folds(store: Store, dataset: Dataset, lanes: Sequence[Lane], recipe: Recipe, stats: Stats | None, **options: Any) -> None:
    """Every lane once for each fold, and its pooled result stored as the last of them ends."""
    ended: dict[int, dict[int, tuple[Result, Outcomes]]] = {i: {} for i in range(len(lanes))}
    parts = [part for lane in lanes for part in folded(lane)]

    def done(end: End) -> None:
        i, k = divmod(end.place, FOLDS)
        assert end.unseen is not None  # of lanes that leave a fold out
        ended[i][k] = _result(end), end.unseen
        _keep(store, dataset, parts[end.place], recipe, end)
        if len(ended[i]) == FOLDS:
            whole = ended.pop(i)
            results, outcomes = zip(*(whole[k] for k in range(FOLDS)), strict=True)
            store.add(_key(dataset, lanes[i], recipe, stats), dataset.fingerprint, pooled(dataset.train, results, outcomes))

    fit(dataset.train, parts, recipe=recipe, stats=stats, done=done, **options)


def _key(dataset: Dataset, lane: Lane, recipe: Recipe, stats: Stats | None) -> str:
    return lane_key(dataset.fingerprint, lane, recipe, Stats.of(dataset.train.counts, stats), default_device())


def forget(
    kept: Checkpoints | None,
    dataset: Dataset,
    lanes: Sequence[Lane],
    recipe: Recipe,
    stats: Stats | None = None,
    folds: bool = False,
    teachers: Fit | None = None,
) -> None:
    """Remove the checkpoints of lanes, or of those that they are by folds: what they were kept for is done."""
    if kept:
        known, parts = Stats.of(dataset.train.counts, stats), [part for lane in lanes for part in (folded(lane) if folds else [lane])]
        whose = teachers.keys if teachers else ()
        kept.remove(
            key for lane in parts for key in checkpoint_keys(dataset.train.fingerprint, lane, recipe, known, default_device(), whose)
        )
