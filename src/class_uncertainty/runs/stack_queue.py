"""StackQueue: which lanes train together next on a cluster, and which are tried again. It knows nothing of Ray."""

from collections.abc import Callable, Iterable

MOST_TRIES = 3  # of a lane that gets no further


class StackQueue:
    """Lanes that wait, by their places.

    Parameters
    ----------
    groups : iterable of (list of int, int)
        Lanes that can train as one stack, and how many of them at most.
    fixed : bool
        Whether stacks always have that width, as on a CPU, where fewer lanes take as long.
    """

    def __init__(self, groups: Iterable[tuple[list[int], int]], fixed: bool) -> None:
        self.groups = [(list(places), width) for places, width in groups]
        self.fixed = fixed
        self.again: list[list[int]] = []  # stacks that failed
        self.tries: dict[int, int] = {}  # of lanes, since they last got further
        self.reached: dict[int, int] = {}  # how far lanes were when they last failed
        self.lost: dict[int, str] = {}  # lanes that are given up, and why
        self.slots = 0  # that `share` was computed for
        self.share = 1

    @property
    def waiting(self) -> int:
        """Lanes that no one trains."""
        return sum(len(places) for places, _ in self.groups) + sum(map(len, self.again))

    def next(self, slots: int) -> list[int]:
        """The next stack where so many train at once; [] where nothing waits."""
        if self.again:
            return self.again.pop(0)
        if not self.groups:
            return []
        places, width = self.groups[0]
        size = width if self.fixed else min(width, self._share(slots))
        if size >= len(places):
            self.groups.pop(0)
            return places
        self.groups[0] = places[size:], width
        return places[:size]

    def _share(self, slots: int) -> int:
        """The narrowest stacks that take no more rounds than the widest; anew when nodes come or go."""
        if slots != self.slots:
            widest = max(width for _, width in self.groups)
            rounds = -(-self._stacks(widest) // slots)
            self.slots = slots
            self.share = next(size for size in range(1, widest + 1) if self._stacks(size) <= slots * rounds)
        return self.share

    def _stacks(self, most: int) -> int:
        """How many there would be of so many lanes at most."""
        return sum(-(-len(places) // min(most, width)) for places, width in self.groups)

    def give_back(self, stack: list[int]) -> None:
        """It was not tried."""
        if stack:
            self.again.append(stack)

    def give_up(self, stack: list[int], why: str) -> None:
        """It cannot be trained."""
        self.lost |= dict.fromkeys(stack, why)

    def failed(self, stack: list[int], why: str, epoch_of: Callable[[int], int]) -> None:
        """Try its lanes again, each from its last checkpoint; those that got no further three times are given up.

        Before that they are tried alone: a neighbour may be to blame.
        """
        together = []
        for place in stack:
            epoch = epoch_of(place)
            further = epoch > self.reached.get(place, -1) and place in self.reached
            self.tries[place] = 1 if further else self.tries.get(place, 0) + 1
            self.reached[place] = epoch
            if self.tries[place] >= MOST_TRIES:
                self.lost[place] = f"{why}, {MOST_TRIES} times"
            elif self.tries[place] == MOST_TRIES - 1:
                self.again.append([place])
            else:
                together.append(place)
        if together:
            self.again.append(together)
