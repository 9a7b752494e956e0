"""Choice: what is kept, chosen on examples that the choosing networks never saw.

Where folds are judged, each fold has a Choice that was made without it; the fold None stands for the test split.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data, Dataset
from class_uncertainty.posthoc.adjustment import Adjustment, combined
from class_uncertainty.posthoc.fix_report import ADJUSTED, ENSEMBLE, NAIVE, SINGLE, STUDENT
from class_uncertainty.posthoc.goal import Goal, value_digits
from class_uncertainty.training import Teaching
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.folds import FOLDS, Fold, fold_indices, judged_folds
from class_uncertainty.workflows.alternatives import Alternatives, Gain, KindAverage, Trial, best_of_kinds
from class_uncertainty.workflows.fix_plan import FixPlan
from class_uncertainty.workflows.ladder import Part, Tuning
from class_uncertainty.workflows.search import Evidence, Search, preferred

CHOSEN = "chosen"  # whatever its step is


@dataclass(frozen=True, eq=False)
class Choice(Tuning):
    """What was chosen on examples that the choosing networks never saw; nothing is chosen on test data.

    Attributes
    ----------
    candidate : Candidate
        How networks train.
    adjustment : Adjustment
        How their probabilities are corrected for the counts.
    teaching : Teaching
        What a student learns.
    student : Candidate or None
        How the best student trains; None where none was tried.
    cooling : float
        What a student's logits are divided by.
    parts : tuple of Part
        The models of an ensemble across kinds, if that is kept.
    step : str
        Of the ladder: "naive", "adjusted" or "best single" for one network, "ensemble" or "student".
    why : str
        One sentence.

    Examples
    --------
    >>> choice = cu.Choice(cu.Candidate("cb-rs"), cu.Adjustment.of([90, 10]), step="best single")
    >>> choice.tau
    1.0
    """

    step: str = SINGLE
    why: str = ""

    def __repr__(self) -> str:
        taught = f", taught to {self.student.name}" if self.student and self.step == STUDENT else ""
        taus = ", ".join(f"{tau:g}" for tau in self.taus)
        return f"Choice({self.trained_by} ({self.step}), tau {taus}{taught})"

    @property
    def trained_by(self) -> str:
        """The names of the candidates that are kept."""
        return " + ".join(part.candidate.name for part in self.parts) or self.candidate.name

    @property
    def taus(self) -> tuple[float, ...]:
        """Of all models that are kept, in the order of `trained_by`."""
        return tuple(part.adjustment.tau for part in self.parts) or (self.tau,)

    @property
    def kept_adjustment(self) -> Adjustment:
        """How the probabilities of the step are corrected."""
        return self.cooled if self.step == STUDENT else self.adjustment

    @property
    def single(self) -> str:
        """The step that one network of the candidate is."""
        return NAIVE if self.step == NAIVE else single_step(self.candidate)


Choices = dict[Fold, Choice]


def single_step(candidate: Candidate) -> str:
    """The step that one adjusted network of a candidate is."""
    return ADJUSTED if candidate.is_naive else SINGLE


def choose(dataset: Dataset, search: Search, alternatives: Alternatives, plan: FixPlan) -> Choices:
    """What is kept: for the fold None and, where folds are judged, for each of them.

    For the overall error and costs, naive training is kept where the choice is worse than it.
    """
    train, goal, deploy = dataset.train, plan.goal, plan.deploy
    folds = dict.fromkeys([None, *judged_folds(dataset)])
    choices = {fold: choose_step(train, search, alternatives, goal, deploy, fold) for fold in folds}
    if goal.weighs_by_frequency:
        return fall_back(train, search, alternatives, choices, goal, deploy)
    return choices


def choose_step(train: Data, search: Search, alternatives: Alternatives, goal: Goal, deploy: str, fold: Fold) -> Choice:
    """Choose the best finalist, and whether one network of it is kept, or an alternative.

    What is chosen for a judged fold is chosen without it, though the networks asked about the other folds have learnt
    it. The alternatives were judged once, for all folds.
    """
    best, finalists = search.best, list(search.finalists)
    if fold:
        elsewhere = []
        for finalist in finalists:
            if rest := finalist.without(fold_indices(train, fold), train.counts, goal):
                elsewhere.append(rest)
        if elsewhere:
            best, finalists = preferred(elsewhere, goal), elsewhere
    adjustment = best.adjustment(train.counts, goal)
    teaching = Teaching(tau=adjustment.tau)
    single = Choice(best.candidate, adjustment, teaching, step=single_step(best.candidate))
    noun = best.networks.recipe.noun
    if alternatives.trial:
        return _choose_from_trial(single, alternatives.trial, goal, deploy, noun)
    if alternatives.average:
        why = _why_average(alternatives.average, goal)
        if not alternatives.average.is_kept:
            return replace(single, why=why)
        models = best_of_kinds(finalists, best, goal)
        parts = tuple(Part(model.candidate, model.adjustment(train.counts, goal)) for model in models)
        return replace(single, step=ENSEMBLE, parts=parts, why=why)
    not_judged = "neither an ensemble nor a student was judged on unseen examples"
    return replace(single, why=f"One {noun} is kept: {not_judged}, since {alternatives.why_none}.")


def _choose_from_trial(single: Choice, trial: Trial, goal: Goal, deploy: str, noun: str) -> Choice:
    """One network, or the step with the largest gain of more than a standard error on the tried fold."""
    gains = {step: gain for step, gain in trial.gains.items() if step == STUDENT or deploy == ENSEMBLE}
    if trial.student:
        single = replace(single, student=Candidate(trial.student), cooling=trial.cooling[trial.student])
    where = f"on {trial.examples:,} examples that no network of the trial saw"
    clear = {step: gain for step, gain in gains.items() if gain.is_clear}
    if not clear:
        tried = " and ".join(f"{_with_article(step)} {_points(gain, goal)}" for step, gain in gains.items())
        tried = tried or "every student diverged"
        return replace(single, why=f"One {noun} is kept: {where}, {tried}, no clear gain.")
    step = max(clear, key=lambda name: clear[name].gain)
    gained = f"it {_points(clear[step], goal)} against one network"
    return replace(single, step=step, why=f"{_with_article(step).capitalize()} is kept: {where}, {gained}.")


def _why_average(average: KindAverage, goal: Goal) -> str:
    where = f"on {average.examples:,} examples that none of them saw"
    gained = f"{_points(average.gain, goal)} against the best of them"
    models = f"the mean of {len(average.names)} kinds of models"
    if average.is_kept:
        return f"{models.capitalize()} is kept, as none of them is clearly better: {where}, it {gained}."
    return f"One model is kept: {where}, {models} {gained}."


def _with_article(step: str) -> str:
    return f"an {step}" if step == ENSEMBLE else f"a {step}"


def _points(gain: Gain, goal: Goal) -> str:
    verb = "gains" if gain.gain >= 0 else "loses"
    unit = " points" if goal.unit == "%" else ""
    digits = value_digits(goal.unit)
    return f"{verb} {abs(gain.gain):.{digits}f} ± {gain.standard_error:.{digits}f}{unit}"


def fall_back(
    train: Data, search: Search, alternatives: Alternatives, choices: Choices, goal: Goal, deploy: str
) -> Choices:
    """Keep the choice only where it is not worse than naive training; else the naive network, adjusted if that helps.

    The lowest of many out-of-fold values is often lowest by chance. So each fold is judged by what the other folds
    choose, on the out-of-fold probabilities that are there already; nothing is trained. An ensemble or a student is
    credited with its gain on the fold of its trial. Where no fold can be judged, as without naive candidates or with
    one fold in all, the choice stays.

    The probabilities are of seed 0, by one network a fold. Networks of other seeds train after the decision. The
    members of a trial are of other seeds too, but of the best candidate and the first fold alone: their gain counts.
    """
    naive = search.evidence.get(search.baseline(goal).name)
    if naive is None:
        return choices
    values = _values(train, search, alternatives, choices, goal, deploy, naive)
    if not values or round(values[CHOSEN] - values[NAIVE], 10) <= 0:
        return choices
    step = ADJUSTED if round(values[ADJUSTED] - values[NAIVE], 10) < 0 else NAIVE
    why = _why_naive(step, values, goal)
    kept: Choices = {}
    for fold in choices:
        if step == ADJUSTED:
            adjustment = naive.adjustment_without(fold, train, goal)
        else:
            adjustment = Adjustment.of(train.counts, tau=0.0)
        kept[fold] = Choice(naive.candidate, adjustment, Teaching(tau=adjustment.tau), step=step, why=why)
    return kept


def _values(
    train: Data, search: Search, alternatives: Alternatives, choices: Choices, goal: Goal, deploy: str, naive: Evidence
) -> dict[str, float]:
    """By the goal, on all folds that can be judged: of what is chosen, and of naive networks; empty where none can."""
    labels: list[NDArray[np.int64]] = []
    p: dict[str, list[NDArray[np.float64]]] = {CHOSEN: [], ADJUSTED: [], NAIVE: []}
    for fold in ((k, FOLDS) for k in range(FOLDS)):
        places = fold_indices(train, fold)
        unseen = naive.inside(places)
        if unseen is None or not all(finalist.outside(places) for finalist in search.finalists):
            continue  # nothing is known of the fold, or of a finalist on any other
        choice = choices.get(fold) or choose_step(train, search, alternatives, goal, deploy, fold)
        p_models = []
        for model in choice.parts or (Part(choice.candidate, choice.adjustment),):
            if judged := search.of(model.candidate).inside(places):
                p_models.append(model.adjustment(judged.p))
        if len(p_models) < max(len(choice.parts), 1):
            continue
        rest = naive.outside(places)
        labels.append(unseen.labels)
        p[CHOSEN].append(combined(p_models))
        p[ADJUSTED].append(rest.adjustment(train.counts, goal)(unseen.p) if rest else unseen.adjusted)
        p[NAIVE].append(unseen.p)
    if not labels:
        return {}
    values = {name: goal.value(np.concatenate(p_folds), np.concatenate(labels)) for name, p_folds in p.items()}
    step = choices[None].step
    if alternatives.trial and step in alternatives.trial.gains:
        values[CHOSEN] -= alternatives.trial.gains[step].gain
    return values


def _why_naive(step: str, values: dict[str, float], goal: Goal) -> str:
    unit = f" {goal.unit}" if goal.unit else ""
    text = {name: f"{value:.{value_digits(goal.unit)}f}{unit}" for name, value in values.items()}
    kept, also = "", ""
    if step == ADJUSTED:
        kept, also = ", adjusted for the counts,", f", adjusted {text[ADJUSTED]}"
    judged = "what is chosen without a fold is worse on that fold"
    compared = f"{goal.describe()} {text[CHOSEN]}, naive {text[NAIVE]}{also}"
    return f"Naive training{kept} is kept, since {judged} ({compared})."
