"""Training through the store: what it has is not trained again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from reprlib import repr as brief
from typing import TypeVar

from class_uncertainty.errors import InputError, MachineFault, ShardEnded
from class_uncertainty.estimation import Diverged, Estimate, EstimateRequest, estimates_from
from class_uncertainty.measures import SCORES, Stats
from class_uncertainty.metrics import Outcomes
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.store import Store
from class_uncertainty.runs.watcher import RowTrained
from class_uncertainty.text import amount_of
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
    for request in dict.fromkeys(requests):
        stored = context.store.get_estimate(keys[request]) if request.lanes else None  # a file is always read anew
        estimates[request] = stored or _diverged_member(context, request)
    missing = [request for request, estimate in estimates.items() if estimate is None]
    lanes = [lane for request in missing for lane in request.lanes]

    networks = len(lanes)
    is_judged_by_folds = context.dataset.test is None
    if is_judged_by_folds:
        judges = {_fold_judge(request) for request in missing if request.lanes}
        networks += FOLDS * sum(context.store.get(context.stored_result_key(judge)) is None for judge in judges)
    with context.watch(what, networks, context.recipe.epochs) if networks else nullcontext() as progress:
        fitted = _train_members(context, lanes, progress, ended) if lanes else None
        for request, estimate in zip(missing, estimates_from(context.train, missing, fitted), strict=True):
            if isinstance(estimate, Diverged):
                estimates[request] = estimate
                continue
            if is_judged_by_folds and estimate.results:
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
    fitted = context.untrained(lanes)
    outcomes = []
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
    for lane in request.lanes:
        if lane.name == "naive":
            result = context.store.diverged_network(context.network_key(lane))
            if result:
                return Diverged(request.estimator, result.seed, result.divergence)
    return None


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
    keys = [context.stored_result_key(lane, stats) for lane in lanes]
    stored = [context.store.get(key) for key in keys]
    for lane, result in zip(lanes, stored, strict=True):
        if result and result.method != lane.name:
            found = f"has a result of {brief(result.method)} in the place of {lane.name!r}"
            raise InputError(f"{context.store.path} {found}, and cannot be used.")
    if ended:
        for result in filter(None, stored):
            ended(result)
    without_network = _without_network(context, weights_of)
    missing = {
        key: lane
        for key, lane, result in zip(keys, lanes, stored, strict=True)
        if result is None or lane in without_network
    }
    to_train = [lane for key, lane in missing.items() if not context.shard or context.shard.has(key)]
    if to_train and context.dataset.test:
        _train_and_test(context, to_train, stats, progress, ended)
    elif to_train:
        _train_and_judge_by_folds(context, to_train, stats, progress, ended)
    if len(to_train) < len(missing):
        rest = amount_of(len(missing) - len(to_train), "row is", "rows are")
        advice = "'cu results export' writes the rows of each store, and 'cu results import' joins them"
        raise ShardEnded(
            f"shard {context.shard} of {context.dataset.name} is trained: {rest} for other shards; {advice}"
        )

    networks = lanes if context.dataset.test else [part for lane in lanes for part in folded(lane)]
    results = [context.store.get(key) for key in keys]
    context.drop_checkpoints(networks, stats)
    return read_back(context.store, results)


def _train_and_test(
    context: Context, lanes: Sequence[Lane], stats: Stats | None, progress: Progress | None, ended: Ended | None
) -> None:
    """Train a network for each lane, and store its result on the test split."""
    with _training(context, context.untrained(lanes), stats, progress=progress) as outcomes:
        for outcome in outcomes:
            lane = lanes[outcome.place]
            _keep_naive(context, lane, outcome)
            _add_result(context, lane, stats, outcome.result, ended)


def _train_and_judge_by_folds(
    context: Context, lanes: Sequence[Lane], stats: Stats | None, progress: Progress | None, ended: Ended | None
) -> None:
    """Train a network for each fold of each lane, and store the lane's result once its last fold has ended."""
    lane_of = {fold_lane: lane for lane in lanes for fold_lane in folded(lane)}
    fold_lanes = list(lane_of)
    # results and outcomes only: whole networks would stay in memory until the last fold has ended
    judged: dict[Lane, dict[Lane, tuple[Result, Outcomes]]] = {lane: {} for lane in lanes}
    with _training(context, context.untrained(fold_lanes), stats, progress=progress) as outcomes:
        for outcome in outcomes:
            assert outcome.unseen is not None
            fold_lane = fold_lanes[outcome.place]
            lane = lane_of[fold_lane]
            _keep_naive(context, fold_lane, outcome)
            judged[lane][fold_lane] = (outcome.result, outcome.unseen)
            if len(judged[lane]) == FOLDS:
                folds = judged.pop(lane)
                in_order = [folds[part] for part in folded(lane)]
                results, unseen = zip(*in_order, strict=True)
                _add_result(context, lane, stats, pooled(context.train, results, unseen), ended)


@contextmanager
def _training(
    context: Context,
    fitted: Fit,
    stats: Stats | None,
    teachers: Fit | None = None,
    what: str = "training",
    progress: Progress | None = None,
) -> Iterator[Iterator[LaneOutcome]]:
    """The outcomes of lanes as they end. Where no caller's progress is told of their epochs, the watcher is."""
    watched = nullcontext(progress) if progress else context.watch(what, len(fitted.lanes), context.recipe.epochs)
    with watched as told, closing(context.train_lanes(fitted, told, stats, teachers)) as outcomes:
        yield outcomes


def _without_network(context: Context, lanes: Sequence[Lane]) -> set[Lane]:
    """The lanes that the store has no network of; by folds nobody has a network of all examples."""
    if context.dataset.test is None:
        return set()
    return {lane for lane in lanes if not context.store.has("networks", context.network_key(lane))}


def fit_and_store(context: Context, lane: Lane, stats: Stats | None = None) -> Fit:
    """Train one lane on all training examples, whatever the store has."""
    fitted = context.untrained([lane])
    with _training(context, fitted, stats, what=f"training {lane.name}") as outcomes:
        (outcome,) = outcomes
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
    missing = {key: lane for key, lane in zip(keys, lanes, strict=True) if networks[key] is None}
    if missing:
        keys_to_train = list(missing)
        fitted = context.untrained(list(missing.values()))
        with _training(context, fitted, stats, teachers, f"training {what}") as outcomes:
            for outcome in outcomes:
                key = keys_to_train[outcome.place]
                lane = missing[key]
                networks[key] = (outcome.result, outcome.lane.state)
                context.store.add_network(key, outcome.result, outcome.lane.state)
                if context.dataset.test and not lane.fold and not lane.teaching:
                    _add_result(context, lane, stats, outcome.result)
    context.drop_checkpoints(lanes, stats, teacher_keys)
    results, states = zip(*read_back(context.store, [networks[key] for key in keys]), strict=True)
    return replace(
        context.untrained(lanes),
        states=list(states),
        results=list(results),
        keys=keys,
        unseen=[None] * len(keys),
        gathered=[{}] * len(keys),
    )


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
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        raise MachineFault(f"store {store.path} does not give back what was written to it: the disk may be failing.")
    return present


def telling_rows(context: Context) -> Ended:
    """Tell what is known of each row of a comparison."""
    rows: dict[tuple[str, float], tuple[Result, ...]] = {}

    def ended(result: Result) -> None:
        row = rows[result.method, result.lr] = (*rows.get((result.method, result.lr), ()), result)
        context.tell(RowTrained(row))

    return ended


def _add_result(context: Context, lane: Lane, stats: Stats | None, result: Result, ended: Ended | None = None) -> None:
    context.store.add(context.result_key(lane, stats, result.revision), context.dataset.fingerprint, result)
    if ended:
        ended(result)


def _keep_naive(context: Context, lane: Lane, outcome: LaneOutcome) -> None:
    """Naive networks are stored with their weights: they may be averaged, or teach, later."""
    if lane.name == "naive":
        context.store.add_network(context.network_key(lane), outcome.result, outcome.lane.state)
