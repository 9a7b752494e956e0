"""StageContext: what the stacks of a stage share. FitOptions: what all stages of a fit() share."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from class_uncertainty.data import Data
from class_uncertainty.io import (
    blank_mark,
    check_ending,
    check_replaceable,
    check_writable,
    origin,
    signed,
    write_whole,
)
from class_uncertainty.measures import Stats
from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.training.checkpoints import Checkpoints, LaneState
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit_result import Fit, width_of
from class_uncertainty.training.lane import Lane, Progress
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.sampling import Examples
from class_uncertainty.training.stages import ResolvedStage, stack_key, staged


class Stopped(Exception):
    """Another stack failed, or Ctrl-C was pressed: this stack ends at its next step."""


class Trace:
    """The file of one traced epoch: of the first lanes that train."""

    def __init__(self, path: str | Path, data: str, force: bool, read: Sequence[Path] = ()) -> None:
        self.path, self.data, self.force, self.read = Path(path), data, force, read
        self.made_from = ""
        self.begun = Event()  # whether a stack writes it
        check_ending(self.path, "trace", (".json", ""))
        check_writable(self.path)

    def claim(self, recipe: Recipe, lanes: Iterable[Lane]) -> None:
        """Refuse, before anything trains, to replace another file."""
        if not self.made_from:
            self.made_from = origin(self.data, self.read, recipe, [(lane.name, lane.seed, lane.lr) for lane in lanes])
            check_replaceable(self.path, self.made_from, self.force, read=self.read)

    def write(self, content: bytes) -> None:
        """Write what torch has traced, one JSON object, with its mark."""
        mark = f'{{"mark": "{blank_mark(self.made_from)}",'.encode()
        write_whole(self.path, signed(content.replace(b"{", mark, 1), self.made_from))


@dataclass(frozen=True, eq=False)
class FitOptions:
    """What fit() takes beside examples, lanes, recipe and device."""

    stats: Stats | None
    test: Data | None
    progress: Progress | None
    checkpoints: Checkpoints | None
    every: int  # epochs between checkpoints
    deadline: Deadline
    profile: Trace | None
    teachers: Fit | None


@dataclass(frozen=True, eq=False)
class StageContext:
    """What all stacks of one stage of one fit() share. Lanes are known by their places among the lanes of fit()."""

    fitted: Fit
    stage: ResolvedStage
    train: Data
    examples: Examples
    keys: list[list[str]]  # of the checkpoints of each lane, a stage each
    options: FitOptions
    before: dict[int, LaneState] = field(default_factory=dict)  # lanes at the end of the stage before, by place
    until: int = 0  # the epoch of the stage that stacks train to
    trained_for: dict[int, list[int]] = field(default_factory=dict)  # lanes that one trains for, itself first, by place
    held: dict[int, LaneState] = field(default_factory=dict)  # lanes that have reached an earlier `until`, by place
    at_start: dict[int, tuple[int, float]] = field(default_factory=dict)  # progress before they train to it, by place
    stop: Event = field(default_factory=Event)
    begun: Event = field(default_factory=Event)  # whether any stack has

    def key(self, place: int) -> str:
        """The key of a lane's checkpoint in this stage."""
        return self.keys[place][self.stage.number]

    def lane(self, place: int) -> Lane:
        """The lane as it trains in this stage."""
        return staged(self.fitted.lanes[place], self.fitted.recipe, self.stage.number)

    def progress(self, place: int) -> tuple[int, float]:
        """The epoch of the stage that a lane has reached, and the seconds that it took."""
        if held := self.held.get(place):
            return held.epoch, held.seconds
        return self.options.checkpoints.progress(self.key(place)) if self.options.checkpoints else (0, 0.0)

    def shared(self, leader: int, state: LaneState) -> dict[int, LaneState]:
        """A lane's state for all lanes that it trains for, each with its share of the time since it leads."""
        places = self.trained_for[leader]
        spent = {place: self.at_start[place][1] for place in places}
        share = (state.seconds - spent[leader]) / len(places)
        return {place: replace(state, seconds=spent[place] + share) for place in places}

    def is_last(self, place: int) -> bool:
        """Whether this is the last stage of a lane."""
        return self.stage.number == len(self.fitted.lanes[place].value.then)

    def any_last(self, leaders: Sequence[int]) -> bool:
        """Whether it is the last stage of any lane that these train for."""
        return any(self.is_last(place) for leader in leaders for place in self.trained_for[leader])

    def check_stop(self) -> None:
        """Raise Stopped if the stack is to end."""
        if self.stop.is_set():
            raise Stopped


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
