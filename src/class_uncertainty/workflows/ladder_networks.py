"""The networks of the ladder's steps, trained on all examples, or without each judged fold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats
from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.averaging import combined
from class_uncertainty.posthoc.goal import Goal
from class_uncertainty.posthoc.ladder import ADJUSTED, ENSEMBLE, NAIVE, STUDENT
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import add_fold_results
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_result import Fit, averaged
from class_uncertainty.training.folds import Fold, fold_indices, judged_examples, judged_folds
from class_uncertainty.training.networks.classifier import Deployed
from class_uncertainty.workflows.choose_rates import judged_by_folds
from class_uncertainty.workflows.choose_step import Choice, Choices
from class_uncertainty.workflows.search import Search, at, fit_candidates
from class_uncertainty.workflows.search_plan import TOGETHER, SearchPlan
from class_uncertainty.workflows.trial import teach

Fits = dict[Fold, Fit]
Trained = tuple[Candidate, range, list[Fold]]  # by which seeds, without which folds
Predictions = NDArray[np.float64]  # (S, n, C)


@dataclass(frozen=True, eq=False)
class Networks:
    """The trained networks of each step, by the fold that they left out."""

    naive: Fits
    best: Fits
    students: Fits
    baseline: Candidate
    parts: dict[Fold, list[Fit]]  # of an ensemble across kinds

    def module(self, choice: Choice, goal: Goal) -> Deployed:
        """What is deployed: preprocessing, networks and adjustment as one module."""
        if choice.parts:
            models = zip(self.parts[None], choice.parts, strict=True)
            members = [fitted.adjusted_module(0, part.adjustment) for fitted, part in models]
            return averaged(members, goal.costs)
        if choice.step == STUDENT:
            return self.students[None].adjusted_module(0, cooled(choice), goal.costs)
        if choice.step == ENSEMBLE:
            return self.best[None].take(range(TOGETHER)).ensemble_module(choice.adjustment, goal.costs)
        return self.best[None].adjusted_module(0, choice.adjustment, goal.costs)

    def probabilities(self, choice: Choice, data: Data) -> NDArray[np.float64]:
        """(N, C) by what is deployed."""
        if choice.step == STUDENT:
            return cooled(choice)(self.students[None].take([0]).probabilities(data)[0].astype(np.float64))
        number = TOGETHER if choice.step == ENSEMBLE else 1
        p = self.best[None].take(range(number)).probabilities(data).astype(np.float64)
        return choice.adjustment(combined(p) if number > 1 else p[0])


def cooled(choice: Choice) -> Adjustment:
    """A student has learnt adjusted probabilities: what is left is its temperature."""
    return replace(choice.adjustment, bias=np.zeros_like(choice.adjustment.bias), temperature=choice.cooling)


def train_ladder(
    context: Context, search: Search, choices: Choices, plan: SearchPlan, seeds: int, stats: Stats | None, goal: Goal
) -> Networks:
    """Train what is judged, for `seeds` seeds, and what is kept."""
    folds, quiet, baseline = judged_folds(context.dataset), judged_by_folds(context), search.baseline(goal)
    step, mixed = choices[None].step, bool(choices[None].parts)
    number = TOGETHER if step == ENSEMBLE and not mixed else 1
    fits, students, after = dict[tuple[Candidate, Fold], Fit](), Fits(), list[Trained]()
    for judged, wanted in ((True, max(number, seeds)), (False, number)):  # what is kept by folds needs no repeats
        by_candidate: dict[Candidate, list[Fold]] = {}
        for fold in (fold for fold in choices if (fold in folds) is judged):
            for row in choices[fold].candidates:
                by_candidate.setdefault(row, []).append(fold)
        after += [(row, range(wanted), left_out) for row, left_out in by_candidate.items()]
    taught = {fold: range(seeds if fold in folds else 1) for fold in choices} if step == STUDENT else {}
    naive = fit_candidates(context, [baseline], range(seeds), folds, stats, what="naive networks")[baseline.name]
    if context.dataset.test is None:
        add_fold_results(at(context, baseline), [baseline.lane(context.recipe, seed) for seed in range(seeds)], naive)
    for row, numbers, left_out in after:
        networks = fit_candidates(quiet, [row], numbers, left_out, stats, what="the best candidate")
        fits |= {(row, fold): fitted for fold, fitted in _by_fold(networks).items()}
    best = {fold: fits[choice.candidate, fold] for fold, choice in choices.items()}
    parts = {fold: [fits[part.candidate, fold] for part in choice.parts] for fold, choice in choices.items()}
    for fold, numbers in taught.items():
        choice = choices[fold]
        assert choice.student is not None
        teachers = _teachers(quiet, search, choice, plan, fold, stats)
        students[fold] = teach(quiet, [choice.student], teachers, numbers, fold, choice.teaching)
    kept = [fitted.take([0]) for fitted in (best[None], students.get(None)) if fitted]
    _check_converged([*kept, *(best[None].take([i]) for i in range(number))])
    before = _by_fold({baseline.name: naive})
    return Networks(_sound(before, folds), _sound(best, folds), _sound(students, folds), baseline, parts)


def _teachers(
    context: Context, search: Search, choice: Choice, plan: SearchPlan, fold: Fold, stats: Stats | None
) -> Fit:
    """The out-of-fold networks that measured the candidate; where a fold is judged, networks that all left it out."""
    if fold is None:
        return search.evidence[choice.candidate.name].networks
    networks = fit_candidates(context, [choice.candidate], range(plan.members), [fold], stats, what="teachers")
    return networks[choice.candidate.name]


def _by_fold(networks: dict[str, Fit]) -> Fits:
    """Networks of one candidate, by the fold that they left out."""
    (fitted,) = networks.values()
    folds = dict.fromkeys(lane.fold for lane in fitted.lanes)
    return {fold: fitted.pick([lane for lane in fitted.lanes if lane.fold == fold]) for fold in folds}


def _sound(fits: Fits, folds: Sequence[Fold]) -> Fits:
    """Of the judged networks those whose seeds diverged in no fold; refuses where none is left."""
    judged = {fold: fitted for fold, fitted in fits.items() if fold in folds}
    results = [result for fitted in judged.values() for result in fitted.results]
    lost = {result.seed for result in results if result.diverged is not None}
    if lost and lost == {result.seed for result in results}:
        _check_converged(judged.values())
    sound = {}
    for fold, fitted in judged.items():
        sound[fold] = fitted.take([i for i, lane in enumerate(fitted.lanes) if lane.seed not in lost])
    return fits | sound


def _check_converged(fits: Iterable[Fit]) -> None:
    for result in (result for fitted in fits for result in fitted.results):
        if result.diverged is not None:
            network = f"{result.method} of seed {result.seed} {result.divergence}"
            raise InputError(f"{network} at the learning rate {result.lr:g}: lower it.")


def predictions(
    context: Context, search: Search, choices: Choices, networks: Networks, goal: Goal, seeds: int
) -> dict[str, Predictions]:
    """What each step predicts for the test split, or fold after fold: (seeds or 1, n, C) by its name."""
    parts: dict[str, list[Predictions]] = {}
    tuned = search.evidence.get(networks.baseline.name)
    for fold in judged_folds(context.dataset):
        judged, choice = judged_examples(context.dataset, fold), choices[fold]
        naive = networks.naive[fold].probabilities(judged).astype(np.float64)
        best = networks.best[fold].probabilities(judged).astype(np.float64)
        of_fold = {NAIVE: naive}
        if tuned:
            rest = tuned.outside(fold_indices(context.train, fold)) if fold else None
            of_fold[ADJUSTED] = (rest or tuned).adjustment(context.train.counts, goal)(naive)
        if choice.step != NAIVE:
            of_fold[choices[None].single] = choice.adjustment(best[:seeds])
        if choice.parts:
            models = zip(networks.parts[fold], choice.parts, strict=True)
            p_models = [part.adjustment(fitted.probabilities(judged).astype(np.float64)) for fitted, part in models]
            of_fold[ENSEMBLE] = np.stack([combined(p_seed) for p_seed in zip(*p_models, strict=True)])
        elif len(best) > 1:
            of_fold[ENSEMBLE] = choice.adjustment(combined(best[:TOGETHER]))[None]
        if fold in networks.students:
            of_fold[STUDENT] = cooled(choice)(networks.students[fold].probabilities(judged).astype(np.float64))
        for name, p in of_fold.items():
            parts.setdefault(name, []).append(p)
    return {name: np.concatenate(of_step, axis=1) for name, of_step in parts.items()}
