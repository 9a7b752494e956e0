"""AdamW (Loshchilov and Hutter, ICLR 2019) with a learning rate for each lane."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from class_uncertainty.training import Recipe
from class_uncertainty.training.networks.stack import SGD, Stack, State, apart, joined

BETA, EPSILON = 0.999, 1e-8  # of the second moments; the first beta is the recipe's momentum
SECOND, STEPS = "second.", "steps"  # where a lane's state has the second moments, and the number of steps


class AdamW(SGD):
    """torch.optim.AdamW: decay is decoupled, and biases, norms and other vectors have none."""

    def __init__(self, stack: Stack, recipe: Recipe) -> None:
        super().__init__(stack, recipe)
        self.seconds = [torch.zeros_like(p) for p in self.parameters]
        self.steps = torch.zeros(stack.lanes, device=self.parameters[0].device)

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.momenta, *self.seconds, self.steps]

    def load(self, momenta: Sequence[State]) -> None:
        super().load(momenta)
        for name, second in zip(self.names, self.seconds, strict=True):
            second.copy_(joined([lane[SECOND + name] for lane in momenta]).view_as(second))
        self.steps.copy_(torch.cat([lane[STEPS] for lane in momenta]))

    def states(self) -> list[State]:
        """Each lane's moments, apart."""
        seconds = {SECOND + name: second for name, second in zip(self.names, self.seconds, strict=True)}
        more = apart(seconds | {STEPS: self.steps}, self.lanes)
        return [state | rest for state, rest in zip(super().states(), more, strict=True)]

    @torch.no_grad()
    def step(self, rates: list[Tensor]) -> None:
        """m, v: moving averages of g and g^2, divided by 1 - beta^t; p <- p - lr (m / (sqrt(v) + e) + decay p)."""
        live, beta = self.live, self.recipe.momentum
        parameters, momenta, seconds, rates = (
            [values[i] for i in live] for values in (self.parameters, self.momenta, self.seconds, rates)
        )
        gradients = [p.grad for p in parameters if p.grad is not None]
        self.steps += 1
        torch._foreach_mul_(momenta, beta)
        torch._foreach_add_(momenta, gradients, alpha=1 - beta)
        torch._foreach_mul_(seconds, BETA)
        torch._foreach_add_(seconds, list(torch._foreach_mul(gradients, gradients)), alpha=1 - BETA)
        step = self.steps[0]  # lanes of a stack are equally far
        roots = list(torch._foreach_sqrt(seconds))
        torch._foreach_div_(roots, _share_seen(BETA, step).sqrt())
        torch._foreach_add_(roots, EPSILON)
        updates = list(torch._foreach_div(momenta, roots))
        torch._foreach_div_(updates, _share_seen(beta, step))
        if matrices := [i for i, p in enumerate(parameters) if p.ndim > 1 and self.recipe.weight_decay]:
            decayed = [updates[i] for i in matrices]
            torch._foreach_add_(decayed, [parameters[i] for i in matrices], alpha=self.recipe.weight_decay)
        torch._foreach_sub_(parameters, list(torch._foreach_mul(updates, rates)))


def _share_seen(beta: float, step: Tensor) -> Tensor:
    """1 - beta^step, to the last digit however close to 1 the power is."""
    return -torch.expm1(step * math.log(beta)) if beta else torch.ones_like(step)


def make_optimiser(stack: Stack, recipe: Recipe) -> SGD:
    """The optimiser that the recipe names."""
    return AdamW(stack, recipe) if recipe.optimizer == "adamw" else SGD(stack, recipe)
