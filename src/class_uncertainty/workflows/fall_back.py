"""What was chosen is kept only if it is not worse than naive training, on folds that it was not chosen on.

The lowest of many out-of-fold values is often lowest by chance. So each fold is judged by what the other folds choose,
on the out-of-fold probabilities that are there already. Nothing is trained.

Those are of seed 0: candidates are judged by one network a fold. Networks of other seeds train after the decision. The
members of a trial are of other seeds too, but of the best candidate and the first fold alone; their gain is counted.
"""

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.averaging import combined
from class_uncertainty.posthoc.goal import Goal, value_digits
from class_uncertainty.posthoc.ladder import ADJUSTED, NAIVE
from class_uncertainty.runs.context import Context
from class_uncertainty.training import Teaching
from class_uncertainty.training.folds import FOLDS, Fold, fold_indices
from class_uncertainty.workflows.choose_step import Choice, Choices, Part, choose_step
from class_uncertainty.workflows.mixture import Mixture
from class_uncertainty.workflows.search import Evidence, Search
from class_uncertainty.workflows.trial import Trial

CHOSEN = "chosen"  # whatever its step is
JUDGED = (CHOSEN, ADJUSTED, NAIVE)


def fall_back(
    context: Context, search: Search, trial: Trial | Mixture | str, choices: Choices, goal: Goal, deploy: str
) -> Choices:
    """The choice where it is not worse than naive training; else the naive network, adjusted where that is better.

    All are judged on folds that they were not chosen on. An ensemble or a student is credited with its gain on the fold
    of its trial. Where no fold can be judged, as without naive candidates or with one fold in all, the choice stays.
    """
    naive = search.evidence.get(search.baseline(goal).name)
    values = _values(context, search, trial, choices, goal, deploy, naive) if naive else {}
    if naive is None or not values:
        return choices
    losses = {name: round(value - values[NAIVE], 10) for name, value in values.items()}
    if losses[CHOSEN] <= 0:
        return choices
    step = ADJUSTED if losses[ADJUSTED] < 0 else NAIVE
    why, counts = _why(step, values, goal), context.train.counts
    kept = dict[Fold, Choice]()
    for fold in choices:
        rest = naive.outside(fold_indices(context.train, fold)) if fold else None
        adjustment = (rest or naive).adjustment(counts, goal) if step == ADJUSTED else Adjustment.of(counts, tau=0.0)
        kept[fold] = Choice(naive.candidate, step, adjustment, Teaching(tau=adjustment.tau), why=why)
    return kept


def _values(
    context: Context,
    search: Search,
    trial: Trial | Mixture | str,
    choices: Choices,
    goal: Goal,
    deploy: str,
    naive: Evidence,
) -> dict[str, float]:
    """By the goal, on all folds that can be judged; empty where none can be."""
    labels, p = list[NDArray[np.int64]](), dict[str, list[NDArray[np.float64]]]()
    for fold in ((k, FOLDS) for k in range(FOLDS)):
        places = fold_indices(context.train, fold)
        unseen = naive.inside(places)
        if unseen is None or not all(finalist.outside(places) for finalist in search.finalists):
            continue  # nothing is known of the fold, or of a finalist on any other
        choice = choices.get(fold) or choose_step(context, search, trial, goal, deploy, fold)
        models = choice.parts or (Part(choice.candidate, choice.adjustment),)
        judged = [search.of(model.candidate).inside(places) for model in models]
        p_models = [model.adjustment(one.p) for model, one in zip(models, judged, strict=True) if one]
        if len(p_models) < len(models):
            continue
        rest = naive.outside(places)
        adjusted = rest.adjustment(context.train.counts, goal)(unseen.p) if rest else unseen.adjusted
        labels.append(unseen.labels)
        for name, p_fold in zip(JUDGED, (combined(p_models), adjusted, unseen.p), strict=True):
            p.setdefault(name, []).append(p_fold)
    values = {name: goal.value(np.concatenate(p_folds), np.concatenate(labels)) for name, p_folds in p.items()}
    if values and isinstance(trial, Trial):
        values[CHOSEN] -= trial.gain_of(choices[None].step)
    return values


def _why(step: str, values: dict[str, float], goal: Goal) -> str:
    unit = f" {goal.unit}" if goal.unit else ""
    chosen, adjusted, naive = (f"{values[name]:.{value_digits(goal.unit)}f}{unit}" for name in JUDGED)
    kept, also = (", adjusted for the counts,", f", adjusted {adjusted}") if step == ADJUSTED else ("", "")
    judged = "what is chosen without a fold is worse on that fold"
    return f"Naive training{kept} is kept, since {judged} ({goal.describe()} {chosen}, naive {naive}{also})."
