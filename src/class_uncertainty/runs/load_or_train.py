"""Training through the store: what it has is not trained again."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from class_uncertainty.errors import MachineFault, ShardEnded
from class_uncertainty.estimation import Diverged, Estimate, EstimateRequest, estimates_from
from class_uncertainty.measures import SCORES, Stats
from class_uncertainty.metrics import Outcomes
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.store import Store
from class_uncertainty.runs.watcher import RowTrained
from class_uncertainty.training import Lane, Result
from class_uncertainty.training.fit import LaneOutcome, Progress
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, fold_indices, folded, pooled

T = TypeVar("T")
Ended = Callable[[Result], object]  # told of each result that is stored already, then of each when its lane has ended


def load_or_estimate(
    context: Context, requests: Sequence[EstimateRequest], what: str = "measuring", ended: Ended | None = None
) -> list[Estimate | Diverged]:
    """Estimates, from the store or trained now, all together.

    Members that are plain naive lanes are stored as results too. Without a test split the errors of an estimate are
    those of one naive lane by folds.
    """
    keys = {request: context.stored_estimate_key(request) for request in requests}
    estimates: dict[EstimateRequest, Estimate | Diverged | None] = {}
    for request in dict.fromkeys(requests):  # a file is always read anew
        stored = context.store.get_estimate(keys[request]) if request.lanes else None
        estimates[request] = stored or _diverged_member(context, request)
    todo = [request for request, estimate in estimates.items() if estimate is None]
    lanes = [lane for request in todo for lane in request.lanes]
    judges = list({_fold_judge(request) for request in todo if request.lanes}) if context.dataset.test is None else []
    networks = len(lanes) + FOLDS * len(_without_result(context, judges))
    with context.watch(what, networks, context.recipe.epochs) if networks else nullcontext() as progress:
        fitted = _train_members(context, lanes, progress, ended) if lanes else None
        for request, estimate in zip(todo, estimates_from(context.train, todo, fitted), strict=True):
            if isinstance(estimate, Diverged):
                estimates[request] = estimate
                continue
            if judges and estimate.results:
                results = load_or_evaluate(context, [_fold_judge(request)], progress=progress)
                estimate = replace(estimate, results=tuple(results))
            context.store.add_estimate(keys[request], context.dataset.fingerprint, estimate)
            estimates[request] = context.store.get_estimate(keys[request])  # mapped from its file
    for request in requests:
        context.drop_checkpoints(request.lanes)
    return read_back(context.store, [estimates[request] for request in requests])


def stored_measurement(context: Context, request: EstimateRequest, score: str | None) -> Measurement | None:
    """The class vectors by that score, by an import or 'cu reproduce', where no stored estimate has it."""
    key = context.stored_estimate_key(request)
    measured = context.store.by_key("measurements", context.dataset.fingerprint).get(key)
    if measured is None or (score or measured.score) not in measured.raw:
        return None
    estimate = context.store.get_estimate(key)  # its probabilities may be large, and are read again where it is used
    if estimate and (score is None or score in (*SCORES, *estimate.extra_scores)):
        return None
    return measured.using(score or measured.score)


def _train_members(context: Context, lanes: Sequence[Lane], progress: Progress | None, ended: Ended | None) -> Fit:
    fitted, outcomes = context.untrained(lanes), []
    with closing(context.train_lanes(fitted, progress)) as trained:
        for outcome in trained:
            lane = lanes[outcome.place]
            if context.dataset.test and lane.name == "naive" and lane.fold is None and not lane.bootstrap:
                _add_result(context, lane, None, outcome.result, ended)
            _keep_naive(context, lane, outcome)
            outcomes.append(outcome)
    return fitted.trained(outcomes)


def _diverged_member(context: Context, request: EstimateRequest) -> Diverged | None:
    """A naive member of the estimate that is stored and diverged."""
    keys = [context.network_key(lane) for lane in request.lanes if lane.name == "naive"]
    result = next(filter(None, map(context.store.diverged_network, keys)), None)
    return Diverged(request.estimator, result.seed, result.divergence) if result else None


def _fold_judge(request: EstimateRequest) -> Lane:
    """The lane whose errors by folds are an estimate's where there is no test split, whatever measured it."""
    return Lane("naive", 0, request.lr)


def load_or_evaluate(
    context: Context,
    lanes: Sequence[Lane],
    stats: Stats | None = None,
    progress: Progress | None = None,
    ended: Ended | None = None,
    weights_of: Sequence[Lane] = (),
) -> list[Result]:
    """The lanes' results in order, from the store or trained now: on the test split, or without one by folds.

    Naive lanes of `weights_of` are trained too where the store has their results alone, without their networks; by
    folds nobody has a network of all examples.
    """
    by_folds = context.dataset.test is None
    keys = [context.stored_result_key(lane, stats) for lane in lanes]
    stored_before = [context.store.get(key) for key in keys]
    bare = _without_network(context, weights_of)
    missing = {
        key: lane
        for key, lane, result in zip(keys, lanes, stored_before, strict=True)
        if result is None or lane in bare
    }
    todo = [lane for key, lane in missing.items() if not context.shard or context.shard.has(key)]
    if ended:
        for result in filter(None, stored_before):
            ended(result)
    parts = [part for lane in todo for part in folded(lane)] if by_folds else todo
    folds: dict[int, dict[int, tuple[Result, Outcomes]]] = {i: {} for i in range(len(todo))}
    if parts:
        watched = nullcontext(progress) if progress else context.watch("training", len(parts), context.recipe.epochs)
        with watched as watching, closing(context.train_lanes(context.untrained(parts), watching, stats)) as trained:
            for outcome in trained:
                _keep_naive(context, parts[outcome.place], outcome)
                i, k = divmod(outcome.place, FOLDS if by_folds else 1)
                if outcome.unseen is None:  # judged on the test split
                    _add_result(context, todo[i], stats, outcome.result, ended)
                    continue
                folds[i][k] = outcome.result, outcome.unseen
                if len(folds[i]) == FOLDS:
                    ended_folds = folds.pop(i)
                    results, unseen = zip(*(ended_folds[k] for k in range(FOLDS)), strict=True)
                    _add_result(context, todo[i], stats, pooled(context.train, results, unseen), ended)
    if len(todo) < len(missing):
        number = len(missing) - len(todo)
        rest = f"{number:,} {'row is' if number == 1 else 'rows are'} for others"
        advice = "'cu results export' writes the rows of each store, and 'cu results import' joins them"
        raise ShardEnded(f"shard {context.shard} of {context.dataset.name} is trained: {rest}; {advice}")
    stored = [context.store.get(key) for key in keys]
    context.drop_checkpoints([part for lane in lanes for part in folded(lane)] if by_folds else lanes, stats)
    return read_back(context.store, stored)


def _without_network(context: Context, lanes: Sequence[Lane]) -> set[Lane]:
    keys = {lane: context.network_key(lane) for lane in lanes if context.dataset.test}
    return {lane for lane, key in keys.items() if not context.store.has("networks", key)}


def _without_result(context: Context, lanes: Sequence[Lane]) -> list[Lane]:
    return [lane for lane in lanes if context.store.get(context.stored_result_key(lane)) is None]


def fit_and_store(context: Context, lane: Lane, stats: Stats | None = None) -> Fit:
    """Train one lane on all training examples, whatever the store has."""
    fitted = context.untrained([lane])
    with context.watch(f"training {lane.name}", 1, context.recipe.epochs) as progress:
        (outcome,) = context.train_lanes(fitted, progress, stats)
    if context.dataset.test:
        _add_result(context, lane, stats, outcome.result)
    _keep_naive(context, lane, outcome)
    return fitted.trained([outcome])


def load_or_fit(
    context: Context,
    lanes: Sequence[Lane],
    stats: Stats | None = None,
    teachers: Fit | None = None,
    what: str = "networks",
) -> Fit:
    """The lanes with their weights, from the store or trained now. Each network is read once."""
    teacher_keys = teachers.keys if teachers else ()
    keys = [context.stored_network_key(lane, stats, teacher_keys) for lane in lanes]
    networks = {key: context.store.get_network(key) for key in dict.fromkeys(keys)}
    if todo := {key: lane for key, lane in zip(keys, lanes, strict=True) if networks[key] is None}:
        fitted, todo_keys = context.untrained(list(todo.values())), list(todo)
        with (
            context.watch(f"training {what}", len(todo), context.recipe.epochs) as progress,
            closing(context.train_lanes(fitted, progress, stats, teachers)) as ended,
        ):
            for outcome in ended:
                key, lane = todo_keys[outcome.place], fitted.lanes[outcome.place]
                networks[key] = network = (outcome.result, outcome.lane.state)
                context.store.add_network(key, *network)
                if context.dataset.test and not lane.fold and not lane.teaching:
                    _add_result(context, lane, stats, outcome.result)
    context.drop_checkpoints(lanes, stats, teacher_keys)
    results, states = zip(*read_back(context.store, [networks[key] for key in keys]), strict=True)
    fields: dict[str, Any] = {"states": list(states), "results": list(results), "keys": keys}
    return replace(context.untrained(lanes), **fields, unseen=[None] * len(keys), gathered=[{}] * len(keys))


def add_fold_results(context: Context, lanes: Sequence[Lane], networks: Fit) -> None:
    """Store the results by folds of lanes whose networks of every fold are at hand."""
    for lane in lanes:
        if context.store.get(context.stored_result_key(lane)):
            continue
        parts = networks.pick(folded(lane))
        unseen = []
        for k, part in enumerate(parts.lanes):
            assert part.fold is not None
            judged = context.train.take(fold_indices(context.train, part.fold))
            unseen.append(Outcomes.of(parts.take([k]).probabilities(judged)[0], judged.labels))
        _add_result(context, lane, None, pooled(context.train, parts.results, unseen))


def read_back(store: Store, rows: Iterable[T | None]) -> list[T]:
    """What was just written, or was stored before."""
    values = list(rows)
    if any(value is None for value in values):
        raise MachineFault(f"store {store.path} does not give back what was written to it: the disk may be failing.")
    return [value for value in values if value is not None]


def telling_rows(context: Context, runs: int) -> Ended:
    """Tells what is known of each row of a comparison, which is complete with so many runs."""
    rows: dict[tuple[str, float], tuple[Result, ...]] = {}

    def ended(result: Result) -> None:
        row = rows[result.method, result.lr] = (*rows.get((result.method, result.lr), ()), result)
        context.tell(RowTrained(row, len(row) == runs))

    return ended


def _add_result(context: Context, lane: Lane, stats: Stats | None, result: Result, ended: Ended | None = None) -> None:
    context.store.add(context.result_key(lane, stats, result.revision), context.dataset.fingerprint, result)
    if ended:
        ended(result)


def _keep_naive(context: Context, lane: Lane, outcome: LaneOutcome) -> None:
    """Naive networks are stored with their weights: they may be averaged, or teach, later."""
    if lane.name == "naive":
        context.store.add_network(context.network_key(lane), outcome.result, outcome.lane.state)
