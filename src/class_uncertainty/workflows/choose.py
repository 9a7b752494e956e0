"""RemedyChoice: what a remedy is made with, chosen on examples that the choosing networks never saw.

Where folds are judged, each fold has a RemedyChoice that was made without it; the fold None stands for the test split.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.estimation import Estimate, EstimateRequest
from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.calibration import clearly_best, fit_adjustment
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_fit
from class_uncertainty.training import Lane, Teaching
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import Fold, fold_indices
from class_uncertainty.training.stages import distillation_cost

TEMPERATURES = (2.0, 4.0)  # to teach at: the first, unless another is clearly better
TRIAL_EXAMPLES = 2000  # enough to choose between them


@dataclass(frozen=True, eq=False)
class RemedyChoice:
    """What was chosen on examples that the choosing networks never saw; nothing is chosen on test data.

    Attributes
    ----------
    lr : float
        Learning rate of the naive networks, which teach.
    adjustment : Adjustment
        How probabilities are corrected for the counts: tau and a temperature.
    teaching : Teaching
        What students learn: tau and the temperature T.
    student_lr : float
        Learning rate of the students: the recipe's, even where their teachers were better at a higher one.
    cooling : float
        What a student's logits are divided by.
    """

    lr: float
    adjustment: Adjustment
    teaching: Teaching
    student_lr: float
    cooling: float = 1.0

    @property
    def tau(self) -> float:
        return self.adjustment.tau

    @property
    def temperature(self) -> float:
        """T, at which students are taught."""
        return self.teaching.temperature


Choices = dict[Fold, RemedyChoice]


def choose_adjustments(context: Context, lr: float | None, estimate: Estimate | None, folds: Iterable[Fold]) -> Choices:
    """tau and the temperature for each of these folds, chosen on an out-of-fold estimate.

    What is chosen for a fold is chosen without it, though the networks asked about the other folds have learnt it.
    Without such an estimate tau is 1: every member has seen every example.
    """
    train, rate = context.train, lr or context.recipe.lr
    choices = {}
    for fold in folds:
        adjustment = Adjustment.of(train.counts)
        if estimate is not None:
            kept = _outside(context, np.arange(len(train)), fold)
            adjustment = fit_adjustment(estimate.probabilities[0][kept], estimate.labels[kept], train.counts)
        teaching = Teaching(tau=adjustment.tau, temperature=TEMPERATURES[0])
        choices[fold] = RemedyChoice(rate, adjustment, teaching, min(context.recipe.lr, rate))
    return choices


def choose_teaching(context: Context, choices: Choices, members: Fit) -> Choices:
    """The same choices with T and the cooling, chosen on students of out-of-fold members, as tau was.

    A student and its one teacher have left the same fold out. A T at which a student diverged is not considered.
    """
    train, lr = context.train, choices[None].student_lr
    teachings = [replace(choices[None].teaching, temperature=temperature) for temperature in TEMPERATURES]
    places, answers = [], dict[float, list[NDArray[np.float64]]]()
    for i, member in enumerate(members.lanes):
        assert member.fold is not None
        places.append(fold_indices(train, member.fold))
        lanes = [Lane("naive", member.seed, lr, member.fold, teaching=teaching) for teaching in teachings]
        students = load_or_fit(context, lanes, teachers=members.take([i]), what="students on trial")
        probabilities = students.probabilities(train.take(places[-1])).astype(np.float64)
        for temperature, result, p in zip(TEMPERATURES, students.results, probabilities, strict=True):
            answers.setdefault(temperature, []).extend([p] if result.diverged is None else [])
    complete = {T: np.concatenate(parts) for T, parts in answers.items() if len(parts) == len(places)}
    if not complete:
        return choices
    order = np.concatenate(places)
    return {fold: _best_teaching(context, choice, fold, order, complete) for fold, choice in choices.items()}


def _best_teaching(
    context: Context,
    choice: RemedyChoice,
    fold: Fold,
    order: NDArray[np.int64],
    answers: dict[float, NDArray[np.float64]],
) -> RemedyChoice:
    kept = _outside(context, order, fold)
    labels = context.train.labels[order[kept]]
    best = list(answers)[clearly_best([p[kept] for p in answers.values()], labels)]
    cooling = fit_adjustment(answers[best][kept], labels, context.train.counts, tau=0.0).temperature
    return replace(choice, teaching=replace(choice.teaching, temperature=best), cooling=cooling)


def _outside(context: Context, places: NDArray[np.int64], fold: Fold) -> NDArray[np.bool_]:
    """Which of these training examples may be chosen on where a fold is judged."""
    return ~np.isin(places, fold_indices(context.train, fold)) if fold else np.full(len(places), True)


def trial_members(context: Context, members: int, lr: float | None) -> list[Lane]:
    """The out-of-fold members that teach on trial: enough for TRIAL_EXAMPLES, or all where every fold is judged."""
    examples = len(context.train)
    lanes = EstimateRequest("out-of-fold", members, lr=lr).lanes[:examples]  # later ones would have left none out
    return lanes[: -(-TRIAL_EXAMPLES * len(lanes) // examples)] if context.dataset.test else lanes


def trial_cost(context: Context, members: int) -> float:
    """What choosing T costs, in naive trainings; the teachers have measured already."""
    return len(TEMPERATURES) * len(trial_members(context, members, None)) * (distillation_cost(1) - 1)
