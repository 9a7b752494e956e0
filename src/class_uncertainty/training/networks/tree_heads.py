"""Heads of decision trees: fitted elsewhere, kept as plain tensors, evaluated by torch."""

from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TINY, LARGEST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
DEEPEST = 2**9  # nodes of a walk
FREE = 0  # the length of a tensor that depends on the fit: any length may be loaded


class TreeHead(nn.Module):
    """Trees in one list of nodes: a node asks whether a feature is above its threshold.

    Its child is `below` it in the list if not, and the node behind that one if it is. Children stand behind their
    parents, so that every walk from a root ends. A leaf is its own child, with a threshold that nothing is above.
    """

    roots: Tensor  # (T,) where the trees begin
    feature: Tensor  # (M,) what a node asks for
    threshold: Tensor  # (M,)
    below: Tensor  # (M,) where to go
    values: Tensor  # (L, K) of the leaves, in their order

    def __init__(self, features: int, classes: int, width: int) -> None:
        super().__init__()
        self.features, self.classes = features, classes
        self.steps: int | None = None  # of every walk; None: as many as the longest of a batch takes
        for name in ("roots", "feature", "below"):
            self.register_buffer(name, torch.zeros(FREE, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(FREE))
        self.register_buffer("values", torch.zeros(FREE, width))

    def leaves(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, T): the row of values that each example reaches in each tree."""
        feature, below, nodes = self.feature.long(), self.below.long(), torch.arange(len(self.below), device=x.device)
        rows = (below == nodes).cumsum(dim=0) - 1
        shape = (x.shape[0], self.roots.shape[0])
        at = self.roots.long().expand(shape).flatten()
        for _ in count() if self.steps is None else range(self.steps):
            above = x.gather(1, feature.take(at).view(shape)).flatten() > self.threshold.take(at)
            children = below.take(at) + above
            if self.steps is None and torch.equal(children, at):
                break
            at = children
        return rows.take(at).view(shape)

    def fix_steps(self) -> None:
        """From now on, walk as far as the deepest leaf is: an exported program cannot ask whether it has arrived."""
        self.steps = self._count_steps()

    def _count_steps(self) -> int:
        """How deep the deepest leaf is."""
        at, steps = self.roots.long(), -1
        while len(at):
            below = self.below[at].long()
            below = below[below != at]
            at, steps = torch.cat([below, below + 1]), steps + 1
            if steps > DEEPEST:
                raise ValueError(f"a tree is deeper than {DEEPEST:,} nodes")
        return steps

    def check(self) -> None:
        """Refuse trees that lead nowhere: they come from a file."""
        nodes, at = len(self.feature), torch.arange(len(self.below), device=self.below.device)
        is_leaf = self.below == at
        asking = nodes - int(is_leaf.sum())
        sizes = {len(self.threshold), len(self.below)} == {nodes} and nodes - asking == len(self.values) > 0
        if not sizes or not len(self.roots) or not ((self.roots >= 0) & (self.roots < nodes)).all():
            raise ValueError("the trees have no roots, or their nodes, thresholds and leaves are not as many")
        if not (is_leaf | ((self.below > at) & (self.below < nodes - 1))).all():
            raise ValueError("a node of a tree has a child that does not stand behind it")
        asks = (self.feature >= 0) & (self.feature < self.features) & (~is_leaf | (self.threshold == LARGEST))
        if not asks.all():
            raise ValueError("a node of a tree asks for a feature that is not there, or a leaf asks for one")
        below = self.below[~is_leaf]
        if len(self.roots) + 2 * asking != nodes or len(torch.cat([self.roots, below, below + 1]).unique()) != nodes:
            raise ValueError("a node of a tree has no parent, or several")
        self._count_steps()

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        for name, buffer in self.named_buffers():
            if (given := state_dict.get(prefix + name)) is not None and given.shape[1:] == buffer.shape[1:]:
                setattr(self, name, torch.empty_like(given, device=buffer.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)


class ForestHead(TreeHead):
    """Logarithms of the mean of the leaves' class frequencies: (B, D) -> (B, C)."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, classes)

    def forward(self, x: Tensor) -> Tensor:
        leaves = self.leaves(x)
        if self.steps is None:
            mean = F.embedding_bag(leaves, self.values, mode="mean")
        else:  # ONNX has no such bag
            mean = F.embedding(leaves, self.values).mean(dim=1)
        return mean.clamp_min(TINY).log()


class BoostingHead(TreeHead):
    """Sums of the leaves' scores, which each tree adds to one class: (B, D) -> (B, C)."""

    target: Tensor  # (T,) the class that a tree adds to
    baseline: Tensor  # (C,) what is there before the first tree

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, 1)
        self.register_buffer("target", torch.zeros(FREE, dtype=torch.int32))
        self.register_buffer("baseline", torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.values[self.leaves(x), 0]  # (B, T)
        return self.baseline + scores @ F.one_hot(self.target.long(), self.classes).float()

    def check(self) -> None:
        super().check()
        if len(self.target) != len(self.roots) or not ((self.target >= 0) & (self.target < self.classes)).all():
            raise ValueError("a tree adds to a class that is not there")
