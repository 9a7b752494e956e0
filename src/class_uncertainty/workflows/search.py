"""Candidates judged on examples that they never saw, and dropped early: successive halving over folds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.errors import InputError
from class_uncertainty.measures import Stats
from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.calibration import cross_adjusted, fit_adjustment
from class_uncertainty.posthoc.fix_report import Rung, RungRow
from class_uncertainty.posthoc.goal import Goal, is_clear
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.watcher import RungsJudged
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_checks import check_fit
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, Fold, fold_indices
from class_uncertainty.workflows.fix_plan import FixPlan, unit_cost
from class_uncertainty.workflows.ladder import fit_networks


@dataclass(frozen=True, eq=False)
class Evidence:
    """What one candidate predicts for training examples that its networks never saw, fold after fold."""

    candidate: Candidate
    networks: Fit  # one for each fold
    places: NDArray[np.int64]  # (n,) among the training examples
    labels: NDArray[np.int64]  # (n,)
    p: NDArray[np.float64]  # (n, C)
    adjusted: NDArray[np.float64]  # (n, C), by a tau that was fitted to other examples
    cost: float  # of one training, in naive ones
    groups: NDArray[np.int64] | None = None  # (n,)

    def outside(self, places: NDArray[np.int64]) -> "Evidence | None":
        """Without these training examples; None where nothing would be left."""
        rest = self.at(~np.isin(self.places, places))
        return rest if len(rest.places) else None

    def inside(self, places: NDArray[np.int64]) -> "Evidence | None":
        """Of these training examples alone; None where nothing is known of them."""
        part = self.at(np.isin(self.places, places))
        return part if len(part.places) else None

    def without(self, places: NDArray[np.int64], counts: NDArray, goal: Goal) -> "Evidence | None":
        """The same where they adjust no other example either."""
        rest = self.outside(places)
        if rest is None:
            return None
        usual = self.candidate.usual_tau
        return replace(rest, adjusted=cross_adjusted(rest.p, rest.labels, counts, goal, usual, rest.groups))

    def at(self, rows: NDArray[np.bool_] | slice) -> "Evidence":
        """These rows alone."""
        return replace(
            self,
            places=self.places[rows],
            labels=self.labels[rows],
            p=self.p[rows],
            adjusted=self.adjusted[rows],
            groups=None if self.groups is None else self.groups[rows],
        )

    def adjustment(self, counts: NDArray, goal: Goal) -> Adjustment:
        fitted = fit_adjustment(self.p, self.labels, counts, goal=goal, usual_tau=self.candidate.usual_tau)
        # heads that converge do not memorise their examples, and trees that left some out are as sure as others
        return fitted if self.networks.recipe.is_fitted else never_sharper(fitted)

    def adjustment_without(self, fold: Fold, train: Data, goal: Goal) -> Adjustment:
        """The adjustment where that fold is judged: chosen on the other examples, if any are known."""
        rest = self.outside(fold_indices(train, fold)) if fold else None
        return (rest or self).adjustment(train.counts, goal)


def never_sharper(adjustment: Adjustment) -> Adjustment:
    """With a temperature of 1 at least: a network that saw all examples is surer than those that left a fold out."""
    return replace(adjustment, temperature=max(1.0, adjustment.temperature))


@dataclass(frozen=True, eq=False)
class Search:
    """What the rungs left: the best candidate, and those that it was last compared with, in the order of the list."""

    best: Evidence
    finalists: tuple[Evidence, ...]
    rungs: tuple[Rung, ...]
    evidence: dict[str, Evidence]  # of the best and of naive candidates, on their last rung

    def baseline(self, goal: Goal) -> Candidate:
        """Naive networks, at the learning rate or of the kind that suits best; by the recipe where none was judged."""
        if self.best.candidate.is_naive and not self.best.candidate.kind:
            return self.best.candidate
        naive = best_naive(self.evidence.values(), goal)
        return naive.candidate if naive else Candidate("naive")

    def of(self, candidate: Candidate) -> Evidence:
        """What is known of the best, of a naive candidate or of a finalist."""
        return next(one for one in (*self.evidence.values(), *self.finalists) if one.candidate == candidate)

    def spent(self, name: str) -> tuple[float, float]:
        """Trainings and seconds of one candidate on all rungs."""
        rows = [row for rung in self.rungs for row in rung.rows if row.candidate == name]
        return sum(row.trainings for row in rows), sum(row.seconds for row in rows)

    @property
    def trainings(self) -> float:
        return sum(rung.trainings for rung in self.rungs)

    @property
    def seconds(self) -> float:
        return sum(rung.seconds for rung in self.rungs)


def search(context: Context, plan: FixPlan, stats: Stats | None) -> Search:
    """Judge all candidates on one fold, and those that are left on more: successive halving over folds.

    Candidates that cannot train here, or that diverge, are dropped with a reason. Where a whole rung is, what is left
    of the one before counts.
    """
    goal = plan.goal
    rungs: list[Rung] = []
    evidence: dict[str, Evidence] = {}
    finalists: list[Evidence] = []
    left = list(plan.candidates)
    obstacles = {row.name: reason for row in left if (reason := _obstacle(context, row, stats))}
    folds_before = 0
    keeps = [number for number, _ in plan.search.rungs[1:]] + [1]
    for (_, folds), keep in zip(plan.search.rungs, keeps, strict=True):
        able = [row for row in left if row.name not in obstacles]
        left_out = [(k, FOLDS) for k in range(folds)]
        networks = fit_networks(context, [(row, 0, fold) for row in able for fold in left_out], stats, "candidates")
        lost = {row.name: reason for row, fitted in networks.items() if (reason := _divergence(fitted))}
        reasons = {row.name: obstacles[row.name] for row in left if row.name in obstacles} | lost
        judged = [judge(context, row, networks[row], goal) for row in able if row.name not in lost]
        evidence = {name: one for name, one in evidence.items() if name not in reasons}
        finalists = [one for one in finalists if one.candidate.name not in reasons]
        if not judged and not finalists:
            name, reason = next(iter(reasons.items()))
            raise InputError(f"no candidate could be trained on these data; {name!r}: {reason.removesuffix('.')}.")
        kept = lowest(judged, goal, keep) if judged else []
        spent = {row.name: _spent(context, row, networks.get(row), folds_before) for row in left}
        rungs.append(_rung(left, judged, kept, spent, reasons, goal, folds))
        context.tell(RungsJudged(tuple(rungs), goal.describe(), goal.unit))
        evidence |= {one.candidate.name: one for one in judged}
        evidence = {name: one for name, one in evidence.items() if one in kept or one.candidate.is_naive}
        if judged and (len(left) > 1 or not finalists):
            finalists = judged
        left = [row for row in left if any(one.candidate is row for one in kept)]
        folds_before = folds
        if not left:
            break
    finalists = [evidence.get(one.candidate.name, one) for one in finalists]
    best = evidence[left[0].name] if left else preferred(finalists, goal)
    return Search(best, tuple(finalists), tuple(rungs), evidence)


def _obstacle(context: Context, candidate: Candidate, stats: Stats | None) -> str:
    """Why a candidate cannot train on these data; "" where it can."""
    try:
        recipe = candidate.recipe(context.recipe)
        check_fit(context.train, [candidate.lane(context.recipe, 0)], recipe, stats, None)
    except InputError as error:
        return str(error)
    return ""


def _divergence(networks: Fit) -> str:
    """Which network diverged; "" where none did."""
    lost = next((result for result in networks.results if result.diverged is not None), None)
    return f"it {lost.divergence} at the learning rate {lost.lr:g}" if lost else ""


def _spent(context: Context, candidate: Candidate, networks: Fit | None, before: int) -> tuple[float, float]:
    """Trainings, in naive ones, and seconds of a candidate on a rung."""
    results = networks.results[before:] if networks else []
    trainings = len(results) * unit_cost(context.train, context.recipe, candidate)
    return trainings, sum(result.seconds for result in results)


def _rung(
    candidates: Sequence[Candidate],
    judged: Sequence[Evidence],
    kept: Sequence[Evidence],
    spent: dict[str, tuple[float, float]],
    reasons: dict[str, str],
    goal: Goal,
    folds: int,
) -> Rung:
    """What became of each candidate on a rung; `kept` has the preferred one first."""
    by_name = {one.candidate.name: one for one in judged}
    rows = []
    for name in (candidate.name for candidate in candidates):
        trainings, seconds = spent[name]
        if name in reasons:
            rows.append(RungRow(name, trainings, seconds, reason=reasons[name]))
            continue
        one = by_name[name]
        behind, behind_error = goal.difference(one.adjusted, kept[0].adjusted, one.labels, one.groups)
        row = RungRow(
            name,
            trainings,
            seconds,
            value=goal.value(one.adjusted, one.labels),
            standard_error=goal.standard_error(one.adjusted, one.labels, one.groups),
            behind=behind,
            behind_error=behind_error,
            kept=any(one is other for other in kept),
        )
        rows.append(row)
    return Rung(folds, len(kept[0].places) if kept else 0, tuple(rows))


def judge(context: Context, candidate: Candidate, networks: Fit, goal: Goal) -> Evidence:
    """What the networks predict for the folds that they left out."""
    train = context.train
    places: list[NDArray[np.int64]] = []
    p: list[NDArray[np.float64]] = []
    for i, lane in enumerate(networks.lanes):
        assert lane.fold is not None
        unseen = fold_indices(train, lane.fold)
        places.append(unseen)
        p.append(networks.take([i]).probabilities(train.take(unseen))[0].astype(np.float64))
    order, predicted = np.concatenate(places), np.concatenate(p)
    labels = train.labels[order]
    groups = None if train.group_codes is None else train.group_codes[order]
    adjusted = cross_adjusted(predicted, labels, train.counts, goal, candidate.usual_tau, groups)
    cost = unit_cost(train, context.recipe, candidate)
    return Evidence(candidate, networks, order, labels, predicted, adjusted, cost, groups)


def lowest(evidence: Sequence[Evidence], goal: Goal, number: int) -> list[Evidence]:
    """The so many best by the goal, the preferred one first."""
    best = preferred(evidence, goal)
    others = [other for other in evidence if other is not best]
    others.sort(key=lambda other: goal.value(other.adjusted, other.labels))
    return [best, *others][:number]


def best_naive(evidence: Iterable[Evidence], goal: Goal) -> Evidence | None:
    """Of the naive candidates the best once adjusted; of several kinds of models, the best as they are."""
    naive = [one for one in evidence if one.candidate.is_naive]
    if not naive:
        return None
    as_it_is = bool(naive[0].candidate.kind)
    values = [goal.value(one.p if as_it_is else one.adjusted, one.labels) for one in alike(naive)]
    return naive[values.index(min(values))]


def alike(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The same evidence on the examples that all of it has: folds come in order, so these are the first."""
    examples = min(len(one.places) for one in evidence)
    return [one.at(slice(examples)) for one in evidence]


def preferred(evidence: Sequence[Evidence], goal: Goal) -> Evidence:
    """The best by the goal; a cheaper one where that is within a standard error of it; of equals the first."""
    compared = alike(evidence)
    values = [round(goal.value(one.adjusted, one.labels), 10) for one in compared]
    best = compared[values.index(min(values))]
    behind = [goal.difference(one.adjusted, best.adjusted, one.labels, one.groups) for one in compared]
    tied = [i for i, difference in enumerate(behind) if not is_clear(*difference)]
    return evidence[min(tied, key=lambda i: (round(compared[i].cost, 9), values[i], i))]
