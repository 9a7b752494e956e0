"""The plans of an epoch as tensors with a lane axis, and the loss they make."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.methods import Plan, losses
from class_uncertainty.training.lane import Lane
from class_uncertainty.training.networks.heads import kernel_loss
from class_uncertainty.training.networks.layers import full_stack, pad_batch


class LossTensors:
    """The knobs of a stack as tensors, and its losses. `set` fills in the plans of an epoch."""

    def __init__(self, lanes: Sequence[Lane], classes: int, device: str) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(len(lanes), *shape, dtype=dtype, device=device)

        self.weight = zeros(classes)
        self.margin, self.divisor = zeros(1, classes), zeros(1, classes)
        self.beta, self.scale = zeros(1, 1), zeros(1, 1)
        self.gamma, self.sigmoid = zeros(1), zeros(1, dtype=torch.bool)
        self.by_weights = torch.tensor([lane.value.reduction == "weights" for lane in lanes], device=device)
        self.any_by_weights = any(lane.value.reduction == "weights" for lane in lanes)  # a graph cannot ask it
        self.at_logits = lanes[0].value.level == "logits"  # all lanes of a stack, or none

    def set(self, plans: Sequence[Plan]) -> None:
        """Take over the plans of the lanes."""
        for name in ("weight", "margin", "divisor", "beta", "scale", "gamma", "sigmoid"):
            tensor: Tensor = getattr(self, name)
            tensor.copy_(torch.tensor(np.array([getattr(plan, name) for plan in plans])).view(tensor.shape))

    def loss(self, z: Tensor, labels: Tensor, mean_weight: Tensor | None = None) -> Tensor:
        """Logits (lanes, B, C), labels (lanes, B) -> (lanes,); `mean_weight` (lanes,) as `losses.reduce` has it."""
        return self._reduce(self.per_example(z, labels), self.weight.gather(1, labels), mean_weight)

    def mixed(
        self,
        z: Tensor,
        labels: Tensor,
        others: Tensor,
        share: Tensor,
        plain: Tensor | None = None,
        mean_weight: Tensor | None = None,
    ) -> Tensor:
        """The loss of two labels an example, `share` (lanes, B) of the first and the rest of the second -> (lanes,).

        Where `plain` (lanes, 1) is true it is the loss of the first label, to the last bit; there `share` must be 1.
        """
        first, second = share * self.weight.gather(1, labels), (1 - share) * self.weight.gather(1, others)
        by_first, weights = self.per_example(z, labels), first + second
        both = first * by_first + second * self.per_example(z, others)
        if plain is None:
            return self._reduce(both / weights, weights, mean_weight)
        # the quotient of a plain lane is not used, and must not be 0 / 0: its gradient would be used
        loss = torch.where(plain, by_first, both / weights.where(~plain, 1))
        return self._reduce(loss, weights, mean_weight)

    def _reduce(self, each: Tensor, weights: Tensor, mean_weight: Tensor | None) -> Tensor:
        """`losses.reduce`, whose sums by weights are in the gradient."""
        if mean_weight is not None:
            mean_weight = full_stack(mean_weight)
        reduced = losses.reduce(full_stack(each), full_stack(weights), full_stack(self.by_weights), mean_weight)
        return reduced[: len(each)]

    def kernels(self, z: Tensor, labels: Tensor) -> Tensor:
        """DUQ's loss of every example, of log K (lanes, B, C): (lanes, B)."""
        targets = pad_batch(F.one_hot(labels, z.shape[-1]).to(z.dtype))
        return kernel_loss(pad_batch(z), targets)[:, : z.shape[1]]

    def per_example(self, z: Tensor, labels: Tensor) -> Tensor:
        """The loss of every example, unweighted: (lanes, B)."""
        padded, size = pad_batch(z), z.shape[1]
        labels = F.pad(labels, (0, padded.shape[1] - size))
        targets = F.one_hot(labels, z.shape[-1]).to(z.dtype)
        margin = self.margin if self.at_logits else torch.zeros_like(self.margin)
        padded = losses.adjust_logits(padded, labels, margin, self.divisor, self.beta, self.scale)
        return losses.per_example(padded, targets, labels, self.gamma, self.sigmoid)[:, :size]
