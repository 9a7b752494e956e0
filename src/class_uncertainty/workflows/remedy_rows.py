"""Remedies as rows beside the methods: what trained networks are worth when averaged, adjusted or distilled.

tau and the temperatures are chosen on examples that the choosing networks never saw. Where folds are judged, each fold
has a Tuning that was chosen without it; the fold None stands for the test split.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.estimation import Estimate, EstimateRequest
from class_uncertainty.measures import Stats, digest
from class_uncertainty.methods import named
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc.adjustment import Adjustment
from class_uncertainty.posthoc.calibration import clearly_best, fit_adjustment
from class_uncertainty.posthoc.remedies import Remedy
from class_uncertainty.runs.context import Context
from class_uncertainty.runs.load_or_train import load_or_fit, read_back
from class_uncertainty.training import Lane, Result, Teaching
from class_uncertainty.training.candidate import Candidate
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, Fold, fold_indices, judged_folds, judged_labels
from class_uncertainty.training.keys import key_of
from class_uncertainty.training.stages import distillation_cost
from class_uncertainty.workflows.ladder import Networks, Row, Tuning, climb, fit_networks, leaving_out, teach

TEMPERATURES = (2.0, 4.0)  # to teach at: the first, unless another is clearly better
TRIAL_EXAMPLES = 2000  # enough to choose between them

Tunings = dict[Fold, Tuning]
Students = dict[Fold, Fit]
Rows = dict[tuple[str, int], Row]  # by the name of the remedy and the seed


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
    tunings = choose_adjustments(context, lr, unseen, [*judged_folds(context.dataset), None])
    if unseen and any(remedy.distils for remedy in remedies.values()):
        trial = load_or_fit(context, trial_members(context, members, lr))
        tunings = choose_teaching(context, tunings, trial)
    setting = RemedySetting(context, members, lr, tunings, stats)
    if unseen:
        setting = replace(setting, measuring_cost=unseen.cost, trial_cost=trial_cost(context, members))
    keys = {(name, seed): setting.stored_key(name, remedies[name], seed) for name in remedies for seed in seeds}
    missing = [key for key, stored in keys.items() if context.store.get(stored) is None]
    if missing:
        rows = {(name, seed): setting.row(name, remedies[name], seed) for name, seed in missing}
        for (name, seed), result in setting.results(rows).items():
            # stored networks may be of an older revision
            keys[name, seed] = setting.key(name, remedies[name], seed, result.revision)
            context.store.add(keys[name, seed], context.dataset.fingerprint, result)
    return read_back(context.store, [context.store.get(key) for key in keys.values()])


@dataclass(frozen=True, eq=False)
class RemedySetting:
    """What the remedies at one learning rate have in common."""

    context: Context
    members: int
    lr: float | None  # None: the recipe's
    tunings: Tunings
    stats: Stats | None = None  # for methods that use class uncertainties
    measuring_cost: float = 0.0  # of what tau was chosen on
    trial_cost: float = 0.0  # of what T was chosen on

    def row(self, name: str, remedy: Remedy, seed: int) -> Row:
        """One seed of a remedy as a step of the ladder."""
        candidate = at_rate(remedy.method, self.lr)
        tunings = {fold: replace(tuning, candidate=candidate) for fold, tuning in self.tunings.items()}
        return Row(name, remedy, tunings, {seed: self.network_seeds(remedy, seed)})

    def network_seeds(self, remedy: Remedy, seed: int) -> range:
        """Those of the networks that are averaged, or that teach: students of all seeds share their teachers."""
        if remedy.distils:
            return range(self.members)
        number = remedy.together or self.members
        return range(seed * number, (seed + 1) * number)

    def lanes(self, remedy: Remedy, seed: int, fold: Fold) -> list[Lane]:
        """The trainings of these networks."""
        candidate = at_rate(remedy.method, self.lr)
        return [candidate.lane(self.context.recipe, number, fold) for number in self.network_seeds(remedy, seed)]

    def stored_key(self, name: str, remedy: Remedy, seed: int) -> str:
        revisions = self.context.revisions(self.lanes(remedy, seed, None))
        keys = [self.key(name, remedy, seed, revision) for revision in revisions]
        return self.context.first_stored(keys, "results")

    def key(self, name: str, remedy: Remedy, seed: int, revision: int | None = None) -> str:
        """A hash of the networks, their teachers, and how they are adjusted."""
        parts: list[Any] = []
        for fold in judged_folds(self.context.dataset):
            tuning = self.tunings[fold]
            lanes = self.lanes(remedy, seed, fold)
            keys = [self.context.network_key(lane, self.stats, revision=revision) for lane in lanes]
            if remedy.distils:
                student = tuning.learner.lane(self.context.recipe, seed, fold, tuning.teaching)
                keys = [self.context.network_key(student, self.stats, keys)]
            parts += keys
            if remedy.adjusts:
                parts += [tuning.tau, tuning.cooling if remedy.distils else tuning.adjustment.temperature]
        return key_of("remedy", name, self.context.dataset.fingerprint, parts)

    def results(self, rows: Rows) -> dict[tuple[str, int], Result]:
        """The result of each row; without scores where a network diverged."""
        networks, students = self._train(rows)
        behind = {key: self._results_behind(key, row, networks, students) for key, row in rows.items()}
        sound = [row for key, row in rows.items() if behind[key].diverged is None]
        p = climb(self.context.dataset, sound, networks, students)
        return {key: self._result(key, row.remedy, behind[key], p.get(key)) for key, row in rows.items()}

    def _train(self, rows: Rows) -> tuple[Networks, Students]:
        """All networks together, then the students of each fold, unless one of their teachers diverged."""
        folds = judged_folds(self.context.dataset)
        wanted = [
            (row.tunings[fold].candidate, number, fold)
            for fold in folds
            for (_, seed), row in rows.items()
            for number in row.members[seed]
        ]
        networks = fit_networks(self.context, wanted, self.stats)
        students: Students = {}
        student_seeds = [seed for (_, seed), row in rows.items() if row.remedy.distils]
        if not student_seeds:
            return networks, students
        for fold in folds:
            tuning = self.tunings[fold]
            teachers = leaving_out(networks[tuning.candidate], fold, range(self.members))
            if all(result.diverged is None for result in teachers.results):
                students[fold] = teach(self.context, [tuning], student_seeds, fold, teachers)
        return networks, students

    def _results_behind(
        self, key: tuple[str, int], row: Row, networks: Networks, students: Students
    ) -> "ResultsBehind":
        """Those of the networks of a row, fold after fold, up to a fold in which one diverged."""
        _, seed = key
        behind = ResultsBehind([], [])
        for fold in judged_folds(self.context.dataset):
            fitted = networks[row.tunings[fold].candidate]
            behind.networks.extend(leaving_out(fitted, fold, row.members[seed]).results)
            if row.remedy.distils and fold in students:
                behind.students.extend(leaving_out(students[fold], fold, [seed]).results)
            if behind.diverged is not None:
                break
        return behind

    def _result(
        self, key: tuple[str, int], remedy: Remedy, behind: "ResultsBehind", p: NDArray[np.float64] | None
    ) -> Result:
        """The result of a row over all judged folds; p is None where a network diverged."""
        name, seed = key
        dataset = self.context.dataset
        trained = [*behind.networks, *behind.students]
        answering = behind.students or behind.networks
        uncertainty = self.stats.uncertainty if self.stats and named(remedy.method).uses_uncertainty else None
        unit_cost = 1.0 if remedy.distils else float(np.mean([result.cost for result in answering]))
        choosing = 0.0
        if remedy.adjusts:
            choosing += self.measuring_cost
        if remedy.distils:
            choosing += self.trial_cost
        plan = self._plan(remedy)
        if revision := min(result.revision for result in trained):
            plan["revision"] = revision
        return Result(
            method=name,
            seed=seed,
            lr=self.lr or self.context.recipe.lr,
            fold=None,
            scores=None if p is None else evaluate(p, judged_labels(dataset), dataset.train.counts),
            diverged=behind.diverged,
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
        tuning = self.tunings[None]
        plan: dict[str, Any] = {"networks": remedy.together or self.members}
        if remedy.adjusts:
            plan |= {"tau": tuning.tau, "temperature": tuning.adjustment.temperature}
        if remedy.distils:
            taught_at = tuning.learner.lr(self.context.recipe)
            plan |= {"temperature": tuning.cooling, "taught at": taught_at, "T": tuning.teaching.temperature}
        return plan


@dataclass(frozen=True, eq=False)
class ResultsBehind:
    """The results of the networks and of the students that one seed of a remedy is made of."""

    networks: list[Result]
    students: list[Result]

    @property
    def diverged(self) -> int | None:
        """The first epoch in which one diverged; None where none did."""
        epochs = [result.diverged for result in (*self.networks, *self.students) if result.diverged is not None]
        return min(epochs, default=None)


def at_rate(method: str, lr: float | None) -> Candidate:
    """A method at a learning rate; None stands for the recipe's."""
    return Candidate(method if lr is None else f"{method}?lr={lr!r}")


def choose_adjustments(context: Context, lr: float | None, estimate: Estimate | None, folds: Iterable[Fold]) -> Tunings:
    """tau and the temperature for each of these folds, chosen on an out-of-fold estimate.

    What is chosen for a fold is chosen without it, though the networks asked about the other folds have learnt it.
    Without such an estimate tau is 1: every member has seen every example. Students learn at the recipe's rate, even
    where their teachers were better at a higher one.
    """
    train = context.train
    student = at_rate("naive", min(context.recipe.lr, lr or context.recipe.lr))
    tunings: Tunings = {}
    for fold in folds:
        if estimate is None:
            adjustment = Adjustment.of(train.counts)
        else:
            kept = _outside(train, np.arange(len(train)), fold)
            adjustment = fit_adjustment(estimate.probabilities[0][kept], estimate.labels[kept], train.counts)
        teaching = Teaching(tau=adjustment.tau, temperature=TEMPERATURES[0])
        tunings[fold] = Tuning(at_rate("naive", lr), adjustment, teaching, student)
    return tunings


def choose_teaching(context: Context, tunings: Tunings, members: Fit) -> Tunings:
    """The same tunings with T and the cooling, chosen on students of out-of-fold members, as tau was.

    A student and its one teacher have left the same fold out. A T at which a student diverged is not considered.
    """
    train, taught = context.train, tunings[None]
    tried = [
        replace(taught, teaching=replace(taught.teaching, temperature=temperature)) for temperature in TEMPERATURES
    ]
    places: list[NDArray[np.int64]] = []
    answers: dict[float, list[NDArray[np.float64]]] = {temperature: [] for temperature in TEMPERATURES}
    for i, member in enumerate(members.lanes):
        assert member.fold is not None
        places.append(fold_indices(train, member.fold))
        students = teach(context, tried, [member.seed], member.fold, members.take([i]), what="students on trial")
        probabilities = students.probabilities(train.take(places[-1])).astype(np.float64)
        for temperature, result, p in zip(TEMPERATURES, students.results, probabilities, strict=True):
            if result.diverged is None:
                answers[temperature].append(p)
    complete = {T: np.concatenate(parts) for T, parts in answers.items() if len(parts) == len(places)}
    if not complete:
        return tunings
    order = np.concatenate(places)
    return {fold: _best_teaching(train, tuning, fold, order, complete) for fold, tuning in tunings.items()}


def _best_teaching(
    train: Data, tuning: Tuning, fold: Fold, order: NDArray[np.int64], answers: dict[float, NDArray[np.float64]]
) -> Tuning:
    kept = _outside(train, order, fold)
    labels = train.labels[order[kept]]
    best = list(answers)[clearly_best([p[kept] for p in answers.values()], labels)]
    cooling = fit_adjustment(answers[best][kept], labels, train.counts, tau=0.0).temperature
    return replace(tuning, teaching=replace(tuning.teaching, temperature=best), cooling=cooling)


def _outside(train: Data, places: NDArray[np.int64], fold: Fold) -> NDArray[np.bool_]:
    """Which of these training examples may be chosen on where a fold is judged."""
    return ~np.isin(places, fold_indices(train, fold)) if fold else np.full(len(places), True)


def trial_members(context: Context, members: int, lr: float | None) -> list[Lane]:
    """The out-of-fold members that teach on trial: enough for TRIAL_EXAMPLES, or all where every fold is judged."""
    examples = len(context.train)
    lanes = EstimateRequest("out-of-fold", members, lr=lr).lanes[:examples]  # later ones would have left none out
    return lanes[: -(-TRIAL_EXAMPLES * len(lanes) // examples)] if context.dataset.test else lanes


def trial_cost(context: Context, members: int) -> float:
    """What choosing T costs, in naive trainings; the teachers have measured already."""
    return len(TEMPERATURES) * len(trial_members(context, members, None)) * (distillation_cost(1) - 1)
