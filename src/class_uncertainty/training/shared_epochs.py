"""Epochs that lanes share: a knob that rests until the second stage changes nothing before it. One of them trains."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from class_uncertainty.methods import MIXING, Focal, Knob
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.stages import resolve_stages, staged


@dataclass(frozen=True)
class Stretch:
    """Epochs of a stage, up to `until`, and the places of lanes that do not differ by then, together."""

    until: int
    alike: list[list[int]]

    def leaders(self, reached: Callable[[int], int], last: bool) -> dict[int, list[int]]:
        """Who trains for whom, itself first: the lane that is furthest. Lanes that are beyond have nothing to do."""
        left = ([place for place in places if last or reached(place) < self.until] for places in self.alike)
        by_progress = (sorted(places, key=reached, reverse=True) for places in left if places)
        return {first: [first, *others] for first, *others in by_progress}


def stretches(lanes: Mapping[int, Lane], recipe: Recipe, shares: bool) -> list[Stretch]:
    """The lanes of a stage, by place, from the first epoch to the last; where nothing is shared it is one stretch."""
    openings = {place: _opening(lane, recipe) if shares else (place, 0) for place, lane in lanes.items()}
    together = [places for places in _grouped(lanes, lambda place: openings[place][0]) if len(places) > 1]
    ends = sorted({recipe.epochs, *(openings[place][1] for places in together for place in places)})

    def alike(until: int) -> list[list[int]]:
        return _grouped(lanes, lambda place: openings[place][0] if openings[place][1] >= until else place)

    return [Stretch(until, alike(until)) for until in ends]


def spared_epochs(lanes: Sequence[Lane], recipe: Recipe) -> int:
    """Epochs of first stages that need not be trained, since another of these lanes trains them."""
    by_recipe: dict[Recipe, dict[int, Lane]] = {}
    for place, lane in enumerate(lanes):
        stage = resolve_stages(lane.value, recipe)[0]
        by_recipe.setdefault(stage.recipe, {})[place] = staged(lane, recipe, 0)
    spared = 0
    for first, together in by_recipe.items():
        since = 0
        for stretch in stretches(together, first, shares=not first.is_fitted):
            spared += (stretch.until - since) * (len(together) - len(stretch.alike))
            since = stretch.until
    return spared


def _grouped(places: Iterable[int], key: Callable[[int], object]) -> list[list[int]]:
    groups: dict[object, list[int]] = {}
    for place in places:
        groups.setdefault(key(place), []).append(place)
    return list(groups.values())


def _opening(lane: Lane, recipe: Recipe) -> tuple[Lane, int]:
    """What a lane is in its first epochs, in which some of its knobs still rest, and how many epochs these are."""
    method, epochs = lane.value, recipe.epochs
    parts: dict[str, Knob | Focal] = {**method.knobs, **({"focal": method.focal} if method.focal else {})}
    begins = {
        name: next((epoch for epoch in range(epochs) if part.ramp(epoch, epochs)), epochs)
        for name, part in parts.items()
    }
    later = {name: epoch for name, epoch in begins.items() if epoch}
    resting: dict[str, Any] = dict.fromkeys(later)
    opening = replace(method, about="", counterpart="", **resting)
    if not opening.margin:
        opening = replace(opening, beta=0.0)
    if not opening.weight and not MIXING & set(opening.augment):  # weights of 1 add up to the size of the batch;
        opening = replace(opening, reduction="mean")  # those of mixtures may not, to the last bit
    return replace(lane, method=opening, lr=lane.rate(recipe)), min(later.values(), default=epochs)
