"""fix(): from data to one better balanced network, with what was wrong and what has changed."""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.boundary import checked
from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError
from class_uncertainty.estimation import Asked, Diverged, Estimate
from class_uncertainty.methods import Method
from class_uncertainty.remedies.calibration import judge
from class_uncertainty.remedies.diagnosis import Mended, Side, findings, side, suspects
from class_uncertainty.remedies.table import MOST, REMEDIES, Remedy
from class_uncertainty.results.remedied import remedied
from class_uncertainty.results.runs import keep_folds, measured, unmeasured
from class_uncertainty.results.store import Store
from class_uncertainty.results.ward import Lost, Ward
from class_uncertainty.training import DISTIL, Lane, Recipe, default_recipe
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.folds import FOLDS, held_out
from class_uncertainty.training.keys import key_of, kind_of
from class_uncertainty.training.loop import default_device
from class_uncertainty.training.networks import Classifier

NAIVE = Remedy("one naive network", adjusts=False, together=1)
RATES = (1.0, 4.0)  # of the recipe's learning rate: what is tried where nothing else is asked for
NEAR = 1.25  # times the lowest error on unseen examples: how much a network may have that speaks of suspicious labels


@checked
@dataclass(frozen=True, eq=False)
class Fix:
    """One network in the place of the naive one: `module` takes raw inputs, and its softmax is calibrated for equally frequent classes."""

    module: Classifier
    mended: Mended
    estimate: Estimate  # out-of-fold, at the learning rate that was chosen
    lr: float  # the teachers'

    @property
    def tau(self) -> float:
        return self.mended.tau

    @property
    def before(self) -> Side:
        return self.mended.before

    @property
    def after(self) -> Side:
        return self.mended.after


@checked(passes_on="class_uncertainty.training.loop.fit", without=("train", "lanes", "test", "stats", "teachers", "done", "progress"))
def fix(
    dataset: Dataset | Data,
    members: int = 5,
    recipe: Recipe | None = None,
    *,
    lrs: Sequence[float] | None = None,
    seeds: int = 3,
    store: Store | str | Path | None = None,
    watch: Callable[[int, str], Any] | None = None,
    **options: Any,
) -> Fix:
    """Measure out-of-fold, choose the learning rate, tau and the temperature on that, and distil members into one network.

    Before and after are judged on the test split, or without one by folds; nothing is chosen on them. What a `store` has is not trained
    again. `options` go to fit(); `watch`, given a number of lanes and what they are, says how training is looked at.
    """
    dataset = Dataset("data", dataset) if isinstance(dataset, Data) else dataset
    if not 1 <= seeds <= MOST:
        raise InputError(f"seeds is {seeds}: it must be a whole number from 1 to {MOST:,}.")
    options["watch"] = watch
    if isinstance(folder := options.get("checkpoints"), str | Path):
        options["checkpoints"] = Checkpoints(folder)
    if options.get("budget") is not None and not options["budget"] > 0:
        raise InputError(f"budget is {options['budget']!r}: it must be a number of seconds above 0.")
    if options.get("budget") and store is None:
        raise InputError("a budget is given and no store: what has been trained would be lost when it is spent, so give one.")
    deadline = time.monotonic() + options["budget"] if options.get("budget") else None

    def now() -> dict[str, Any]:
        return options | ({"budget": max(deadline - time.monotonic(), 1e-3)} if deadline else {})

    with ExitStack() as stack:
        if not isinstance(store, Store):  # without one, in a folder that goes away
            place = store or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "runs.sqlite"
            store = stack.enter_context(Store(place))
        wards = choose(store, dataset, members, recipe or default_recipe(dataset.train), lrs, now)
        try:
            return mend(wards, seeds, len(lrs or RATES))
        except Lost as lost:
            raise InputError(f"{lost}: lower it.") from None


def choose(
    store: Store, dataset: Dataset, members: int, recipe: Recipe, lrs: Sequence[float] | None, options: Callable[[], dict[str, Any]]
) -> list[Ward]:
    """At each learning rate that did not diverge, by the class-mean error of adjusted members on what they never saw: the lowest first."""
    asked = [Asked("out-of-fold", members, lr=lr) for lr in lrs or [factor * recipe.lr for factor in RATES]]
    given = options()
    watch: Callable[[int, str], Any] | None = given.pop("watch", None)
    todo = unmeasured(store, dataset, recipe, asked)
    with watch(todo, "out-of-fold networks") if watch and todo else nullcontext() as progress:
        found = measured(store, dataset, recipe, asked, progress=progress, **given)
    wards = [
        Ward(store, dataset, recipe, members, each.lr, estimate, options=options)
        for each, estimate in zip(asked, found, strict=True)
        if isinstance(estimate, Estimate)
    ]
    if not wards:
        lost = next(each for each in found if isinstance(each, Diverged))
        raise InputError(f"{lost}: lower the learning rate.")
    return sorted(wards, key=_unseen_error)


def _unseen_error(ward: Ward) -> float:
    assert ward.estimate is not None
    return judge(ward.adjustment()(ward.estimate.probabilities[0]), ward.estimate.labels).class_mean_error


def mend(wards: Sequence[Ward], seeds: int, rates: int) -> Fix:
    """Before: naive networks, of the first ward. After: their students. Both of as many seeds; `rates` were tried."""
    ward = wards[0]
    dataset, estimate, labels = ward.dataset, ward.estimate, ward.labels
    assert estimate is not None
    counts, numbers = dataset.train.counts, range(seeds)
    teachers = ward.naive(range(ward.members))
    remedied(ward, DISTIL, numbers)  # its results, beside those of methods
    after = side(ward.said(REMEDIES[DISTIL], numbers), labels, counts)
    ward.prepare(NAIVE, numbers)
    before = side(ward.said(NAIVE, numbers), labels, counts)
    if dataset.test is None:  # with one, lanes are judged as they end
        keep_folds(ward.store, dataset, ward.naive(numbers), ward.recipe)
    fitted = ward.fit(ward.students(numbers), teachers)
    best = int(np.argmin([result.loss for result in fitted.results]))  # all have learnt the same: by no test data
    lesson, witnesses = ward.lesson(), _witnesses(wards)
    module = fitted.plain(Lane(Method(scale=1 / lesson.cooling)), fitted.states[best])
    mended = Mended(
        data=dataset.name,
        method=DISTIL,
        seeds=seeds,
        classes=tuple(dataset.classes),
        counts=tuple(map(int, counts)),
        tau=ward.adjustment().tau,
        temperature=lesson.teaching.temperature,
        cost=round(rates * ward.members + ward.trial_cost + REMEDIES[DISTIL].trainings(ward.members), 2),
        teachers=f"{ward.members} naive networks as teachers",
        before=before,
        after=after,
        findings=tuple(findings(dataset.classes, counts, before.means, before.confusion, estimate.using("predictive").raw)),
        suspects=tuple(suspects(witnesses, estimate.labels, dataset.train)),
        witnesses=len(witnesses),
        kind=kind_of(ward.recipe, default_device()),
        cooling=lesson.cooling,
        note=_note(ward, rates, f"The network that is kept is the student of seed {best}, the one with the lowest training loss."),
        lr=ward.rate,
    )
    key = key_of("mended", seeds, fitted.keys, dataset.fingerprint)
    ward.store.add_mended(key, dataset.fingerprint, mended)
    return Fix(module, mended, estimate, ward.rate)


def _note(ward: Ward, rates: int, kept: str) -> str:
    """What before and after are of, and how that was chosen."""
    several, test = rates > 1, ward.dataset.test
    rate = f"learning rate {ward.rate:g}{', chosen by the adjusted error' if several else ''}; students learn at {ward.taught_at:g}"
    judged = f"judged on {len(test):,} test examples" if test else f"judged by {FOLDS} folds: τ and T of a fold were chosen on the others"
    on_all = ", the learning rate on all" if several and not test else ""
    cost = f" The cost counts {rates} learning rates of {ward.members} trainings each, where 'cu compare' counts one." if several else ""
    return f"Before and the teachers: {rate}. All was chosen out-of-fold, and {judged}{on_all}. {kept}{cost}"


def _witnesses(wards: Sequence[Ward]) -> NDArray[np.floating]:
    """(T, N, C) by networks that never saw an example: one at each rate that is NEAR, or where every fold is judged all its teachers."""
    ward = wards[0]
    if ward.dataset.test:
        near = [each for each in wards if _unseen_error(each) <= NEAR * _unseen_error(ward)]
        return np.concatenate([each.estimate.probabilities for each in near if each.estimate])
    order = np.concatenate([held_out(ward.dataset.train, fold) for fold in ward.folds if fold])
    return ward.said(NAIVE, range(ward.members))[:, np.argsort(order)]


__all__ = ["Fix", "choose", "fix", "mend"]
