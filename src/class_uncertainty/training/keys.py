"""Keys: hashes of all that a result depends on."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from class_uncertainty.measures import Stats
from class_uncertainty.methods import Method, plan
from class_uncertainty.training import Lane, Recipe, describe
from class_uncertainty.training.stages import resolve_stages

ENGINE = 3  # raised when a change of the loop changes results: then nothing stored before is taken for the new one
WALKED = 4096  # epochs up to which a key has the plan of each: to change it would lose what is stored
SAMPLED = 256  # of more
# fields that are younger than stored results: a key has them only where they are not at their defaults
YOUNGER = {
    Recipe: (
        *("schedule", "average", "optimizer", "pretrained", "head_rate", "layer_decay", "accumulate"),
        *("resized_crop", "jitter", "trees", "leaf", "leaves", "synchronised", "fingerprint"),
    )
}


def lane_key(
    data: str,
    lane: Lane,
    recipe: Recipe,
    stats: Stats,
    device: str,
    teachers: Sequence[str] = (),
    revision: int | None = None,
) -> str:
    """A hash of all that determines the result of a lane.

    That is data, method, its plan over the epochs, recipe, seed, rate, fold, bootstrap and device; for a student also
    what it learns, and the keys of its teachers. `revision` is an older one of the method.
    """
    method = lane.value
    if revision is not None:
        method = dataclasses.replace(method, revision=revision)
    uncertainty = None if stats.uncertainty is None else tuple(stats.uncertainty)
    plans = _plans(method, recipe, tuple(stats.counts), uncertainty)
    taught: list = [dataclasses.asdict(lane.teaching), list(teachers)] if lane.teaching else []
    of_lane = (lane.seed, lane.rate(recipe), lane.fold, bool(lane.bootstrap), device)
    return key_of(data, lane.name, plans, hashed_fields(recipe), *of_lane, *taught)


def checkpoint_keys(
    data: str, lane: Lane, recipe: Recipe, stats: Stats, device: str, teachers: Sequence[str] = ()
) -> list[str]:
    """The key of each stage of a lane under way. What it gathers does not change its result, but it changes these."""
    key = lane_key(data, lane, recipe, stats, device, teachers)
    key = key_of(key, lane.gather) if lane.gather else key
    return [key_of(key, number) if number else key for number in range(len(lane.value.stages))]


@lru_cache(maxsize=1024)  # one for all seeds, rates and folds of a method
def _plans(method: Method, recipe: Recipe, counts: tuple[float, ...], uncertainty: tuple[float, ...] | None) -> str:
    """A hash of a method's fields and of its plan over the epochs."""
    digest, stats = hashlib.sha256(repr(describe(method)).encode()), Stats(counts, uncertainty)
    for method_of_stage, stage in zip(method.stages, resolve_stages(method, recipe), strict=True):
        for epoch in _hashed_epochs(stage.recipe.epochs):
            knobs = plan(method_of_stage, stats, epoch, stage.recipe.epochs)
            digest.update(np.concatenate([knobs.alpha, knobs.weight, knobs.margin, knobs.divisor]).tobytes())
            digest.update(repr((knobs.gamma, knobs.sigmoid)).encode())
    return digest.hexdigest()


def _hashed_epochs(epochs: int) -> Iterable[int]:
    """Every epoch, or SAMPLED of very many, evenly spread: a key never takes long."""
    if epochs <= WALKED:
        return range(epochs)
    return (i * (epochs - 1) // (SAMPLED - 1) for i in range(SAMPLED))


def hashed_fields(record: Recipe) -> dict[str, Any]:
    """The fields that a key has."""
    at_rest = {name: getattr(type(record), name) for name in YOUNGER[type(record)]}
    fields = dataclasses.asdict(record).items()
    return {name: value for name, value in fields if name not in at_rest or value != at_rest[name]}


def kind_of(recipe: Recipe, device: str) -> str:
    """The key of what was trained alike, and so can be shown together."""
    return key_of(hashed_fields(recipe), device)


def key_of(*parts: Any) -> str:
    """A hash of the parts, and of the version of the training loop."""
    return hashlib.sha256(json.dumps([ENGINE, *parts]).encode()).hexdigest()[:32]
