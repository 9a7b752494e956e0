"""Choose the learning rate of each method on examples that judge nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.dataset import shared_groups
from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_evaluate
from class_uncertainty.runs.rate_choice import CHOOSING_SEED, RateChoice
from class_uncertainty.training import Lane

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


def check_judges(dataset: Dataset | Data, choose_on: Dataset | None) -> None:
    """Refuse learning rates that would be chosen by examples that judge the rows."""
    if isinstance(dataset, Data) or dataset.test is None:
        reason = "examples that choose learning rates must not judge them"
        raise InputError(f"there is no test split, and {reason}: add one, as '?test=0.2' does.")
    if choose_on is None:
        return
    given, test, chooses = f"choose_on is {choose_on.name!r}", dataset.test, choose_on.test
    if chooses is None:
        raise InputError(f"{given}, which has no test split to choose on: add one, as '?test=FILE' does.")
    for field, what in (("classes", "classes"), ("shape", "shapes"), ("columns", "columns")):
        if getattr(chooses, field) != getattr(test, field):
            raise InputError(f"{given}, which has other {what} than the data of the rows: they must agree.")
    most = SHARED_IMAGES if test.is_images else SHARED_ROWS
    seen = np.isin(test.digests, np.concatenate([choose_on.train.digests, chooses.digests]))
    if seen.mean() > most or np.isin(chooses.digests, test.digests).mean() > most:
        others = "name data with other examples, as '?judge=validation', '?test=FILE' or '?validation=N' give them"
        raise InputError(
            f"{given}, which has {seen.sum():,} of the {len(test):,} examples that judge the rows: {others}."
        )
    if len(shared_groups(test, chooses)):
        raise InputError(f"{given}: some of its groups judge the rows, too.")
    if choose_on.name == dataset.name:
        raise InputError(
            f"{given}, which is the name of the data of the rows, too: results are stored by name, so give another."
        )
