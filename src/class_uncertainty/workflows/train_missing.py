"""Train what experiments want and the ledger lacks, data set after data set, in stacks as full as they can be."""

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import MachineFault, ShardEnded, Unfinished
from class_uncertainty.estimation import EstimateRequest, estimates_from, read_by
from class_uncertainty.experiments.needs import ENSEMBLE, SIX_NAIVE, Lookup, Missing, SixNaive, Wanted
from class_uncertainty.experiments.paper_table import judge_of
from class_uncertainty.measures import Stats
from class_uncertainty.posthoc.remedies import Remedy
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.ledger import Ledger, check_same_data
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate, load_or_fit, start_anew
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.store import Store, StoredDataset
from class_uncertainty.runs.watcher import Shown
from class_uncertainty.training import Lane, Recipe
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.executor import Executor
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.shared_epochs import spared_epochs
from class_uncertainty.training.speed import full_stacks, images_per_second
from class_uncertainty.training.stages import lane_cost, naive_passes
from class_uncertainty.workflows.remedy_rows import evaluate_remedies

RESERVE = 0.85  # of what is left of a budget, into which lanes must fit before they begin
SIX = Remedy("six naive networks, averaged and adjusted", adjusts=True, together=6)


@dataclass(frozen=True)
class Remaining:
    """What is left to train on one data set."""

    data: str
    lanes: int
    images: float  # image passes
    minutes: float  # on this device


@dataclass(eq=False)
class ExperimentTrainer:
    """Where experiments are trained: a store, data by their names, a recipe, a device and a deadline."""

    store: Store
    read: Callable[[str], Dataset]
    recipe: Recipe
    device: str
    deadline: Deadline = field(default_factory=Deadline)
    progress: Shown = None
    executor: Executor | None = None
    shard: str | None = None
    retrain_older: bool = False  # whether results of older revisions count as missing
    speed: float | None = None  # images a second, once it was measured; then by what lanes have taken
    begun: bool = False  # whether anything was trained

    def train(self, wanted: Sequence[Wanted]) -> None:
        """Train until nothing is missing, data set after data set, or raise Unfinished."""
        names, dataset, before = _names(wanted), None, list[Missing]()
        elsewhere = dict[str, str]()  # data sets whose other rows are for other shards, and what was said of them
        while missing := Lookup(ledger := self._ledger(names), self.recipe).missing(wanted):
            missing = [one for one in missing if one.data not in elsewhere]
            if not missing:
                raise ShardEnded("; ".join(elsewhere.values()))
            if missing == before:
                raise MachineFault(f"store {self.store.path} does not give back what was written to it.")
            before, name = missing, missing[0].data
            if dataset is None or dataset.name != name:
                dataset = self._read(name, ledger)
            now, shard = [one for one in missing if one.data == name], self.shard
            if shard and (apart := [one for one in now if not isinstance(one.item, Lane)]):
                now, shard = apart, None  # every shard measures, whose rows may depend on it
            about = (self.store, self.device, self.deadline, self.progress)
            with (
                open_context(
                    dataset, self.recipe, *about, on=self.executor, shard=shard, retrain_older=self.retrain_older
                ) as context,
                _noted(elsewhere, name),
            ):
                self._make(context, now)

    def _make(self, context: Context, missing: Sequence[Missing]) -> None:
        """Train and measure what is missing on one data set, or raise Unfinished. The speed follows what lanes take."""
        trained, left, train, name = list[Lane](), 0, context.train, context.dataset.name
        # whose weights are kept
        members = [lane for one in missing if not isinstance(one.item, Lane) for lane in self._lanes_of(one)]
        for lanes, stats in self._groups(missing, train):
            affordable = self._affordable(lanes, train)
            if affordable:
                starts_anew = start_anew(context, affordable, stats, members)
                self.begun, started = True, time.monotonic()
                with context.watch(f"training on {name}", len(affordable), self.recipe.epochs) as progress:
                    load_or_evaluate(context, affordable, stats, progress, weights_of=members)
                if starts_anew and self.speed:  # other programs may share the device
                    self.speed *= self._time(affordable, train) / (time.monotonic() - started)
            trained, left = trained + affordable, left + len(lanes) - len(affordable)
        apart = [one for one in missing if trains_apart(one)]
        networks = [lane for one in apart for lane in self._lanes_of(one)]
        begin = set() if left else set(self._affordable(networks, train))
        if begun := [one for one in apart if set(self._lanes_of(one)) <= begin]:
            self.begun = True
            load_or_estimate(context, [one.item for one in begun if isinstance(one.item, EstimateRequest)])
            trained += [lane for one in begun for lane in self._lanes_of(one)]
        left += sum(len(self._lanes_of(one)) for one in apart if one not in begun)
        for one in missing:
            if left and not set(self._lanes_of(one)) <= set(trained):
                continue  # in a slice that ends here what can be measured is: weights stay on this machine
            if isinstance(one.item, EstimateRequest):
                self._measure(context, one.item, with_rows=one not in apart)
            elif isinstance(one.item, SixNaive):
                evaluate_remedies(context, {SIX_NAIVE: SIX}, [0], SIX.together, None, None, None)
        if left:
            raise Unfinished(f"the budget has no time for {left} more lanes on {name}")

    def _measure(self, context: Context, request: EstimateRequest, with_rows: bool) -> None:
        """Store the class vectors of an estimate. All members have been trained, with the rows or for it alone."""
        if with_rows:
            (estimate,) = estimates_from(context.train, [request], load_or_fit(context, request.lanes))
        else:
            (estimate,) = load_or_estimate(context, [request])
        measurement = Measurement.of(read_by(estimate, None))
        self.store.add_measurement(context.estimate_key(request), context.dataset.fingerprint, measurement)

    def lookup(self, wanted: Sequence[Wanted]) -> Lookup:
        """What the store has of the data sets that are needed."""
        return Lookup(self._ledger(_names(wanted)), self.recipe)

    def _ledger(self, names: set[str]) -> Ledger:
        return Ledger.read(self.store, names, without_older=self.retrain_older)

    def remaining(self, wanted: Sequence[Wanted]) -> list[Remaining]:
        """What is left to train at most, by data set, on a device whose speed is measured by a few steps.

        Lanes whose rate is still to be chosen are counted, too, although they may turn out to be trained already.
        """
        lookup, by_data = self.lookup(wanted), dict[str, dict[tuple[EstimateRequest | None, str], dict[Lane, None]]]()
        for missing in lookup.missing(wanted, assume=True):
            by_vector = by_data.setdefault(missing.data, {})  # a lane by other uncertainties is another one
            together = by_vector.setdefault((missing.request, missing.score), {})
            together |= dict.fromkeys(self._lanes_of(missing))
        rows = []
        for name, by_vector in by_data.items():
            train = self._read(name, lookup.ledger).train
            count = sum(map(len, by_vector.values()))
            images = sum(self._images(list(together), train) for together in by_vector.values())
            rows.append(Remaining(name, count, images, self._seconds(count, images, train) / 60))
        return rows

    def _read(self, name: str, ledger: Ledger) -> Dataset:
        """The data of that name; other data than those that the store knows by it are refused."""
        dataset = self.read(name)
        check_same_data(ledger.data.get(name), StoredDataset.of(dataset), str(self.store.path))
        return dataset

    def _groups(self, missing: Sequence[Missing], train: Data) -> list[tuple[list[Lane], Stats | None]]:
        """The lanes that train together, with their class uncertainties; those that use none join the first."""
        plain, by_vector = dict[Lane, None](), dict[tuple[float, ...], dict[Lane, None]]()
        for one in missing:
            lanes = dict.fromkeys(self._lanes_of(one))
            if one.measured:
                by_vector.setdefault(one.measured.raw[one.score or one.measured.score], {}).update(lanes)
            elif not trains_apart(one):
                plain |= lanes
        groups = [(list(lanes), Stats(train.counts, vector)) for vector, lanes in by_vector.items()]
        first, stats = groups[0] if groups else ([], None)
        return [([*plain, *first], stats), *groups[1:]]

    def _affordable(self, lanes: list[Lane], train: Data) -> list[Lane]:
        """The first lanes, as many as will end in time. Where not one will, checkpoints keep what it has reached."""
        if self.deadline == Deadline() or self.executor:  # the speed of other machines is not known
            return lanes

        number = bisect_right(
            range(1, len(lanes) + 1), RESERVE * self.deadline.left, key=lambda most: self._time(lanes[:most], train)
        )
        return lanes[:number] if number or self.begun else lanes

    def _lanes_of(self, missing: Missing) -> list[Lane]:
        """What is to be trained for it. Rates are explicit: a lane that two of them want is trained once."""
        match missing.item:
            case Lane():
                lanes = [missing.item]
            case EstimateRequest():
                lanes = missing.item.lanes
            case SixNaive():
                lanes = [Lane("naive", seed) for seed in range(SIX.together)]
        return [replace(lane, lr=lane.rate(self.recipe)) for lane in lanes]

    def _images(self, lanes: Sequence[Lane], train: Data) -> float:
        """Image passes of lanes that train together."""
        trainings = sum(lane_cost(lane, self.recipe, train) for lane in lanes)
        spared = spared_epochs(lanes, self.recipe) / self.recipe.epochs
        return (trainings - spared) * naive_passes(self.recipe, train)

    def _time(self, lanes: Sequence[Lane], train: Data) -> float:
        """Seconds of lanes that train together."""
        return self._seconds(len(lanes), self._images(lanes, train), train)

    def _seconds(self, lanes: int, images: float, train: Data) -> float:
        """Of so many lanes with these image passes in all: a stack that is not full is slower than one that is."""
        width = width_of(self.recipe, self.device)
        stacks = full_stacks(lanes, width, is_padded=self.device == "cpu")
        return stacks * width / self._speed(train) * images / lanes

    def _speed(self, train: Data) -> float:
        if self.speed is None:
            self.speed = images_per_second(train, self.recipe, self.device)
        return self.speed


@contextmanager
def _noted(ended: dict[str, str], name: str) -> Iterator[None]:
    """Note, and go on, that a shard has nothing more to train on a data set."""
    try:
        yield
    except ShardEnded as error:
        ended[name] = str(error)


def _names(wanted: Sequence[Wanted]) -> set[str]:
    """Of the data sets that are needed, and of those that rates are chosen on."""
    return {name for one in wanted for name in (one.data, judge_of(one.data))}


def trains_apart(missing: Missing) -> bool:
    """Whether an estimate is made by networks that are no rows of a table, as the members of an ensemble are."""
    return isinstance(missing.item, EstimateRequest) and missing.item.estimator != ENSEMBLE.estimator
