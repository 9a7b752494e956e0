"""Remedies: what networks that are trained already are good for, judged as methods are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.measures import digest
from class_uncertainty.methods import named
from class_uncertainty.metrics import evaluate
from class_uncertainty.remedies.table import Remedy, remedy_named
from class_uncertainty.results.runs import network_key, read_back
from class_uncertainty.results.ward import Lost, Ward
from class_uncertainty.training import DISTIL, Result
from class_uncertainty.training.folds import FOLDS
from class_uncertainty.training.keys import key_of
from class_uncertainty.training.loop import default_device


def remedied(ward: Ward, name: str, seeds: Sequence[int]) -> list[Result]:
    """A remedy's results, one a seed, from the store or made now."""
    row = remedy_named(name)
    assert row is not None
    keys = {seed: _key(ward, name, row, seed) for seed in seeds}
    if todo := [seed for seed in seeds if ward.store.get(keys[seed]) is None]:
        ward.prepare(row, todo)
    for seed in todo:
        ward.used.clear()
        try:
            p: NDArray[np.float64] | None = ward.said(row, [seed])[0]
        except Lost:
            p = None
        ward.store.add(keys[seed], ward.dataset.fingerprint, _result(ward, name, row, seed, p))
    return read_back(ward.store, (ward.store.get(keys[seed]) for seed in seeds))


def _plan(ward: Ward, row: Remedy) -> dict[str, Any]:
    plan: dict[str, Any] = {"networks": row.together or ward.members}
    if row.adjusts:
        plan |= {"tau": ward.adjustment().tau, "temperature": ward.adjustment().temperature}
    if row.distils:
        lesson = ward.lesson()
        plan |= {"temperature": lesson.cooling, "taught at": ward.taught_at, "T": lesson.teaching.temperature}
    return plan


def _key(ward: Ward, name: str, row: Remedy, seed: int) -> str:
    """Of all that a result depends on: the networks, who taught them, and how they are adjusted. What is chosen, is chosen now."""
    parts: list[Any] = []
    for fold in ward.folds:
        lanes, teachers = ward.lanes(row, [seed], fold)
        whose = [network_key(ward.dataset, lane, ward.recipe, ward.stats) for lane in teachers]
        parts += [network_key(ward.dataset, lane, ward.recipe, ward.stats, whose) for lane in lanes]
        if row.adjusts:
            parts += [ward.adjustment(fold).tau, ward.lesson(fold).cooling if row.distils else ward.adjustment(fold).temperature]
    return key_of("remedy", name, ward.dataset.fingerprint, parts)


def _digest(ward: Ward, row: Remedy) -> str:
    """Of the class uncertainties that its method uses, "" if it uses none."""
    known = ward.stats.uncertainty if ward.stats and named(row.method).uses_uncertainty else None
    return "" if known is None else digest(known)


def _result(ward: Ward, name: str, row: Remedy, seed: int, p: NDArray[np.float64] | None) -> Result:
    """Of what it says of the judged examples; of nothing where a network diverged."""
    own = [result for result in ward.used if result.method == DISTIL] or ward.used
    each = 1.0 if row.distils else float(np.mean([result.cost for result in own]))
    choosing = ward.estimate.cost if ward.estimate and ward.chosen and row.adjusts else 0.0
    choosing += ward.trial_cost if row.distils else 0.0
    return Result(
        method=name,
        seed=seed,
        lr=ward.rate,
        fold=None,
        scores=None if p is None else evaluate(p, ward.labels, ward.dataset.train.counts),
        diverged=None if p is not None else min(result.diverged for result in ward.used if result.diverged is not None),
        loss=float(np.mean([result.loss for result in own])),
        seconds=sum(result.seconds for result in ward.used),
        plan=_plan(ward, row),
        recipe=ward.recipe,
        data=ward.dataset.train.fingerprint,
        uncertainty=_digest(ward, row),
        device=default_device(),
        folds=0 if ward.dataset.test else FOLDS,
        cost=each * row.trainings(ward.members) + choosing,
    )
