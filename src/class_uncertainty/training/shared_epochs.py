"""Epochs that lanes share: a knob that rests until the second stage changes nothing before it.

Such lanes train as one until they part.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from class_uncertainty.methods import MIXING, Focal, Knob
from class_uncertainty.methods.method import LATE, second_stage
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.networks.network_table import find_network
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.stages import resolve_stages, staged

T = TypeVar("T")


@dataclass(frozen=True)
class Stretch:
    """Epochs of a stage, up to `until`, and the places of lanes that do not differ by then, together."""

    until: int
    alike: list[list[int]]


def can_share(recipe: Recipe) -> bool:
    """Whether lanes can share epochs: not those that are fitted in one go, nor networks that may draw by themselves."""
    return not (recipe.is_fitted or find_network(recipe.network).own)


def stretches(lanes: Mapping[int, Lane], recipe: Recipe, shares: bool) -> list[Stretch]:
    """The lanes of a stage, by place, from the first epoch to the last; where nothing is shared it is one stretch."""
    openings: dict[int, tuple[Any, int]] = {}
    for place, lane in lanes.items():
        openings[place] = _opening(lane, recipe) if shares else (place, 0)
    together = [places for places in _grouped(lanes, lambda place: openings[place][0]) if len(places) > 1]
    ends = sorted({recipe.epochs, *(openings[place][1] for places in together for place in places)} - {0})

    def alike(until: int) -> list[list[int]]:
        return _grouped(lanes, lambda place: openings[place][0] if openings[place][1] >= until else place)

    return [Stretch(until, alike(until)) for until in ends]


def in_turn(together: Sequence[Stretch], epoch_of: Callable[[int], int], fills: bool) -> list[Stretch]:
    """What trains one after the other; `epoch_of` says how far the lane at a place is.

    Lanes beyond the shared epochs come first, up to their end. Where lanes that share nothing do not fill the stacks of
    those that do, they train to their end at once.
    """
    *shared, last = together
    if not shared:
        return [last]
    reached = {place: epoch_of(place) for alike in last.alike for place in alike}
    ahead = [alike for alike in last.alike if any(reached[place] >= shared[-1].until for place in alike)]
    begun = {place for alike in ahead for place in alike}
    turns = [Stretch(last.until, ahead)]
    for stretch in shared:
        left = ([place for place in alike if place not in begun] for alike in stretch.alike)
        behind = ([place for place in alike if reached[place] < stretch.until] for alike in left)
        turns.append(Stretch(stretch.until, [alike for alike in behind if len(alike) > (0 if fills else 1)]))
    turns.append(Stretch(last.until, [alike for alike in last.alike if alike not in ahead]))
    return [turn for turn in turns if turn.alike]


def spared_epochs(lanes: Sequence[Lane], recipe: Recipe) -> int:
    """Epochs that need not be trained, since another of these lanes trains them."""
    spared = 0
    for first, together in _by_first_stage(lanes, recipe).items():
        start = 0
        for stretch in stretches(together, first, can_share(first)):
            spared += (stretch.until - start) * sum(len(alike) - 1 for alike in stretch.alike)
            start = stretch.until
    return spared


def _by_first_stage(lanes: Sequence[Lane], recipe: Recipe) -> dict[Recipe, dict[int, Lane]]:
    """Lanes in their first stage, by place, for each recipe of such a stage: those train together."""
    by_recipe: dict[Recipe, dict[int, Lane]] = {}
    for place, lane in enumerate(lanes):
        first = resolve_stages(lane.value, recipe)[0].recipe
        by_recipe.setdefault(first, {})[place] = staged(lane, recipe, 0)
    return by_recipe


def _grouped(things: Iterable[T], key: Callable[[T], object]) -> list[list[T]]:
    groups: dict[object, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return list(groups.values())


def _opening(lane: Lane, recipe: Recipe) -> tuple[Lane, int]:
    """What a lane is in its first epochs, in which some of its knobs still rest, and how many epochs these are."""
    method = lane.value
    parts: dict[str, Knob | Focal] = {**method.knobs, **({"focal": method.focal} if method.focal else {})}
    later: dict[str, Any] = {name: None for name, part in parts.items() if part.ramp in LATE}
    opening = replace(method, about="", counterpart="", **later)
    if not opening.margin:
        opening = replace(opening, beta=0.0)
    if not opening.weight and not MIXING & set(opening.augment):  # weights of 1 add up to the size of the batch;
        opening = replace(opening, reduction="mean")  # those of mixtures may not, to the last bit
    shared = second_stage(recipe.epochs) if later else recipe.epochs
    return replace(lane, method=opening, lr=lane.rate(recipe)), shared
