"""Which lanes train as one stack."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from class_uncertainty.measures.scores import row_blocks
from class_uncertainty.training.checkpoints import LaneState
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.stage_context import StageContext
from class_uncertainty.training.stages import stack_key


def stacks_of(context: StageContext) -> list[list[int]]:
    """The places of lanes that train as one stack."""
    epochs = {leader: context.at_start[leader][0] for leader in context.trained_for}
    return cut(alike_lanes(context.fitted.recipe, context.fitted.device, context.lane, epochs))


def cut(groups: Iterable[tuple[list[int], int]], most: int | None = None) -> list[list[int]]:
    """Cut lanes that can train together into stacks of their group's width, or of so many at most."""
    stacks: list[list[int]] = []
    for places, width in groups:
        size = width if most is None else min(width, most)
        stacks += [places[rows] for rows in row_blocks(len(places), size)]
    return stacks


def narrowest(groups: Sequence[tuple[list[int], int]], slots: int) -> int:
    """Return how many lanes the narrowest stacks have that take no more rounds than the widest.

    So many stacks train at once, in `slots` of their own: none of these waits long for the last stack of another.
    """
    widest = max((width for _, width in groups), default=1)
    rounds = math.ceil(len(cut(groups)) / slots)
    for size in range(1, widest):
        if len(cut(groups, size)) <= slots * rounds:
            return size
    return widest


def alike_lanes(
    recipe: Recipe, device: str, lane_at: Callable[[int], Lane], epochs: dict[int, int]
) -> Iterator[tuple[list[int], int]]:
    """Places of lanes that can train as stacks, and how wide a stack may be; `epochs` is how far each place is.

    Lanes that are furthest come first: a short budget finishes what an earlier one began.
    """
    alike: dict[tuple, list[int]] = {}
    for place, epoch in epochs.items():
        alike.setdefault((epoch, *stack_key(lane_at(place))), []).append(place)
    width = width_of(recipe, device)
    for (_, rbf, *_), group in sorted(alike.items(), key=lambda item: (-item[0][0], repr(item[0][1:]))):
        group.sort(key=lambda place: lane_at(place).value.augment)  # lanes of one augmentation are neighbours
        # second derivatives at the end of a tensor have other last bits: no lane goes there
        yield group, max(1, width - 1) if rbf else width


def equally_far(context: StageContext, places: list[int]) -> list[tuple[list[int], list[LaneState]]]:
    """Places and states of lanes that are equally far: another process may have gone on with some of them."""
    stacks: dict[int, tuple[list[int], list[LaneState]]] = {}
    for place in places:
        state = context.held.get(place)
        if state is None and context.options.checkpoints:
            state = context.options.checkpoints.load(context.key(place))
        if state and state.epoch > context.until and len(context.trained_for[place]) > 1:
            state = None  # another process went on with it, beyond the epochs that it shares with others
        stack, started = stacks.setdefault(state.epoch if state else 0, ([], []))
        stack.append(place)
        started += [state] if state else []
    return list(stacks.values())
