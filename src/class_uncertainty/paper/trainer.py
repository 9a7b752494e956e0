"""Trainer: trains what the paper's experiments lack, within a budget."""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import MachineFault, ShardEnded, Unfinished
from class_uncertainty.estimation import EstimateRequest, estimates_from, read_by
from class_uncertainty.measures import Stats
from class_uncertainty.paper.experiments import ENSEMBLE, SIX_NAIVE, SixNaive, Wanted
from class_uncertainty.paper.ledger import SIX, Ledger, Missing, data_of
from class_uncertainty.paper.training_time import TrainingTime
from class_uncertainty.posthoc.remedies import Remedy
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate, load_or_fit
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.result_lines import check_same_data
from class_uncertainty.runs.settings import Settings
from class_uncertainty.runs.shard import Shard
from class_uncertainty.runs.store import Store, StoredDataset
from class_uncertainty.runs.watcher import Shown
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.executor import Executor
from class_uncertainty.workflows.evaluate_remedies import evaluate_remedies

RESERVE = 0.85  # of what is left of a budget, into which lanes must fit before they begin
REMEDY = Remedy("six naive networks, averaged and adjusted", adjusts=True, together=SIX)
Read = Callable[[str], Dataset]


@dataclass(eq=False)
class Trainer:
    """Where experiments are trained: a store, data by their names, a recipe, a device and a deadline."""

    store: Store
    read: Read
    recipe: Recipe
    device: str
    deadline: Deadline = field(default_factory=Deadline)
    progress: Shown = None
    executor: Executor | None = None
    shard: str | None = None
    retrain_older: bool = False  # whether results of older revisions count as missing
    has_begun: bool = False  # whether anything was trained
    training_time: TrainingTime = field(init=False)

    def __post_init__(self) -> None:
        self.training_time = TrainingTime(self.recipe, self.device)

    def ledger(self, wanted: Sequence[Wanted]) -> Ledger:
        """What the store has of the data sets that are needed."""
        return Ledger.read(self.store, self.recipe, data_of(wanted), without_older=self.retrain_older)

    def train(self, wanted: Sequence[Wanted]) -> None:
        """Train until nothing is missing, data set after data set, or raise Unfinished or ShardEnded."""
        dataset: Dataset | None = None
        before: list[Missing] = []
        ended: dict[str, str] = {}  # data sets on which the rest is for other shards, and what was said of it
        while True:
            ledger = self.ledger(wanted)
            missing = ledger.missing(wanted)
            if not missing:
                return
            missing = [one for one in missing if one.data not in ended]
            if not missing:
                raise ShardEnded("; ".join(ended.values()))
            if missing == before:
                raise MachineFault(f"store {self.store.path} does not give back what was written to it.")
            before = missing
            name = missing[0].data
            if dataset is None or dataset.name != name:
                dataset = read_known(self.read, name, ledger, self.store)
            try:
                self._train_on(dataset, [one for one in missing if one.data == name])
            except ShardEnded as error:
                ended[name] = str(error)

    def _train_on(self, dataset: Dataset, missing: Sequence[Missing]) -> None:
        """Make what is missing on one data set, or raise Unfinished or ShardEnded."""
        shard = self.shard
        measuring = [one for one in missing if not isinstance(one.item, Lane)]
        if shard and measuring:  # every shard measures, since its rows may depend on it
            missing = measuring
            shard = None
        settings = Settings(
            recipe=self.recipe,
            store=self.store,
            device=self.device,
            budget=self.deadline,
            progress=self.progress,
            on=self.executor,
            shard=Shard.parse(shard),
            retrain_older=self.retrain_older,
        )
        with open_context(dataset, settings) as context:
            self._make(context, missing)

    def _make(self, context: Context, missing: Sequence[Missing]) -> None:
        """Train as many lanes as end in time, then measure what they allow: weights stay on this machine."""
        trained: set[Lane] = set()
        left = 0
        weights_of = [lane for one in missing if not isinstance(one.item, Lane) for lane in one.lanes(self.recipe)]
        for lanes, stats in self._groups(missing):
            affordable = self._affordable(lanes, context.train)
            if affordable:
                self._train_rows(context, affordable, stats, weights_of)
            trained.update(affordable)
            left += len(lanes) - len(affordable)

        apart = [one for one in missing if trains_apart(one.item)]
        networks = [lane for one in apart for lane in one.lanes(self.recipe)]
        in_time = set() if left else set(self._affordable(networks, context.train))
        begun = [one for one in apart if set(one.lanes(self.recipe)) <= in_time]
        if begun:
            self.has_begun = True
            load_or_estimate(context, [one.item for one in begun if isinstance(one.item, EstimateRequest)])
        trained.update(lane for one in begun for lane in one.lanes(self.recipe))
        left += sum(len(one.lanes(self.recipe)) for one in apart if one not in begun)

        for one in missing:
            if set(one.lanes(self.recipe)) <= trained:
                self._measure(context, one)
        if left:
            raise Unfinished(f"the budget has no time for {left} more lanes on {context.dataset.name}")

    def _groups(self, missing: Sequence[Missing]) -> list[tuple[list[Lane], Stats | None]]:
        """The lanes that train together, with their class uncertainties; those that use none join the first."""
        plain: dict[Lane, None] = {}
        using: dict[tuple[EstimateRequest | None, str], dict[Lane, None]] = {}
        measured = {}
        for one in missing:
            lanes = dict.fromkeys(one.lanes(self.recipe))
            if one.stats:
                uncertainties = (one.request, one.score)
                measured[uncertainties] = one.stats
                using.setdefault(uncertainties, {}).update(lanes)
            elif not trains_apart(one.item):
                plain.update(lanes)
        groups = [(list(lanes), measured[uncertainties]) for uncertainties, lanes in using.items()]
        if not groups:
            return [(list(plain), None)]
        first, stats = groups[0]
        return [([*plain, *first], stats), *groups[1:]]

    def _affordable(self, lanes: list[Lane], train: Data) -> list[Lane]:
        """The first lanes, as many as will end in time. Where not one will, checkpoints keep what it has reached."""
        if self.deadline == Deadline() or self.executor:  # the speed of other machines is not known
            return lanes
        numbers = range(1, len(lanes) + 1)
        seconds = RESERVE * self.deadline.left
        number = bisect_right(numbers, seconds, key=lambda most: self.training_time.seconds_of(lanes[:most], train))
        if number == 0 and not self.has_begun:
            return lanes
        return lanes[:number]

    def _train_rows(self, context: Context, lanes: list[Lane], stats: Stats | None, weights_of: Sequence[Lane]) -> None:
        is_whole = all(_trains_from_its_start(context, lane, stats, lane in weights_of) for lane in lanes)
        started = time.monotonic()
        self.has_begun = True
        with context.watch(f"training on {context.dataset.name}", len(lanes), self.recipe.epochs) as progress:
            load_or_evaluate(context, lanes, stats, progress, weights_of=weights_of)
        if is_whole:
            self.training_time.learn(lanes, context.train, time.monotonic() - started)

    def _measure(self, context: Context, missing: Missing) -> None:
        """Store what networks that have been trained give: class vectors, or the errors of six."""
        match missing.item:
            case EstimateRequest() as request:
                if trains_apart(request):
                    (estimate,) = load_or_estimate(context, [request])
                else:
                    members = load_or_fit(context, request.lanes)
                    (estimate,) = estimates_from(context.train, [request], members)
                measurement = Measurement.of(read_by(estimate, None))
                self.store.add_measurement(context.estimate_key(request), context.dataset.fingerprint, measurement)
            case SixNaive():
                evaluate_remedies(context, {SIX_NAIVE: REMEDY}, [0], SIX, None, None, None)


def read_known(read: Read, name: str, ledger: Ledger, store: Store) -> Dataset:
    """The data of that name; other data than those that the store knows by it are refused."""
    dataset = read(name)
    check_same_data(ledger.data.get(name), StoredDataset.of(dataset), str(store.path))
    return dataset


def trains_apart(item: Lane | EstimateRequest | SixNaive) -> bool:
    """Whether an estimate is made by networks that are no rows of a table, as the members of an ensemble are."""
    return isinstance(item, EstimateRequest) and item.estimator != ENSEMBLE.estimator


def _trains_from_its_start(context: Context, lane: Lane, stats: Stats | None, needs_weights: bool) -> bool:
    """Whether a lane has no checkpoint to go on from, and nothing stored that stands for it."""
    if context.has_checkpoint(lane, stats):
        return False
    if needs_weights and not context.store.has("networks", context.network_key(lane)):
        return True
    return not context.store.has("results", context.stored_result_key(lane, stats))
