"""Evaluation without a test split: FOLDS networks of one lane, each on the fold that it never saw."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.folding import FOLDS
from class_uncertainty.metrics import Outcomes, score
from class_uncertainty.training.lane import Lane, Result

Fold = tuple[int, int] | None  # (k, FOLDS): the fold that is left out; None where a test split is judged


def folded(lane: Lane) -> list[Lane]:
    """The lane once for each fold that it leaves out."""
    return [replace(lane, fold=(k, FOLDS)) for k in range(FOLDS)]


def fold_indices(data: Data, fold: tuple[int, int]) -> NDArray[np.int64]:
    """The examples that a lane with this fold never sees."""
    return np.flatnonzero(data.folds[fold[1]] == fold[0])


def judged_folds(dataset: Dataset) -> list[Fold]:
    """The folds that are judged, or [None] where a test split is."""
    return [None] if dataset.test else [(k, FOLDS) for k in range(FOLDS)]


def judged_examples(dataset: Dataset, fold: Fold) -> Data:
    return dataset.train.take(fold_indices(dataset.train, fold)) if fold else dataset.test or dataset.train


def judged_labels(dataset: Dataset) -> NDArray[np.int64]:
    """Of the test split, or of the training split fold after fold."""
    return (dataset.test or dataset.train).labels[judged_places(dataset)]


def judged_groups(dataset: Dataset) -> NDArray[np.int64] | None:
    """The groups of the same examples, numbered; None where none are given."""
    codes = (dataset.test or dataset.train).group_codes
    return None if codes is None else codes[judged_places(dataset)]


def judged_places(dataset: Dataset) -> NDArray[np.int64]:
    """Where the same examples stand in the test split or, without one, in the training split."""
    if dataset.test:
        return np.arange(len(dataset.test))
    return np.concatenate([fold_indices(dataset.train, (k, FOLDS)) for k in range(FOLDS)])


def pooled(train: Data, results: Sequence[Result], unseen: Sequence[Outcomes]) -> Result:
    """One result for the FOLDS networks of a lane, from their outcomes on what they never saw."""
    places = np.concatenate([fold_indices(train, result.fold) for result in results if result.fold])
    outcomes = Outcomes.joined(unseen).take(np.argsort(places))
    diverged = min((result.diverged for result in results if result.diverged is not None), default=None)
    scores = score(outcomes, train.counts) if diverged is None else None
    loss, seconds = float(np.mean([result.loss for result in results])), sum(result.seconds for result in results)
    pooled = replace(results[0], scores=scores, diverged=diverged, loss=loss, seconds=seconds)
    return replace(pooled, fold=None, folds=len(results))
