"""Alternatives: what a fix tries in place of one network, judged on examples that no network of it saw."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.measures import Stats
from class_uncertainty.methods import named
from class_uncertainty.posthoc.adjustment import Adjustment, combined
from class_uncertainty.posthoc.calibration import fit_adjustment
from class_uncertainty.posthoc.fix_report import ENSEMBLE, STUDENT
from class_uncertainty.posthoc.goal import Goal, is_clear, paired_sum
from class_uncertainty.runs.context import Context
from class_uncertainty.training import Teaching
from class_uncertainty.training.folds import FOLDS, fold_indices
from class_uncertainty.workflows.fix_plan import STUDENT_RATES, FixPlan, student_cost, why_no_ensemble
from class_uncertainty.workflows.ladder import Tuning, fit_networks, teach
from class_uncertainty.workflows.search import Evidence, Search, alike, never_sharper, preferred

TRIED = (0, FOLDS)  # the fold that judges a trial


@dataclass(frozen=True)
class Gain:
    """How much lower the goal's value is than one network's, and the paired standard error."""

    gain: float
    standard_error: float

    @property
    def is_clear(self) -> bool:
        return is_clear(self.gain, self.standard_error)


@dataclass(frozen=True, eq=False)
class Trial:
    """What an ensemble and a student gain over one network, on a fold that none of them saw."""

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

    @property
    def gains(self) -> dict[str, Gain]:
        """Those of the steps that were tried."""
        gains = {STUDENT: self.students[self.student]} if self.student else {}
        return gains | {ENSEMBLE: self.ensemble}


@dataclass(frozen=True, eq=False)
class KindAverage:
    """The mean of the best models of several kinds, and its gain over the best of them."""

    names: tuple[str, ...]  # of its candidates
    p: NDArray[np.float64]  # (n, C) of examples that no model of it saw, adjusted
    labels: NDArray[np.int64]  # (n,)
    gain: Gain
    value: float  # by the goal
    standard_error: float

    @property
    def examples(self) -> int:
        return len(self.labels)

    @property
    def is_kept(self) -> bool:
        """Whether it is deployed: unless one model is clearly better, since the lowest of many may be so by chance."""
        return not is_clear(-self.gain.gain, self.gain.standard_error)


@dataclass(frozen=True, eq=False)
class Alternatives:
    """What was tried in place of one network: a trial, an average of several kinds, or nothing, for a reason."""

    trial: Trial | None = None
    average: KindAverage | None = None
    why_none: str = ""


def try_alternatives(context: Context, search: Search, plan: FixPlan, stats: Stats | None) -> Alternatives:
    """Judge what the plan pays for."""
    if plan.search.members:
        if why := why_no_ensemble(search.best.networks.recipe):
            return Alternatives(why_none=why)
        rates = () if plan.search.ensemble else STUDENT_RATES
        return try_steps(context, search.best, plan.search.members, rates, plan.goal, stats)
    if plan.averages_kinds:
        return average_kinds(search, plan.goal)
    return Alternatives(why_none=plan.why_no_trial)


def try_steps(
    context: Context, best: Evidence, members: int, rates: Sequence[float], goal: Goal, stats: Stats | None
) -> Alternatives:
    """Train so many networks, and students of them at each rate, on all folds but one, and judge them there."""
    train = context.train
    networks = [(best.candidate, seed, TRIED) for seed in range(members)]
    fitted = fit_networks(context, networks, stats, "networks on trial")[best.candidate]
    if any(result.diverged is not None for result in fitted.results):
        return Alternatives(why_none=f"a network of {best.candidate.name} diverged")
    judged = train.take(fold_indices(train, TRIED))
    adjustment = best.adjustment_without(TRIED, train, goal)
    p = fitted.probabilities(judged).astype(np.float64)
    one = np.mean([goal.contributions(adjustment(p_member), judged.labels) for p_member in p], axis=0)

    def gain(p_step: NDArray[np.float64]) -> Gain:
        return Gain(*paired_sum(one - goal.contributions(p_step, judged.labels), judged.group_codes))

    students: dict[str, Gain] = {}
    cooling: dict[str, float] = {}
    # the first network has been trained by the search
    trainings = best.cost * (members - 1)
    seconds = sum(result.seconds for result in fitted.results[1:])
    if named(best.candidate.method).head == "rbf":
        rates = ()  # kernels of DUQ are no distribution to learn from
    if rates:
        candidates = [best.candidate.student(factor) for factor in rates]
        tuning = Tuning(best.candidate, adjustment, Teaching(tau=adjustment.tau))
        tunings = [replace(tuning, student=candidate) for candidate in candidates]
        taught = teach(context, tunings, [0], TRIED, fitted)
        p_students = taught.probabilities(judged).astype(np.float64)
        for candidate, result, p_student in zip(candidates, taught.results, p_students, strict=True):
            if result.diverged is None:
                cooled = cooled_by(p_student, judged.labels, train.counts, goal)
                students[candidate.name] = gain(cooled(p_student))
                cooling[candidate.name] = cooled.temperature
        trainings += best.cost * student_cost(members, len(candidates))
        seconds += sum(result.seconds for result in taught.results)
    ensemble = gain(adjustment(combined(p)))
    return Alternatives(trial=Trial(members, ensemble, students, cooling, len(judged), trainings, seconds))


def cooled_by(p: NDArray[np.float64], labels: NDArray[np.int64], counts: NDArray, goal: Goal) -> Adjustment:
    """The temperature of a student, which has learnt adjusted probabilities."""
    return never_sharper(fit_adjustment(p, labels, counts, tau=0.0, goal=goal))


def average_kinds(search: Search, goal: Goal) -> Alternatives:
    """Judge the average of the best model of every kind, on the probabilities that the search has."""
    models = best_of_kinds(search.finalists, search.best, goal)
    if len(models) < 2:
        return Alternatives(why_none="the finalists are all of one kind")
    best, *compared = alike([search.best, *models])
    p = combined([model.adjusted for model in compared])
    average = KindAverage(
        names=tuple(model.candidate.name for model in models),
        p=p,
        labels=best.labels,
        gain=Gain(*goal.difference(best.adjusted, p, best.labels, best.groups)),
        value=goal.value(p, best.labels),
        standard_error=goal.standard_error(p, best.labels, best.groups),
    )
    return Alternatives(average=average)


def best_of_kinds(finalists: Sequence[Evidence], best: Evidence, goal: Goal) -> list[Evidence]:
    """The preferred candidate of every kind, in the order of the list; `best` for its own."""
    kinds: dict[str, list[Evidence]] = {}
    for evidence in finalists:
        kinds.setdefault(evidence.networks.recipe.network, []).append(evidence)
    best_kind = best.networks.recipe.network
    return [best if kind == best_kind else preferred(of_kind, goal) for kind, of_kind in kinds.items()]
