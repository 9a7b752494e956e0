"""cu.compare(): methods and remedies side by side, with the same seeds, at the same or at chosen learning rates."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from class_uncertainty.checks import Frame, check, check_distinct, take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.dataset import shared_groups
from class_uncertainty.data.frame_sources import dataset_from
from class_uncertainty.data.table import advised
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Estimate, EstimateRequest, read_by
from class_uncertainty.measures import Stats
from class_uncertainty.methods import named
from class_uncertainty.posthoc.remedies import Remedy, find_remedy
from class_uncertainty.runs.comparison import (
    CHOOSING_SEED,
    RateChoice,
    check_against,
    check_choose_on,
    check_choosing,
    check_seeds,
)
from class_uncertainty.runs.context import Context, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate, stored_measurement, telling_rows
from class_uncertainty.runs.measurement import Measurement, class_vector
from class_uncertainty.runs.rows import COUNTERPART, MethodRow, method_rows
from class_uncertainty.runs.settings import Settings, Shared, lists_shared
from class_uncertainty.runs.significance import corrected_confidence
from class_uncertainty.text import amount_of, html_lines, to_frame
from class_uncertainty.training import Lane, Recipe, Result, Teaching
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.training.network_size import NetworkSize
from class_uncertainty.workflows.ladder import judged_by_folds
from class_uncertainty.workflows.measure import describe_dataset
from class_uncertainty.workflows.remedy_rows import evaluate_remedies

# shares of examples that may be there to choose and to judge: CIFAR-100 has ten images in both splits, and rows of a
# table may be alike by chance
SHARED_IMAGES, SHARED_ROWS = 0.01, 0.5


def choose_rates(
    context: Context, methods: Sequence[str], rates: Sequence[float], stats: Stats | None, seed: int = CHOOSING_SEED
) -> dict[str, RateChoice]:
    """The best learning rate of each method, by its class-mean error on what judges in this context."""
    lanes = [Lane(method, seed, lr) for method in methods for lr in rates]
    results = iter(load_or_evaluate(context, lanes, stats))
    return {method: RateChoice.of(method, {lr: next(results).error for lr in rates}) for method in methods}


def judged_on(context: Context, dataset: Dataset) -> Context:
    """The same context on another data set, whose test split judges; the store lists it before the one of the rows."""
    context.store.add_data(dataset)
    context.store.add_data(context.dataset)
    return replace(context, dataset=dataset)


def check_judges(dataset: Dataset, choose_on: Dataset | None) -> None:
    """Refuse learning rates that would be chosen by examples that judge the rows."""
    if dataset.test is None:
        reason = "examples that choose learning rates must not judge them"
        raise InputError(f"there is no test split, and {reason}: add one with {advised('test', '0.2')}.")
    if choose_on is None:
        return
    given, test, chooses = f"choose_on is {choose_on.name!r}", dataset.test, choose_on.test
    if chooses is None:
        raise InputError(f"{given}, which has no test split to choose on: add one with '?test=FILE'.")
    for field, what in (("classes", "classes"), ("shape", "shapes"), ("columns", "columns")):
        if getattr(chooses, field) != getattr(test, field):
            raise InputError(f"{given}, which has other {what} than the data of the rows: they must agree.")
    most = SHARED_IMAGES if test.is_images else SHARED_ROWS
    seen = np.isin(test.digests, np.concatenate([choose_on.train.digests, chooses.digests]))
    if seen.mean() > most or np.isin(chooses.digests, test.digests).mean() > most:
        others = "name data with other examples, such as '?judge=validation', '?test=FILE' or '?validation=N'"
        raise InputError(
            f"{given}, which has {seen.sum():,} of the {len(test):,} examples that judge the rows: {others}."
        )
    if len(shared_groups(test, chooses)):
        raise InputError(f"{given}: some of its groups judge the rows, too.")
    if choose_on.name == dataset.name:
        raise InputError(
            f"{given}, which is the name of the data of the rows, too: results are stored by name, so give another."
        )


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `cu.compare` returns.

    Attributes
    ----------
    dataset : Dataset
        What was trained on.
    results : tuple of Result
        One for each method, learning rate and seed.
    estimate : Estimate, Measurement or None
        The class uncertainties that methods used; a Measurement where the store has only class vectors.
    against : str
        What the rows are tested against: "counterpart", or a row.
    chosen : tuple of RateChoice
        The learning rate of each method, and the errors it was chosen by; empty where none was chosen.
    chosen_on : Dataset or None
        Whose test split they were chosen on; None where folds of the training split chose.
    rows : tuple of MethodRow
        Means and standard deviations over the seeds, gains, significance and costs.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> comparison = cu.compare(cu.load("digits-lt:20"), methods=["naive"], seeds=1, recipe=recipe)
    >>> comparison.rows[0].method, comparison.estimate
    ('naive', None)
    """

    dataset: Dataset
    results: tuple[Result, ...]
    estimate: Estimate | Measurement | None
    against: str = COUNTERPART
    chosen: tuple[RateChoice, ...] = ()
    chosen_on: Dataset | None = None

    @cached_property
    def rows(self) -> tuple[MethodRow, ...]:
        return tuple(method_rows(self.results, self.estimate.cost if self.estimate else 0.0, self.against))

    @property
    def tests(self) -> int:
        """How many rows are tested against another."""
        return sum(row.aso is not None for row in self.rows)

    @property
    def choosing_trainings(self) -> int:
        """Trainings that chose the learning rate of each method, one for each rate and fold; 0 if none was chosen."""
        if not self.chosen:
            return 0
        return len(self.chosen[0].errors) * (1 if self.chosen_on else FOLDS)

    @property
    def folds(self) -> int:
        """Folds that the errors come from; 0 where there is a test split."""
        return max((result.folds for result in self.results), default=0)

    @property
    def network(self) -> NetworkSize:
        """What was trained."""
        train = self.dataset.train
        return NetworkSize.of_results(self.results, train.shape, len(train.classes))

    @property
    def uncertainty_imported(self) -> bool:
        """Whether the class uncertainties came by `cu results import`."""
        return isinstance(self.estimate, Measurement) and self.estimate.imported

    @property
    def strengths(self) -> dict[float, float]:
        """tau by learning rate, where rows are adjusted for the counts."""
        remedies = (result for result in self.results if "networks" in result.plan and "tau" in result.plan)
        return {result.lr: result.plan["tau"] for result in remedies}

    def __repr__(self) -> str:
        rows = amount_of(len(self.rows), "row", "rows")
        return f"Comparison({self.dataset!r}, {rows}, {amount_of(len(self.results), 'result', 'results')})"

    def document(self) -> dict[str, Any]:
        """What `cu compare --json` prints."""
        return {
            **describe_dataset(self.dataset, self.folds),
            **asdict(self.network),
            "estimator": self.estimate.estimator if self.estimate else None,
            "score": self.estimate.score if self.estimate else None,
            "uncertainty_imported": self.uncertainty_imported,
            "chosen": {choice.method: {"lr": choice.lr, "errors": choice.errors} for choice in self.chosen},
            "chosen_on": self.chosen_on.name if self.chosen_on else None,
            "aso": {
                "against": self.against,
                "tests": self.tests,
                "confidence": corrected_confidence(self.tests) if self.tests else None,
            },
            "methods": [asdict(row) | {"is_clear": row.is_clear} for row in self.rows],
        }

    def to_frame(self) -> Any:
        """The methods as a DataFrame of pandas, one row for each method and learning rate."""
        return to_frame([asdict(row) for row in self.rows])

    def _repr_html_(self) -> str:
        return html_lines("compare_view.compare_lines", self)


@lists_shared
def compare(
    data: Dataset | Data | Frame | ArrayLike,
    y: ArrayLike | None = None,
    *,
    label: str | None = None,
    methods: Sequence[str],
    seeds: int | Sequence[int] = 3,
    lrs: Sequence[float] | None = None,
    estimator: str | None = None,
    members: int = 5,
    score: str | None = None,
    equal_cost: bool = False,
    choose_lr: bool = False,
    choose_on: Dataset | None = None,
    against: str = COUNTERPART,
    recipe: Recipe | None = None,
    shard: str | None = None,
    retrain_older: bool = False,
    **settings: Unpack[Shared],
) -> Comparison:
    """Train methods with the same seeds, at the same learning rates or each at its best.

    Parameters
    ----------
    data : Dataset, Data, DataFrame or array
        What to train on; arrays are images or features. Without a test split, errors come from five folds.
    y : array, optional
        The labels of an array or a DataFrame, numbers or names.
    label : str, optional
        The column of a DataFrame that has the labels, 'label' by default.
    methods : list of str
        Names of METHODS or REMEDIES, also with changes: "cb:beta=0.9", "cb@product+mixup", "cb*5".
    seeds : int or list of int
        How many, or which.
    lrs : list of float, optional
        Learning rates, the same for every method; by default the recipe's. With `choose_lr`, what to choose from.
    estimator, members, score
        How uncertainty is measured, as for `cu.measure`. With "out-of-fold" the tau of remedies is chosen on examples
        that the members never saw; otherwise it is 1.
    equal_cost : bool
        Whether to add ensembles of as many networks of each cheap row as the dearest row costs.
    choose_lr : bool
        Whether to train each method only at the learning rate with the lowest class-mean error on five folds of the
        training split. It needs a test split. Remedies take the rate of the method they are made of.
    choose_on : Dataset, optional
        Chooses on the test split of this data set instead, one training for each rate: on validation images, such as
        those of `cu.load("cifar10-lt:100?validation=500")`, which replace the test images.
    against : str
        What the rows are tested against by ASO: "counterpart" tests uncertainty rows against the same rows by
        cardinality; the name of one of the methods tests every other row against it.
    recipe, store, device, budget, progress, profile, force, on
        As for `cu.measure`.
    shard : str, optional
        "i/n": train only the i-th of n parts of the rows, then raise ShardEnded. Each part also trains what
        its rows depend on, such as class uncertainties, unless its store has it.
    retrain_older : bool
        Whether to train results of older revisions of a method again; otherwise they count, and are marked.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> comparison = cu.compare(cu.load("digits-lt:20"), methods=["naive", "cb-rs"], seeds=2, recipe=recipe)
    >>> [(row.method, row.runs) for row in comparison.rows]
    [('naive', 2), ('cb-rs', 2)]
    """
    dataset = dataset_from(data, y, label)
    methods = take(list[str], methods=methods)
    lrs = take(list[float] | None, lrs=lrs)
    members = take(int, members=members)
    check(bool, equal_cost=equal_cost, choose_lr=choose_lr)
    check(Dataset | None, choose_on=choose_on)
    check(str, against=against)
    numbers = check_seeds(seeds)
    check_distinct("method", methods)
    rates: list[float | None] = [None] if lrs is None else list(lrs)
    check_distinct("learning rate", rates)
    check_against(against, methods)
    check_choose_on(choose_on, choose_lr)
    if choose_lr:
        check_choosing(lrs, numbers)
        check_judges(dataset, choose_on)
    remedies = {name: remedy for name in methods if (remedy := find_remedy(name))}
    lanes = [Lane(name, seed, lr) for name in methods if name not in remedies for lr in rates for seed in numbers]
    EstimateRequest.usual(estimator, members).check_score(score)
    trained = dict.fromkeys(remedies[name].method if name in remedies else name for name in methods)
    with open_context(dataset, Settings.of(compare, settings, recipe, shard, retrain_older)) as context:
        request = EstimateRequest.usual(estimator, members, recipe=context.recipe)
        distils = [Lane(teaching=Teaching())] if any(remedy.distils for remedy in remedies.values()) else []
        _check_lanes(context, [*(Lane(name, lr=lr) for name in trained for lr in rates), *distils])
        uses_uncertainty = any(named(name).uses_uncertainty for name in trained)
        # tau is chosen on the probabilities of the members, methods need class vectors alone
        chooses_tau = request.estimator == "out-of-fold" and any(remedy.adjusts for remedy in remedies.values())
        estimate: Estimate | Measurement | None = None
        if uses_uncertainty and not chooses_tau:
            estimate = stored_measurement(context, request, score)
        choosing = judged_on(context, choose_on) if choose_on else judged_by_folds(context)
        ended = telling_rows(context)
        if uses_uncertainty and not estimate:
            estimate = read_by(load_or_estimate(context, [request])[0], score)
        stats = Stats(context.train.counts, class_vector(estimate)) if estimate else None
        chosen = choose_rates(choosing, list(trained), lrs or (), stats) if choose_lr else {}
        lanes = [lane for lane in lanes if _trains_at(lane.name, lane.lr, chosen)]
        results = load_or_evaluate(context, lanes, stats, ended=ended) if lanes else []
        unseen: dict[float | None, Estimate] = {}
        for lr, at_rate in _by_rate(remedies, rates, chosen).items():
            if chooses_tau and any(remedy.adjusts for remedy in at_rate.values()):
                unseen[lr] = read_by(load_or_estimate(context, [replace(request, lr=lr)])[0], None)
            results += (made := evaluate_remedies(context, at_rate, numbers, members, lr, unseen.get(lr), stats))
            for result in made:
                ended(result)
        results.sort(key=lambda result: methods.index(result.method))
        ensembles = _equal_cost(results, estimate) if equal_cost else {}
        for lr, at_rate in _by_rate(ensembles, rates, chosen).items():
            results += evaluate_remedies(context, at_rate, numbers, members, lr, unseen.get(lr), stats)
        return Comparison(context.dataset, tuple(results), estimate, against, tuple(chosen.values()), choose_on)


def _check_lanes(context: Context, lanes: Sequence[Lane]) -> None:
    """Refuse, before anything is announced or trained, lanes that do not suit the recipe."""
    train = context.train
    any_uncertainty = Stats(train.counts, np.ones(len(train.classes)))  # it is not measured yet
    check_fit(train, lanes, context.recipe, any_uncertainty, None)


def _trains_at(method: str, lr: float | None, chosen: dict[str, RateChoice]) -> bool:
    """Whether a method is compared at this learning rate: at all of them, or only at the one chosen for it."""
    return not chosen or chosen[method].lr == lr


def _by_rate(
    remedies: dict[str, Remedy], rates: Sequence[float | None], chosen: dict[str, RateChoice]
) -> dict[float | None, dict[str, Remedy]]:
    """The remedies at each learning rate that has any: that of the method they are made of."""
    by_rate = dict[float | None, dict[str, Remedy]]()
    for lr in rates:
        if at_rate := {name: remedy for name, remedy in remedies.items() if _trains_at(remedy.method, lr, chosen)}:
            by_rate[lr] = at_rate
    return by_rate


def _equal_cost(results: Sequence[Result], estimate: Estimate | Measurement | None) -> dict[str, Remedy]:
    """Ensembles of as many networks of each cheap row as the dearest costs, by their names."""
    rows = method_rows(results, estimate.cost if estimate else 0.0)
    dearest, present, ensembles = max(row.cost for row in rows), {row.method for row in rows}, dict[str, Remedy]()
    for row in rows:
        remedy = find_remedy(row.method)
        if remedy and remedy.together != 1:  # several networks already
            continue
        one_more = next(result.cost for result in results if result.method == row.method)
        one_more = remedy.trainings(0) if remedy else one_more
        number = int((dearest - (row.cost - one_more)) / one_more + 1e-9)
        if number > 1 and (name := f"{row.method}*{number}") not in present and (ensemble := find_remedy(name)):
            ensembles[name] = ensemble
    return ensembles
