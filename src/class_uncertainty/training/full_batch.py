"""FullBatch: L-BFGS on all examples at once, for linear and cosine heads of features. One trial step is one epoch.

No example is drawn. The expected loss under sampling probabilities alpha is that of each example weighted by
alpha_c / N_c: what SGD estimates from draws is computed exactly.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.measures.scores import row_blocks
from class_uncertainty.methods import Plan, losses
from class_uncertainty.training.augment.crops import Drawn
from class_uncertainty.training.distillation import Teachers
from class_uncertainty.training.lbfgs import LBFGS, Point
from class_uncertainty.training.networks.stack import Stack
from class_uncertainty.training.objective import LossTensors
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.sampling import Examples, LaneSampler


class FullBatch:
    """The epochs of one lane in one stage, on examples that are standardised already.

    Lanes train one by one, each on one thread: what they do not share cannot change their bits, and a lane that has
    converged takes no more time. With classes as rows, a product of matrices is as fast as that of many lanes at once.
    """

    plan: Plan | None = None
    point: Point | None = None

    def __init__(
        self,
        stack: Stack,
        optimiser: LBFGS,
        recipe: Recipe,
        examples: Examples,
        sampler: LaneSampler,
        teachers: Teachers | None = None,
    ) -> None:
        self.shape, self.optimiser, self.recipe, self.examples = stack.head.weight.shape, optimiser, recipe, examples
        method = sampler.lane.value
        self.teachers, self.cosine, self.focal = teachers, method.head == "cosine", method.focal is not None
        self.objective = LossTensors([sampler.lane], len(sampler.counts), str(examples.labels.device))
        self.times = np.bincount(sampler.indices, minlength=len(examples.labels))  # that the lane has each example
        self.labels, self.counts = examples.labels.cpu().numpy(), sampler.counts
        self.blocks = list(row_blocks(len(examples.labels), recipe.batch))
        self.targets = [self._targets(teachers, rows) for rows in self.blocks] if teachers else []

    @property
    def idle(self) -> bool:
        """Whether another epoch of the same plan would change nothing: the lane has converged, or diverged."""
        point = self.point
        return point is not None and (not math.isfinite(point.value) or self.optimiser.ended(point))

    def take(self, plan: Plan) -> bool:
        """Take over a plan: whether it differs from the one before."""
        if self.plan is not None and _same(plan, self.plan):
            return False
        self.plan, self.point = plan, None
        self.objective.set([plan])
        drawn = self.times * (plan.alpha / np.maximum(self.counts, 1))[self.labels]  # sums to 1
        weighted = drawn * plan.weight[self.labels]
        weighted /= weighted.sum() if bool(self.objective.by_weights) else 1
        device = self.examples.labels.device
        self.drawn, self.weighted = (torch.tensor(w, dtype=torch.float32, device=device) for w in (drawn, weighted))
        return True

    def set_training(self) -> None:
        """A head is the same in training and in evaluation."""

    def epoch(self, plans: Sequence[Plan], draws: Drawn, lr: Tensor, before_step: Callable[[], object]) -> Tensor:
        """One trial step -> (2, 1) loss and training error in percent. Under a new plan its gradient comes first."""
        if self.take(plans[0]):
            self.optimiser.length = None
        if self.point is None:
            self.point = self._evaluate(self.optimiser.vector(), before_step)
        if not self.idle:
            step = self.optimiser.trial(self.point)
            there = self._evaluate(self.point.parameters + step, before_step)
            self.point = self.optimiser.judge(self.point, step, there)
            self.optimiser.write(self.point.parameters)
        return torch.tensor([[self.point.loss], [self.point.error]])

    def _evaluate(self, parameters: Tensor, before_step: Callable[[], object]) -> Point:
        """Loss, penalty and gradient over all examples.

        A cosine head has no penalty, as its logits do not depend on the lengths of its weights, and no bias.
        """
        size = math.prod(self.shape)
        weight, bias = parameters[:size].view(self.shape).requires_grad_(), parameters[size:]
        rows = F.normalize(weight, dim=-1) if self.cosine else weight
        slopes, bias_slopes, sums = torch.zeros_like(weight), torch.zeros_like(bias), list[Tensor]()
        for i in range(len(self.blocks)):
            before_step()
            x, slope, *parts = self._block(i, rows.detach(), bias)
            slopes.addmm_(slope, x)
            bias_slopes += slope.sum(dim=1)
            sums.append(torch.stack(parts))
        loss, wrong = torch.stack(sums).cpu().double().sum(dim=0).tolist()
        (slopes,) = torch.autograd.grad(rows, weight, slopes) if self.cosine else (slopes,)
        penalty = 0.0 if self.cosine else self.recipe.weight_decay
        weight = weight.detach()
        slopes = slopes + penalty * weight
        value = loss + penalty / 2 * float(weight.double().square().sum())
        gradient = torch.cat([slopes.flatten(), torch.zeros_like(bias) if self.cosine else bias_slopes])
        return Point(parameters.detach(), value, gradient, loss, 100 * wrong)

    def _block(self, i: int, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Of some examples: features (B, D), slopes of their logits (C, B), summed loss and share that is wrong."""
        rows = self.blocks[i]
        x, labels = self.examples.inputs[rows], self.examples.labels[rows]
        x = F.normalize(x, dim=-1) if self.cosine else x
        z = weight @ x.T  # (C, B)
        z = z if self.cosine else z + bias.unsqueeze(1)
        z = z.T.contiguous().requires_grad_()
        loss = (self.weighted[rows] * self._per_example(z[None], labels[None], i)[0]).sum()
        (slope,) = torch.autograd.grad(loss, z)
        wrong = self.drawn[rows] @ (z.detach().argmax(dim=-1) != labels).float()
        return x, slope.T, loss.detach(), wrong

    def _per_example(self, z: Tensor, labels: Tensor, i: int) -> Tensor:
        """The loss of each example, unweighted: (1, B, C), (1, B) -> (1, B)."""
        if self.teachers:
            return self.teachers.loss(z, self.targets[i], labels)
        if self.focal:
            return self.objective.per_example(z, labels)
        knobs = self.objective
        adjusted = losses.adjust_logits(z, labels, knobs.margin, knobs.divisor, knobs.beta, knobs.scale)
        return F.cross_entropy(adjusted.mT, labels, reduction="none")

    def _targets(self, teachers: Teachers, rows: slice) -> Tensor:
        """What teachers say of some examples, which always look the same."""
        places = torch.arange(rows.start, rows.stop, device=self.examples.labels.device)
        return teachers.targets(self.examples.inputs[rows], places)


def _same(plan: Plan, other: Plan) -> bool:
    return all(np.array_equal(getattr(plan, field.name), getattr(other, field.name)) for field in fields(Plan))
