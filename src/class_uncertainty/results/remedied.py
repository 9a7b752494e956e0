"""Remedies: what networks that are trained already are good for, judged as methods are."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import Stats, digest
from class_uncertainty.methods import named
from class_uncertainty.metrics import evaluate
from class_uncertainty.remedies.adjust import Adjustment
from class_uncertainty.remedies.calibration import fit_adjustment
from class_uncertainty.remedies.ensemble import combined
from class_uncertainty.remedies.table import Remedy, remedy_named
from class_uncertainty.results.runs import network_key, trained
from class_uncertainty.results.store import Store
from class_uncertainty.training import DISTIL, Lane, Recipe, Result, Teaching
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.folds import FOLDS, held_out
from class_uncertainty.training.keys import key_of
from class_uncertainty.training.loop import default_device

Judged = NDArray[np.float64]  # (seeds, n, C) of the examples that results are judged on


class Lost(Exception):
    """A network that is needed has diverged."""

    def __init__(self, result: Result) -> None:
        super().__init__(f"{result.method} of seed {result.seed} diverged in epoch {result.diverged} at the learning rate {result.lr:g}")
        self.result = result


Fold = tuple[int, int] | None  # the one that is judged, which its networks and their teachers leave out; None: the test split is


@dataclass(frozen=True, eq=False)
class Ward:
    """Networks of one data set at one learning rate, and what was measured with them."""

    store: Store
    dataset: Dataset
    recipe: Recipe
    members: int = 5
    lr: float | None = None  # None: the recipe's
    estimate: Estimate | None = None  # what adjustments are chosen on, if its members have left examples out
    stats: Stats | None = None  # for methods that use class uncertainties
    options: Callable[[], dict[str, Any]] = dict  # of trained(), as they are when it is called
    used: list[Result] = field(default_factory=list)  # of the networks that were asked
    fitted: dict[Fold, Adjustment] = field(default_factory=dict)

    @property
    def chosen(self) -> bool:
        """Whether there are unseen examples to choose on."""
        return self.estimate is not None and self.estimate.estimator == "out-of-fold"

    @property
    def folds(self) -> list[Fold]:
        return [(k, FOLDS) for k in range(FOLDS)] if self.dataset.test is None else [None]

    def judged(self, fold: Fold) -> Data:
        return self.dataset.train.take(held_out(self.dataset.train, fold)) if fold else self.dataset.test or self.dataset.train

    def adjustment(self, fold: Fold = None) -> Adjustment:
        """tau and the temperature, chosen out-of-fold, never on the judged fold; tau 1 where every member has seen every example."""
        if fold not in self.fitted:
            self.fitted[fold] = self._adjustment(fold)
        return self.fitted[fold]

    def _adjustment(self, fold: Fold) -> Adjustment:
        train = self.dataset.train
        if not self.chosen:
            return Adjustment.of(train.counts)
        assert self.estimate is not None
        kept = np.setdiff1d(np.arange(len(train)), held_out(train, fold)) if fold else np.arange(len(train))
        return fit_adjustment(self.estimate.probabilities[0][kept], self.estimate.labels[kept], train.counts)

    def naive(self, seeds: Sequence[int]) -> list[Lane]:
        return [Lane("naive", seed, self.lr) for seed in seeds]

    @property
    def taught_at(self) -> float:
        """Students like the recipe's rate even where their teachers were better at a higher one: docs/remedy.md."""
        return min(self.recipe.lr, self.lr or self.recipe.lr)

    def students(self, seeds: Sequence[int], fold: Fold = None) -> list[Lane]:
        teaching = Teaching(tau=self.adjustment(fold).tau)
        return [Lane("naive", seed, self.taught_at, teaching=teaching) for seed in seeds]

    def lanes(self, row: Remedy, seeds: Sequence[int], fold: Fold) -> tuple[list[Lane], list[Lane]]:
        """(What is asked about the judged examples, its teachers).

        Each seed has members of its own, those of seed 0 being a deep ensemble's; students share theirs.
        """
        if row.distils:
            return _without(self.students(seeds, fold), fold), _without(self.naive(range(self.members)), fold)
        number = row.together or self.members
        return _without([Lane(row.method, seed * number + i, self.lr) for seed in seeds for i in range(number)], fold), []

    def train(self, lanes: Sequence[Lane], teachers: Fit | None = None) -> Fit:
        return trained(self.store, self.dataset, lanes, self.recipe, self.stats, teachers, **self.options())

    def fit(self, lanes: Sequence[Lane], teachers: Sequence[Lane] = ()) -> Fit:
        """The lanes' networks; Lost where one of them, or of their teachers, has diverged."""
        known = self._sound(self.train(teachers)) if teachers else None
        return self._sound(self.train(lanes, known))

    def _sound(self, fitted: Fit) -> Fit:
        self.used.extend(fitted.results)
        if lost := next((result for result in fitted.results if result.diverged is not None), None):
            raise Lost(lost)
        return fitted

    def prepare(self, row: Remedy, seeds: Sequence[int]) -> None:
        """Train what is missing of all folds and seeds together."""
        parts = [self.lanes(row, seeds, fold) for fold in self.folds]
        self.train([lane for lanes, teachers in parts for lane in teachers or lanes])
        for lanes, teachers in parts:
            if teachers:
                with suppress(Lost):
                    self.fit(lanes, teachers)

    def said(self, row: Remedy, seeds: Sequence[int]) -> Judged:
        """One distribution over the classes a seed, of every judged example; none of the networks has seen it."""
        parts = []
        for fold in self.folds:
            lanes, teachers = self.lanes(row, seeds, fold)
            p = self.fit(lanes, teachers).probabilities(self.judged(fold)).astype(np.float64)
            adjustment = self.adjustment(fold)
            if row.distils:  # adjusted already
                parts.append(replace(adjustment, bias=np.zeros(p.shape[-1]))(p))
                continue
            means = np.stack([combined(some, row.mean) for some in p.reshape(len(seeds), -1, *p.shape[1:])])
            parts.append(adjustment(means) if row.adjusts else means)
        return np.concatenate(parts, axis=1)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Of the judged examples, as said() has them: fold after fold."""
        return np.concatenate([self.judged(fold).labels for fold in self.folds])


def _without(lanes: Sequence[Lane], fold: Fold) -> list[Lane]:
    return [replace(lane, fold=fold) for lane in lanes]


def remedied(ward: Ward, name: str, seeds: Sequence[int]) -> list[Result]:
    """A remedy's results, one a seed, from the store or made now."""
    row = remedy_named(name)
    assert row is not None
    keys = {seed: _key(ward, name, row, seed) for seed in seeds}
    if todo := [seed for seed in seeds if ward.store.get(keys[seed]) is None]:
        ward.prepare(row, todo)
    for seed in todo:
        ward.used.clear()
        try:
            p: NDArray[np.float64] | None = ward.said(row, [seed])[0]
        except Lost:
            p = None
        ward.store.add(keys[seed], ward.dataset.fingerprint, _result(ward, name, row, seed, p))
    return [result for seed in seeds if (result := ward.store.get(keys[seed]))]


def _plan(ward: Ward, row: Remedy) -> dict[str, Any]:
    plan: dict[str, Any] = {"networks": row.together or ward.members}
    if row.adjusts:
        plan |= {"tau": ward.adjustment().tau, "temperature": ward.adjustment().temperature}
    if row.distils:
        plan |= {"taught at": ward.taught_at}
    return plan


def _key(ward: Ward, name: str, row: Remedy, seed: int) -> str:
    """Of all that a result depends on: the networks, who taught them, and how they are adjusted."""
    parts: list[Any] = []
    for fold in ward.folds:
        lanes, teachers = ward.lanes(row, [seed], fold)
        whose = [network_key(ward.dataset, lane, ward.recipe, ward.stats) for lane in teachers]
        parts += [network_key(ward.dataset, lane, ward.recipe, ward.stats, whose) for lane in lanes]
        if row.adjusts:
            parts += [ward.adjustment(fold).tau, ward.adjustment(fold).temperature]
    return key_of("remedy", name, ward.dataset.fingerprint, parts)


def _digest(ward: Ward, row: Remedy) -> str:
    """Of the class uncertainties that its method uses, "" if it uses none."""
    known = ward.stats.uncertainty if ward.stats and named(row.method).uses_uncertainty else None
    return "" if known is None else digest(known)


def _result(ward: Ward, name: str, row: Remedy, seed: int, p: NDArray[np.float64] | None) -> Result:
    """Of what it says of the judged examples; of nothing where a network diverged."""
    own = [result for result in ward.used if result.method == DISTIL] or ward.used
    each = 1.0 if row.distils else float(np.mean([result.cost for result in own]))
    choosing = ward.estimate.cost if ward.estimate and ward.chosen and row.adjusts else 0.0
    return Result(
        method=name,
        seed=seed,
        lr=ward.lr or ward.recipe.lr,
        fold=None,
        scores=None if p is None else evaluate(p, ward.labels, ward.dataset.train.counts),
        diverged=None if p is not None else min(result.diverged for result in ward.used if result.diverged is not None),
        loss=float(np.mean([result.loss for result in own])),
        seconds=sum(result.seconds for result in ward.used),
        plan=_plan(ward, row),
        recipe=ward.recipe,
        data=ward.dataset.train.fingerprint,
        uncertainty=_digest(ward, row),
        device=default_device(),
        folds=0 if ward.dataset.test else FOLDS,
        cost=each * row.trainings(ward.members) + choosing,
    )
