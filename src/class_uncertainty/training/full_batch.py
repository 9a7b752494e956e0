"""FullBatch: L-BFGS on all examples at once, for linear and cosine heads of features. One trial step is one epoch.

No example is drawn. The expected loss under sampling probabilities alpha is that of each example weighted by
alpha_c / N_c: what SGD estimates from draws is computed exactly.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.measures.uncertainty import row_blocks
from class_uncertainty.methods import Plan, losses
from class_uncertainty.training.augment.crops import Drawn
from class_uncertainty.training.distillation import Teachers
from class_uncertainty.training.networks.stack import Stack, State
from class_uncertainty.training.recipe import Recipe
from class_uncertainty.training.sampling import Examples, LaneSampler
from class_uncertainty.training.train_step import LossTensors

PAIRS = 10  # that the curvature is known by
SLOPE = 0.8  # a step may end uphill, but not steeper than so much of the way down at its start
SLACK = 1e-6  # share of the loss by which rounding may raise it
CURVED = 1e-6  # least cosine between a step and the change of the gradient, of a pair that is kept
SHORTEST = 1e-6  # factor of a step: a shorter one is not tried
TOLERANCE = 1e-5  # largest entry of the gradient at which a lane has converged


@dataclass(frozen=True, eq=False)
class Point:
    """The objective at some parameters."""

    parameters: Tensor  # (P,)
    value: float  # loss and penalty
    gradient: Tensor  # (P,), of the value
    loss: float
    error: float  # percent of the examples


class LBFGS:
    """Limited-memory BFGS (Nocedal 1980) of one lane, by one trial step an epoch.

    A trial is kept if it meets the approximate Wolfe conditions of Hager and Zhang (2005), by slopes: differences of
    losses vanish in float32 long before slopes do. Otherwise the next one is shorter. The pairs and the length of the
    next trial are all that a lane under way has beside its weights: the gradient is computed again from these.
    """

    def __init__(self, stack: Stack) -> None:
        trained = {name: p for name, p in stack.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(trained), list[Tensor](trained.values())
        features = stack.head.weight.shape[-1]
        # a bias belongs to a feature of 1, and is not penalised: without a longer stride it is the last to converge
        strides = [1.0 if p.ndim > 1 else features**0.5 for p in self.parameters]
        self.stride = torch.cat(
            [torch.full_like(p.data, s).flatten() for p, s in zip(self.parameters, strides, strict=True)]
        )
        self.pairs: list[tuple[Tensor, Tensor]] = []  # steps and changes of the gradient, the oldest first
        self.length: float | None = None  # factor of the next step; None where no trial of it has failed

    def load(self, momenta: Sequence[State]) -> None:
        """Go on from the pairs of a lane."""
        (lane,) = momenta
        device = self.parameters[0].device
        numbers = range(len(lane) // 2)
        self.pairs = [(lane[f"step{i}"].clone().to(device), lane[f"change{i}"].clone().to(device)) for i in numbers]
        self.length = float(lane["length"]) or None

    def states(self) -> list[State]:
        """The pairs of the lane."""
        state = {"length": torch.tensor([self.length or 0.0], dtype=torch.float64)}
        for i, (step, change) in enumerate(self.pairs):
            state |= {f"step{i}": step.cpu(), f"change{i}": change.cpu()}
        return [state]

    def vector(self) -> Tensor:
        """All parameters as one vector, (P,)."""
        return torch.cat([p.detach().flatten() for p in self.parameters])

    def write(self, vector: Tensor) -> None:
        """Put the parameters of a vector in place."""
        for p, values in zip(self.parameters, vector.split([p.numel() for p in self.parameters]), strict=True):
            p.data.copy_(values.view_as(p))

    def ended(self, point: Point) -> bool:
        """Whether the lane has converged, as far as float32 can tell."""
        stuck = self.length is not None and self.length < SHORTEST and not self.pairs
        return stuck or float(point.gradient.abs().max()) <= TOLERANCE

    def trial(self, point: Point) -> Tensor:
        """The step to try."""
        direction = self._direction(point.gradient)
        if not float(direction @ point.gradient) < 0:  # only where the objective is not convex, or by rounding
            self.pairs = []
            direction = self._direction(point.gradient)
        if self.length is None:
            self.length = 1.0 if self.pairs else 1 / float(direction.abs().sum())
        return self.length * direction

    def judge(self, point: Point, step: Tensor, there: Point) -> Point:
        """Where the trial ends, if it is kept; otherwise where it began."""
        assert self.length is not None
        slope, end = float(point.gradient @ step), float(there.gradient @ step)
        if there.value <= point.value + SLACK * abs(point.value) and end <= -SLOPE * slope:
            change = there.gradient - point.gradient
            if float(step @ change) > CURVED * float(step.norm() * change.norm()):
                self.pairs = [*self.pairs, (step, change)][-PAIRS:]
            self.length = None
            return there
        crossing = -slope / (end - slope) if end > slope else 0.0  # of the slope with 0, were it a line
        self.length *= min(max(crossing, 0.1), 0.5)
        if self.length < SHORTEST and self.pairs:
            self.pairs, self.length = [], None
        return point

    def _direction(self, gradient: Tensor) -> Tensor:
        """-H g, by the two loops over the pairs."""
        direction, shares = -gradient, list[float]()
        for step, change in reversed(self.pairs):
            shares.append(float(step @ direction) / float(step @ change))
            direction = direction - shares[-1] * change
        direction = self.stride * direction
        if self.pairs:
            step, change = self.pairs[-1]
            direction = direction * (float(step @ change) / float(change @ (self.stride * change)))
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            direction = direction + (share - float(change @ direction) / float(step @ change)) * step
        return direction


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
