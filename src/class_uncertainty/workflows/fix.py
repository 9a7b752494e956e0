"""cu.fix(): from data to one better balanced network, with what was wrong and what has changed.

The order is: out-of-fold estimates, the learning rate, tau, naive networks, T and the cooling, students, evaluation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.boundary import check_distinct, checked
from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Diverged, Estimate, EstimateRequest
from class_uncertainty.methods import Method
from class_uncertainty.metrics import evaluate
from class_uncertainty.posthoc.diagnosis import findings
from class_uncertainty.posthoc.evaluation import Evaluation, evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.posthoc.label_issues import label_issues
from class_uncertainty.posthoc.remedies import REMEDIES, Remedy
from class_uncertainty.runs.context import Context, Watch, open_context
from class_uncertainty.runs.load_or_train import add_fold_results, load_or_estimate, load_or_fit
from class_uncertainty.runs.store import FIXES, Store
from class_uncertainty.training import DISTIL, Lane, Recipe
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit_result import Fit
from class_uncertainty.training.folds import FOLDS, fold_indices
from class_uncertainty.training.keys import key_of, kind_of
from class_uncertainty.training.model_files import save as save_model
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.workflows import choose
from class_uncertainty.workflows.choose import Choice, Choices, Fold, judged_folds
from class_uncertainty.workflows.compare import check_seeds
from class_uncertainty.workflows.evaluate_remedies import FoldAnswer, RemedySetting, joined, naive_lanes, student_lanes

NAIVE = Remedy("one naive network", adjusts=False, together=1)
RATES = (1.0, 4.0)  # of the recipe's learning rate: what is tried unless rates are given
NEAR = 1.25  # times the lowest out-of-fold error: networks at other rates below it speak of label issues too


@checked
@dataclass(frozen=True, eq=False)
class Fix:
    """What `cu.fix` returns: one network in the place of the naive one.

    Attributes
    ----------
    module : torch.nn.Module
        The network with its preprocessing: raw inputs in, logits out. Its softmax is calibrated for equally frequent
        classes.
    report : FixReport
        What was wrong, what was done and what has changed.
    estimate : Estimate
        The out-of-fold estimate at the chosen learning rate.
    choice : Choice
        What was chosen without test data: learning rate, tau, T and the cooling.
    files : tuple of Path
        What `save` wrote.

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> fixed = cu.fix(cu.load("digits-lt:20"), members=2, recipe=recipe, lrs=[0.1], seeds=1)
    >>> fixed.report.method, fixed.choice.lr
    ('distil', 0.1)
    """

    module: Classifier
    report: FixReport
    estimate: Estimate
    choice: Choice
    files: tuple[Path, ...] = ()

    @property
    def before(self) -> Evaluation:
        """Of naive networks."""
        return self.report.before

    @property
    def after(self) -> Evaluation:
        """Of students."""
        return self.report.after

    def document(self) -> dict[str, Any]:
        """What `cu fix --json` prints: the report without its pictures."""
        document = asdict(self.report)
        for issue in document["label_issues"]:
            del issue["picture"]
        return document


@dataclass(frozen=True, eq=False)
class Candidate:
    """A learning rate, what was measured at it, what was chosen on that, and the error of both out-of-fold."""

    lr: float
    estimate: Estimate
    choice: Choice
    error: float
    rates: int  # that were tried


@checked
def fix(
    dataset: Dataset | Data,
    members: int = 5,
    recipe: Recipe | None = None,
    *,
    lrs: Sequence[float] | None = None,
    seeds: int = 3,
    save: str | Path | None = None,
    store: Store | str | Path | None = None,
    device: str | None = None,
    budget: float | Deadline | None = None,
    progress: Watch | None = None,
    profile: str | Path | None = None,
) -> Fix:
    """Train naive networks, adjust what they say together for the counts, and distil it into one network.

    Learning rate, tau and temperatures are chosen on examples that the choosing networks never saw. Before and after
    are judged on the test split, or by folds without one; nothing is chosen on them.

    Parameters
    ----------
    dataset : Dataset or Data
        What to train on.
    members : int
        Folds that measure, and networks that teach.
    recipe : Recipe, optional
        How to train; by default the one for images or for features.
    lrs : list of float, optional
        Learning rates to choose from; by default the recipe's and four times it.
    seeds : int
        Networks before and after. The student with the lowest training loss is kept.
    save : path, optional
        Write the network to PATH.safetensors and PATH.json, which `cu.restore` reads.
    store, device, budget, progress, profile
        As for `cu.measure`.

    Returns
    -------
    Fix

    Examples
    --------
    >>> recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    >>> fixed = cu.fix(cu.load("digits-lt:20"), members=2, recipe=recipe, lrs=[0.1], seeds=1)
    >>> fixed.choice.lr, len(fixed.after.errors)
    (0.1, 1)
    """
    check_seeds(seeds, alternative="")
    if lrs is not None:
        check_distinct("learning rate", lrs)
    with open_context(dataset, recipe, store, device, budget, progress, profile) as context:
        rates = lrs or [factor * context.recipe.lr for factor in RATES]
        requests = [EstimateRequest("out-of-fold", members, lr=lr) for lr in rates]
        estimates = load_or_estimate(context, requests, "training out-of-fold networks")
        candidates = rank_rates(context, rates, estimates)
        best = candidates[0]
        folds = [fold for fold in judged_folds(context.dataset) if fold]
        choices = {None: best.choice} | choose.choose_adjustments(context, best.lr, best.estimate, folds)
        naive = train_naive(context, members, seeds, best.lr)
        choices = choose.choose_teaching(context, choices, naive.pick(choose.trial_members(context, members, best.lr)))
        students = {fold: distil(context, naive, members, seeds, choices[fold], fold) for fold in choices}
        report = evaluate_fix(context, candidates, choices, naive, students, members, seeds)
        kept = students[None].take([_best_student(students[None])])
        module = kept.plain(Lane(Method(scale=1 / choices[None].cooling)), kept.states[0])
        about: dict[str, Any] = {"data": report.data, "columns": context.train.columns, "lr": report.lr}
        about |= {"tau": report.tau, "T": report.temperature, "errors": report.after.errors}
        files = save_model(module, save, about) if save else ()
        return Fix(module, report, best.estimate, choices[None], tuple(files))


def rank_rates(context: Context, rates: Sequence[float], estimates: Sequence[Estimate | Diverged]) -> list[Candidate]:
    """The learning rates that did not diverge, the lowest class-mean error of adjusted out-of-fold members first."""
    candidates = []
    for lr, estimate in zip(rates, estimates, strict=True):
        if isinstance(estimate, Estimate):
            choice = choose.choose_adjustments(context, lr, estimate, [None])[None]
            p = choice.adjustment(estimate.probabilities[0])
            error = evaluate(p, estimate.labels, context.train.counts).error
            candidates.append(Candidate(lr, estimate, choice, error, len(rates)))
    if not candidates:
        diverged = next(estimate for estimate in estimates if isinstance(estimate, Diverged))
        raise InputError(f"{diverged}: lower the learning rate.")
    return sorted(candidates, key=lambda candidate: candidate.error)


def train_naive(context: Context, members: int, seeds: int, lr: float) -> Fit:
    """All naive networks, trained or read once: those on trial, the teachers, and what is judged before."""
    folds = judged_folds(context.dataset)
    lanes = [lane for fold in folds for lane in naive_lanes(range(max(members, seeds)), lr, fold)]
    lanes += naive_lanes(range(members), lr) + choose.trial_members(context, members, lr)
    return _converged(load_or_fit(context, list(dict.fromkeys(lanes))))


def distil(context: Context, naive: Fit, members: int, seeds: int, choice: Choice, fold: Fold) -> Fit:
    """Students that leave a fold out, taught by naive networks that have left it out too."""
    teachers = naive.pick(naive_lanes(range(members), choice.lr, fold))
    lanes = student_lanes(range(seeds), choice, fold)
    return _converged(load_or_fit(context, lanes, teachers=teachers, what="students"))


def _converged(networks: Fit) -> Fit:
    for result in networks.results:
        if result.diverged is not None:
            network = f"{result.method} of seed {result.seed} diverged in epoch {result.diverged}"
            raise InputError(f"{network} at the learning rate {result.lr:g}: lower it.")
    return networks


def evaluate_fix(
    context: Context,
    candidates: Sequence[Candidate],
    choices: Choices,
    naive: Fit,
    students: dict[Fold, Fit],
    members: int,
    seeds: int,
) -> FixReport:
    """Judge before and after, look for reasons and for label issues, and store all of it."""
    dataset, train, best, choice = context.dataset, context.train, candidates[0], choices[None]
    folds, counts, distil = judged_folds(dataset), train.counts, REMEDIES[DISTIL]
    setting = RemedySetting(
        context, members, best.lr, choices, None, best.estimate.cost, choose.trial_cost(context, members)
    )
    fits = {fold: [naive.pick([lane for lane in naive.lanes if lane.fold == fold]), students[fold]] for fold in folds}
    judged_seeds = seeds if dataset.test else max(members, seeds)  # by folds the teachers speak of label issues
    before_answers = setting.answers([(NAIVE, seed) for seed in range(judged_seeds)], fits)
    after_answers = setting.answers([(distil, seed) for seed in range(seeds)], fits)
    for seed, answers in enumerate(after_answers):
        key = setting.key(DISTIL, distil, seed)
        if context.store.get(key) is None:
            context.store.add(key, dataset.fingerprint, setting.result(DISTIL, distil, seed, answers))
    if dataset.test is None:  # with a test split, networks are judged as they end
        add_fold_results(context, naive_lanes(range(seeds), best.lr), naive)
    p_before, p_after = (np.stack(list(map(_sound, side))) for side in (before_answers, after_answers))
    labels = choose.judged_labels(dataset)
    before, after = (evaluate_seeds(p, labels, counts) for p in (p_before[:seeds], p_after))
    witnesses = _near(candidates) if dataset.test else _in_order(context, p_before[:members])
    unsure = best.estimate.using("predictive").raw
    report = FixReport(
        data=dataset.name,
        method=DISTIL,
        seeds=seeds,
        classes=tuple(dataset.classes),
        counts=tuple(map(int, counts)),
        tau=choice.tau,
        temperature=choice.temperature,
        cost=round(best.rates * members + setting.trial_cost + distil.trainings(members), 2),
        teachers=f"{members} naive networks as teachers",
        before=before,
        after=after,
        findings=tuple(findings(dataset.classes, counts, before.means, before.confusion, unsure)),
        label_issues=tuple(label_issues(witnesses, best.estimate.labels, train)),
        witnesses=len(witnesses),
        kind=kind_of(context.recipe, context.device),
        cooling=choice.cooling,
        note=_note(context, choice, members, best.rates, _best_student(students[None])),
        lr=choice.lr,
    )
    key = key_of(FIXES, seeds, students[None].keys, dataset.fingerprint)
    context.store.add_fix_report(key, dataset.fingerprint, report)
    return report


def _sound(answers: Sequence[FoldAnswer]) -> NDArray[np.float64]:
    p = joined(answers)
    assert p is not None  # diverged networks were refused
    return p


def _best_student(students: Fit) -> int:
    """The one with the lowest training loss: all have learnt the same, and no test data decide."""
    return int(np.argmin([result.loss for result in students.results]))


def _near(candidates: Sequence[Candidate]) -> NDArray[np.floating]:
    """(T, N, C) by networks that never saw an example, one at each learning rate that is NEAR the best."""
    near = [candidate for candidate in candidates if candidate.error <= NEAR * candidates[0].error]
    return np.concatenate([candidate.estimate.probabilities for candidate in near])


def _in_order(context: Context, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities fold after fold, in the order of the training examples."""
    order = np.concatenate([fold_indices(context.train, fold) for fold in judged_folds(context.dataset) if fold])
    return p[:, np.argsort(order)]


def _note(context: Context, choice: Choice, members: int, rates: int, kept: int) -> str:
    """What before and after are of, and how that was chosen."""
    test, several = context.dataset.test, rates > 1
    chosen = ", chosen by the adjusted error" if several else ""
    rate = f"learning rate {choice.lr:g}{chosen}; students learn at {choice.student_lr:g}"
    judged = f"judged on {len(test):,} test examples" if test else f"judged by {FOLDS} folds"
    if not test:
        judged += ": τ and T of a fold were chosen on the others" + (", the learning rate on all" if several else "")
    cost = f" The cost counts {rates} learning rates of {members} trainings each, where 'cu compare' counts one."
    student = f"The network that is kept is the student of seed {kept}, the one with the lowest training loss."
    sentences = f"Before and the teachers: {rate}. All was chosen out-of-fold, and {judged}. {student}"
    return sentences + (cost if several else "")
