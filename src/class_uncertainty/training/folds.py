"""Judging without a test split: FOLDS networks of one lane, each of which leaves a fold out, judge the examples that they never saw."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, stratified
from class_uncertainty.metrics import Outcomes, score
from class_uncertainty.training.recipe import Lane, Result

FOLDS = 5


def folded(lane: Lane) -> list[Lane]:
    """The lane once for each fold that it leaves out."""
    return [replace(lane, fold=(k, FOLDS)) for k in range(FOLDS)]


def held_out(data: Data, fold: tuple[int, int]) -> NDArray[np.int64]:
    """The examples that a lane with this fold never sees."""
    return np.flatnonzero(stratified(data.labels, fold[1]) == fold[0])


def pooled(train: Data, results: Sequence[Result], unseen: Sequence[Outcomes]) -> Result:
    """One result of a lane's FOLDS results and of each network's outcomes on what it never saw, in the order of the examples."""
    places = np.concatenate([held_out(train, result.fold) for result in results if result.fold])
    outcomes = Outcomes.joined(unseen).take(np.argsort(places))
    diverged = min((result.diverged for result in results if result.diverged is not None), default=None)
    return replace(
        results[0],
        fold=None,
        folds=len(results),
        scores=score(outcomes, train.counts) if diverged is None else None,
        diverged=diverged,
        loss=float(np.mean([result.loss for result in results])),
        seconds=sum(result.seconds for result in results),
    )
