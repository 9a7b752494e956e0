"""Heads: from features to logits, by a linear layer or by cosines."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from class_uncertainty.training.networks.layers import Linear, affine


class StackedHead(Linear):
    """Features to logits in every lane, linear or cosine: (B, lanes * D) -> (lanes, B, C)."""

    cosine: Tensor  # (lanes, 1, 1)

    def __init__(self, features: int, classes: int, cosine: Tensor) -> None:
        super().__init__(features, classes, len(cosine))
        self.register_buffer("cosine", cosine.view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (self.lanes, -1)).transpose(0, 1)  # (lanes, B, D)
        weight, bias = self.weight.unflatten(0, (self.lanes, -1)), self.bias.view(self.lanes, 1, -1)
        x = torch.where(self.cosine, F.normalize(x, dim=-1), x)
        weight = torch.where(self.cosine, F.normalize(weight, dim=-1), weight)
        return affine(x, weight, torch.where(self.cosine, 0.0, bias))


class CosineHead(nn.Module):
    """The cosine head of a plain network: the cosine between features and class weights."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, features))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))
