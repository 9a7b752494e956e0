"""FixNetworks: the networks of a fix's steps, trained on all examples or without each judged fold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats
from class_uncertainty.posthoc.adjustment import Adjustment, combined
from class_uncertainty.posthoc.fix_report import ADJUSTED, ENSEMBLE, NAIVE, STUDENT
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.posthoc.remedies import REMEDIES, Remedy
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import add_fold_results
from class_uncertainty.training import DISTIL, Result
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_result import Fit, averaged
from class_uncertainty.training.folds import Fold, judged_folds
from class_uncertainty.training.networks.classifier import Deployed
from class_uncertainty.workflows.fix_choice import Choice, Choices
from class_uncertainty.workflows.fix_plan import ENSEMBLE_SIZE, FixPlan
from class_uncertainty.workflows.ladder import (
    Network,
    Networks,
    Row,
    Tuning,
    climb,
    context_for,
    fit_networks,
    judged_by_folds,
    leaving_out,
    teach,
)
from class_uncertainty.workflows.search import Search

AS_IT_IS = Remedy("one network", adjusts=False, together=1, mean="")
ADJUSTED_ALONE = Remedy("one network, its probabilities adjusted", adjusts=True, together=1, mean="")
AVERAGED = REMEDIES["ensemble-adjusted"]


@dataclass(frozen=True, eq=False)
class FixNetworks:
    """The trained networks, the rows of the ladder that they make, and what is kept of them."""

    choice: Choice  # what is kept
    baseline: Candidate  # how naive networks train
    rows: dict[str, Row]  # that are judged, by their steps
    networks: Networks
    students: dict[Fold, Fit]
    kept_seeds: Sequence[int]  # of the networks of the choice that were trained on all examples

    @property
    def naive(self) -> Fit:
        """The naive networks of the first judged fold, or of all examples."""
        row = self.rows[NAIVE]
        return leaving_out(self.networks[self.baseline], next(iter(row.tunings)), row.members)

    def of_all_examples(self, candidate: Candidate) -> Fit:
        """The networks of a candidate that is kept."""
        return leaving_out(self.networks[candidate], None, self.kept_seeds)

    def predictions(self, dataset: Dataset) -> dict[str, NDArray[np.float64]]:
        """What each step predicts for the test split, or fold after fold: (seeds or 1, n, C) by its name."""
        p = climb(dataset, list(self.rows.values()), self.networks, self.students)
        return {name: np.stack([p[name, seed] for seed in row.members]) for name, row in self.rows.items()}

    def module(self, goal: Goal) -> Deployed:
        """What is deployed: preprocessing, networks and adjustment as one module."""
        choice = self.choice
        if choice.parts:
            models = [(leaving_out(self.networks[part.candidate], None, [0]), part.adjustment) for part in choice.parts]
            return averaged([fitted.adjusted_module(0, adjustment) for fitted, adjustment in models], goal.costs)
        if choice.step == ENSEMBLE:
            return self._deployed.ensemble_module(choice.kept_adjustment, goal.costs)
        return self._deployed.adjusted_module(0, choice.kept_adjustment, goal.costs)

    def probabilities(self, data: Data) -> NDArray[np.float64]:
        """(N, C) by what is deployed, where that is of one kind."""
        p = self._deployed.probabilities(data).astype(np.float64)
        return self.choice.kept_adjustment(combined(p) if len(p) > 1 else p[0])

    @property
    def _deployed(self) -> Fit:
        """The networks that run for each prediction, where they are of one kind."""
        if self.choice.step == STUDENT:
            return leaving_out(self.students[None], None, [0])
        size = ENSEMBLE_SIZE if self.choice.step == ENSEMBLE else 1
        return leaving_out(self.networks[self.choice.candidate], None, range(size))


def train_networks(
    context: Context, search: Search, choices: Choices, plan: FixPlan, stats: Stats | None
) -> FixNetworks:
    """Train what is judged, for each seed, and what is kept."""
    choice, baseline = choices[None], search.baseline(plan.goal)
    folds, seeds = judged_folds(context.dataset), range(plan.seeds)
    quiet = judged_by_folds(context)  # the store lists the naive networks alone as results
    naive = [(baseline, seed, fold) for fold in folds for seed in seeds]
    naive_fit = fit_networks(context, naive, stats, "naive networks")[baseline]
    if context.dataset.test is None:
        lanes = [baseline.lane(context.recipe, seed) for seed in seeds]
        add_fold_results(context_for(context, baseline), lanes, naive_fit)

    deployed = ENSEMBLE_SIZE if choice.step == ENSEMBLE and not choice.parts else 1
    judged = max(deployed, plan.seeds)
    wanted: list[Network] = []
    for fold, chosen in choices.items():
        number = judged if fold in folds else deployed  # what is kept by folds needs no repeats
        wanted += [(candidate, seed, fold) for candidate in chosen.candidates for seed in range(number)]
    networks = fit_networks(quiet, [*naive, *wanted], stats, "the best candidate")
    _check_converged(leaving_out(networks[choice.candidate], None, range(deployed)).results)

    students: dict[Fold, Fit] = {}
    if choice.step == STUDENT:
        for fold, chosen in choices.items():
            teachers = _teachers(quiet, search, chosen, plan, fold, stats)
            students[fold] = teach(quiet, [chosen], seeds if fold in folds else [0], fold, teachers)
        _check_converged(leaving_out(students[None], None, [0]).results)

    naive_seeds = _sound_seeds([naive_fit])
    best_seeds = _sound_seeds([leaving_out(networks[choices[fold].candidate], fold, range(judged)) for fold in folds])
    rows = _naive_rows(context.dataset, search, plan.goal, naive_seeds)
    rows += _rows_of_choice(choices, best_seeds, plan.seeds)
    if students:
        student_seeds = _sound_seeds([students[fold] for fold in folds])
        rows.append(Row(STUDENT, REMEDIES[DISTIL], choices, _single(student_seeds)))
    return FixNetworks(
        choice=choice,
        baseline=baseline,
        rows={row.name: row for row in rows},  # of two of one name the last, which is of the choice
        networks=networks,
        students=students,
        kept_seeds=best_seeds if None in folds else range(deployed),
    )


def _teachers(context: Context, search: Search, choice: Choice, plan: FixPlan, fold: Fold, stats: Stats | None) -> Fit:
    """The out-of-fold networks that measured the candidate; where a fold is judged, networks that all left it out."""
    if fold is None:
        return search.evidence[choice.candidate.name].networks
    teachers = [(choice.candidate, seed, fold) for seed in range(plan.search.members)]
    return fit_networks(context, teachers, stats, "teachers")[choice.candidate]


def _naive_rows(dataset: Dataset, search: Search, goal: Goal, seeds: Sequence[int]) -> list[Row]:
    """Naive networks as they are and, where unseen examples say how, adjusted."""
    folds, baseline = judged_folds(dataset), search.baseline(goal)
    as_it_is = Tuning(baseline, Adjustment.of(dataset.train.counts, tau=0.0))
    rows = [Row(NAIVE, AS_IT_IS, dict.fromkeys(folds, as_it_is), _single(seeds))]
    if evidence := search.evidence.get(baseline.name):
        adjusted = {fold: Tuning(baseline, evidence.adjustment_without(fold, dataset.train, goal)) for fold in folds}
        rows.append(Row(ADJUSTED, ADJUSTED_ALONE, adjusted, _single(seeds)))
    return rows


def _rows_of_choice(choices: Choices, seeds: Sequence[int], judged: int) -> list[Row]:
    """One network of what was chosen for each fold, as many times as are judged, and several together."""
    rows, choice = [], choices[None]
    if choice.step != NAIVE:
        single = {fold: replace(one, parts=()) for fold, one in choices.items()}
        rows.append(Row(choice.single, ADJUSTED_ALONE, single, _single(seeds[:judged])))
    if choice.parts:
        rows.append(Row(ENSEMBLE, AVERAGED, choices, _single(seeds)))
    elif len(seeds) > 1:
        rows.append(Row(ENSEMBLE, AVERAGED, choices, {0: seeds[:ENSEMBLE_SIZE]}))
    return rows


def _single(seeds: Iterable[int]) -> dict[int, list[int]]:
    """Each network by itself."""
    return {seed: [seed] for seed in seeds}


def _sound_seeds(fits: Sequence[Fit]) -> list[int]:
    """The seeds whose networks diverged in no fold; refuses where none is left."""
    results = [result for fitted in fits for result in fitted.results]
    seeds = dict.fromkeys(result.seed for result in results)
    lost = {result.seed for result in results if result.diverged is not None}
    sound = [seed for seed in seeds if seed not in lost]
    if not sound:
        _check_converged(results)
    return sound


def _check_converged(results: Iterable[Result]) -> None:
    for result in results:
        if result.diverged is not None:
            network = f"{result.method} of seed {result.seed} {result.divergence}"
            raise InputError(f"{network} at the learning rate {result.lr:g}: lower it.")
