"""Models of several kinds as one: the best candidate of every kind, each adjusted by its own tau, averaged.

It is judged on the out-of-fold probabilities that are there already, and trains nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.posthoc.averaging import combined
from class_uncertainty.posthoc.goal import Goal, is_clear
from class_uncertainty.workflows.search import Evidence, Search, alike, preferred
from class_uncertainty.workflows.trial import Gain


@dataclass(frozen=True, eq=False)
class Mixture:
    """What the average gains over the best single model, on examples that no model of it saw."""

    names: tuple[str, ...]  # of its candidates
    p: NDArray[np.float64]  # (n, C) of these examples, adjusted
    labels: NDArray[np.int64]  # (n,)
    gain: Gain
    value: float  # by the goal
    standard_error: float

    @property
    def examples(self) -> int:
        return len(self.labels)

    @property
    def kept(self) -> bool:
        """Whether it is deployed: unless one model is clearly better, since the lowest of many may be so by chance."""
        return not is_clear(-self.gain.gain, self.gain.standard_error)


def best_of_kinds(finalists: Sequence[Evidence], best: Evidence, goal: Goal) -> list[Evidence]:
    """The preferred candidate of every kind, in the order of the list; `best` for its own."""
    kinds: dict[str, list[Evidence]] = {}
    for evidence in finalists:
        kinds.setdefault(evidence.networks.recipe.network, []).append(evidence)
    best_kind = best.networks.recipe.network
    return [best if kind == best_kind else preferred(of_kind, goal) for kind, of_kind in kinds.items()]


def mix(search: Search, goal: Goal) -> Mixture | str:
    """Judge the average of the best of every kind, or say why there is none."""
    parts = best_of_kinds(search.finalists, search.best, goal)
    if len(parts) < 2:
        return "the finalists are all of one kind"
    names = tuple(part.candidate.name for part in parts)
    best, *compared = alike([search.best, *parts])
    p = combined([part.adjusted for part in compared])
    gain = Gain(*goal.difference(best.adjusted, p, best.labels, best.groups))
    error = goal.standard_error(p, best.labels, best.groups)
    return Mixture(names, p, best.labels, gain, goal.value(p, best.labels), error)
