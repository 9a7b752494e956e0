"""NETWORKS, and Classifier: a plain network of body and head.

Bodies carry a lane axis: built with `lanes=1` they are plain torch modules, with more a stack of independent ones.
Between layers images are (B, lanes * channels, H, W) and features (B, lanes * D); the first axis of every parameter
and statistic is lanes * something, so lane i of a stack is the i-th chunk of each, and loads into the plain network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.data.embedding import Embedding
from class_uncertainty.data.table import Column
from class_uncertainty.training.networks.heads import CosineHead
from class_uncertainty.training.networks.layers import WIDEST
from class_uncertainty.training.networks.rbf_head import RBFHead
from class_uncertainty.training.networks.resnet import resnet18, resnet32, resnet32x4
from class_uncertainty.training.networks.small import identity, mlp, small_conv

Shape = tuple[int, ...]  # of one input
Names = tuple[str, ...]  # of the classes
Columns = tuple[Column, ...] | None  # of a table that features come from


@dataclass(frozen=True)
class Network:
    """A body and the number of its features.

    `width` lanes train as one stack on a CPU. It is a constant, as a convolution with another number of groups may
    give a lane other bits. On a GPU a stack has at most `widest`, and fewer where they do not fit.
    """

    about: str
    body: Callable[..., nn.Module]  # (shape, lanes)
    features: Callable[[Shape], int]
    images: bool
    width: int
    large: bool = False  # too large for a CPU to gain from stacking, and large enough to gain from compiling
    widest: int = WIDEST


WIDE = 16  # lanes of a wide network: their activations take as much memory as those of WIDEST lanes of resnet32
HEADS: dict[str, Callable[[int, int], nn.Module]] = {"linear": nn.Linear, "cosine": CosineHead, "rbf": RBFHead}
NETWORKS: dict[str, Network] = {
    "resnet32": Network("ResNet-32 of the paper, for 32 x 32 images", resnet32, lambda shape: 64, True, 1, large=True),
    "resnet32x4": Network(
        "ResNet-32 with four times the channels, as GLMC and SURE have it",
        resnet32x4,
        lambda shape: 256,
        True,
        1,
        large=True,
        widest=WIDE,
    ),
    "resnet18": Network(
        "ResNet-18 with a 3 x 3 stem, for images of 32 to 64 pixels",
        resnet18,
        lambda shape: 512,
        True,
        1,
        large=True,
        widest=WIDE,
    ),
    "small-conv": Network("three small convolutions, for small images", small_conv, lambda shape: 32, True, width=5),
    "mlp": Network("one hidden layer of 64, for features and tables", mlp, lambda shape: 64, False, width=10),
    "linear": Network("a linear classifier of features", identity, lambda shape: shape[0], False, width=10),
}
DECISIONS = ("probability", "cost")  # what a prediction is the best by


class Standardise(nn.Module):
    """(x - mean) / std: uint8 images by channel, features by column."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        return (x.float() - self.mean) / self.std


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
        row = NETWORKS[network]
        self.classes, self.encoding, self.embedding, self.scale = classes, columns, embedding, scale
        self.backbone: nn.Module | None = None  # what makes features of images, where it is part of the network
        sizes = {"shape": list(shape), "classes": list(classes)}
        self.rebuild: dict[str, Any] = {"network": network, **sizes, "head": head, "scale": scale}
        self.rebuild["decides_by"] = DECISIONS[costs is not None]
        self.register_buffer("shift", torch.zeros(len(classes)) if shift is None else shift)
        self.register_buffer("costs", costs)
        size = (shape[0], 1, 1) if row.images else shape
        self.preprocess = Standardise(torch.zeros(size), torch.ones(size))
        self.body = row.body(shape)
        self.head = HEADS[head](row.features(shape), len(classes))

    def forward(self, x: Tensor) -> Tensor:
        features = x if self.backbone is None else self.backbone(x)
        return self.scale * self.head(self.body(self.preprocess(features))) + self.shift
