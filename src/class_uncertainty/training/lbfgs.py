"""LBFGS: the optimiser of heads that train on full batches. Between two steps it keeps pairs and a length alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from class_uncertainty.training.networks.stack import Stack, State

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
