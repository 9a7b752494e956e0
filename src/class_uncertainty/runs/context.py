"""Context: what a workflow works with. It is made once and handed down; its keys hash values and do nothing else."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from class_uncertainty.checks import check
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.sources import place_of
from class_uncertainty.data.spec import paths_named
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.measures import Stats
from class_uncertainty.runs.settings import Settings
from class_uncertainty.runs.store import RUNNING, Store
from class_uncertainty.runs.watcher import News, Watcher, watch_by
from class_uncertainty.scale.targets import Shard, check_target
from class_uncertainty.training import Lane, Recipe, default_recipe
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import Executor, LaneOutcome, Progress, available, resolve_device, train_lanes
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.keys import checkpoint_keys, key_of, lane_key
from class_uncertainty.training.model_files import check_savable
from class_uncertainty.training.networks.network_table import sealed
from class_uncertainty.training.stage_context import FitOptions, Trace

EVERY = 10  # epochs between checkpoints


@dataclass(frozen=True, eq=False)
class Context:
    """One data set, one recipe, one store, and how training runs."""

    dataset: Dataset
    recipe: Recipe
    store: Store
    device: str
    deadline: Deadline
    watch: Watcher
    profile: Trace | None
    force: bool  # whether files may be replaced that the same call did not write
    executor: Executor | None  # where lanes train; None stands for this process
    shard: Shard | None  # of the rows, if others train the rest
    retrain_older: bool  # whether results of older revisions count as missing

    @property
    def train(self) -> Data:
        return self.dataset.train

    @property
    def checkpoints(self) -> Checkpoints:
        return checkpoints_beside(self.store)

    def tell(self, news: News) -> None:
        """Tell the watcher what is known by now."""
        self.watch.tell(news)

    def check_savable(self, path: str | Path, made_from: str, goal: str | None = None) -> None:
        """Refuse, before anything trains, a path where the model may not be written."""
        used = [self.store.path, *paths_named(self.dataset.name, self.recipe.network, goal)]
        if self.profile:
            used.append(self.profile.path)
        check_savable(path, made_from, self.force, used)

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
        if self.profile:
            self.profile.claim(self.recipe, fitted.lanes)
        self.store.create_file()  # 'cu clean' leaves the checkpoints of a store alone that is open
        options = FitOptions(
            stats, self.dataset.test, progress, self.checkpoints, EVERY, self.deadline, self.profile, teachers
        )
        with closing(train_lanes(fitted, self.train, options, self.executor)) as batches:
            for outcomes in batches:
                with self.store.batch():
                    yield from outcomes

    def result_key(self, lane: Lane, stats: Stats | None = None, revision: int | None = None) -> str:
        """The key of a lane's result, which depends on what it is judged on."""
        stats = Stats.of(self.train.counts, stats)
        return lane_key(self.dataset.fingerprint, lane, self.recipe, stats, self.device, revision=revision)

    def network_key(
        self, lane: Lane, stats: Stats | None = None, teachers: Sequence[str] = (), revision: int | None = None
    ) -> str:
        """The key of a lane's network, which depends on what it was trained on alone."""
        stats = Stats.of(self.train.counts, stats)
        return lane_key(self.train.fingerprint, lane, self.recipe, stats, self.device, teachers, revision)

    def estimate_key(self, request: EstimateRequest, revision: int | None = None) -> str:
        keys = [self.result_key(lane, revision=revision) for lane in request.lanes]
        return key_of(request.estimator, keys or [self.dataset.fingerprint])

    def revisions(self, lanes: Sequence[Lane]) -> list[int | None]:
        """The revisions of these lanes whose results count: the newest, which is None, and the older ones."""
        newest = max((lane.value.revision for lane in lanes), default=0)
        return [None] if self.retrain_older else [None, *reversed(range(newest))]

    def first_stored(self, keys: Sequence[str], *tables: str) -> str:
        """The first of these keys that one of the tables has; the first of all where they have none."""
        for key in keys:
            if any(self.store.has(table, key) for table in tables):
                return key
        return keys[0]

    def stored_result_key(self, lane: Lane, stats: Stats | None = None) -> str:
        keys = [self.result_key(lane, stats, revision) for revision in self.revisions([lane])]
        return self.first_stored(keys, "results")

    def stored_network_key(self, lane: Lane, stats: Stats | None = None, teachers: Sequence[str] = ()) -> str:
        keys = [self.network_key(lane, stats, teachers, revision) for revision in self.revisions([lane])]
        return self.first_stored(keys, "networks")

    def stored_estimate_key(self, request: EstimateRequest) -> str:
        keys = [self.estimate_key(request, revision) for revision in self.revisions(request.lanes)]
        return self.first_stored(keys, "estimates", "measurements")

    def checkpoint_keys(self, lane: Lane, stats: Stats | None = None, teachers: Sequence[str] = ()) -> list[str]:
        """The keys of a lane's checkpoints, one for each stage of its method."""
        stats = Stats.of(self.train.counts, stats)
        return checkpoint_keys(self.train.fingerprint, lane, self.recipe, stats, self.device, teachers)

    def drop_checkpoints(self, lanes: Sequence[Lane], stats: Stats | None = None, teachers: Sequence[str] = ()) -> None:
        """Remove the checkpoints of lanes whose results are stored."""
        self.checkpoints.remove(key for lane in lanes for key in self.checkpoint_keys(lane, stats, teachers))

    def has_checkpoint(self, lane: Lane, stats: Stats | None = None) -> bool:
        """Whether a command that was stopped has begun to train the lane."""
        return any(self.checkpoints.epoch(key) for key in self.checkpoint_keys(lane, stats))


def checkpoints_beside(store: Store) -> Checkpoints:
    """The checkpoints of what trains with its results in a store."""
    return Checkpoints(store.path.with_name(store.path.name + RUNNING))


@contextmanager
def open_executor(on: str | Executor | None, device: str | None) -> Iterator[tuple[Executor | None, str]]:
    """Open what trains lanes, and yield it with its device; None stands for this process."""
    if on is None:
        yield None, resolve_device(device)
    elif isinstance(on, str):
        check_target(on, device=device)
        from class_uncertainty.scale.ray_executor import open_ray

        with open_ray(on, device) as executor:
            yield executor, executor.device
    else:
        yield on, on.device


@contextmanager
def open_context(dataset: Dataset | Data, settings: Settings) -> Iterator[Context]:
    """Make all that a workflow works with, once. Without a store, results go to a temporary one."""
    check(Data | Dataset, dataset=dataset)
    if isinstance(dataset, Data):
        dataset = Dataset("data", dataset)
    recipe = sealed(settings.recipe or default_recipe(dataset.train))
    trace = None
    if settings.profile:
        read = paths_named(dataset.name, recipe.network)
        data = f"{dataset.name} {place_of(dataset)}"
        trace = Trace(settings.profile, data, settings.force, read)
    deadline = Deadline.after(settings.budget)
    with ExitStack() as stack:
        executor, device = stack.enter_context(open_executor(settings.on, settings.device))
        store = settings.store
        if store is None:
            store = Path(stack.enter_context(TemporaryDirectory()), "runs.sqlite")
        if not isinstance(store, Store):
            store = stack.enter_context(Store(store))
        store.add_data(dataset)
        watch = watch_by(settings.progress)
        stack.callback(watch.close)
        watch.open()
        yield Context(
            dataset,
            recipe,
            store,
            device,
            deadline,
            watch,
            profile=trace,
            force=settings.force,
            executor=executor,
            shard=Shard.parse(settings.shard),
            retrain_older=settings.retrain_older,
        )
