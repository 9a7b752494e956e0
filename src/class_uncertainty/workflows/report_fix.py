"""From trained networks to a FixReport: the ladder, what was wrong before, and label issues."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.diagnosis import diagnose
from class_uncertainty.posthoc.error_changes import goal_change, price
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport, JudgedPredictions
from class_uncertainty.posthoc.goal import Goal, adjusts, frequencies
from class_uncertainty.posthoc.label_issues import LabelIssue, label_issues
from class_uncertainty.posthoc.ladder import ADJUSTED, ENSEMBLE, NAIVE, SINGLE, STUDENT, Step
from class_uncertainty.posthoc.priors import at_prior
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.store import FIXES
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, judged_groups, judged_labels, judged_places
from class_uncertainty.training.keys import key_of, kind_of
from class_uncertainty.training.network_size import parameters
from class_uncertainty.workflows.choose_step import Choice, Choices
from class_uncertainty.workflows.ladder_networks import Networks, predictions
from class_uncertainty.workflows.mixture import Mixture
from class_uncertainty.workflows.search import Evidence, Search, alike
from class_uncertainty.workflows.search_plan import TOGETHER, student_cost
from class_uncertainty.workflows.trial import Trial

# how a step trains, its networks and their parameters, and what led to it: naive trainings, seconds
Cost = tuple[str, int, int, float, float]
Unseen = tuple[float | None, float | None, float | None, float | None]  # the value, its error, the gain, its error
NOT_TRIED: Unseen = (None, None, None, None)
NOBODY: NDArray[np.float64] = np.empty((0, 0, 0))  # witnesses
NEAR = 1.25  # times the best value of the goal: finalists below it speak of label issues too


@dataclass(frozen=True, eq=False)
class Spent:
    """What a fix may spend and what measuring for it has cost, in naive trainings."""

    allowed: float
    measuring: float


def report_fix(
    context: Context,
    search: Search,
    trial: Trial | Mixture | str,
    choices: Choices,
    networks: Networks,
    goal: Goal,
    seeds: int,
    spent: Spent,
    doubts_labels: bool,
) -> FixReport:
    """Judge every step that was trained, look for reasons and for label issues, and store all of it."""
    dataset, train, choice = context.dataset, context.train, choices[None]
    is_of_best = choice.step != NAIVE and _best_step(search, choice)  # adjusted as in the trial
    tried = trial if isinstance(trial, Trial) and is_of_best else None
    labels, groups, counts = judged_labels(dataset), judged_groups(dataset), train.counts
    in_order = np.argsort(judged_places(dataset))
    p = predictions(context, search, choices, networks, goal, seeds)
    judged = {name: evaluate_seeds(p_step, labels, counts, goal.prior, goal.costs) for name, p_step in p.items()}
    values = {name: tuple(goal.value(p_seed, labels) for p_seed in p_step) for name, p_step in p.items()}
    unseen = _unseen(search, tried, choice, networks.baseline, goal)
    if isinstance(trial, Mixture) and choice.parts:
        unseen[ENSEMBLE] = (trial.value, trial.standard_error, trial.gain.gain, trial.gain.standard_error)
    ladder = []
    for name, cost in _costs(search, tried, choice, networks, spent.measuring, judged).items():
        candidate, number, size, trainings, seconds = cost
        about = (name, candidate, number, size, round(trainings, 2), seconds, *unseen.get(name, NOT_TRIED))
        ladder.append(Step(*about, judged.get(name), values.get(name, ()), kept=name == choice.step))
    kept = next(step for step in ladder if step.kept)
    witnesses = _witnesses(context, search, goal) if doubts_labels else NOBODY
    issues = tuple(label_issues(witnesses, train.labels, train)) if len(witnesses) else ()
    wrong = {
        name: np.mean([goal.decide(p_seed) != labels for p_seed in p[name]], axis=0) for name in ("naive", kept.name)
    }
    changes = price(wrong["naive"], wrong[kept.name], labels, len(counts), groups)
    if goal.name != "mean" and not goal.only_worst:
        losses = {name: np.mean([goal.losses(goal.decide(side), labels) for side in p[name]], axis=0) for name in wrong}
        changes = replace(changes, goal=goal_change(goal, losses["naive"], losses[kept.name], labels, groups))
    before, after = judged["naive"], kept.judged
    assert after is not None
    report = FixReport(
        data=dataset.name,
        goal=goal.name,
        aim=goal.describe(),
        unit=goal.unit,
        method=choice.candidate.name,
        step=choice.step,
        why=choice.why,
        seeds=seeds,
        classes=tuple(dataset.classes),
        counts=tuple(map(int, counts)),
        tau=choice.tau,
        taus=choice.taus,
        keeps_naive=_keeps_naive(choice, networks.baseline, goal),
        temperature=choice.cooling if choice.step == STUDENT else choice.adjustment.temperature,
        cost=round(_cost(search, trial, choice, spent.measuring, kept), 2),
        allowed=spent.allowed,
        before=before,
        after=after,
        ladder=tuple(ladder),
        rungs=tuple(rung.keeping([row.name for row in choice.candidates]) for rung in search.rungs),
        findings=diagnose(
            labels, p["naive"], counts, classes=dataset.classes, suspect=_suspect(issues, train), groups=groups
        ),
        label_issues=issues,
        witnesses=len(witnesses) or None,
        kind=kind_of(networks.baseline.recipe(context.recipe), context.device),  # of the stored results
        note=_note(
            context, networks, goal, seeds, isinstance(trial, Mixture), _unchecked(doubts_labels, len(witnesses))
        ),
        lr=networks.baseline.lr(context.recipe),
        price=changes,
        predictions=JudgedPredictions.of(Outcomes.of(p["naive"][0], labels, goal.costs).take(in_order)),
    )
    parts = (seeds, goal.name, spent.allowed, [row.candidate for row in search.rungs[0].rows])
    key = key_of(FIXES, *parts, choice.step, networks.best[None].keys, dataset.fingerprint)
    context.store.add_fix_report(key, dataset.fingerprint, report)
    return report


def _keeps_naive(choice: Choice, baseline: Candidate, goal: Goal) -> bool:
    """Whether one naive network is kept, and decides as it does by itself: all classes are shifted alike.

    A temperature changes how sure it is and, of decisions, only those by costs.
    """
    if choice.step != choice.single or choice.candidate != baseline:
        return False
    same_costs = goal.costs is None or choice.adjustment.temperature == 1
    return same_costs and bool(np.ptp(choice.adjustment.shift) < 1e-12)


def _best_step(search: Search, choice: Choice) -> str | None:
    """The step that one network of the search's best candidate is; None where naive training is kept in its place."""
    if choice.candidate != search.best.candidate:
        return None
    return ADJUSTED if choice.candidate.is_naive else SINGLE


def _cost(search: Search, trial: Trial | Mixture | str, choice: Choice, measuring: float, kept: Step) -> float:
    """Of all that was trained for the step that is kept: one network has paid for the search and the trial, too."""
    if choice.step != choice.single:
        return kept.trainings
    tried = trial.trainings if isinstance(trial, Trial) else 0.0
    return measuring + search.trainings + tried + search.of(choice.candidate).cost


def _costs(
    search: Search, trial: Trial | None, choice: Choice, networks: Networks, measuring: float, judged: Collection[str]
) -> dict[str, Cost]:
    """Of the steps that were judged or tried, from naive to student, by their names."""
    naive, single, unit = networks.baseline.name, choice.candidate.name, search.of(choice.candidate).cost
    naive_seconds, single_seconds = _seconds(next(iter(networks.naive.values()))), _seconds(networks.best[None])
    trainings, seconds = measuring + search.trainings, search.seconds
    plain, size = _size(next(iter(networks.naive.values()))), _size(networks.best[None])
    costs = {NAIVE: (naive, 1, plain, 1.0, naive_seconds)}
    if naive in search.evidence:
        tuning_trainings, tuning_seconds = search.spent(naive)
        costs[ADJUSTED] = (naive, 1, plain, 1 + tuning_trainings, naive_seconds + tuning_seconds)
    if step := _best_step(search, choice):
        costs[step] = (single, 1, size, trainings + unit, seconds + single_seconds)
    if choice.parts:
        models = networks.parts[None]
        seconds += sum(map(_seconds, models))
        several = trainings + unit * len(models), seconds
        costs[ENSEMBLE] = (choice.trained_by, len(models), sum(map(_size, models)), *several)
        return costs
    if trial:
        trainings, seconds = trainings + trial.trainings, seconds + trial.seconds
    if trial or ENSEMBLE in judged:
        number = min(TOGETHER, max(len(fitted.lanes) for fitted in networks.best.values()))
        number = number if ENSEMBLE in judged or trial is None else trial.members
        several = trainings + number * unit, seconds + number * single_seconds
        costs[ENSEMBLE] = (single, number, number * size, *several)
    if trial and choice.student:
        taught = _seconds(networks.students[None]) if networks.students else 0.0
        costs[STUDENT] = (choice.student.name, 1, size, trainings + unit * student_cost(FOLDS), seconds + taught)
    return costs


def _unseen(search: Search, trial: Trial | None, choice: Choice, baseline: Candidate, goal: Goal) -> dict[str, Unseen]:
    """What is known of the steps from examples that their networks never saw, by the names of the steps."""
    best, naive, unseen = search.best, search.evidence.get(baseline.name), dict[str, Unseen]()
    step = _best_step(search, choice)
    if naive:
        unseen[NAIVE] = _unseen_naive(goal, best, naive, adjusted=False, compared=step is not None)
        unseen[ADJUSTED] = _unseen_naive(goal, best, naive, adjusted=True, compared=step is not None)
    if step:
        error = goal.standard_error(best.adjusted, best.labels, best.groups)
        unseen[step] = (goal.value(best.adjusted, best.labels), error, None, None)
    if trial:
        unseen[ENSEMBLE] = (None, None, trial.ensemble.gain, trial.ensemble.standard_error)
    if trial and choice.student:
        student = trial.students[choice.student.name]
        unseen[STUDENT] = (None, None, student.gain, student.standard_error)
    return unseen


def _unseen_naive(goal: Goal, best: Evidence, naive: Evidence, adjusted: bool, compared: bool) -> Unseen:
    """The value of naive networks on unseen examples, and how much lower it is than the best single network's.

    Both on the examples that both were judged on. Nothing is compared with a network that is no step of the ladder.
    """
    one, other = alike([naive, best])
    p = one.adjusted if adjusted else one.p
    value = goal.value(p, one.labels), goal.standard_error(p, one.labels, one.groups)
    if not compared:
        return *value, None, None
    behind, error = goal.difference(p, other.adjusted, one.labels, one.groups)
    return *value, -behind, error


def _size(fitted: Fit) -> int:
    """Parameters of one network; all numbers of trees, which have as many as the data ask for."""
    count = parameters(fitted.recipe.network, fitted.shape, len(fitted.classes))
    return sum(value.numel() for value in fitted.states[0].values()) if count is None else count


def _seconds(fitted: Fit) -> float:
    return float(np.mean([result.seconds for result in fitted.results]))


def _witnesses(context: Context, search: Search, goal: Goal) -> NDArray[np.float64]:
    """(T, N, C) by finalists that never saw an example and are NEAR the best; empty where they saw some of them.

    The probabilities are for classes that are as frequent as in training.
    """
    complete = [one for one in search.finalists if len(one.places) == len(context.train)]
    if not complete:
        return NOBODY
    values = [goal.value(one.adjusted, one.labels) for one in complete]
    near = [one for one, value in zip(complete, values, strict=True) if value <= NEAR * min(values)]
    natural = frequencies(context.train.counts)
    return np.stack([at_prior(one.adjusted, goal.prior, natural)[np.argsort(one.places)] for one in near])


def _suspect(issues: Sequence[LabelIssue], train: Data) -> NDArray[np.float64]:
    """(C,) percent of each class's training labels that are issues."""
    labels = train.labels[np.array([issue.index for issue in issues], dtype=np.int64)]
    return 100 * np.bincount(labels, minlength=len(train.classes)) / train.counts


def _note(context: Context, networks: Networks, goal: Goal, seeds: int, mixes: bool, unchecked: str) -> str:
    """What before and after are of, and how that was chosen."""
    test, lr = context.dataset.test, networks.baseline.lr(context.recipe)
    judged = f"judged on {len(test):,} test examples" if test else f"judged by {FOLDS} folds"
    before = f"naive networks at the learning rate {lr:g}" if context.recipe.has_rate else "naive networks"
    if kind := networks.baseline.kind:
        before = f"a plain model by the recipe {kind}"
    sentences = [f"Before: {before}.", f"All was chosen out-of-fold, and {judged}."]
    if not test:
        step = "whether several kinds are averaged" if mixes else "the step that is kept"
        chosen = "A fold is judged by the finalist and the τ that are best on the other folds, if any were tried"
        sentences.append(f"{chosen}: values of a step are not only of the candidate that it names.")
        sentences.append(
            f"Without a test split, {step} is decided on the same folds, and so are the finalists and "
            "whether naive training is kept."
        )
    if (test or context.train).groups is not None:
        sentences.append("Intervals and verdicts allow for groups whose examples err alike.")
    if not adjusts(context.train.counts, goal):
        sentences.append("All classes have equally many examples, so nothing is adjusted.")
    kept = f"The {context.recipe.noun} of seed 0 is kept." if seeds > 1 else ""
    return " ".join([*sentences, *filter(None, [unchecked, kept])])


def _unchecked(doubts_labels: bool, witnesses: int) -> str:
    """Why there are no label issues; "" where they were looked for."""
    if not doubts_labels:
        return "Labels were not checked, which --label-issues does (in Python label_issues=True)."
    return "" if witnesses else "Labels were not checked: that takes finalists on all folds, so more trainings."
