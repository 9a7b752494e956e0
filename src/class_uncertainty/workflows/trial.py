"""One network, several together, and students of them, on one fold that none of them saw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.measures import Stats
from class_uncertainty.methods import named
from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.averaging import combined
from class_uncertainty.posthoc.calibration import fit_adjustment
from class_uncertainty.posthoc.goal import Goal, is_clear, paired_sum
from class_uncertainty.posthoc.ladder import ENSEMBLE, STUDENT
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_fit
from class_uncertainty.training import Teaching
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, Fold, fold_indices
from class_uncertainty.workflows.search import Evidence, at, fit_candidates, never_sharper
from class_uncertainty.workflows.search_plan import student_cost

TRIED = (0, FOLDS)
TELLING = 250  # examples of a fold: with fewer, no gain of a few points would be clear


@dataclass(frozen=True)
class Gain:
    """How much lower the goal's value is than one network's, on the tried fold, and the paired standard error."""

    gain: float
    standard_error: float

    @property
    def clear(self) -> bool:
        return is_clear(self.gain, self.standard_error)


@dataclass(frozen=True, eq=False)
class Trial:
    """What an ensemble and a student gain over one network."""

    members: int
    ensemble: Gain
    students: dict[str, Gain]  # by how they train; a student that diverged has none
    cooling: dict[str, float]  # what a student's logits are divided by
    examples: int
    trainings: float
    seconds: float

    @property
    def student(self) -> str | None:
        """The best student, of equals the first; None where all diverged, or none was tried."""
        return max(self.students, key=lambda name: self.students[name].gain, default=None)

    def gain_of(self, step: str) -> float:
        """Of a step over one network, which gains nothing over itself."""
        taught = {STUDENT: self.students[self.student].gain} if self.student else {}
        return ({ENSEMBLE: self.ensemble.gain} | taught).get(step, 0.0)


def try_steps(
    context: Context, best: Evidence, members: int, rates: Sequence[float], goal: Goal, stats: Stats | None
) -> Trial | str:
    """Train so many networks, and students of them at each rate, on all folds but one, and judge them there.

    Or why that failed.
    """
    train = context.train
    places = fold_indices(train, TRIED)
    rows = [best.candidate.student(factor) for factor in rates if named(best.candidate.method).head != "rbf"]
    networks = fit_candidates(context, [best.candidate], range(members), [TRIED], stats, what="networks on trial")
    fitted = networks[best.candidate.name]
    if any(result.diverged is not None for result in fitted.results):
        return f"a network of {best.candidate.name} diverged"
    judged = train.take(places)
    adjustment = (best.outside(places) or best).adjustment(train.counts, goal)
    p = fitted.probabilities(judged).astype(np.float64)
    one = np.mean([goal.contributions(adjustment(p_member), judged.labels) for p_member in p], axis=0)

    def gain(p_step: NDArray[np.float64]) -> Gain:
        return Gain(*paired_sum(one - goal.contributions(p_step, judged.labels), judged.group_codes))

    students, cooling = dict[str, Gain](), dict[str, float]()
    trainings, seconds = best.cost * (members - 1), sum(result.seconds for result in fitted.results[1:])
    if rows:  # kernels of DUQ are no distribution to learn from
        taught = teach(context, rows, fitted, [0], TRIED, Teaching(tau=adjustment.tau))
        p_students = taught.probabilities(judged).astype(np.float64)
        for row, result, p_student in zip(rows, taught.results, p_students, strict=True):
            if result.diverged is None:
                cooled = cooled_by(p_student, judged.labels, train.counts, goal)
                students[row.name], cooling[row.name] = gain(cooled(p_student)), cooled.temperature
        trainings += best.cost * student_cost(members, len(rows))
        seconds += sum(result.seconds for result in taught.results)
    ensemble = gain(adjustment(combined(p)))
    return Trial(members, ensemble, students, cooling, len(judged), trainings, seconds)


def teach(
    context: Context, rows: Sequence[Candidate], teachers: Fit, seeds: Iterable[int], fold: Fold, teaching: Teaching
) -> Fit:
    """Students that differ in their rates and seeds, taught by networks that left the same fold out."""
    lanes = [row.lane(context.recipe, seed, fold, teaching) for row in rows for seed in seeds]
    return load_or_fit(at(context, rows[0]), lanes, teachers=teachers, what="students")


def cooled_by(p: NDArray[np.float64], labels: NDArray[np.int64], counts: NDArray, goal: Goal) -> Adjustment:
    """The temperature of a student, which has learnt adjusted probabilities."""
    return never_sharper(fit_adjustment(p, labels, counts, tau=0.0, goal=goal))
