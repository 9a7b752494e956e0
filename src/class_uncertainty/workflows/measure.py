"""cu.measure(): which classes are under-represented, by count and by how uncertain networks are about them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from class_uncertainty.checks import Frame, take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.frame_sources import dataset_from
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Diverged, Estimate, EstimateRequest, read_by
from class_uncertainty.estimation.estimators import compared_estimators
from class_uncertainty.measures import Vector
from class_uncertainty.metrics import rank_correlation
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, telling_rows
from class_uncertainty.runs.rows import ClassRow, class_rows, result_marks, spearman
from class_uncertainty.runs.settings import Settings, Shared, lists_shared
from class_uncertainty.text import amount_of, html_lines, to_frame
from class_uncertainty.training import Recipe
from class_uncertainty.training.network_size import NOTHING_TRAINED, NetworkSize


@dataclass(frozen=True, eq=False)
class Measured:
    """What `cu.measure` returns: an estimate of a data set, and its classes as rows.

    Attributes
    ----------
    dataset : Dataset
        What was measured.
    estimate : Estimate
        The members' probabilities for the training examples, and what follows from them.
    rows : tuple of ClassRow
        Every class by every measure.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> measured = cu.measure(cu.load("digits-lt:20"), estimator="single", recipe=recipe)
    >>> measured.rows[0].name, measured.folds
    ('0', 0)
    """

    dataset: Dataset
    estimate: Estimate
    rows: tuple[ClassRow, ...]

    @property
    def folds(self) -> int:
        """Folds that the errors come from; 0 where there is a test split."""
        return max((result.folds for result in self.estimate.results), default=0)

    @property
    def network(self) -> NetworkSize:
        """What was trained; nothing where the probabilities come from a file."""
        train = self.dataset.train
        return NetworkSize.of_results(self.estimate.results, train.shape, len(train.classes))

    @property
    def marks(self) -> tuple[str, ...]:
        """What sets the results of the members apart, as of a MethodRow."""
        return result_marks(self.estimate.results)

    def __repr__(self) -> str:
        return f"Measured({self.dataset!r}, {self.estimate!r})"

    def document(self) -> dict[str, Any]:
        """What `cu measure --json` prints."""
        return {
            **describe_dataset(self.dataset, self.folds),
            **asdict(self.network),
            "estimator": self.estimate.estimator,
            "score": self.estimate.score,
            "cost": self.estimate.cost,
            "members": len(self.estimate.probabilities),
            "marks": list(self.marks),
            "classes": [asdict(row) | {"disagreement": row.disagreement} for row in self.rows],
            "spearman": {name: spearman(self.rows, name) for name in ("cardinality", "effective", "uncertainty")},
        }

    def to_frame(self) -> Any:
        """The classes as a DataFrame of pandas, one row a class."""
        return to_frame([asdict(row) | {"disagreement": row.disagreement} for row in self.rows])

    def _repr_html_(self) -> str:
        return html_lines("measure_view.measure_lines", self)


@lists_shared
def measure(
    data: Dataset | Data | Frame | ArrayLike,
    y: ArrayLike | None = None,
    *,
    label: str | None = None,
    estimator: str | None = None,
    members: int = 5,
    score: str | None = None,
    lr: float | None = None,
    recipe: Recipe | None = None,
    **settings: Unpack[Shared],
) -> Measured:
    """Measure how under-represented each class is, by its count and by its uncertainty.

    Parameters
    ----------
    data : Dataset, Data, DataFrame or array
        What to train on; arrays are images or features. Without a test split, errors come from five folds.
    y : array, optional
        The labels of an array or a DataFrame, numbers or names.
    label : str, optional
        The column of a DataFrame that has the labels, 'label' by default.
    estimator : str, optional
        A key of ESTIMATORS, "ensemble:METHOD" or "probabilities:FILE"; by default "ensemble", or "out-of-fold" for
        heads that train on full batches.
    members : int
        Networks, folds or snapshots that measure.
    score : str, optional
        What counts as uncertain; by default the estimator's natural score.
    lr : float, optional
        The learning rate; by default the recipe's.
    recipe : Recipe, optional
        How to train; by default the one for images or for features.
    store : Store or path, optional
        Where results are kept; stored results are not trained again.
    device : str, optional
        "cpu", "cuda" or "mps"; by default the fastest that is there.
    budget : float, optional
        Seconds after which training stops at an epoch's end and Unfinished is raised; needs a store.
    progress : bool or callable, optional
        Whether to show a plan, a bar and findings on stderr; in a notebook, lines of text take the place of the bar. By
        default where stderr is a terminal or a notebook, and not where it is a file or a pipe. A function of (what
        trains, networks, epochs of each) that returns a context manager is told instead.
    profile : path, optional
        Where to write a trace of one epoch.
    force : bool
        Whether files may be replaced that the same call did not write, or that have changed.
    on : str, optional
        Where networks train: "ray" on all GPUs or cores of this machine, "auto" on the Ray cluster that runs here,
        "ray://HOST:PORT" on another; by default in this process. The results are the same.

    Returns
    -------
    Measured

    Examples
    --------
    >>> measured = cu.measure(cu.load("digits-lt:20"), members=2, recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    >>> len(measured.rows), measured.rows[9].count
    (10, 6)

    Arrays, or a DataFrame:

    >>> X = np.arange(40.0).reshape(20, 2)
    >>> linear = cu.Recipe("linear", epochs=1, batch=8)
    >>> [row.name for row in cu.measure(X, ["no"] * 10 + ["yes"] * 10, members=2, recipe=linear).rows]
    ['no', 'yes']
    """
    dataset = dataset_from(data, y, label)
    members = take(int, members=members)
    with open_context(dataset, Settings.of(measure, settings, recipe)) as context:
        request = EstimateRequest.usual(estimator, members, lr, context.recipe)
        request.check_score(score)
        estimate = read_by(load_or_estimate(context, [request], ended=telling_rows(context))[0], score)
        rows = class_rows(context.dataset.classes, context.train.counts.tolist(), estimate, context.dataset)
        return Measured(context.dataset, estimate, tuple(rows))


def describe_dataset(dataset: Dataset, folds: int) -> dict[str, Any]:
    """What every document says of its data."""
    return {
        "data": dataset.name,
        "fingerprint": dataset.fingerprint,
        "folds": folds,
        "duplicates": dataset.duplicates,
        "left_out": [asdict(part) for part in dataset.left_out],
    }


@dataclass(frozen=True)
class EstimatorRow:
    """Spearman's rho of class uncertainties with the ensemble's and with the class errors.

    `beyond` is the correlation of what is left of the ranks once those of the counts are regressed out.
    """

    estimator: str
    score: str
    lr: float | None  # None where nothing was judged, or a learning rate changes nothing
    cost: float  # in trainings of one network
    ensemble: float | None
    ensemble_beyond: float | None
    error: float | None
    error_beyond: float | None


@dataclass(frozen=True, eq=False)
class EstimatorComparison:
    """What `cu.compare_estimators` returns.

    Attributes
    ----------
    dataset : Dataset
        What was trained on.
    members : int
        Of each estimator.
    rows : tuple of EstimatorRow
        Estimators at each learning rate, with cardinality beside them.
    diverged : tuple of str
        A sentence on each estimator that diverged.
    folds : int
        Folds that the errors come from; 0 where there is a test split.
    network : NetworkSize
        What was trained.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> cu.compare_estimators(cu.load("digits-lt:20"), ["single"], members=2, recipe=recipe).diverged
    ()
    """

    dataset: Dataset
    members: int
    rows: tuple[EstimatorRow, ...]
    diverged: tuple[str, ...]  # one sentence each
    folds: int  # that the errors come from; 0 where there is a test split
    network: NetworkSize = NOTHING_TRAINED

    def __repr__(self) -> str:
        rows = amount_of(len(self.rows), "row", "rows")
        return f"EstimatorComparison({self.dataset!r}, {amount_of(self.members, 'member', 'members')}, {rows})"

    def document(self) -> dict[str, Any]:
        """What `cu measure --estimators … --json` prints."""
        return {
            "data": self.dataset.name,
            "fingerprint": self.dataset.fingerprint,
            "members": self.members,
            "folds": self.folds,
            **asdict(self.network),
            "diverged": list(self.diverged),
            "estimators": [asdict(row) for row in self.rows],
        }


@lists_shared
def compare_estimators(
    dataset: Dataset | Data,
    estimators: Sequence[str],
    members: int = 5,
    *,
    lrs: Sequence[float] | None = None,
    recipe: Recipe | None = None,
    **settings: Unpack[Shared],
) -> EstimatorComparison:
    """Compare estimators with a deep ensemble at each learning rate.

    Parameters
    ----------
    dataset : Dataset or Data
        What to train on.
    estimators : list of str
        Keys of ESTIMATORS, each with its natural score or with another, as in "online=predictive".
    members : int
        Networks, folds or snapshots of each. The estimators have other seeds than the ensemble, so that no network
        is compared with itself.
    lrs : list of float, optional
        Learning rates; by default the recipe's.
    recipe, store, device, budget, progress, profile, force, on
        As for `cu.measure`.

    Returns
    -------
    EstimatorComparison

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> comparison = cu.compare_estimators(cu.load("digits-lt:20"), ["single"], members=2, recipe=recipe)
    >>> [row.estimator for row in comparison.rows]
    ['ensemble', 'single', 'cardinality']
    """
    estimators = take(list[str], estimators=estimators)
    members = take(int, members=members)
    lrs = take(list[float] | None, lrs=lrs)
    rates: list[float | None] = [None] if lrs is None else list(lrs)
    requests, scored = compared_estimators(estimators, members, rates)
    with open_context(dataset, Settings.of(compare_estimators, settings, recipe)) as context:
        estimates = dict(zip(requests, load_or_estimate(context, list(requests.values())), strict=True))
        dataset, default_lr = context.dataset, context.recipe.lr
    rows: list[EstimatorRow] = []
    diverged: dict[str, None] = {}
    for lr in rates:
        for name, _ in scored:
            if isinstance(lost := estimates[name, lr], Diverged):
                diverged[f"{lost} at the learning rate {lr or default_lr:g}"] = None
        if isinstance(ensemble := estimates["ensemble", lr], Estimate):
            at_rate = [(estimates[name, lr], score) for name, score in scored]
            sound = [estimate.using(score) for estimate, score in at_rate if isinstance(estimate, Estimate)]
            rows += estimator_rows(sound, ensemble, dataset.train.counts.astype(float))
    if not rows:
        raise InputError(f"{next(iter(diverged))}, and there is nothing to compare with: lower it.")
    results = [
        result for estimate in estimates.values() if isinstance(estimate, Estimate) for result in estimate.results
    ]
    folds = max((result.folds for result in results), default=0)
    network = NetworkSize.of_results(results, dataset.train.shape, len(dataset.classes))
    return EstimatorComparison(dataset, members, tuple(rows), tuple(diverged), folds, network)


def estimator_rows(estimates: Sequence[Estimate], reference: Estimate, counts: Vector) -> list[EstimatorRow]:
    """A row for each estimate and one for cardinality. The errors are those of the reference ensemble."""
    errors, reference_raw = reference.class_errors, reference.raw
    is_judged = np.full(len(counts), True) if errors is None else ~np.isnan(errors)
    first = reference.results[0] if reference.results else None
    lr = first.lr if first and first.recipe.has_rate else None

    def row(name: str, score: str, cost: float, mu: Vector) -> EstimatorRow:
        with_ensemble = [rank_correlation(mu, reference_raw, given) for given in (None, counts)]
        with_error = [
            None if errors is None else rank_correlation(mu[is_judged], errors[is_judged], given)
            for given in (None, counts[is_judged])
        ]
        return EstimatorRow(name, score, lr, cost, *with_ensemble, *with_error)

    rows = [row(estimate.estimator, estimate.score, estimate.cost, estimate.raw) for estimate in estimates]
    return [*rows, row("cardinality", "1 / N", 0.0, 1 / counts)]
