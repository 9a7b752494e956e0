"""Remedies: what networks that are trained already are good for, judged as methods are."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Dataset
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
from class_uncertainty.training import Lane, Recipe, Result, Teaching
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.folds import FOLDS, folded, held_out
from class_uncertainty.training.keys import key_of
from class_uncertainty.training.loop import default_device

Judged = NDArray[np.float64]  # (seeds, n, C) of the examples that results are judged on


class Lost(Exception):
    """A network that is needed has diverged."""

    def __init__(self, result: Result) -> None:
        super().__init__(f"{result.method} of seed {result.seed} diverged in epoch {result.diverged} at the learning rate {result.lr:g}")
        self.result = result


@dataclass(frozen=True, eq=False)
class Ward:
    """Networks of one data set at one learning rate, and what was measured with them."""

    store: Store
    dataset: Dataset
    recipe: Recipe
    members: int = 5
    lr: float | None = None  # None: the recipe's
    taught_at: float | None = None  # the students' learning rate; None: the same
    estimate: Estimate | None = None  # what adjustments are chosen on, if its members have left examples out
    stats: Stats | None = None  # for methods that use class uncertainties
    options: Callable[[], dict[str, Any]] = dict  # of trained(), as they are when it is called
    used: list[Result] = field(default_factory=list)  # of all networks that were asked

    @cached_property
    def chosen(self) -> bool:
        """Whether there are unseen examples to choose on."""
        return self.estimate is not None and self.estimate.estimator == "out-of-fold"

    @cached_property
    def adjustment(self) -> Adjustment:
        """tau and the temperature, chosen out-of-fold; tau 1 where every member has seen every example."""
        counts = self.dataset.train.counts
        if not self.chosen:
            return Adjustment.of(counts)
        assert self.estimate is not None
        return fit_adjustment(self.estimate.probabilities[0], self.estimate.labels, counts)

    @property
    def calibration(self) -> Adjustment:
        """The temperature alone, for what is adjusted already."""
        return replace(self.adjustment, bias=np.zeros(len(self.dataset.classes)))

    @property
    def teaching(self) -> Teaching:
        return Teaching(tau=self.adjustment.tau)

    def naive(self, seeds: Sequence[int]) -> list[Lane]:
        return [Lane("naive", seed, self.lr) for seed in seeds]

    def students(self, seeds: Sequence[int]) -> list[Lane]:
        return [Lane("naive", seed, self.taught_at or self.lr, teaching=self.teaching) for seed in seeds]

    def fit(self, lanes: Sequence[Lane], teachers: Sequence[Lane] = (), fold: tuple[int, int] | None = None) -> Fit:
        """The lanes' networks, that leave that fold out, as their teachers do."""
        known = trained(self.store, self.dataset, _without(teachers, fold), self.recipe, **self.options()) if teachers else None
        fitted = trained(self.store, self.dataset, _without(lanes, fold), self.recipe, self.stats, known, **self.options())
        self.used.extend((known.results if known else []) + fitted.results)
        if lost := next((result for result in self.used if result.diverged is not None), None):
            raise Lost(lost)
        return fitted

    def said(self, lanes: Sequence[Lane], teachers: Sequence[Lane] = ()) -> Judged:
        """What each lane's network says of the judged examples, none of which it has seen."""
        train, test = self.dataset.train, self.dataset.test
        if test is not None:
            return self.fit(lanes, teachers).probabilities(test).astype(np.float64)
        said = np.empty((len(lanes), len(train), len(train.classes)))
        self.fit([part for lane in teachers or lanes for part in folded(lane)])  # all at once
        for k in range(FOLDS):
            unseen = held_out(train, (k, FOLDS))
            said[:, unseen] = self.fit(lanes, teachers, (k, FOLDS)).probabilities(train.take(unseen))
        return said

    @property
    def labels(self) -> NDArray[np.int64]:
        """Of the judged examples."""
        return (self.dataset.test or self.dataset.train).labels


def _without(lanes: Sequence[Lane], fold: tuple[int, int] | None) -> list[Lane]:
    return [replace(lane, fold=fold) for lane in lanes] if fold else list(lanes)


def said(ward: Ward, row: Remedy, seeds: Sequence[int]) -> Judged:
    """One distribution a seed. Each seed has members of its own, those of seed 0 being a deep ensemble's; students share theirs."""
    if row.distils:
        return ward.calibration(ward.said(ward.students(seeds), ward.naive(range(ward.members))))
    number = row.together or ward.members
    p = ward.said([Lane(row.method, seed * number + i, ward.lr) for seed in seeds for i in range(number)])
    means = np.stack([combined(some, row.mean) for some in p.reshape(len(seeds), number, *p.shape[1:])])
    return ward.adjustment(means) if row.adjusts else means


def remedied(ward: Ward, name: str, seeds: Sequence[int]) -> list[Result]:
    """A remedy's results, one a seed, from the store or made now."""
    row = remedy_named(name)
    assert row is not None
    keys = [_key(ward, name, row, seed) for seed in seeds]
    todo = [seed for seed, key in zip(seeds, keys, strict=True) if ward.store.get(key) is None]
    if todo:
        ward.used.clear()
        try:
            judged: Sequence[NDArray[np.float64] | None] = list(said(ward, row, todo))
        except Lost:
            judged = [None] * len(todo)
        for seed, p in zip(todo, judged, strict=True):
            ward.store.add(_key(ward, name, row, seed), ward.dataset.fingerprint, _result(ward, name, row, seed, p, len(todo)))
    return [result for key in keys if (result := ward.store.get(key))]


def _plan(ward: Ward, row: Remedy) -> dict[str, Any]:
    plan: dict[str, Any] = {"networks": row.together or ward.members}
    if row.adjusts:
        plan |= {"tau": ward.adjustment.tau, "temperature": ward.adjustment.temperature}
    if row.distils:
        plan |= {"teaching": asdict(ward.teaching), "lr": ward.taught_at or ward.lr or ward.recipe.lr}
    return plan


def _key(ward: Ward, name: str, row: Remedy, seed: int) -> str:
    lane = network_key(ward.dataset, Lane("naive", seed, ward.lr), ward.recipe, None)  # stands for data, recipe, rate and device
    return key_of("remedy", name, lane, ward.dataset.fingerprint, _digest(ward, row), _plan(ward, row))


def _digest(ward: Ward, row: Remedy) -> str:
    """Of the class uncertainties that its method uses, "" if it uses none."""
    known = ward.stats.uncertainty if ward.stats and named(row.method).uses_uncertainty else None
    return "" if known is None else digest(known)


def _result(ward: Ward, name: str, row: Remedy, seed: int, p: NDArray[np.float64] | None, seeds: int) -> Result:
    """Of what it says of the judged examples; of nothing where a network diverged."""
    each = 1.0 if row.distils else float(np.mean([result.cost for result in ward.used]))
    choosing = ward.estimate.cost if ward.estimate and ward.chosen and row.adjusts else 0.0
    return Result(
        method=name,
        seed=seed,
        lr=ward.lr or ward.recipe.lr,
        fold=None,
        scores=None if p is None else evaluate(p, ward.labels, ward.dataset.train.counts),
        diverged=None if p is not None else min(result.diverged for result in ward.used if result.diverged is not None),
        loss=float(np.mean([result.loss for result in ward.used])),
        seconds=sum(result.seconds for result in ward.used) / seeds,
        plan=_plan(ward, row),
        recipe=ward.recipe,
        data=ward.dataset.train.fingerprint,
        uncertainty=_digest(ward, row),
        device=default_device(),
        folds=FOLDS if ward.dataset.test is None else 0,
        cost=each * row.trainings(ward.members) + choosing,
    )
