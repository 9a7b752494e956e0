"""Networks that carry a lane axis: built with `lanes=1` they are plain torch modules, with more a stack of independent ones.

Between layers images are (B, lanes * channels, H, W) and features (B, lanes * D); the first axis of every parameter and
statistic is lanes * something, so lane i of a stack is the i-th chunk of each, and it loads into the plain network as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.data.columns import Column
from class_uncertainty.training.resnet import ResNet32

WIDEST = 64  # lanes of a stack on a GPU: more of them gain nothing


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x weight' + bias in every lane: (lanes, B, D), (lanes, out, D), (lanes, 1, out) -> (lanes, B, out).

    Padded so that every lane's matrices start on a 64-byte boundary: a matrix product's bits depend on that, and so would
    a lane's on its place in the stack. On a GPU they depend on the number of lanes too, so that it is always the same.
    """
    lanes, outputs, inputs = weight.shape
    more = -lanes % WIDEST if weight.is_cuda else 0
    x, weight = F.pad(x, (0, -inputs % 16, 0, 0, 0, more)), F.pad(weight, (0, -inputs % 16, 0, -outputs % 16, 0, more))
    return torch.bmm(x, weight.mT)[:lanes, :, :outputs] + bias


class Linear(nn.Module):
    """nn.Linear for each lane: (B, lanes * D) -> (B, lanes * out). Plain networks use nn.Linear itself."""

    def __init__(self, inputs: int, outputs: int, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.weight = nn.Parameter(torch.zeros(lanes * outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(lanes * outputs))

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (self.lanes, -1)).transpose(0, 1)  # (lanes, B, D)
        return affine(x, self.weight.unflatten(0, (self.lanes, -1)), self.bias.view(self.lanes, 1, -1)).transpose(0, 1).flatten(1)


def linear(inputs: int, outputs: int, lanes: int) -> nn.Module:
    return nn.Linear(inputs, outputs) if lanes == 1 else Linear(inputs, outputs, lanes)


def conv_block(inputs: int, outputs: int, lanes: int, stride: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(lanes * inputs, lanes * outputs, 3, stride=stride, padding=1, groups=lanes, bias=False)
    return [conv, nn.BatchNorm2d(lanes * outputs), nn.ReLU()]


def small_conv(shape: tuple[int, ...], lanes: int = 1) -> nn.Sequential:
    """Three 3 x 3 convolutions, 8, 16 and 32 channels, the last two with stride 2."""
    layers = conv_block(shape[0], 8, lanes) + conv_block(8, 16, lanes, stride=2) + conv_block(16, 32, lanes, stride=2)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def mlp(shape: tuple[int, ...], lanes: int = 1) -> nn.Sequential:
    """One hidden layer of 64."""
    return nn.Sequential(linear(shape[0], 64, lanes), nn.BatchNorm1d(lanes * 64), nn.ReLU())


def identity(shape: tuple[int, ...], lanes: int = 1) -> nn.Sequential:
    """Nothing before the head: a linear classifier of features."""
    return nn.Sequential()


@dataclass(frozen=True)
class Network:
    """A body and how many features it gives. `width` is how many lanes train as one stack on a CPU: a constant, because a
    convolution with another number of groups may give a lane other bits."""

    about: str
    body: Callable[..., nn.Module]  # (shape, lanes)
    features: Callable[[tuple[int, ...]], int]
    images: bool
    width: int
    large: bool = False  # too large for a CPU to gain from stacking, and large enough to gain from compiling


NETWORKS: dict[str, Network] = {
    "resnet32": Network("ResNet-32 of the paper, for 32 x 32 images", ResNet32, lambda shape: 64, images=True, width=1, large=True),
    "small-conv": Network("three small convolutions, for small images", small_conv, lambda shape: 32, images=True, width=5),
    "mlp": Network("one hidden layer of 64, for features and tables", mlp, lambda shape: 64, images=False, width=10),
    "linear": Network("a linear classifier of features", identity, lambda shape: shape[0], images=False, width=10),
}


class Head(nn.Module):
    """Features to logits in every lane, linear or cosine: (B, lanes * D) -> (lanes, B, C)."""

    cosine: Tensor  # (lanes, 1, 1)

    def __init__(self, features: int, classes: int, cosine: Tensor) -> None:
        super().__init__()
        lanes = len(cosine)
        self.weight = nn.Parameter(torch.zeros(lanes * classes, features))
        self.bias = nn.Parameter(torch.zeros(lanes * classes))
        self.register_buffer("cosine", cosine.view(lanes, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        lanes = len(self.cosine)
        x = x.unflatten(1, (lanes, -1)).transpose(0, 1)  # (lanes, B, D)
        weight, bias = self.weight.unflatten(0, (lanes, -1)), self.bias.view(lanes, 1, -1)
        x = torch.where(self.cosine, F.normalize(x, dim=-1), x)
        weight = torch.where(self.cosine, F.normalize(weight, dim=-1), weight)
        return affine(x, weight, torch.where(self.cosine, 0.0, bias))


class Cosine(nn.Module):
    """The plain cosine head: the cosine between features and class weights."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, features))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))


def _head(kind: str, features: int, classes: int) -> nn.Module:
    """The head of a plain network."""
    if kind == "rbf":
        from class_uncertainty.training.duq import Kernel  # which stands on this module

        return Kernel(features, classes)
    return Cosine(features, classes) if kind == "cosine" else nn.Linear(features, classes)


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
    """A plain network, ready to deploy: raw uint8 images or raw features in, logits out. `encoding` makes features of a table's columns."""

    def __init__(
        self,
        network: str,
        shape: tuple[int, ...],
        classes: tuple[str, ...],
        head: str = "linear",
        scale: float = 1.0,
        encoding: tuple[Column, ...] | None = None,
    ) -> None:
        super().__init__()
        row = NETWORKS[network]
        features = row.features(shape)
        self.classes, self.encoding = classes, encoding
        self.rebuild: dict[str, Any] = {"network": network, "shape": list(shape), "classes": list(classes), "head": head, "scale": scale}
        statistic = torch.zeros((shape[0], 1, 1) if row.images else shape)
        self.preprocess = Standardise(statistic, statistic + 1)
        self.body = row.body(shape)
        self.scale = scale
        self.head = _head(head, features, len(classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.head(self.body(self.preprocess(x)))
