"""Remedies as rows beside the methods: what trained networks are worth when averaged, adjusted or distilled."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import Stats, digest
from class_uncertainty.methods import named
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc.averaging import combined
from class_uncertainty.posthoc.remedies import Remedy
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_fit, read_back
from class_uncertainty.training import Lane, Result
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, Fold, judged_examples, judged_folds, judged_labels
from class_uncertainty.training.keys import key_of
from class_uncertainty.workflows import choose
from class_uncertainty.workflows.choose import Choices, RemedyChoice


def naive_lanes(seeds: Iterable[int], lr: float | None, fold: Fold = None) -> list[Lane]:
    return [Lane("naive", seed, lr, fold) for seed in seeds]


def student_lanes(seeds: Iterable[int], choice: RemedyChoice, fold: Fold = None) -> list[Lane]:
    return [Lane("naive", seed, choice.student_lr, fold, teaching=choice.teaching) for seed in seeds]


@dataclass(frozen=True, eq=False)
class FoldAnswer:
    """What one seed of a remedy predicts (n, C) for a judged fold, and the results of the networks behind it."""

    networks: list[Result]
    students: list[Result]
    p: NDArray[np.float64] | None  # None where a network diverged


@dataclass(frozen=True, eq=False)
class RemedySetting:
    """What the remedies at one learning rate have in common."""

    context: Context
    members: int
    lr: float | None  # None: the recipe's
    choices: Choices
    stats: Stats | None = None  # for methods that use class uncertainties
    measuring_cost: float = 0.0  # of what tau was chosen on
    trial_cost: float = 0.0  # of what T was chosen on

    def networks(self, remedy: Remedy, seed: int, fold: Fold) -> list[Lane]:
        """The networks that are averaged, or that teach: students of all seeds share their teachers."""
        if remedy.distils:
            return naive_lanes(range(self.members), self.lr, fold)
        number = remedy.together or self.members
        return [Lane(remedy.method, seed * number + i, self.lr, fold) for i in range(number)]

    def lanes(self, rows: Sequence[tuple[Remedy, int]]) -> list[Lane]:
        """The networks of all (remedy, seed), for each judged fold."""
        folds = judged_folds(self.context.dataset)
        return list(dict.fromkeys(lane for fold in folds for row in rows for lane in self.networks(*row, fold)))

    def students(self, remedy: Remedy, seed: int, fold: Fold) -> list[Lane]:
        return student_lanes([seed], self.choices[fold], fold) if remedy.distils else []

    def stored_key(self, name: str, remedy: Remedy, seed: int) -> str:
        networks = self.networks(remedy, seed, None)
        keys = [self.key(name, remedy, seed, revision) for revision in self.context.revisions(networks)]
        return self.context.first_stored(keys, "results")

    def key(self, name: str, remedy: Remedy, seed: int, revision: int | None = None) -> str:
        """A hash of the networks, their teachers, and how they are adjusted."""
        parts: list[Any] = []
        for fold in judged_folds(self.context.dataset):
            choice = self.choices[fold]
            networks = self.networks(remedy, seed, fold)
            keys = [self.context.network_key(lane, self.stats, revision=revision) for lane in networks]
            if students := self.students(remedy, seed, fold):
                keys = [self.context.network_key(lane, self.stats, keys) for lane in students]
            temperature = choice.cooling if remedy.distils else choice.adjustment.temperature
            parts += [*keys, *([choice.tau, temperature] if remedy.adjusts else [])]
        return key_of("remedy", name, self.context.dataset.fingerprint, parts)

    def answers(self, rows: Sequence[tuple[Remedy, int]], fits: dict[Fold, list[Fit]]) -> list[list[FoldAnswer]]:
        """For each (remedy, seed) an answer for each judged fold, from the networks of that fold."""
        answers: list[list[FoldAnswer]] = [[] for _ in rows]
        for fold, fold_fits in fits.items():
            row_lanes = [(self.networks(*row, fold), self.students(*row, fold)) for row in rows]
            answering = {lane for networks, students in row_lanes for lane in students or networks}
            judged = judged_examples(self.context.dataset, fold)
            results, p = dict[Lane, Result](), dict[Lane, NDArray]()
            for fitted in fold_fits:
                results |= zip(fitted.lanes, fitted.results, strict=True)
                if present := [lane for lane in fitted.lanes if lane in answering]:
                    p |= zip(present, fitted.pick(present).probabilities(judged), strict=True)
            for (remedy, _), (networks, students), row_answers in zip(rows, row_lanes, answers, strict=True):
                if row_answers and row_answers[-1].p is None:  # a network of an earlier fold diverged
                    continue
                trained, taught = (
                    [results[lane] for lane in lanes if lane in results] for lanes in (networks, students)
                )
                sound = all(result.diverged is None for result in (*trained, *taught))
                row_p = [p[lane] for lane in students or networks if lane in p]
                predicted = predict(remedy, self.choices[fold], np.stack(row_p)) if sound and row_p else None
                row_answers.append(FoldAnswer(trained, taught, predicted))
        return answers

    def result(self, name: str, remedy: Remedy, seed: int, answers: Sequence[FoldAnswer]) -> Result:
        """The result of a seed over all judged folds."""
        dataset, p = self.context.dataset, joined(answers)
        students = [result for answer in answers for result in answer.students]
        trained = [result for answer in answers for result in (*answer.networks, *answer.students)]
        answering = students or trained
        uncertainty = self.stats.uncertainty if self.stats and named(remedy.method).uses_uncertainty else None
        unit_cost = 1.0 if remedy.distils else float(np.mean([result.cost for result in answering]))
        choosing = (self.measuring_cost if remedy.adjusts else 0.0) + (self.trial_cost if remedy.distils else 0.0)
        plan = self._plan(remedy)
        if revision := min(result.revision for result in trained):
            plan["revision"] = revision
        return Result(
            method=name,
            seed=seed,
            lr=self.lr or self.context.recipe.lr,
            fold=None,
            scores=None if p is None else evaluate(p, judged_labels(dataset), dataset.train.counts),
            diverged=None if p is not None else min(r.diverged for r in trained if r.diverged is not None),
            loss=float(np.mean([result.loss for result in answering])),
            seconds=sum(result.seconds for result in trained),
            plan=plan,
            recipe=self.context.recipe,
            data=dataset.train.fingerprint,
            uncertainty="" if uncertainty is None else digest(uncertainty),
            device=self.context.device,
            folds=0 if dataset.test else FOLDS,
            cost=unit_cost * remedy.trainings(self.members) + choosing,
        )

    def _plan(self, remedy: Remedy) -> dict[str, Any]:
        """How the remedy is made, in words and numbers."""
        choice, plan = self.choices[None], dict[str, Any](networks=remedy.together or self.members)
        if remedy.adjusts:
            plan |= {"tau": choice.tau, "temperature": choice.adjustment.temperature}
        if remedy.distils:
            plan |= {"temperature": choice.cooling, "taught at": choice.student_lr, "T": choice.temperature}
        return plan


def predict(remedy: Remedy, choice: RemedyChoice, probabilities: NDArray) -> NDArray[np.float64]:
    """A remedy's probabilities (n, C), from those of its networks (networks, n, C)."""
    p = probabilities.astype(np.float64)
    if remedy.distils:  # the student has learnt adjusted probabilities
        return replace(choice.adjustment, bias=np.zeros(p.shape[-1]), temperature=choice.cooling)(p[0])
    mean = combined(p, remedy.mean)
    return choice.adjustment(mean) if remedy.adjusts else mean


def joined(answers: Sequence[FoldAnswer]) -> NDArray[np.float64] | None:
    """(n, C), fold after fold; None where a network of a fold diverged."""
    parts = [answer.p for answer in answers if answer.p is not None]
    return np.concatenate(parts) if len(parts) == len(answers) else None


def evaluate_remedies(
    context: Context,
    remedies: dict[str, Remedy],
    seeds: Sequence[int],
    members: int,
    lr: float | None,
    estimate: Estimate | None,
    stats: Stats | None,
) -> list[Result]:
    """Every remedy's results at one learning rate, one a seed, from the store or made now.

    tau is chosen on `estimate` if that is out-of-fold, and is 1 otherwise.
    """
    unseen = estimate if estimate and estimate.estimator == "out-of-fold" else None
    folds = judged_folds(context.dataset)
    choices = choose.choose_adjustments(context, lr, unseen, dict.fromkeys([*folds, None]))
    if unseen and any(remedy.distils for remedy in remedies.values()):
        trials = load_or_fit(context, choose.trial_members(context, members, lr))
        choices = choose.choose_teaching(context, choices, trials)
    costs = (unseen.cost, choose.trial_cost(context, members)) if unseen else (0.0, 0.0)
    setting = RemedySetting(context, members, lr, choices, stats, *costs)
    keys = {(name, seed): setting.stored_key(name, remedies[name], seed) for name in remedies for seed in seeds}
    todo = [row for row, key in keys.items() if context.store.get(key) is None]
    rows = [(remedies[name], seed) for name, seed in todo]
    lanes = setting.lanes(rows)
    if lanes:  # all networks train together; then the students of each fold, unless one of their teachers diverged
        networks = load_or_fit(context, lanes, stats)
        fits = {fold: [networks.pick([lane for lane in lanes if lane.fold == fold])] for fold in folds}
        student_seeds = [seed for remedy, seed in rows if remedy.distils]
        for fold in folds if student_seeds else ():
            teachers = networks.pick(naive_lanes(range(members), lr, fold))
            if all(result.diverged is None for result in teachers.results):
                students = student_lanes(student_seeds, choices[fold], fold)
                fits[fold].append(load_or_fit(context, students, teachers=teachers, what="students"))
        for (name, seed), answers in zip(todo, setting.answers(rows, fits), strict=True):
            result = setting.result(name, remedies[name], seed, answers)
            key = setting.key(name, remedies[name], seed, result.revision)  # stored networks may be of an older one
            context.store.add(key, context.dataset.fingerprint, result)
            keys[name, seed] = key
    return read_back(context.store, [context.store.get(key) for key in keys.values()])
