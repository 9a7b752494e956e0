"""Choose the learning rate of each method on examples that judge nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_evaluate, results_left
from class_uncertainty.runs.rate_choice import CHOOSING_SEED, RateChoice
from class_uncertainty.training import Lane
from class_uncertainty.workflows.work_ahead import CHOOSING

SHARED = 0.01  # of the examples that choose, which may judge too: CIFAR-100 has ten images in both splits


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


def judged_on(context: Context, dataset: Dataset) -> Context:
    """The same context on another data set, whose test split judges; the store lists it before the one of the rows."""
    context.store.add_data(dataset)
    context.store.add_data(context.dataset)
    return replace(context, dataset=dataset)


def check_judges(dataset: Dataset | Data, choose_on: Dataset | None) -> None:
    """Refuse learning rates that would be chosen by examples that judge the rows."""
    test = None if isinstance(dataset, Data) else dataset.test
    if test is None:
        reason = "folds would choose learning rates by the examples that judge them"
        raise InputError(f"there is no test split, and {reason}: add one, as '?test=0.2' does.")
    if choose_on is None:
        return
    name, chooses = choose_on.name, choose_on.test
    if chooses is None:
        raise InputError(f"choose_on is {name!r}, which has no test split to choose on: add one, as '?test=FILE' does.")
    if (chooses.classes, chooses.shape) != (test.classes, test.shape):
        raise InputError(f"choose_on is {name!r}: its classes or the shape of its examples are not those of the rows.")
    if (shared := int(np.isin(chooses.digests, test.digests).sum())) > SHARED * len(chooses):
        raise InputError(
            f"choose_on is {name!r}: {shared:,} of the {len(chooses):,} examples that it judges on judge "
            "the rows, too. Give others, as '?validation=N' or '?judge=validation' does."
        )
