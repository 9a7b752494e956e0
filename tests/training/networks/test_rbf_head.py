"""DUQ against its paper's equations, written as loops in float64; lanes apart; numbers at their extremes; what it is
for."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from training.networks.rbf_stacks import DOUBLE, SIGMA, apart, in_double, lane_states, normal, stack_of

from class_uncertainty.training.networks.heads import (
    RBFHead,
    StackedRBFHead,
    gradient_penalty,
    initial_rbf_head,
    kernel_loss,
)
from class_uncertainty.training.networks.layers import Linear


def paper_kernel(state: dict[str, Tensor], f: Tensor) -> Tensor:
    """K_c(f) of one example (D,) -> (C,), class by class."""
    classes, size = state["total"].shape
    kernels = []
    for c in range(classes):
        away = state["weight"][c * size : (c + 1) * size] @ f - state["total"][c] / state["count"][c]
        kernels.append(torch.exp(-(away @ away) / size / (2 * SIGMA**2)))
    return torch.stack(kernels)


def test_the_kernel_is_the_papers(rng: np.random.Generator) -> None:
    states, x = lane_states(rng, 3, 5, 4), normal(rng, 7, 15, dtype=DOUBLE)
    z = stack_of(states).double()(x)
    expected = torch.stack(
        [torch.stack([paper_kernel(s, f) for f in fs]) for s, fs in zip(in_double(states), apart(x, 3), strict=True)]
    )
    assert z.shape == (3, 7, 4)
    torch.testing.assert_close(z.exp(), expected, rtol=1e-10, atol=0)
    assert expected.min() < 0.1
    assert expected.max() > 0.5  # the comparison is of more than zeros
    torch.testing.assert_close(z.softmax(-1), expected / expected.sum(-1, keepdim=True))


def test_an_embedding_is_a_product(rng: np.random.Generator) -> None:
    head, x = stack_of(lane_states(rng, 2, 3, 4)).double(), normal(rng, 6, 6, dtype=DOUBLE)
    expected = torch.einsum("lckd,lbd->lbck", head.weight.view(2, 4, 3, 3), apart(x, 2))
    torch.testing.assert_close(head.embed(x), expected)


def test_the_plain_head_is_a_lane(rng: np.random.Generator) -> None:
    states, x = lane_states(rng, 3, 5, 4), normal(rng, 7, 15)
    for dtype, tolerance in ((DOUBLE, 1e-12), (torch.float32, 1e-5)):
        z = stack_of(states).to(dtype)(x.to(dtype))
        for i, state in enumerate(states):
            plain = RBFHead(5, 4)
            plain.load_state_dict(state)
            torch.testing.assert_close(plain.to(dtype)(apart(x, 3)[i].to(dtype)), z[i], rtol=tolerance, atol=tolerance)


def test_heads_have_the_same_state(rng: np.random.Generator) -> None:
    """And `initial_rbf_head` fills it: what is trained is the weight alone."""
    state = initial_rbf_head(rng, 5, 4)
    for head in (RBFHead(5, 4), StackedRBFHead(5, 4, 1)):
        assert {name: tuple(value.shape) for name, value in head.state_dict().items()} == {
            n: v.shape for n, v in state.items()
        }
        assert [name for name, _ in head.named_parameters()] == ["weight"]


@pytest.mark.parametrize("kind", ["one-hot", "soft"])
def test_the_loss_is_binary_cross_entropy(kind: str, rng: np.random.Generator) -> None:
    """With its gradient."""
    z = -torch.from_numpy(rng.exponential(2, (2, 9, 5))).requires_grad_()
    labels = torch.from_numpy(rng.integers(0, 5, (2, 9)))
    targets = F.one_hot(labels, 5).double() if kind == "one-hot" else torch.from_numpy(rng.random((2, 9, 5)))
    ours, theirs = kernel_loss(z, targets), F.binary_cross_entropy(z.exp(), targets, reduction="none").mean(-1)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    (slope,), (reference,) = torch.autograd.grad(ours.sum(), z), torch.autograd.grad(theirs.sum(), z)
    torch.testing.assert_close(slope, reference, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("z", [-1e-6, -1e-3, -0.5, -math.log(2), -0.7, -1.0, -5.0, -17.0, -40.0, -80.0])
def test_the_loss_keeps_its_digits(z: float) -> None:
    """In float32, against fifty decimals."""
    given = torch.tensor([z], requires_grad=True)
    with localcontext() as context:
        context.prec = 50
        kernel = Decimal(given.item()).exp()
        expected, slope = float(-(1 - kernel).ln()), float(kernel / (1 - kernel))
    loss = kernel_loss(given, torch.zeros(1))
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert torch.autograd.grad(loss, given)[0].item() == pytest.approx(slope, rel=1e-6)
    assert kernel_loss(given, torch.ones(1)).item() == pytest.approx(-z, rel=1e-6)


@pytest.mark.parametrize("z", [0.0, -0.0, -1e-45, -1e-12, -1e-7, -90.0, -200.0, -1e6, -1e30, -math.inf])
@pytest.mark.parametrize("target", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_the_loss_is_finite(z: float, target: float, dtype: torch.dtype) -> None:
    given = torch.tensor([[z, -1.0]], dtype=dtype, requires_grad=True)
    loss = kernel_loss(given, torch.tensor([[target, 0.0]], dtype=dtype))
    (slope,) = torch.autograd.grad(loss.sum(), given)
    assert loss.isfinite().all()
    assert loss > 0
    assert slope.isfinite().all()
    if z == 0 and not target:
        assert loss > 7  # a certain error costs as much as the numbers can say
    if target == 1 and z > -math.inf:
        assert slope[0, 0] == -0.5  # the way back never fades, however far


@pytest.mark.parametrize("distance", [0.0, 1e-30, 1e-10, 1e10, 1e18, 1e25])
def test_any_distance_is_finite(distance: float, rng: np.random.Generator) -> None:
    """Loss, penalty and their gradients, at a centroid itself and where the square of the distance overflows."""
    head = stack_of(lane_states(rng, 2, 4, 3))
    with torch.no_grad():
        head.weight.copy_(torch.eye(4).repeat(6, 1))
        head.total.copy_(head.count.unsqueeze(-1) * 0.25)
    x = torch.full((5, 8), 0.25).add(distance).requires_grad_()
    z = head(x)
    assert not z.isnan().any()
    if distance < 1e-8:
        assert torch.equal(z, torch.zeros_like(z))
    penalty = gradient_penalty(x, z)
    loss = kernel_loss(z, F.one_hot(torch.tensor([[0, 1, 2, 0, 1]] * 2), 3).float())
    assert torch.equal(penalty, torch.ones_like(penalty))  # flat, at the top as far away
    assert loss.isfinite().all()
    for slope in torch.autograd.grad((loss + penalty).sum(), (x, head.weight)):
        assert not slope.isnan().any()
        assert slope.isfinite().all() or distance > 1e20


@pytest.mark.parametrize("shape", [(3,), (2, 4, 4)], ids=["features", "images"])
def test_the_penalty_is_the_papers(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """Example by example and lane by lane, with its gradient."""
    lanes, size, inputs = 2, 5, math.prod(shape)
    states, x = (
        lane_states(rng, lanes, 6, 3),
        normal(rng, size, lanes * shape[0], *shape[1:], dtype=DOUBLE).requires_grad_(),
    )
    head, body = stack_of(states).double(), Linear(inputs, 6, lanes).double()
    with torch.no_grad():
        body.weight.copy_(normal(rng, lanes * 6, inputs) / inputs**0.5)

    ours = gradient_penalty(x, head(torch.tanh(body(x.unflatten(1, (lanes, -1)).flatten(1)))))
    expected, by_lane, by_class = [], body.weight.unflatten(0, (lanes, -1)), head.weight.unflatten(0, (lanes, -1))
    for i, state in enumerate(in_double(states)):
        for j in range(size):
            own = x[j].unflatten(0, (lanes, -1))[i].flatten().detach().requires_grad_()
            total = paper_kernel(state | {"weight": by_class[i]}, torch.tanh(by_lane[i] @ own)).sum()
            (slope,) = torch.autograd.grad(total, own, create_graph=True)
            expected.append(((slope**2).sum().sqrt() - 1) ** 2)
    reference = torch.stack(expected).view(lanes, size)
    torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-12)
    assert (reference - 1).abs().max() > 0.1  # not only flat ground
    weights = (body.weight, head.weight)
    mix = normal(rng, lanes, size, dtype=DOUBLE)
    for a, b in zip(
        torch.autograd.grad((mix * ours).sum(), weights),
        torch.autograd.grad((mix * reference).sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-11)


def test_gradients(rng: np.random.Generator) -> None:
    """First and second, of head and loss; first of the penalty, which is all that a step takes."""
    head, targets = (
        stack_of(lane_states(rng, 2, 3, 2)).double(),
        torch.from_numpy(rng.integers(0, 2, (2, 2, 2))).double(),
    )

    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return torch.func.functional_call(head, {"weight": weight}, (x,))

    x, weight = normal(rng, 2, 6, dtype=DOUBLE).requires_grad_(), head.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(forward, (x, weight))
    assert torch.autograd.gradgradcheck(forward, (x, weight), fast_mode=True)
    z = -torch.from_numpy(rng.exponential(1, (2, 2, 2))).requires_grad_()
    assert torch.autograd.gradcheck(kernel_loss, (z, targets))
    assert torch.autograd.gradgradcheck(kernel_loss, (z, targets))
    assert torch.autograd.gradcheck(lambda x, weight: gradient_penalty(x, forward(x, weight)), (x, weight))


def step(head: StackedRBFHead, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """All that a step computes behind a body that bends its inputs, by name; lanes along the first axis."""
    x = x.clone().requires_grad_()
    features = x + x.square() / 4
    z = head(features)
    more = -len(x) % 32  # as `Knobs.loss` does
    targets = F.one_hot(F.pad(labels, (0, more)), z.shape[-1]).float()
    loss, penalty = kernel_loss(F.pad(z, (0, 0, 0, more)), targets)[:, : len(x)], gradient_penalty(x, z)
    inner, outer = torch.autograd.grad((loss.mean(1) + 0.5 * penalty.mean(1)).sum(), (x, head.weight))
    head.update(features, labels)
    by_lane = {name: value.unflatten(0, (head.lanes, -1)) for name, value in (*head.named_buffers(), ("outer", outer))}
    return {"z": z, "loss": loss, "penalty": penalty, "inner": apart(inner, head.lanes)} | by_lane


@pytest.mark.parametrize(
    ("features", "classes", "size"),
    [(16, 10, 32), (5, 3, 17), (13, 7, 70), (64, 10, 50), (33, 2, 128), (64, 10, 7), (20, 10, 300)],
)
def test_a_lane_alone_is_the_lane_among_others(
    features: int, classes: int, size: int, rng: np.random.Generator
) -> None:
    """Same bits on the CPU, in any place: also of sizes where matrices would not start on a 64-byte boundary."""
    lanes, order = 5, [3, 0, 4, 1, 2]
    states, x = lane_states(rng, lanes, features, classes), normal(rng, lanes, size, features) / 2
    labels = torch.from_numpy(rng.integers(0, classes, (lanes, size)))

    def run(chosen: list[int]) -> dict[str, Tensor]:
        return step(stack_of([states[i] for i in chosen]), torch.cat([x[i] for i in chosen], dim=1), labels[chosen])

    together, shuffled = run(list(range(lanes))), run(order)
    assert (together["penalty"] - 1).abs().max() > 1e-3
    for name, value in together.items():
        assert torch.equal(value[order], shuffled[name]), name
    for i in range(lanes):
        for name, value in run([i]).items():
            assert torch.equal(value[0], together[name][i]), name


def test_distances_are_never_in_bfloat16(rng: np.random.Generator) -> None:
    head, x, labels = (
        stack_of(lane_states(rng, 2, 8, 3)),
        normal(rng, 8, 16).bfloat16(),
        torch.from_numpy(rng.integers(0, 3, (2, 8))),
    )
    other = stack_of([{name: value.chunk(2)[i] for name, value in head.state_dict().items()} for i in range(2)])
    with torch.autocast("cpu", torch.bfloat16):
        z = head(x)
        head.update(x, labels)
    other.update(x.float(), labels)
    assert z.dtype == torch.float32
    assert torch.equal(head.total, other.total)
    torch.testing.assert_close(
        z[0, 0], stack_of(lane_states(np.random.default_rng(20231114), 2, 8, 3))(x.float())[0, 0]
    )
