"""LBFGS: it ends at a minimum, shortens steps that fail, and has all of its state in a checkpoint."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

import class_uncertainty as cu
from class_uncertainty.training import full_batch
from class_uncertainty.training.full_batch import LBFGS, SHORTEST, TOLERANCE, Point
from class_uncertainty.training.networks.stack import Stack
from class_uncertainty.training.recipe import RECIPES

Objective = Callable[[Tensor], Tensor]


def optimiser() -> LBFGS:
    """Of a head with two features and two classes: six numbers, the last two of which are biases."""
    return LBFGS(Stack(RECIPES["embeddings"], (2,), ("a", "b"), [cu.Lane()]))


def at(objective: Objective, parameters: Tensor) -> Point:
    parameters = parameters.detach().requires_grad_()
    value = objective(parameters)
    (gradient,) = torch.autograd.grad(value, parameters)
    return Point(parameters.detach(), value.item(), gradient, value.item(), 0.0)


def minimised(lbfgs: LBFGS, objective: Objective, steps: int, start: Tensor | None = None) -> list[Point]:
    points = [at(objective, torch.zeros(6) if start is None else start)]
    while len(points) <= steps and not lbfgs.ended(points[-1]):
        step = lbfgs.trial(points[-1])
        points.append(lbfgs.judge(points[-1], step, at(objective, points[-1].parameters + step)))
    return points


def quadratic(parameters: Tensor) -> Tensor:
    return ((parameters - torch.arange(6.0)).square() * torch.tensor([1.0, 4.0, 9.0, 2.0, 0.5, 0.2])).sum()


def quartic(parameters: Tensor) -> Tensor:
    return (parameters - 3).pow(4).sum() + parameters.exp().sum()


def bumpy(parameters: Tensor) -> Tensor:
    return (parameters.square() / 20 + (3 * parameters).cos()).sum()


@pytest.mark.parametrize("objective", [quadratic, quartic, bumpy])
def test_it_ends_where_the_gradient_is_nothing(objective):
    """Never higher than before, in few steps, where the objective is not convex too."""
    points = minimised(optimiser(), objective, 100, torch.full((6,), 0.3))
    values = [point.value for point in points]
    assert len(points) < 60
    assert float(points[-1].gradient.abs().max()) <= TOLERANCE or points[-1].value == pytest.approx(
        values[-2], rel=1e-6
    )
    assert all(later <= earlier + 1e-5 * abs(earlier) for earlier, later in pairwise(values))
    assert values[-1] < values[0]


def test_a_step_that_overshoots_is_shortened_and_one_that_fails_for_ever_ends_it():
    """A loss that is no number, or that has a kink, ends a lane where it is."""
    lbfgs, start = optimiser(), at(quadratic, torch.zeros(6))
    step, lengths = lbfgs.trial(start), list[float]()
    while not lbfgs.ended(start):
        lengths.append(lbfgs.length or 0)
        nowhere = Point(start.parameters + step, float("nan"), torch.full((6,), float("nan")), 0.0, 0.0)
        assert lbfgs.judge(start, step, nowhere) is start
        step = lbfgs.trial(start)
    assert all(0.1 * a <= b <= 0.5 * a for a, b in pairwise(lengths))
    assert (lbfgs.length or 1) < SHORTEST


def judged(slope: float, end: float, value: float = -1.0) -> tuple[LBFGS, bool]:
    """An optimiser after a trial step from slope to end, and whether it kept the step."""
    lbfgs, direction = optimiser(), torch.eye(6)[0]
    start = Point(torch.zeros(6), 0.0, slope * direction, 0.0, 0.0)
    step = lbfgs.trial(start)
    there = Point(step, value, end * direction, value, 0.0)
    return lbfgs, lbfgs.judge(start, step, there) is there


@pytest.mark.parametrize(("end", "pairs"), [(-0.5, 1), (0.5, 1), (-1.0, 0), (-2.0, 0)])
def test_a_step_without_curvature_is_kept_and_its_pair_is_not(end, pairs):
    """A pair of no or negative curvature would turn the next direction uphill."""
    lbfgs, kept = judged(-1.0, end)
    assert kept
    assert len(lbfgs.pairs) == pairs


@pytest.mark.parametrize(("end", "value", "expected"), [(0.7, -1.0, True), (0.9, -1.0, False), (0.7, 1.0, False)])
def test_a_step_that_ends_too_steep_or_too_high_is_not_kept(end, value, expected):
    """A lower loss alone does not do: the slope at the end is the better witness in float32."""
    lbfgs, kept = judged(-1.0, end, value)
    assert kept is expected
    assert (lbfgs.length is None) is expected


@pytest.mark.parametrize("stop", [0, 1, 3, 6])
def test_its_state_is_all_that_it_needs(stop, monkeypatch):
    """What goes on from a checkpoint takes the same steps, to the last bit."""
    monkeypatch.setattr(full_batch, "PAIRS", 3)
    whole, first, second = optimiser(), optimiser(), optimiser()
    points = minimised(whole, quartic, stop + 4)
    begun = minimised(first, quartic, stop)
    second.load(first.states())
    rest = minimised(second, quartic, 4, begun[-1].parameters)
    assert len(second.pairs) <= 3
    assert all(np.array_equal(a.parameters, b.parameters) for a, b in zip(points[stop:], rest, strict=True))
