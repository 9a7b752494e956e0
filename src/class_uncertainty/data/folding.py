"""Folds and shares of examples: every class as evenly as possible, and a group (a patient's, a video's) on one side."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError

FOLDS = 5  # that judge where there is no test split

Codes = NDArray[np.int64]


class Folds(dict[int, Codes]):
    """(N,) the fold of each example, by the number of folds; computed when it is first asked for."""

    def __init__(self, labels: Codes, groups: Codes | None) -> None:
        super().__init__()
        self.labels, self.groups = labels, groups

    def __missing__(self, number: int) -> Codes:
        self[number] = stratified(self.labels, number, groups=self.groups)
        return self[number]


def stratified(labels: ArrayLike, parts: int, seed: int = 0, groups: Codes | None = None) -> Codes:
    """(N,) the part, of so many, that each example belongs to; every class is spread as evenly as possible.

    With the groups of examples, numbered from 0, every group lies in one part.
    """
    labels = np.asarray(labels)
    random = np.random.default_rng([seed, parts, 0xF01D])  # a stream that no lane uses
    if groups is not None:
        if (number := int(groups.max()) + 1) < parts:
            raise InputError(f"there are {number} groups, and {parts} folds need as many: each group lies in one fold.")
        return _shared_out(labels, groups, [1 / parts] * parts, random)[groups]
    part = np.empty(len(labels), dtype=np.int64)
    start = 0
    for c in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == c))
        # each class goes on where the last one ended, which keeps the parts equally large
        part[members] = (start + np.arange(len(members))) % parts
        start += len(members)
    return part


def held_groups(labels: Codes, groups: Codes, share: float, seed: int) -> NDArray[np.bool_]:
    """(N,) whether an example is set aside: whole groups, about that share of every class, and a group of each.

    Of a class with three groups or more two stay, even where that sets aside none of it.
    """
    held = _shared_out(labels, groups, [1 - share, share], np.random.default_rng([seed, 0x5E7])) == 1
    sizes, number = np.bincount(groups), int(labels.max()) + 1
    group_of, class_of = divmod(np.unique(groups * number + labels), number)
    total, set_aside = (np.bincount(class_of[rows], minlength=number) for rows in (slice(None), held[group_of]))
    most = total - np.where(total > 2, 2, 1)  # that may be set aside

    def move(group: int) -> None:
        held[group] = not held[group]
        set_aside[classes(group)] += 1 if held[group] else -1

    def classes(group: int) -> Codes:
        return class_of[slice(*np.searchsorted(group_of, [group, group + 1]))]

    for c in np.unique(labels):
        while set_aside[c] > most[c] > 0:  # the group that fewest classes miss
            back = [group for group in group_of[class_of == c] if held[group]]
            move(min(back, key=lambda group: ((set_aside[classes(group)] < 2).sum(), sizes[group])))
    for c in np.unique(labels):
        if not set_aside[c]:
            free = [g for g in group_of[class_of == c] if (set_aside[classes(g)] < most[classes(g)]).all()]
            if free:
                move(min(free, key=lambda group: sizes[group]))
    return held[groups]


def _shared_out(labels: Codes, groups: Codes, shares: Sequence[float], random: np.random.Generator) -> Codes:
    """(groups,) the part of each group, so that part k has about shares[k] of every class.

    Greedily minimises the sum over parts k and classes c of (n_kc / N_c) ** 2 / shares[k], which is least where
    n_kc = shares[k] * N_c.
    """
    number = int(labels.max()) + 1
    pairs, counts = np.unique(groups * number + labels, return_counts=True)
    group_of, class_of = divmod(pairs, number)
    weights = counts / np.bincount(labels)[class_of]  # the share of its class that a group has
    starts = np.searchsorted(group_of, np.arange(group_of[-1] + 2))
    order = random.permutation(len(starts) - 1)
    effects = np.add.reduceat(weights**2, starts[:-1])
    # the largest first, in random order among those of about one size
    order = order[np.argsort(-np.log2(effects)[order].round(), kind="stable")]
    loads, sizes, wanted = np.zeros((len(shares), number)), np.zeros(len(shares)), np.asarray(shares)
    part = np.empty(len(order), dtype=np.int64)
    for group in order:
        rows = slice(starts[group], starts[group + 1])
        classes, weight = class_of[rows], weights[rows]
        added = ((2 * loads[:, classes] + weight) * weight).sum(axis=1) / wanted
        k = part[group] = np.lexsort((sizes / wanted, added.round(9)))[0]  # of equally good parts the smallest
        loads[k, classes] += weight
        sizes[k] += counts[rows].sum()
    return part


def numbered(groups: Sequence[str] | NDArray[np.object_]) -> Codes:
    """Groups from 0 in the order in which they first occur, so that their names do not matter."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)
