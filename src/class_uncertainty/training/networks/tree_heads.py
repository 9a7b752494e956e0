"""Heads of decision trees: fitted elsewhere, kept as plain tensors, evaluated by torch."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TINY = torch.finfo(torch.float32).tiny
FREE = 0  # the length of a tensor that depends on the fit: any length may be loaded


class TreeHead(nn.Module):
    """Trees in one list of nodes: a node asks whether a feature is at most its threshold, and a leaf names its values.

    Children stand behind their parents, so that every walk from a root ends. A leaf is its own child, on both sides,
    and has the row of its values in the place of a feature.
    """

    roots: Tensor  # (T,) where the trees begin
    feature: Tensor  # (M,) what a node asks for, or the row of a leaf's values
    threshold: Tensor  # (M,) float32: features are, so that rounding down changes no answer
    below: Tensor  # (M, 2) where to go: at most the threshold, above it
    values: Tensor  # (L, K)

    def __init__(self, features: int, classes: int, width: int) -> None:
        super().__init__()
        self.features, self.classes = features, classes
        for name in ("roots", "feature"):
            self.register_buffer(name, torch.zeros(FREE, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(FREE))
        self.register_buffer("below", torch.zeros(FREE, 2, dtype=torch.int32))
        self.register_buffer("values", torch.zeros(FREE, width))

    def leaves(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, T): the row of values that each example reaches in each tree."""
        at = self.roots.long().expand(len(x), -1)
        while True:
            left, right = self.below[at].unbind(dim=-1)
            is_leaf = left == at
            if is_leaf.all():
                return self.feature[at].long()
            asked = self.feature[at].long().masked_fill(is_leaf, 0)  # that of a leaf is a row of values
            at = torch.where(x.gather(1, asked) > self.threshold[at], right, left).long()

    def check(self) -> None:
        """Refuse trees that lead nowhere: they come from a file."""
        nodes, at = len(self.feature), torch.arange(len(self.feature), device=self.feature.device)
        same = {len(self.threshold), len(self.below)} == {nodes} and len(self.roots) and len(self.values)
        if not same or not ((self.roots >= 0) & (self.roots < nodes)).all():
            raise ValueError("the trees have no roots, or not as many thresholds and children as nodes")
        leaf = (self.below == at[:, None]).all(dim=1)
        if not (leaf | ((self.below > at[:, None]) & (self.below < nodes)).all(dim=1)).all():
            raise ValueError("a node of a tree has a child that does not stand behind it")
        most = torch.where(leaf, len(self.values), self.features)
        if not ((self.feature >= 0) & (self.feature < most)).all():
            raise ValueError("a node of a tree asks for a feature, or names values, that are not there")

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
        return F.embedding_bag(self.leaves(x), self.values, mode="mean").clamp_min(TINY).log()


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
