"""Classifier: a plain network of body and head, and what it does to raw inputs.

Bodies carry a lane axis: built with `lanes=1` they are plain torch modules, with more a stack of independent ones.
Between layers images are (B, lanes * channels, H, W) and features (B, lanes * D); the first axis of every parameter
and statistic is lanes * something, so lane i of a stack is the i-th chunk of each, and loads into the plain network.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.data.embedding import Embedding
from class_uncertainty.data.table import Column
from class_uncertainty.training.networks.backbones import fitted
from class_uncertainty.training.networks.custom_network import seeded
from class_uncertainty.training.networks.heads import CosineHead
from class_uncertainty.training.networks.network_table import Shape, find_network
from class_uncertainty.training.networks.rbf_head import RBFHead
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
