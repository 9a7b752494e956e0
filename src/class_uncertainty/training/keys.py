"""What a lane's result depends on, as one word."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from class_uncertainty.measures import Stats
from class_uncertainty.methods import Method, plan
from class_uncertainty.training.recipe import Lane, Recipe, describe
from class_uncertainty.training.stages import legs

ENGINE = 3  # raised when a change of the loop changes results: then nothing stored before is taken for the new one
WALKED = 4096  # epochs up to which a key has the plan of each: to change it would lose what is stored
SAMPLED = 256  # of more


def lane_key(data: str, lane: Lane, recipe: Recipe, stats: Stats, device: str, teachers: Sequence[str] = ()) -> str:
    """A hash of all that determines a lane's result: data, method, its plan over the epochs, recipe, seed, rate, fold, bootstrap, device,
    and of a student what it learns and from whom, by their own keys."""
    uncertainty = None if stats.uncertainty is None else tuple(stats.uncertainty)
    plans = _plans(lane.value, recipe, tuple(stats.counts), uncertainty)
    taught = [dataclasses.asdict(lane.teaching), list(teachers)] if lane.teaching else []
    own = (lane.seed, lane.rate(recipe), lane.fold, bool(lane.bootstrap), device)
    return key_of(data, lane.name, plans, dataclasses.asdict(recipe), *own, *taught)


def checkpoint_keys(data: str, lane: Lane, recipe: Recipe, stats: Stats, device: str, teachers: Sequence[str] = ()) -> list[str]:
    """Of each stage of a lane that is under way; what it gathers is no matter of its result, but it is of these."""
    key = lane_key(data, lane, recipe, stats, device, teachers)
    key = key_of(key, lane.gather) if lane.gather else key
    return [key_of(key, number) if number else key for number in range(len(lane.value.stages))]


@lru_cache(maxsize=1024)  # one for all seeds, rates and folds of a method
def _plans(method: Method, recipe: Recipe, counts: tuple[float, ...], uncertainty: tuple[float, ...] | None) -> str:
    """A hash of a method's fields and of its plan over the epochs."""
    digest, stats = hashlib.sha256(repr(describe(method)).encode()), Stats(counts, uncertainty)
    for stage, leg in zip(method.stages, legs(method, recipe), strict=True):
        for epoch in _hashed_epochs(leg.recipe.epochs):
            chosen = plan(stage, stats, epoch, leg.recipe.epochs)
            digest.update(np.concatenate([chosen.alpha, chosen.weight, chosen.margin, chosen.divisor]).tobytes())
            digest.update(repr((chosen.gamma, chosen.sigmoid)).encode())
    return digest.hexdigest()


def _hashed_epochs(epochs: int) -> Iterable[int]:
    """Every epoch, or of very many SAMPLED, evenly spread from the first to the last: a key takes no longer, however long the training."""
    if epochs <= WALKED:
        return range(epochs)
    return (i * (epochs - 1) // (SAMPLED - 1) for i in range(SAMPLED))


def kind_of(recipe: Recipe, device: str) -> str:
    """What was trained alike, and so can be shown together."""
    return key_of(dataclasses.asdict(recipe), device)


def key_of(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([ENGINE, *parts]).encode()).hexdigest()[:32]
