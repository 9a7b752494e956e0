"""cu.compare_estimators(): what each estimator costs, and what its class uncertainties know."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Unpack

import numpy as np

from class_uncertainty.checks import take
from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Diverged, Estimate
from class_uncertainty.estimation.estimators import compared_estimators
from class_uncertainty.measures import Vector
from class_uncertainty.metrics import rank_correlation
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate
from class_uncertainty.runs.settings import Settings, Shared, lists_shared
from class_uncertainty.text import amount_of
from class_uncertainty.training import Recipe
from class_uncertainty.training.network_size import NOTHING_TRAINED, NetworkSize


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
    recipe, store, device, budget, progress, profile, on
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
