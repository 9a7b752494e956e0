"""Judging without a test split: FOLDS networks of one lane, each of which leaves a fold out, judge the examples that they never saw."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, stratified
from class_uncertainty.metrics import evaluate
from class_uncertainty.training.recipe import Lane, Result

FOLDS = 5


def folded(lane: Lane) -> list[Lane]:
    """The lane once for each fold that it leaves out."""
    return [replace(lane, fold=(k, FOLDS)) for k in range(FOLDS)]


def held_out(data: Data, fold: tuple[int, int]) -> NDArray[np.int64]:
    """The examples that a lane with this fold never sees."""
    return np.flatnonzero(stratified(data.labels, fold[1]) == fold[0])


def joined(train: Data, folds: Sequence[tuple[int, int] | None], unseen: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """(N, C) of what each fold's network said of the examples that it never saw, (n, C) each."""
    probabilities = np.empty((len(train), len(train.classes)), dtype=np.float32)
    for fold, p in zip(folds, unseen, strict=True):
        assert fold is not None
        probabilities[held_out(train, fold)] = p
    return probabilities


def pooled(train: Data, results: Sequence[Result], unseen: Sequence[NDArray[np.float32]]) -> Result:
    """One result of a lane's FOLDS results and of the probabilities (n, C) that each network gave to what it never saw."""
    probabilities = joined(train, [result.fold for result in results], unseen)
    diverged = min((result.diverged for result in results if result.diverged is not None), default=None)
    return replace(
        results[0],
        fold=None,
        folds=len(results),
        scores=evaluate(probabilities, train.labels, train.counts) if diverged is None else None,
        diverged=diverged,
        loss=float(np.mean([result.loss for result in results])),
        seconds=sum(result.seconds for result in results),
    )
