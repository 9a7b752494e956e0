"""Twins: lanes that differ in a seed which changes nothing. They train once."""

from collections.abc import Sequence
from dataclasses import replace

from class_uncertainty.training.lane import Epoch, Lane, Progress
from class_uncertainty.training.recipe import Recipe

Twins = dict[int, list[int]]  # the places of lanes that are alike, itself among them, by the first of them


def is_seedless(lane: Lane, recipe: Recipe) -> bool:
    """Whether every seed gives the same network, since nothing is drawn.

    A linear head on full batches starts at zero, and boosting takes all examples.
    """
    if lane.bootstrap:
        return False
    is_head = recipe.full_batch and all(method.head == "linear" for method in lane.value.stages)
    return is_head or recipe.network == "boosting"


def find_twins(lanes: Sequence[Lane], recipe: Recipe) -> Twins:
    alike: dict[Lane | int, list[int]] = {}
    for place, lane in enumerate(lanes):
        alike.setdefault(replace(lane, seed=0) if is_seedless(lane, recipe) else place, []).append(place)
    return {places[0]: places for places in alike.values()}


def report_twins(progress: Progress | None, twins: Twins, lanes: Sequence[Lane]) -> Progress | None:
    """The same progress, told of all twins of a lane where that lane is reported."""
    if progress is None or len(twins) == len(lanes):
        return progress
    by_lane = {lanes[first]: [lanes[place] for place in places] for first, places in twins.items()}

    def report(epoch: Epoch) -> None:
        times = [len(by_lane[lane]) for lane in epoch.lanes]
        all_lanes = tuple(twin for lane in epoch.lanes for twin in by_lane[lane])
        loss, error, lr = (_repeated(values, times) for values in (epoch.loss, epoch.error, epoch.lr))
        progress(replace(epoch, lanes=all_lanes, loss=loss, error=error, lr=lr))

    return report


def _repeated(values: Sequence[float], times: Sequence[int]) -> tuple[float, ...]:
    return tuple(value for value, number in zip(values, times, strict=True) for _ in range(number))
