"""Loss: what the rows of METHODS minimise, as a module for anyone's training loop."""

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from class_uncertainty.errors import InputError
from class_uncertainty.integrations.method_parts import Scheduled, in_several_processes
from class_uncertainty.measures import Stats
from class_uncertainty.methods import Method, losses

KNOBS = ("weight", "margin", "divisor")  # (C,) each
NUMBERS = ("beta", "scale", "gamma", "sigmoid")
COSINE_SLACK = 1e-2  # above 1, for cosines in bfloat16


class Loss(nn.Module):
    """The loss of a method: logits (..., C) and labels (...) in, one number out.

    It is that of `cu.fit` for the same method. Rows that act on what is drawn are for ClassSampler.for_method.

    Parameters
    ----------
    method : str or Method
        A row of METHODS that acts on weights, margins or the focal loss, or its name.
    counts : array (C,)
        Training examples of each class.
    uncertainty : array (C,), optional
        Class uncertainties, for methods that use them.
    epochs : int, optional
        How many there are, for methods that change over them.

    Attributes
    ----------
    head : str
        "linear", or "cosine" where logits must be cosines (LDAM), as those of `CosineHead`.
    scale : tensor
        What logits are multiplied by before their softmax: 30 for LDAM, otherwise 1.
    reduction : str
        "mean" of the weighted losses (Eq. 4), or "weights": their sum over that of the weights.
    across_processes : bool
        Set it where gradients are averaged over processes of torch.distributed, as in DDP: a step's weights are then
        summed over all of them, each of which must compute the loss.

    Examples
    --------
    >>> import torch
    >>> loss = cu.Loss("balanced-softmax", counts=[90, 10])
    >>> round(loss(torch.zeros(1, 2), torch.tensor([1])).item(), 3)
    2.303
    """

    weight: Tensor
    margin: Tensor
    divisor: Tensor
    beta: Tensor
    scale: Tensor
    gamma: Tensor
    sigmoid: Tensor
    by_weights: Tensor

    def __init__(
        self,
        method: str | Method,
        counts: ArrayLike,
        uncertainty: ArrayLike | None = None,
        *,
        epochs: int | None = None,
    ) -> None:
        super().__init__()
        self.schedule = Scheduled(method, Stats(counts, uncertainty), epochs)
        if self.schedule.acts_on_draws:
            raise InputError(f"{self.schedule.name} acts on what is drawn: take cu.ClassSampler.for_method.")
        self.head, self.reduction = self.schedule.method.head, self.schedule.method.reduction
        self.across_processes = False
        self.register_buffer("by_weights", torch.tensor(self.reduction == "weights"), persistent=False)
        self._set(0)
        self._checks_cosines = self.head == "cosine"  # once: a look at the values makes a GPU wait

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch is trained, from 0."""
        self._set(epoch)

    def _set(self, epoch: int) -> None:
        knobs, device = self.schedule.plan(epoch), self.by_weights.device
        for name in (*KNOBS, *NUMBERS):
            value = torch.as_tensor(getattr(knobs, name), device=device)
            self.register_buffer(name, value if name == "sigmoid" else value.float(), persistent=False)

    @property
    def classes(self) -> int:
        return len(self.schedule.stats.counts)

    def extra_repr(self) -> str:
        """What repr() shows in brackets."""
        epochs = f", {self.schedule.epochs:,} epochs" if self.schedule.epochs else ""
        return f"{self.schedule.name}, {self.classes:,} classes, {self.head} head{epochs}"

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean of the weighted losses (Eq. 4), or their sum over that of the weights, as the method says."""
        values, weights = self._values(logits, labels)
        mean_weight = None
        if self.across_processes and self.reduction == "weights" and torch.is_grad_enabled():
            mean_weight = mean_in_all(weights)
        return losses.reduce(values.flatten(), weights.flatten(), self.by_weights, mean_weight)

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The sum of the weighted losses. Those of the parts of a batch, over its `denominator`, add up to its loss."""
        values, weights = self._values(logits, labels)
        return (values * weights).sum()

    def denominator(self, labels: Tensor) -> Tensor:
        """What the total is divided by: how many examples there are, or the sum of their weights, as the method says.

        Denominators of the parts of a batch add up to that of the batch.
        """
        weights = self.weight[labels.long()]
        return torch.where(self.by_weights, weights.sum(), weights.numel())

    def _values(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and weights of the examples, in float32 at least."""
        self._check(logits, labels)
        labels, z = labels.long(), logits if logits.dtype == torch.float64 else logits.float()
        targets = nn.functional.one_hot(labels, self.classes).to(z.dtype)
        z = losses.adjust_logits(z, labels, self.margin, self.divisor, self.beta, self.scale)
        return losses.per_example(z, targets, labels, self.gamma, self.sigmoid), self.weight[labels]

    def _check(self, logits: Tensor, labels: Tensor) -> None:
        for name, value in (("logits", logits), ("labels", labels)):
            if not isinstance(value, Tensor):
                raise InputError(f"{name} are {type(value).__name__}: give a tensor.")
        if logits.ndim < 1 or logits.shape[-1] != self.classes or not logits.is_floating_point():
            given = f"{str(logits.dtype).removeprefix('torch.')} of shape {tuple(logits.shape)}"
            raise InputError(f"logits are {given}: they must be (..., {self.classes}) floating point numbers.")
        if labels.shape != logits.shape[:-1] or labels.is_floating_point() or labels.dtype == torch.bool:
            given = f"{str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}"
            raise InputError(f"labels are {given}: they must be {tuple(logits.shape[:-1])} whole numbers.")
        if not labels.numel():
            raise InputError("there are no examples in the batch: give one at least.")
        if labels.device.type == "cpu" and (labels.min() < 0 or labels.max() >= self.classes):
            wrong = labels.min() if labels.min() < 0 else labels.max()
            raise InputError(f"a label is {wrong}: labels run from 0 to {self.classes - 1}.")
        if self._checks_cosines:
            self._checks_cosines = False
            if (largest := logits.detach().abs().max().item()) > 1 + COSINE_SLACK:
                advice = "take class_uncertainty.integrations.torch.CosineHead as the last layer"
                raise InputError(
                    f"{self.schedule.name} takes cosines from -1 to 1, and a logit is {largest:.3g}: {advice}."
                )


def mean_in_all(weights: Tensor) -> Tensor:
    """Over the weights of all processes of torch.distributed, each of which must call it."""
    total = torch.stack([weights.sum(), torch.full_like(weights.sum(), weights.numel())])
    if in_several_processes():
        torch.distributed.all_reduce(total)
    return total[0] / total[1]
