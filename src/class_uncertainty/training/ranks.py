"""Ranks: processes of torchrun that train the same lanes, each on its share of every batch, as data parallelism does.

All ranks draw the same examples from the same streams, and each takes every N-th of a batch. So the classes of a batch
do not depend on N. Gradients are summed over the ranks once a step, after the backward pass.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from class_uncertainty.training.deadline import Deadline

LEAST = 2  # examples of a rank: one has no batch statistics


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; by default it is alone."""

    rank: int = 0
    world: int = 1

    def share(self, size: int) -> tuple[slice, float]:
        """Which rows of a part of a batch this rank takes, and what each counts.

        A part that is too small for all ranks is taken whole by each of them.
        """
        if self.world == 1:
            return slice(None), 1
        return (slice(None), 1 / self.world) if size < LEAST * self.world else (slice(self.rank, None, self.world), 1)

    def sum(self, tensors: Iterable[Tensor | None]) -> None:
        """Sum tensors over the ranks, in place, by one message."""
        values = [value for value in tensors if value is not None]
        if self.world == 1 or not values:
            return
        flat = torch.cat([value.reshape(-1) for value in values])
        dist.all_reduce(flat)
        for value, summed in zip(values, flat.split([value.numel() for value in values]), strict=True):
            value.copy_(summed.view_as(value))

    def sum_since(self, before: Mapping[str, Tensor], sums: Mapping[str, Tensor]) -> None:
        """Sum over the ranks what has come since `before`, in place."""
        for name, value in before.items():
            sums[name].sub_(value)
            self.sum([sums[name]])
            sums[name].add_(value)

    def average(self, tensors: Iterable[Tensor]) -> None:
        """The mean over the ranks, in place."""
        values = list(tensors)
        self.sum(values)
        for value in values if self.world > 1 else ():
            value /= self.world

    @contextmanager
    def statistics(self, synchronised: bool) -> Iterator[None]:
        """Within it batch statistics are those of all ranks, if they are to be."""
        with SynchronisedStatistics() if synchronised and self.world > 1 else nullcontext():
            yield


ALONE = Ranks()


class AgreedDeadline(Deadline):
    """A deadline by the clock of the first rank: all ranks ask at the same places, and get the same answer."""

    @property
    def passed(self) -> bool:
        answer = torch.tensor(float(self.left <= 0))
        dist.broadcast(answer, 0)
        return bool(answer)


class _Sum(torch.autograd.Function):
    """The sum over the ranks. Its gradient is one too: what a rank adds counts in the loss of every rank."""

    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total


class SynchronisedStatistics(TorchFunctionMode):
    """Batch norms see the batch of all ranks, on any device, whatever module calls them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.batch_norm:
            return func(*args, **(kwargs or {}))
        return _batch_norm(*args, **(kwargs or {}))


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """F.batch_norm over the examples of all ranks: means first, then deviations from them."""
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    axes, shape, values = [0, *range(2, x.ndim)], (1, -1, *[1] * (x.ndim - 2)), x.float()
    number = torch.full((1,), values.numel() / values.shape[1], device=x.device)
    total = _Sum.apply(torch.cat([values.sum(axes), number]))
    number = total[-1].detach()
    mean = total[:-1] / number
    centred = values - mean.view(shape)
    variance = _Sum.apply(centred.square().sum(axes)) / number
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean.detach(), momentum)
        running_var.lerp_(variance.detach() * number / (number - 1), momentum)
    y = centred * (variance + eps).rsqrt().view(shape)
    y = y if weight is None else y * weight.view(shape)
    return (y if bias is None else y + bias.view(shape)).to(x.dtype)
