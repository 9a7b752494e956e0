"""cu.compare(): methods and remedies side by side, every one with the same seeds and learning rates."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from class_uncertainty.boundary import check_distinct, checked
from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Estimate, EstimateRequest, read_by
from class_uncertainty.methods import named
from class_uncertainty.posthoc.remedies import Remedy, find_remedy
from class_uncertainty.runs.context import Watch, open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate
from class_uncertainty.runs.rows import MethodRow, method_rows
from class_uncertainty.runs.store import Store
from class_uncertainty.training import Lane, Recipe, Result
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.workflows.evaluate_remedies import evaluate_remedies
from class_uncertainty.workflows.measure import describe_dataset

MAX_SEEDS = 1000


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `cu.compare` returns.

    Attributes
    ----------
    dataset : Dataset
        What was trained on.
    results : tuple of Result
        One for each method, learning rate and seed.
    estimate : Estimate or None
        The class uncertainties that methods used.
    rows : tuple of MethodRow
        Means and standard deviations over the seeds, gains, significance and costs.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> comparison = cu.compare(cu.load("digits-lt:20"), ["naive"], seeds=1, recipe=recipe)
    >>> comparison.rows[0].method, comparison.estimate
    ('naive', None)
    """

    dataset: Dataset
    results: tuple[Result, ...]
    estimate: Estimate | None

    @cached_property
    def rows(self) -> tuple[MethodRow, ...]:
        return tuple(method_rows(self.results, self.estimate.cost if self.estimate else 0.0))

    @property
    def folds(self) -> int:
        """Folds that the errors come from; 0 where there is a test split."""
        return max((result.folds for result in self.results), default=0)

    @property
    def strengths(self) -> dict[float, float]:
        """tau by learning rate, where rows are adjusted for the counts."""
        remedies = (result for result in self.results if "networks" in result.plan and "tau" in result.plan)
        return {result.lr: result.plan["tau"] for result in remedies}

    def document(self) -> dict[str, Any]:
        """What `cu compare --json` prints."""
        return {
            **describe_dataset(self.dataset, self.folds),
            "estimator": self.estimate.estimator if self.estimate else None,
            "score": self.estimate.score if self.estimate else None,
            "methods": [asdict(row) for row in self.rows],
        }


@checked
def compare(
    dataset: Dataset | Data,
    methods: Sequence[str],
    seeds: int | Sequence[int] = 3,
    lrs: Sequence[float] | None = None,
    *,
    estimator: str = "ensemble",
    members: int = 5,
    score: str | None = None,
    equal_cost: bool = False,
    recipe: Recipe | None = None,
    store: Store | str | Path | None = None,
    device: str | None = None,
    budget: float | Deadline | None = None,
    progress: Watch | None = None,
    profile: str | Path | None = None,
) -> Comparison:
    """Train methods side by side, every one with the same seeds and learning rates.

    Parameters
    ----------
    dataset : Dataset or Data
        What to train on. Without a test split, errors come from five folds.
    methods : list of str
        Names of METHODS or REMEDIES, or longer ones: "cb@product+mixup", "cb*5".
    seeds : int or list of int
        How many, or which.
    lrs : list of float, optional
        Learning rates, the same for every method; by default the recipe's.
    estimator, members, score
        How uncertainty is measured, as for `cu.measure`. With "out-of-fold" the tau of remedies is chosen on examples
        that the members never saw; otherwise it is 1.
    equal_cost : bool
        Whether to add ensembles of as many networks of each cheap row as the dearest row costs.
    recipe, store, device, budget, progress, profile
        As for `cu.measure`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> comparison = cu.compare(cu.load("digits-lt:20"), ["naive", "cb-rs"], seeds=2, recipe=recipe)
    >>> [(row.method, row.runs) for row in comparison.rows]
    [('naive', 2), ('cb-rs', 2)]
    """
    numbers = check_seeds(seeds)
    check_distinct("method", methods)
    rates: list[float | None] = [None] if lrs is None else list(lrs)
    check_distinct("learning rate", rates)
    remedies = {name: remedy for name in methods if (remedy := find_remedy(name))}
    lanes = [Lane(name, seed, lr) for name in methods if name not in remedies for lr in rates for seed in numbers]
    request = EstimateRequest(estimator, members)
    request.check_score(score)
    trained = [lane.value for lane in lanes] + [named(remedy.method) for remedy in remedies.values()]
    with open_context(dataset, recipe, store, device, budget, progress, profile) as context:
        uses_uncertainty = any(method.uses_uncertainty for method in trained)
        estimate = read_by(load_or_estimate(context, [request])[0], score) if uses_uncertainty else None
        stats = estimate.stats if estimate else None
        results = load_or_evaluate(context, lanes, stats) if lanes else []
        unseen: dict[float | None, Estimate] = {}
        for lr in rates if remedies else ():
            if estimator == "out-of-fold" and any(remedy.adjusts for remedy in remedies.values()):
                unseen[lr] = read_by(load_or_estimate(context, [replace(request, lr=lr)])[0], None)
            results += evaluate_remedies(context, remedies, numbers, members, lr, unseen.get(lr), stats)
        results.sort(key=lambda result: methods.index(result.method))
        ensembles = _equal_cost(results, estimate) if equal_cost else {}
        for lr in rates if ensembles else ():
            results += evaluate_remedies(context, ensembles, numbers, members, lr, unseen.get(lr), stats)
        return Comparison(context.dataset, tuple(results), estimate)


def check_seeds(seeds: int | Sequence[int], alternative: str = ", or a list of seeds") -> list[int]:
    """Which seeds: given as a list, or as a number of them."""
    if not isinstance(seeds, int):
        check_distinct("seed", seeds)
        return list(seeds)
    if not 1 <= seeds <= MAX_SEEDS:
        raise InputError(f"seeds is {seeds}: it must be how many, from 1 to {MAX_SEEDS:,}{alternative}.")
    return list(range(seeds))


def _equal_cost(results: Sequence[Result], estimate: Estimate | None) -> dict[str, Remedy]:
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
