"""Choose the learning rate of each method on examples that judge nothing else."""

from collections.abc import Sequence
from dataclasses import replace

from class_uncertainty.data import Dataset
from class_uncertainty.measures import Stats
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_evaluate, results_left
from class_uncertainty.runs.rate_choice import CHOOSING_SEED, RateChoice
from class_uncertainty.training import Lane
from class_uncertainty.workflows.work_ahead import CHOOSING


def choose_rates(
    context: Context, methods: Sequence[str], rates: Sequence[float], stats: Stats | None, seed: int = CHOOSING_SEED
) -> dict[str, RateChoice]:
    """The best learning rate of each method, by its class-mean error on what judges in this context."""
    lanes = [Lane(method, seed, lr) for method in methods for lr in rates]
    context.begin(CHOOSING, [results_left(context, lanes, stats)])
    results = iter(load_or_evaluate(context, lanes, stats))
    return {method: RateChoice.of(method, {lr: next(results).error for lr in rates}) for method in methods}


def judged_by_folds(context: Context) -> Context:
    """The same context, judged by folds of the training split in place of the test split.

    The store does not list its data set, so that no report shows the choosing networks as results.
    """
    return replace(context, dataset=Dataset(context.dataset.name, context.train))
