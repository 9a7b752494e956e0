"""Ward: the networks of one data set that can be made more of, and what is chosen with them, out-of-fold."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.estimation import Asked, Estimate
from class_uncertainty.measures import Stats
from class_uncertainty.remedies.adjust import Adjustment
from class_uncertainty.remedies.calibration import clearly_best, fit_adjustment
from class_uncertainty.remedies.ensemble import combined
from class_uncertainty.remedies.table import REMEDIES, Remedy
from class_uncertainty.results.runs import trained
from class_uncertainty.results.store import Store
from class_uncertainty.training import DISTIL, Lane, Recipe, Result, Teaching
from class_uncertainty.training.fitted import Fit
from class_uncertainty.training.folds import FOLDS, held_out

Said = NDArray[np.float64]  # (seeds, n, C) of the examples that results are judged on
TEMPERATURES = (2.0, 4.0)  # to teach at: the first, unless another is clearly better
ENOUGH = 2000  # examples to try them on


class Lost(Exception):
    """A network that is needed has diverged."""

    def __init__(self, result: Result) -> None:
        super().__init__(f"{result.method} of seed {result.seed} diverged in epoch {result.diverged} at the learning rate {result.lr:g}")
        self.result = result


Fold = tuple[int, int] | None  # the one that is judged, which its networks and their teachers leave out; None: the test split is


@dataclass(frozen=True)
class Lesson:
    """How students are taught, and the temperature that what they then say is divided by."""

    teaching: Teaching
    cooling: float


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
    used: list[Result] = field(default_factory=list, init=False)  # of the networks that were asked
    fitted: dict[Fold, Adjustment] = field(default_factory=dict, init=False)
    lessons: dict[Fold, Lesson] = field(default_factory=dict, init=False)

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
        """tau and the temperature, chosen out-of-fold and not on the judged fold; tau 1 where every member has seen every example.

        By folds the networks that are asked of the other folds have learnt the judged one too: what is chosen is chosen without it.
        """
        if fold not in self.fitted:
            self.fitted[fold] = self._adjustment(fold)
        return self.fitted[fold]

    def _adjustment(self, fold: Fold) -> Adjustment:
        train = self.dataset.train
        if not self.chosen:
            return Adjustment.of(train.counts)
        assert self.estimate is not None
        kept = self._kept(np.arange(len(train)), fold)
        return fit_adjustment(self.estimate.probabilities[0][kept], self.estimate.labels[kept], train.counts)

    def _kept(self, places: NDArray[np.int64], fold: Fold) -> NDArray[np.bool_]:
        """Which of these training examples may be chosen on where a fold is judged."""
        return ~np.isin(places, held_out(self.dataset.train, fold)) if fold else np.full(len(places), True)

    def naive(self, seeds: Sequence[int]) -> list[Lane]:
        return [Lane("naive", seed, self.lr) for seed in seeds]

    @property
    def rate(self) -> float:
        """Of its naive networks."""
        return self.lr or self.recipe.lr

    @property
    def taught_at(self) -> float:
        """Students like the recipe's rate even where their teachers were better at a higher one: docs/remedy.md."""
        return min(self.recipe.lr, self.rate)

    def lesson(self, fold: Fold = None) -> Lesson:
        """T and the cooling, chosen on students of out-of-fold members, as tau is; the default where there are none, or all diverged.

        The first call trains them.
        """
        if fold not in self.lessons:
            self.lessons[fold] = self._lesson(fold)
        return self.lessons[fold]

    def _lesson(self, fold: Fold) -> Lesson:
        train, tau = self.dataset.train, self.adjustment(fold).tau
        places, said = self.tried if self.chosen else (np.empty(0, dtype=np.int64), {})
        if not said:
            return Lesson(Teaching(tau=tau, temperature=TEMPERATURES[0]), 1.0)
        kept = self._kept(places, fold)
        labels = train.labels[places[kept]]
        best = list(said)[clearly_best([p[kept] for p in said.values()], labels)]
        cooling = fit_adjustment(said[best][kept], labels, train.counts, tau=0.0).temperature
        return Lesson(Teaching(tau=tau, temperature=best), cooling)

    @cached_property
    def tried(self) -> tuple[NDArray[np.int64], dict[float, NDArray[np.float64]]]:
        """(Places (n,) of training examples, what students say (n, C) of them by T), their one teacher having left them out as well.

        A T at which a student diverged is not there.
        """
        train, places = self.dataset.train, []
        parts: dict[float, list[NDArray[np.float64]]] = {temperature: [] for temperature in TEMPERATURES}
        teachings = [Teaching(tau=self.adjustment().tau, temperature=temperature) for temperature in parts]
        for member in self.trials:
            assert member.fold is not None
            places.append(held_out(train, member.fold))
            students = [Lane("naive", member.seed, self.taught_at, member.fold, teaching=teaching) for teaching in teachings]
            fitted = self.train(students, self.train([member]), what="students on trial")
            said = fitted.probabilities(train.take(places[-1])).astype(np.float64)
            for some, result, p in zip(parts.values(), fitted.results, said, strict=True):
                some += [p] if result.diverged is None else []
        return np.concatenate(places), {each: np.concatenate(some) for each, some in parts.items() if len(some) == len(places)}

    @property
    def trials(self) -> list[Lane]:
        """The out-of-fold members that teach on trial: as many as have left ENOUGH examples out; where every fold is judged, all."""
        members = Asked("out-of-fold", self.members, lr=self.lr).lanes[: len(self.dataset.train)]  # later ones would have left none out
        return members[: -(-ENOUGH * len(members) // len(self.dataset.train))] if self.dataset.test else members

    @property
    def trial_cost(self) -> float:
        """In naive trainings."""
        student = REMEDIES[DISTIL].trainings(1) - 1  # its teacher has measured already
        return len(TEMPERATURES) * len(self.trials) * student if self.chosen else 0.0

    def students(self, seeds: Sequence[int], fold: Fold = None) -> list[Lane]:
        return [Lane("naive", seed, self.taught_at, teaching=self.lesson(fold).teaching) for seed in seeds]

    def lanes(self, row: Remedy, seeds: Sequence[int], fold: Fold) -> tuple[list[Lane], list[Lane]]:
        """(What is asked about the judged examples, its teachers).

        Each seed has members of its own, those of seed 0 being a deep ensemble's; students share theirs.
        """
        if row.distils:
            return _without(self.students(seeds, fold), fold), _without(self.naive(range(self.members)), fold)
        number = row.together or self.members
        return _without([Lane(row.method, seed * number + i, self.lr) for seed in seeds for i in range(number)], fold), []

    def train(self, lanes: Sequence[Lane], teachers: Fit | None = None, **options: Any) -> Fit:
        return trained(self.store, self.dataset, lanes, self.recipe, self.stats, teachers, **self.options(), **options)

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

    def said(self, row: Remedy, seeds: Sequence[int]) -> Said:
        """One distribution over the classes a seed, of every judged example; none of the networks has seen it."""
        parts = []
        for fold in self.folds:
            lanes, teachers = self.lanes(row, seeds, fold)
            p = self.fit(lanes, teachers).probabilities(self.judged(fold)).astype(np.float64)
            adjustment = self.adjustment(fold)
            if row.distils:  # adjusted already
                parts.append(replace(adjustment, bias=np.zeros(p.shape[-1]), temperature=self.lesson(fold).cooling)(p))
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
