"""The evaluation of a fix: a FixReport of what was wrong, what was done and what has changed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.diagnosis import Verdict, diagnose
from class_uncertainty.posthoc.error_changes import Price, goal_change, price
from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import ADJUSTED, ENSEMBLE, NAIVE, STUDENT, FixReport, JudgedPredictions, Step
from class_uncertainty.posthoc.goal import Goal, adjusts, frequencies
from class_uncertainty.posthoc.label_issues import LabelIssue, label_issues
from class_uncertainty.posthoc.priors import at_prior
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.store import FIXES
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, judged_groups, judged_labels, judged_places
from class_uncertainty.training.keys import key_of, kind_of
from class_uncertainty.training.network_size import parameters
from class_uncertainty.workflows.alternatives import Alternatives, Trial
from class_uncertainty.workflows.fix_choice import Choice, single_step
from class_uncertainty.workflows.fix_networks import FixNetworks
from class_uncertainty.workflows.fix_plan import ENSEMBLE_SIZE, FixPlan, student_cost
from class_uncertainty.workflows.search import Evidence, Search, alike

NOBODY: NDArray[np.float64] = np.empty((0, 0, 0))  # witnesses
NEAR = 1.25  # times the best value of the goal: finalists below it speak of label issues too


def evaluate_fix(
    context: Context,
    search: Search,
    alternatives: Alternatives,
    networks: FixNetworks,
    plan: FixPlan,
    prior: NDArray[np.float64],
) -> FixReport:
    """Judge every step that was trained, look for reasons and for label issues, and store all of it.

    Calibration of what is kept is for the prior (C,) that its probabilities stand for, as in `cu.predict`.
    """
    dataset, goal = context.dataset, plan.goal
    train, counts = dataset.train, dataset.train.counts
    choice, baseline = networks.choice, networks.baseline
    labels, groups = judged_labels(dataset), judged_groups(dataset)
    p = networks.predictions(dataset)
    ladder = []
    for step in _ladder(search, alternatives, networks, plan):
        if step.name in p:
            calibrated_for = prior if step.kept else goal.prior
            evaluation = evaluate_seeds(p[step.name], labels, counts, calibrated_for, goal.costs)
            values = tuple(goal.value(p_seed, labels) for p_seed in p[step.name])
            step = replace(step, judged=evaluation, values=values)
        ladder.append(step)
    naive, kept = ladder[0], next(step for step in ladder if step.kept)
    assert naive.judged is not None
    assert kept.judged is not None
    witnesses = _witnesses(context, search, goal) if plan.checks_labels else NOBODY
    issues = tuple(label_issues(witnesses, train.labels, train)) if len(witnesses) else ()
    in_order = np.argsort(judged_places(dataset))
    report = FixReport(
        data=dataset.name,
        goal=goal.name,
        aim=goal.describe(),
        unit=goal.unit,
        method=choice.candidate.name,
        step=choice.step,
        why=choice.why,
        seeds=plan.seeds,
        classes=tuple(dataset.classes),
        counts=tuple(map(int, counts)),
        tau=choice.tau,
        taus=choice.taus,
        keeps_naive=_keeps_naive(choice, baseline, goal),
        temperature=choice.kept_adjustment.temperature,
        cost=round(_cost(search, alternatives, choice, plan, kept), 2),
        allowed=plan.trainings,
        before=naive.judged,
        after=kept.judged,
        ladder=tuple(ladder),
        rungs=tuple(rung.keeping([row.name for row in choice.candidates]) for rung in search.rungs),
        findings=_findings(context, search, networks, p[NAIVE], issues),
        folds=0 if dataset.test else FOLDS,
        label_issues=issues,
        witnesses=len(witnesses) or None,
        kind=kind_of(baseline.recipe(context.recipe), context.device),  # of the stored results
        note=_note(context, baseline, plan, alternatives.average is not None, len(witnesses)),
        lr=baseline.lr(context.recipe),
        price=_changes(goal, p[NAIVE], p[kept.name], labels, groups),
        predictions=JudgedPredictions.of(Outcomes.of(p[NAIVE][0], labels, goal.costs).take(in_order)),
    )
    judged_candidates = [row.candidate for row in search.rungs[0].rows]
    kept_keys = networks.of_all_examples(choice.candidate).keys
    key = key_of(
        FIXES, plan.seeds, goal.name, plan.trainings, judged_candidates, choice.step, kept_keys, dataset.fingerprint
    )
    context.store.add_fix_report(key, dataset.fingerprint, report)
    return report


def _findings(
    context: Context, search: Search, networks: FixNetworks, p: NDArray[np.float64], issues: Sequence[LabelIssue]
) -> tuple[Verdict, ...]:
    """Why classes are worse than the others under naive networks, from examples that these never saw.

    Where folds judge, p (S, N, C) is of such examples. Else the search has judged naive networks on training examples;
    no verdict follows where naive training was no candidate.
    """
    train = context.train
    counts, suspect = train.counts, _suspect(issues, train)
    if context.dataset.test is None:
        labels, groups = judged_labels(context.dataset), judged_groups(context.dataset)
        return diagnose(labels, p, counts, classes=train.classes, suspect=suspect, groups=groups)
    unseen = search.evidence.get(networks.baseline.name)
    if unseen is None:
        return ()
    return diagnose(unseen.labels, unseen.p, counts, classes=train.classes, suspect=suspect, groups=unseen.groups)


def _changes(
    goal: Goal,
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    labels: NDArray[np.int64],
    groups: NDArray[np.int64] | None,
) -> Price:
    """What has changed for whom, by probabilities (S, n, C): means over the seeds."""
    guesses_before, guesses_after = ([goal.decide(p_seed) for p_seed in side] for side in (before, after))
    wrong_before, wrong_after = (
        np.mean([guesses != labels for guesses in side], axis=0) for side in (guesses_before, guesses_after)
    )
    changes = price(wrong_before, wrong_after, labels, before.shape[2], groups)
    if goal.name == "mean" or goal.only_worst:
        return changes
    losses_before, losses_after = (
        np.mean([goal.losses(guesses, labels) for guesses in side], axis=0) for side in (guesses_before, guesses_after)
    )
    return replace(changes, goal=goal_change(goal, losses_before, losses_after, labels, groups))


def _keeps_naive(choice: Choice, baseline: Candidate, goal: Goal) -> bool:
    """Whether one naive network is kept, and decides as it does by itself: all classes are shifted alike.

    A temperature changes how sure it is and, of decisions, only those by costs.
    """
    if choice.step != choice.single or choice.candidate != baseline:
        return False
    same_costs = goal.costs is None or choice.adjustment.temperature == 1
    return same_costs and bool(np.ptp(choice.adjustment.shift) < 1e-12)


def _cost(search: Search, alternatives: Alternatives, choice: Choice, plan: FixPlan, kept: Step) -> float:
    """Of all that was trained for the step that is kept: one network has paid for the search and the trial, too."""
    if choice.step != choice.single:
        return kept.trainings
    tried = alternatives.trial.trainings if alternatives.trial else 0.0
    return plan.measuring + search.trainings + tried + search.of(choice.candidate).cost


def _ladder(search: Search, alternatives: Alternatives, networks: FixNetworks, plan: FixPlan) -> list[Step]:
    """The steps that were judged or tried, from naive to student: their costs, and what unseen examples say of them."""
    choice, best, goal = networks.choice, search.best, plan.goal
    unit = search.of(choice.candidate).cost
    naive_fit, fitted = networks.naive, networks.of_all_examples(choice.candidate)
    trainings = plan.measuring + search.trainings
    seconds = search.seconds
    # naive training may be kept in the place of the search's best candidate
    has_best = choice.candidate == best.candidate

    naive = Step(
        name=NAIVE,
        candidate=networks.baseline.name,
        networks=1,
        parameters=_size(naive_fit),
        trainings=1.0,
        seconds=_seconds(naive_fit),
    )
    steps = {NAIVE: naive}
    if evidence := search.evidence.get(naive.candidate):
        tuning_trainings, tuning_seconds = search.spent(naive.candidate)
        adjusted = replace(
            naive,
            name=ADJUSTED,
            trainings=round(naive.trainings + tuning_trainings, 2),
            seconds=naive.seconds + tuning_seconds,
        )
        steps |= {step.name: _with_unseen(step, evidence, best, has_best, goal) for step in (naive, adjusted)}
    if has_best:
        name = single_step(choice.candidate)
        steps[name] = Step(
            name=name,
            candidate=choice.candidate.name,
            networks=1,
            parameters=_size(fitted),
            trainings=round(trainings + unit, 2),
            seconds=seconds + _seconds(fitted),
            unseen=goal.value(best.adjusted, best.labels),
            unseen_error=goal.standard_error(best.adjusted, best.labels, best.groups),
        )
    trial = alternatives.trial if has_best and choice.step != NAIVE else None
    if trial:
        trainings += trial.trainings
        seconds += trial.seconds
    if choice.parts:
        average = alternatives.average
        assert average is not None
        models = [networks.of_all_examples(part.candidate) for part in choice.parts]
        steps[ENSEMBLE] = Step(
            name=ENSEMBLE,
            candidate=choice.trained_by,
            networks=len(models),
            parameters=sum(map(_size, models)),
            trainings=round(trainings + unit * len(models), 2),
            seconds=seconds + sum(map(_seconds, models)),
            unseen=average.value,
            unseen_error=average.standard_error,
            gain=average.gain.gain,
            gain_error=average.gain.standard_error,
        )
    elif trial or ENSEMBLE in networks.rows:
        number = _ensemble_size(networks, trial)
        steps[ENSEMBLE] = Step(
            name=ENSEMBLE,
            candidate=choice.candidate.name,
            networks=number,
            parameters=number * _size(fitted),
            trainings=round(trainings + number * unit, 2),
            seconds=seconds + number * _seconds(fitted),
            gain=trial.ensemble.gain if trial else None,
            gain_error=trial.ensemble.standard_error if trial else None,
        )
    if trial and choice.student:
        gain = trial.students[choice.student.name]
        steps[STUDENT] = Step(
            name=STUDENT,
            candidate=choice.student.name,
            networks=1,
            parameters=_size(fitted),
            trainings=round(trainings + unit * student_cost(FOLDS), 2),
            seconds=seconds + (_seconds(networks.students[None]) if networks.students else 0.0),
            gain=gain.gain,
            gain_error=gain.standard_error,
        )
    return [replace(step, kept=step.name == choice.step) for step in steps.values()]


def _with_unseen(step: Step, naive: Evidence, best: Evidence, has_best: bool, goal: Goal) -> Step:
    """A naive step with its value on unseen examples, and how much lower it is than the best single network's.

    Both on the examples that both were judged on. Nothing is compared with a network that is no step of the ladder.
    """
    naive, best = alike([naive, best])
    p = naive.adjusted if step.name == ADJUSTED else naive.p
    error = goal.standard_error(p, naive.labels, naive.groups)
    step = replace(step, unseen=goal.value(p, naive.labels), unseen_error=error)
    if not has_best:
        return step
    behind, behind_error = goal.difference(p, best.adjusted, naive.labels, naive.groups)
    return replace(step, gain=-behind, gain_error=behind_error)


def _ensemble_size(networks: FixNetworks, trial: Trial | None) -> int:
    """How many networks are averaged: those that are deployed or judged, or else those that were tried."""
    if networks.choice.step == ENSEMBLE:
        return ENSEMBLE_SIZE
    if ENSEMBLE in networks.rows:
        return len(networks.rows[ENSEMBLE].members[0])
    assert trial is not None
    return trial.members


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


def _note(context: Context, baseline: Candidate, plan: FixPlan, averages_kinds: bool, witnesses: int) -> str:
    """What before and after are of, and how that was chosen."""
    test = context.dataset.test
    judged = f"judged on {len(test):,} test examples" if test else f"judged by {FOLDS} folds"
    if baseline.kind:
        before = f"a plain model by the recipe {baseline.kind}"
    elif context.recipe.has_rate:
        before = f"naive networks at the learning rate {baseline.lr(context.recipe):g}"
    else:
        before = "naive networks"
    sentences = [f"Before: {before}.", f"All was chosen out-of-fold, and {judged}."]
    if not test:
        step = "whether several kinds are averaged" if averages_kinds else "the step that is kept"
        chosen = "A fold is judged by the finalist and the τ that are best on the other folds, if any were tried"
        sentences.append(f"{chosen}: the values of a step may come from other candidates than the one it names.")
        sentences.append(
            f"Without a test split, {step} is decided on the same folds, and so are the finalists and "
            "whether naive training is kept."
        )
    if (test or context.train).groups is not None:
        sentences.append("Intervals and verdicts allow for groups whose examples err alike.")
    if not adjusts(context.train.counts, plan.goal):
        sentences.append("All classes have equally many examples, so nothing is adjusted.")
    if not plan.checks_labels:
        sentences.append("Labels were not checked, which --label-issues does (in Python label_issues=True).")
    elif not witnesses:
        sentences.append("Labels were not checked: that needs finalists on all folds, and so more trainings.")
    if plan.seeds > 1:
        sentences.append(f"The {context.recipe.noun} of seed 0 is kept.")
    return " ".join(sentences)
