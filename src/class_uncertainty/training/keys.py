"""What a lane's result depends on, as one word."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from class_uncertainty.measures import Stats
from class_uncertainty.methods import plan
from class_uncertainty.training.recipe import Lane, Recipe

ENGINE = 2  # raised when a change of the loop changes results: then nothing stored before is taken for the new one


def lane_key(data: str, lane: Lane, recipe: Recipe, stats: Stats, device: str) -> str:
    """A hash of all that determines a lane's result: data, method, its plan in every epoch, recipe, seed, rate, fold, device."""
    method, digest = lane.value, hashlib.sha256()
    for epoch in range(recipe.epochs):
        chosen = plan(method, stats, epoch, recipe.epochs)
        digest.update(np.concatenate([chosen.alpha, chosen.weight, chosen.margin, chosen.divisor]).tobytes())
        digest.update(repr((chosen.beta, chosen.gamma, chosen.sigmoid, chosen.scale, method.head, method.reduction)).encode())
    return key_of(data, lane.name, digest.hexdigest(), dataclasses.asdict(recipe), lane.seed, lane.rate(recipe), lane.fold, device)


def key_of(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([ENGINE, *parts]).encode()).hexdigest()[:32]
