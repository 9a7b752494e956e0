"""NodeChoice: how many stacks the nodes of a cluster train at once, and which nodes are avoided. It imports no Ray."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from class_uncertainty.errors import notice

if TYPE_CHECKING:
    from class_uncertainty.runs.ray_cluster import Node

LOOK = 1.0  # seconds between looks at which nodes there are


class NodeChoice:
    """The nodes that can train a stack.

    Parameters
    ----------
    alive : callable
        The nodes that there are now.
    need : mapping of str to float
        The resources that a stack takes.
    """

    def __init__(self, alive: "Callable[[], Iterable[Node]]", need: Mapping[str, float]) -> None:
        self.alive, self.need = alive, need
        self.refusals: dict[str, str] = {}  # what nodes said that cannot use an input
        self.failures: dict[int, str] = {}  # the node that a lane last failed on
        self.able: dict[str, int] = {}  # the stacks that each node trains at once
        self.looked = -LOOK
        self.look()

    @property
    def slots(self) -> int:
        """How many stacks train at once."""
        return sum(stacks for node, stacks in self.able.items() if node not in self.refusals)

    @property
    def all_refuse(self) -> bool:
        """Whether there are nodes, and none of them can use the input."""
        return bool(self.able) and not self.slots

    def look(self) -> None:
        """See which nodes there are, once a second."""
        if time.monotonic() - self.looked >= LOOK:
            self.looked, before = time.monotonic(), self.slots
            resources = {node.id: node.resources for node in self.alive()}
            stacks = {
                node: min(has.get(kind, 0) // n for kind, n in self.need.items()) for node, has in resources.items()
            }
            self.able = {node: int(number) for node, number in stacks.items() if number}
            if before and not self.able:
                notice("no node of the cluster can train now: waiting for one that comes.")

    def pick(self, stack: list[int], busy: Mapping[str, int]) -> str:
        """The least busy of the nodes that do not refuse and that its lanes have not failed on; "" is any node."""
        failed = {self.failures[place] for place in stack if place in self.failures}
        willing = [node for node in self.able if node not in self.refusals]
        better = [node for node in willing if node not in failed] or willing
        if len(better) == len(self.able):
            return ""
        return min(better, key=lambda node: busy.get(node, 0) / self.able[node], default="")
