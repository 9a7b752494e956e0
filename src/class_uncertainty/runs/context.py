"""Context: what a workflow works with. It is made once and handed down; its keys hash values and do nothing else."""

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from class_uncertainty.checks import check
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.dataset import describe_unjudged
from class_uncertainty.errors import InputError, notice
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.measures import Stats
from class_uncertainty.runs.open_executor import On, open_executor
from class_uncertainty.runs.shard import Shard
from class_uncertainty.runs.store import RUNNING, Store
from class_uncertainty.runs.watcher import News, Shown, Watch, Watcher, watch_by
from class_uncertainty.training import Lane, Recipe, default_recipe
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.executor import Executor
from class_uncertainty.training.fit import LaneOutcome, Progress, available, resolve_device, train_lanes
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.keys import checkpoint_keys, key_of, lane_key
from class_uncertainty.training.networks.network_table import sealed
from class_uncertainty.training.stage_context import FitOptions

EVERY = 10  # epochs between checkpoints


@dataclass(frozen=True, eq=False)
class Context:
    """One data set, one recipe, one store, and how training runs."""

    store: Store
    dataset: Dataset
    recipe: Recipe
    device: str
    deadline: Deadline = field(default_factory=Deadline)
    watch: Watch = field(default_factory=Watcher)
    checkpoints: Checkpoints | None = None
    profile: Path | None = None
    executor: Executor | None = None  # where lanes train; None stands for this process
    shard: Shard | None = None  # of the rows, if others train the rest
    retrain_older: bool = False  # whether results of older revisions count as missing

    @property
    def train(self) -> Data:
        return self.dataset.train

    def tell(self, news: News) -> None:
        """Tell a Watcher what is known by now."""
        if isinstance(self.watch, Watcher):
            self.watch.tell(news)

    def untrained(self, lanes: Sequence[Lane]) -> Fit:
        """Lanes that are to be trained; large arrays go beside the store."""
        here = available(self.device)  # an executor may have GPUs where this process has none
        return Fit.untrained(self.train, lanes, self.recipe, here, self.store.path.parent)

    def train_lanes(
        self, fitted: Fit, progress: Progress | None, stats: Stats | None = None, teachers: Fit | None = None
    ) -> Generator[LaneOutcome, None, None]:
        """Train the lanes of an untrained Fit; each is yielded when it has ended.

        What the caller writes to the store for lanes that ended together is one transaction.
        """
        check_fit(self.train, fitted.lanes, self.recipe, stats, self.dataset.test)
        self.store.begin()  # 'cu clean' leaves the checkpoints of a store alone that is open
        how = (self.checkpoints, EVERY, self.deadline, self.profile, teachers)
        options = FitOptions(stats, self.dataset.test, progress, *how)
        with closing(train_lanes(fitted, self.train, options, self.executor)) as batches:
            for outcomes in batches:
                with self.store.batch():
                    yield from outcomes

    def result_key(self, lane: Lane, stats: Stats | None = None, revision: int | None = None) -> str:
        """Of a lane's result, which depends on what it is judged on."""
        about = (self.recipe, self._stats(stats), self.device)
        return lane_key(self.dataset.fingerprint, lane, *about, revision=revision)

    def network_key(
        self, lane: Lane, stats: Stats | None = None, teachers: Sequence[str] = (), revision: int | None = None
    ) -> str:
        """Of a lane's network, which depends on what it was trained on alone."""
        about = (self.recipe, self._stats(stats), self.device, teachers, revision)
        return lane_key(self.train.fingerprint, lane, *about)

    def estimate_key(self, request: EstimateRequest, revision: int | None = None) -> str:
        keys = [self.result_key(lane, revision=revision) for lane in request.lanes]
        return key_of(request.estimator, keys or [self.dataset.fingerprint])

    def find(self, tables: Sequence[str], lanes: Sequence[Lane], key: Callable[[int | None], str]) -> str:
        """The key of these lanes by a revision: the newest, or an older one where the tables have that alone."""
        newest = key(None)
        if self.retrain_older or any(self.store.has(table, newest) for table in tables):
            return newest
        for revision in reversed(range(max((lane.value.revision for lane in lanes), default=0))):
            older = key(revision)
            if any(self.store.has(table, older) for table in tables):
                return older
        return newest

    def stored_result_key(self, lane: Lane, stats: Stats | None = None) -> str:
        return self.find(["results"], [lane], lambda revision: self.result_key(lane, stats, revision))

    def stored_network_key(self, lane: Lane, stats: Stats | None = None, teachers: Sequence[str] = ()) -> str:
        return self.find(["networks"], [lane], lambda revision: self.network_key(lane, stats, teachers, revision))

    def stored_estimate_key(self, request: EstimateRequest) -> str:
        tables = ["estimates", "measurements"]
        return self.find(tables, request.lanes, lambda revision: self.estimate_key(request, revision))

    def drop_checkpoints(self, lanes: Sequence[Lane], stats: Stats | None = None, teachers: Sequence[str] = ()) -> None:
        """Remove the checkpoints of lanes whose results are stored."""
        if self.checkpoints:
            about = (self.recipe, self._stats(stats), self.device, teachers)
            keys = (key for lane in lanes for key in checkpoint_keys(self.train.fingerprint, lane, *about))
            self.checkpoints.remove(keys)

    def has_checkpoint(self, lane: Lane, stats: Stats | None = None) -> bool:
        """Whether a command that was stopped has begun to train the lane."""
        if self.checkpoints is None:
            return False
        keys = checkpoint_keys(self.train.fingerprint, lane, self.recipe, self._stats(stats), self.device)
        return any(self.checkpoints.epoch(key) for key in keys)

    def _stats(self, stats: Stats | None) -> Stats:
        return Stats.of(self.train.counts, stats)


def checkpoints_beside(store: Store) -> Checkpoints:
    """Of what trains by its results."""
    return Checkpoints(store.path.with_name(store.path.name + RUNNING))


@contextmanager
def open_context(
    dataset: Dataset | Data,
    recipe: Recipe | None = None,
    store: Store | str | Path | None = None,
    device: str | None = None,
    budget: float | Deadline | None = None,
    progress: Shown = None,
    profile: str | Path | None = None,
    on: On = None,
    shard: str | None = None,
    retrain_older: bool = False,
) -> Iterator[Context]:
    """A Context for one workflow. Without a store, results go to a temporary one; `on` says where lanes train."""
    check(Data | Dataset, dataset=dataset)
    check(Recipe | None, recipe=recipe)
    check(Store | Path | None, store=store)
    check(str | None, device=device, shard=shard)
    check(Callable | bool | None, progress=progress)
    check(Path | None, profile=profile)
    check(str | Executor | None, on=on)
    check(bool, retrain_older=retrain_older)
    part = Shard.parse(shard) if shard is not None else None
    dataset = Dataset("data", dataset) if isinstance(dataset, Data) else dataset
    if store is None and budget is not None:
        raise InputError("a budget is given and no store: give one, or what has been trained is lost when it is spent.")
    recipe, deadline = sealed(recipe or default_recipe(dataset.train)), Deadline.after(budget)
    with ExitStack() as stack:
        executor = stack.enter_context(open_executor(on, device, profile is not None))
        device = executor.device if executor else resolve_device(device)
        if store is None:
            store = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "runs.sqlite"
        if not isinstance(store, Store):
            store = stack.enter_context(Store(store))
        checkpoints = checkpoints_beside(store)
        store.add_data(dataset)
        if note := describe_unjudged(dataset):
            notice(note)
        place, watch = Path(profile) if profile else None, watch_by(progress)
        if isinstance(watch, Watcher):
            stack.callback(watch.close)
            watch.open()
        about = (watch, checkpoints, place, executor, part, retrain_older)
        yield Context(store, dataset, recipe, device, deadline, *about)
