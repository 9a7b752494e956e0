"""Classifier: a plain network of body and head, and what it does to raw inputs.

Bodies carry a lane axis: built with `lanes=1` they are plain torch modules, with more a stack of independent ones.
Between layers images are (B, lanes * channels, H, W) and features (B, lanes * D); the first axis of every parameter
and statistic is lanes * something, so lane i of a stack is the i-th chunk of each, and loads into the plain network.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.data.examples import Embedding
from class_uncertainty.data.table import Column
from class_uncertainty.training.networks.backbones import fitted
from class_uncertainty.training.networks.custom_network import seeded
from class_uncertainty.training.networks.heads import CosineHead, RBFHead
from class_uncertainty.training.networks.network_table import Shape, find_network
from class_uncertainty.training.networks.tree_heads import BoostingHead, ForestHead
from class_uncertainty.training.purpose import Purpose

Names = tuple[str, ...]  # of the classes
Columns = tuple[Column, ...] | None  # of a table that features come from


HEADS: dict[str, Callable[[int, int], nn.Module]] = {
    "linear": nn.Linear,
    "cosine": CosineHead,
    "rbf": RBFHead,
    "forest": ForestHead,
    "boosting": BoostingHead,
}
DECISIONS = ("probability", "cost")  # what a prediction is the best by


class Standardise(nn.Module):
    """(x - mean) / std: uint8 images by channel, features by column; images get the `side` of the network first."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, side: int | None = None) -> None:
        super().__init__()
        self.side = side
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        x = fitted(x, self.side) if self.side else x.float()
        return (x - self.mean) / self.std


class Classifier(nn.Module):
    """A plain network, ready to deploy: raw uint8 images or raw features in, logits scale * z + shift out.

    `columns` say how a table becomes features, and `embedding` how images do; where `backbone` is part of the network,
    images go in. `costs` (C, C) are of predicting the class of the column for an example of that of the row: where
    there are any, the class of the least expected cost is predicted.
    """

    shift: Tensor
    costs: Tensor | None

    def __init__(
        self,
        network: str,
        shape: Shape,
        classes: Names,
        head: str = "linear",
        scale: float = 1,
        columns: Columns = None,
        shift: Tensor | None = None,
        costs: Tensor | None = None,
        embedding: Embedding | None = None,
    ) -> None:
        super().__init__()
        row = find_network(network)
        self.classes, self.encoding, self.embedding, self.scale = classes, columns, embedding, scale
        self.backbone: nn.Module | None = None  # what makes features of images, where it is part of the network
        self.purpose: Purpose | None = None  # what its labels are best for, and its softmax stands for
        self.about: dict[str, Any] = {}  # for whoever reads what is saved
        sizes = {"shape": list(shape), "classes": list(classes)}
        self.rebuild: dict[str, Any] = {"network": network, **sizes, "head": head, "scale": scale}
        self.rebuild["decides_by"] = DECISIONS[costs is not None]
        self.register_buffer("shift", torch.zeros(len(classes)) if shift is None else shift)
        self.register_buffer("costs", costs)
        if row.own:
            self.rebuild["architecture"] = row.own.architecture
        mean = row.own.preprocessing.get("mean") if row.own else None
        size = (len(mean) if mean else shape[0], 1, 1) if len(shape) == 3 else shape
        self.preprocess = Standardise(torch.zeros(size), torch.ones(size), row.size if len(shape) == 3 else None)
        with seeded(0):  # what layers draw here is replaced, and no one else's numbers move
            self.body = row.body(shape)
            self.head = HEADS[head](row.features(shape), len(classes))

    def forward(self, x: Tensor) -> Tensor:
        features = x if self.backbone is None else self.backbone(x)
        return self.scale * self.head(self.body(self.preprocess(features))) + self.shift


SHARED = ("network", "shape", "classes", "architecture")  # what describes all networks, or the first
OWN = ("network", "head", "scale")  # what describes each of them


class Ensemble(nn.Module):
    """Networks of the same inputs and classes, ready to deploy: raw inputs in, scale * mean_i log softmax(z_i) + shift.

    That is the logarithm of the geometric mean of their probabilities. `costs` are as in Classifier. Networks of
    several kinds may each have an adjustment of their own.
    """

    shift: Tensor
    costs: Tensor | None

    def __init__(
        self, networks: Sequence[Classifier], scale: float = 1, shift: Tensor | None = None, costs: Tensor | None = None
    ) -> None:
        super().__init__()
        first = networks[0]
        self.classes, self.encoding, self.embedding, self.scale = first.classes, first.encoding, first.embedding, scale
        self.backbone: nn.Module | None = None
        self.purpose: Purpose | None = None
        self.about: dict[str, Any] = {}
        alike = {name: first.rebuild[name] for name in SHARED if name in first.rebuild}
        members = [{name: network.rebuild[name] for name in OWN} for network in networks]
        decides_by = DECISIONS[costs is not None]
        self.rebuild: dict[str, Any] = {**alike, "networks": len(networks), "members": members, "scale": scale}
        self.rebuild["decides_by"] = decides_by
        self.register_buffer("shift", torch.zeros(len(first.classes)) if shift is None else shift)
        self.register_buffer("costs", costs)
        self.networks = nn.ModuleList(networks)

    @property
    def preprocess(self) -> nn.Module:
        """The same for every network."""
        return self.networks[0].preprocess  # type: ignore[return-value]

    def forward(self, x: Tensor) -> Tensor:
        features = x if self.backbone is None else self.backbone(x)
        logits = torch.stack([network(features) for network in self.networks])
        return self.scale * logits.log_softmax(dim=-1).mean(dim=0) + self.shift


Deployed = Classifier | Ensemble  # what is saved and restored
