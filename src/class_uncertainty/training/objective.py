"""The plans of an epoch as tensors with a lane axis, and the loss they make."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.methods import Plan, losses
from class_uncertainty.training.duq import kernel_loss
from class_uncertainty.training.recipe import Lane


class Knobs:
    def __init__(self, lanes: Sequence[Lane], classes: int, device: str) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(len(lanes), *shape, dtype=dtype, device=device)

        self.weight = zeros(classes)
        self.margin, self.divisor = zeros(1, classes), zeros(1, classes)
        self.beta, self.scale = zeros(1, 1), zeros(1, 1)
        self.gamma, self.sigmoid = zeros(1), zeros(1, dtype=torch.bool)
        self.by_weights = torch.tensor([lane.value.reduction == "weights" for lane in lanes], device=device)
        self.at_logits = lanes[0].value.level == "logits"  # of a stack all or none

    def set(self, plans: Sequence[Plan]) -> None:
        for name in ("weight", "margin", "divisor", "beta", "scale", "gamma", "sigmoid"):
            tensor: Tensor = getattr(self, name)
            tensor.copy_(torch.tensor(np.array([getattr(plan, name) for plan in plans])).view(tensor.shape))

    def loss(self, z: Tensor, labels: Tensor) -> Tensor:
        """Logits (lanes, B, C), labels (lanes, B) -> (lanes,)."""
        return losses.reduce(self.each(z, labels), self.weight.gather(1, labels), self.by_weights)

    def mixed(self, z: Tensor, labels: Tensor, others: Tensor, share: Tensor) -> Tensor:
        """The loss of two labels an example, `share` (lanes, B) of the first and the rest of the second -> (lanes,)."""
        first, second = share * self.weight.gather(1, labels), (1 - share) * self.weight.gather(1, others)
        both = first * self.each(z, labels) + second * self.each(z, others)
        return losses.reduce(both / (first + second), first + second, self.by_weights)

    def kernels(self, z: Tensor, labels: Tensor) -> Tensor:
        """DUQ's loss of every example, of log K (lanes, B, C): (lanes, B)."""
        z, known, size = self.padded(z, labels)
        return kernel_loss(z, F.one_hot(known, z.shape[-1]).to(z.dtype))[:, :size]

    def each(self, z: Tensor, labels: Tensor) -> Tensor:
        """Of every example, unweighted: (lanes, B)."""
        z, known, size = self.padded(z, labels)
        targets = F.one_hot(known, z.shape[-1]).to(z.dtype)
        margin = self.margin if self.at_logits else torch.zeros_like(self.margin)
        z = losses.adjust_logits(z, known, margin, self.divisor, self.beta, self.scale)
        return losses.per_example(z, targets, known, self.gamma, self.sigmoid)[:, :size]

    def padded(self, z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
        """To 32 examples or a multiple, and how many there are: torch computes exp and log of a tensor's last few numbers otherwise than of
        the rest, and the last lane of a stack must not be the one that holds them."""
        return whole(z), F.pad(labels, (0, -z.shape[1] % 32)), z.shape[1]


def whole(values: Tensor) -> Tensor:
    """(..., B, C) with B filled up to 32 or a multiple: see Knobs.padded."""
    return F.pad(values, (0, 0, 0, -values.shape[-2] % 32))
