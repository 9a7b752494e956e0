"""What a lane's result depends on, as one word."""

import dataclasses
import hashlib
import json
from functools import lru_cache
from typing import Any

import numpy as np

from class_uncertainty.measures import Stats
from class_uncertainty.methods import Method, plan
from class_uncertainty.training.recipe import Lane, Recipe

ENGINE = 2  # raised when a change of the loop changes results: then nothing stored before is taken for the new one


def lane_key(data: str, lane: Lane, recipe: Recipe, stats: Stats, device: str) -> str:
    """A hash of all that determines a lane's result: data, method, its plan in every epoch, recipe, seed, rate, fold, device."""
    uncertainty = None if stats.uncertainty is None else tuple(stats.uncertainty)
    plans = _plans(lane.value, recipe.epochs, tuple(stats.counts), uncertainty)
    return key_of(data, lane.name, plans, dataclasses.asdict(recipe), lane.seed, lane.rate(recipe), lane.fold, device)


@lru_cache(maxsize=1024)  # one for all seeds, rates and folds of a method
def _plans(method: Method, epochs: int, counts: tuple[float, ...], uncertainty: tuple[float, ...] | None) -> str:
    """A hash of a method's plan in every epoch."""
    digest, stats = hashlib.sha256(), Stats(counts, uncertainty)
    for epoch in range(epochs):
        chosen = plan(method, stats, epoch, epochs)
        digest.update(np.concatenate([chosen.alpha, chosen.weight, chosen.margin, chosen.divisor]).tobytes())
        digest.update(repr((chosen.beta, chosen.gamma, chosen.sigmoid, chosen.scale, method.head, method.reduction)).encode())
    return digest.hexdigest()


def key_of(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([ENGINE, *parts]).encode()).hexdigest()[:32]
