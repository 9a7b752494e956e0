"""Heads: DUQ against its paper's equations, written as loops in float64, and gradients of its penalty."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training.networks.rbf_stacks import DOUBLE, GAMMA, SIGMA, apart, in_double, lane_states, normal, stack_of

from class_uncertainty.training.networks.bodies import ResNet, mlp, resnet32, small_conv
from class_uncertainty.training.networks.heads import (
    PENALTY,
    Conv2d,
    RBFHead,
    StackedRBFHead,
    differentiable_twice,
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


def test_the_kernel_is_the_papers(rng):
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


def test_an_embedding_is_a_product(rng):
    head, x = stack_of(lane_states(rng, 2, 3, 4)).double(), normal(rng, 6, 6, dtype=DOUBLE)
    expected = torch.einsum("lckd,lbd->lbck", head.weight.view(2, 4, 3, 3), apart(x, 2))
    torch.testing.assert_close(head.embed(x), expected)


def test_the_plain_head_is_a_lane(rng):
    states, x = lane_states(rng, 3, 5, 4), normal(rng, 7, 15)
    for dtype, tolerance in ((DOUBLE, 1e-12), (torch.float32, 1e-5)):
        z = stack_of(states).to(dtype)(x.to(dtype))
        for i, state in enumerate(states):
            plain = RBFHead(5, 4)
            plain.load_state_dict(state)
            torch.testing.assert_close(plain.to(dtype)(apart(x, 3)[i].to(dtype)), z[i], rtol=tolerance, atol=tolerance)


def test_heads_have_the_same_state(rng):
    """And `initial_rbf_head` fills it: what is trained is the weight alone."""
    state = initial_rbf_head(rng, 5, 4)
    for head in (RBFHead(5, 4), StackedRBFHead(5, 4, 1)):
        assert {name: tuple(value.shape) for name, value in head.state_dict().items()} == {
            n: v.shape for n, v in state.items()
        }
        assert [name for name, _ in head.named_parameters()] == ["weight"]


@pytest.mark.parametrize("kind", ["one-hot", "soft"])
def test_the_loss_is_binary_cross_entropy(kind, rng):
    """With its gradient."""
    z = -torch.from_numpy(rng.exponential(2, (2, 9, 5))).requires_grad_()
    labels = torch.from_numpy(rng.integers(0, 5, (2, 9)))
    targets = F.one_hot(labels, 5).double() if kind == "one-hot" else torch.from_numpy(rng.random((2, 9, 5)))
    ours, theirs = kernel_loss(z, targets), F.binary_cross_entropy(z.exp(), targets, reduction="none").mean(-1)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    (slope,), (reference,) = torch.autograd.grad(ours.sum(), z), torch.autograd.grad(theirs.sum(), z)
    torch.testing.assert_close(slope, reference, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("z", [-1e-6, -1e-3, -0.5, -math.log(2), -0.7, -1.0, -5.0, -17.0, -40.0, -80.0])
def test_the_loss_keeps_its_digits(z):
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
def test_the_loss_is_finite(z, target, dtype):
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
def test_any_distance_is_finite(distance, rng):
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
def test_the_penalty_is_the_papers(shape, rng):
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


def test_gradients(rng):
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
def test_a_lane_alone_is_the_lane_among_others(features, classes, size, rng):
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


def test_distances_are_never_in_bfloat16(rng):
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


def test_centroids_are_moving_averages(rng):
    """N_c and m_c of every lane and class, example by example, over several batches."""
    states = lane_states(rng, 3, 4, 5)
    head, expected = stack_of(states).double(), in_double(states)
    for _ in range(6):
        x, labels = normal(rng, 9, 12, dtype=DOUBLE), torch.from_numpy(rng.integers(0, 5, (3, 9)))
        head.update(x.requires_grad_(), labels)
        for state, fs, ys in zip(expected, apart(x.detach(), 3), labels, strict=True):
            for c in range(5):
                own = [state["weight"][4 * c : 4 * c + 4] @ f for f, y in zip(fs, ys, strict=True) if y == c]
                state["count"][c] = GAMMA * state["count"][c] + (1 - GAMMA) * len(own)
                state["total"][c] = GAMMA * state["total"][c] + (1 - GAMMA) * sum(own, torch.zeros(4, dtype=DOUBLE))
    for name, value in head.named_buffers():
        torch.testing.assert_close(value, torch.cat([state[name] for state in expected]), rtol=1e-12, atol=1e-13)
        assert not value.requires_grad


def test_updates_stay_in_place(rng):
    """A captured graph writes where it did; and a pass whose gradient is still to come is not disturbed."""
    head, x = stack_of(lane_states(rng, 2, 4, 3)), normal(rng, 8, 8)
    places = {name: value.data_ptr() for name, value in head.state_dict().items()}
    before, weight = head.total.clone(), head.weight.detach().clone()
    z = head(x)
    head.update(x, torch.zeros(2, 8, dtype=torch.int64))
    z.sum().backward()
    assert {name: value.data_ptr() for name, value in head.state_dict().items()} == places
    assert not torch.equal(head.total, before)
    assert torch.equal(head.weight, weight)


def test_a_class_that_no_batch_holds_keeps_its_centroid(rng):
    """Both its averages fade by the same factor; in another lane, and in other classes, centroids move."""
    head = stack_of(lane_states(rng, 2, 4, 3))
    start, count, total = head.total / head.count.unsqueeze(-1), head.count.clone(), head.total.clone()
    for _ in range(200):
        labels = torch.from_numpy(
            np.stack([rng.integers(0, 2, 16), rng.integers(1, 3, 16)])
        )  # lane 0 lacks class 2, lane 1 class 0
        head.update(normal(rng, 16, 8) + 1, labels)
        count[[2, 3]], total[[2, 3]] = count[[2, 3]] * GAMMA, total[[2, 3]] * GAMMA
    assert torch.equal(head.count[[2, 3]], count[[2, 3]])
    assert torch.equal(head.total[[2, 3]], total[[2, 3]])
    moved = (head.total / head.count.unsqueeze(-1) - start).abs().amax(dim=1)
    assert moved[[2, 3]].max() < 1e-6
    assert moved[[0, 1, 4, 5]].min() > 1e-3


def test_a_class_that_is_never_seen_does_not_vanish(rng):
    """100,000 steps would take N_c below the smallest number, and the whole lane with it."""
    head, labels = stack_of(lane_states(rng, 1, 4, 2)), torch.zeros(1, 8, dtype=torch.int64)
    start = head.total / head.count.unsqueeze(-1)
    with torch.no_grad():
        for value in (head.count, head.total):
            value[1] *= 1.5e-6 / 13
    for _ in range(1500):
        head.update(normal(rng, 8, 4), labels)
    assert 0.9e-6 < head.count[1] <= 1e-6
    torch.testing.assert_close(head.total[1] / head.count[1], start[1], rtol=1e-4, atol=0)
    head.update(torch.ones(8, 4), labels + 1)
    embedded = head.embed(torch.ones(1, 4))[0, 0, 1]
    torch.testing.assert_close(head.total[1] / head.count[1], embedded, rtol=1e-3, atol=1e-4)  # once seen, it is there


@pytest.mark.parametrize(("features", "classes"), [(64, 10), (32, 50)])
def test_the_initial_state(features, classes, rng):
    """W as torch's kaiming_normal_ makes one (size, C, D), and centroids of standard deviation 0.05 that thirteen
    examples hold."""
    state = initial_rbf_head(rng, features, classes)
    theirs = nn.init.kaiming_normal_(
        torch.empty(features, classes, features), generator=torch.Generator().manual_seed(0)
    )
    assert all(value.dtype == np.float32 for value in state.values())
    assert state["weight"].std() == pytest.approx(float(theirs.std()), rel=0.03)
    assert state["weight"].mean() == pytest.approx(
        0, abs=5 * float(state["weight"].std()) / state["weight"].size ** 0.5
    )
    assert (state["weight"] ** 4).mean() / (state["weight"] ** 2).mean() ** 2 == pytest.approx(3, rel=0.1)  # normal
    assert (state["count"] == 13).all()
    centroids = state["total"] / 13
    assert centroids.std() == pytest.approx(0.05, rel=0.1)
    assert centroids.mean() == pytest.approx(0, abs=5 * 0.05 / centroids.size**0.5)
    again, other = (
        initial_rbf_head(np.random.default_rng(20231114), features, classes),
        initial_rbf_head(rng, features, classes),
    )
    assert all(np.array_equal(value, again[name]) for name, value in state.items())
    assert not np.array_equal(state["weight"], other["weight"])


def test_it_is_certain_on_the_data_and_not_far_away(rng):
    """Two blobs, two lanes: after training the largest K is high on either blob and near zero anywhere far off."""
    lanes, centres = 2, np.array([[-1.5, 0], [1.5, 0]])
    body, head = (
        mlp((2,), lanes),
        stack_of([{n: torch.from_numpy(v) for n, v in initial_rbf_head(rng, 64, 2).items()} for _ in range(lanes)]),
    )
    with torch.no_grad():
        body[0].weight.copy_(normal(rng, lanes * 64, 2))
    optimiser = torch.optim.SGD([*body.parameters(), *head.parameters()], 0.05, 0.9, weight_decay=5e-4)

    def certainty(points: np.ndarray) -> tuple[Tensor, Tensor]:
        body.eval()
        with torch.no_grad():
            z = head(body(torch.from_numpy(points).float().repeat(1, lanes)))
        return z.exp().amax(dim=-1), z.argmax(dim=-1)

    for _ in range(150):
        labels = rng.integers(0, 2, (lanes, 64))
        points = centres[labels] + 0.3 * rng.standard_normal((lanes, 64, 2))  # (lanes, B, 2)
        x = torch.from_numpy(points.transpose(1, 0, 2).reshape(64, -1)).float().requires_grad_()
        body.train()
        z = head(body(x))
        targets = F.one_hot(torch.from_numpy(labels), 2).float()
        loss = kernel_loss(z, targets).mean(1) + PENALTY * gradient_penalty(x, z).mean(1)
        optimiser.zero_grad()
        loss.sum().backward()
        optimiser.step()
        body.eval()
        with torch.no_grad():
            head.update(body(x), torch.from_numpy(labels))
    held = rng.integers(0, 2, 200)
    near, predicted = certainty(centres[held] + 0.3 * rng.standard_normal((200, 2)))
    angles = np.linspace(0, 2 * np.pi, 100)
    far, _ = certainty(15 * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    assert (predicted == torch.from_numpy(held)).float().mean(dim=1).min() > 0.98
    assert near.mean(dim=1).min() > 0.7
    assert far.amax(dim=1).max() < 0.05


SHAPES = [(1, 1, 3), (2, 1, 3), (1, 3, 3), (2, 3, 3), (2, 3, 1)]  # stride, groups and size


def convolve(x: Tensor, weight: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """By our own convolution."""
    stride, groups, size = shape
    layer = Conv2d(x.shape[1], len(weight), size, stride, padding=size // 2, groups=groups, bias=False)
    return torch.func.functional_call(layer, {"weight": weight}, (x,))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(4, 3), (5, 5)])
def test_numeric_derivatives(shape, size):
    """First and second, by differences; a stride of 2 over odd and even sizes."""
    x, weight = random(2, 6, *size), random(6, 6 // shape[1], shape[2], shape[2], seed=1)
    assert torch.autograd.gradcheck(lambda x, weight: convolve(x, weight, shape), (x, weight), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x, weight: convolve(x, weight, shape), (x, weight), fast_mode=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_are_torchs(shape):
    """Of a function that bends: the convolution, its gradients, and the gradients of those by x, the weight and what
    comes from behind."""
    x, weight, behind = random(2, 6, 5, 4), random(6, 6 // shape[1], shape[2], shape[2], seed=1), None

    def derivatives(function: object) -> list[Tensor]:
        nonlocal behind
        y = function(x, weight)  # type: ignore[operator]
        behind = random(*y.shape, seed=2)
        first = torch.autograd.grad(y, (x, weight), behind, create_graph=True)
        second = torch.autograd.grad(sum(g.sin().sum() for g in first), (x, weight, behind), create_graph=True)
        third = torch.autograd.grad(sum(g.square().sum() for g in second), (x, weight))
        return [y, *first, *second, *third]

    ours = derivatives(lambda x, weight: convolve(x, weight, shape))
    theirs = derivatives(lambda x, weight: torch.conv2d(x, weight, None, shape[0], shape[2] // 2, 1, shape[1]))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        assert b.abs().max() > 0.1


def narrow_resnet18(shape: tuple[int, ...], lanes: int) -> ResNet:
    """Its shortcuts are 1 x 1 convolutions."""
    return ResNet(shape, lanes, (4, 8, 16, 32), 2, projected=True)


@pytest.mark.parametrize("make", [small_conv, resnet32, narrow_resnet18])
def test_a_gradient_penalty_through_a_network(make):
    """With batch statistics: its gradient by every parameter is that of ordinary convolutions."""
    lanes, gradients = 2, []
    for change in (lambda body: body, differentiable_twice):
        torch.manual_seed(0)
        body = make((1, 8, 8), lanes).double()
        assert change(body) is body
        x = random(6, lanes, 8, 8)
        (slope,) = torch.autograd.grad(body(x).sin().sum(), x, create_graph=True)
        gradients.append(
            torch.autograd.grad((slope.flatten(1).norm(dim=1) - 1).square().sum(), list(body.parameters()))
        )
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9 * float(theirs.abs().max()) + 1e-12)


def test_only_what_is_a_convolution_changes():
    """The same parameters under the same names; a body that has none stays as it is."""
    body = small_conv((1, 8, 8), 3)
    before = {name: value.data_ptr() for name, value in body.state_dict().items()}
    differentiable_twice(body)
    assert [type(layer) for layer in body][:3] == [Conv2d, nn.BatchNorm2d, nn.ReLU]
    assert {name: value.data_ptr() for name, value in body.state_dict().items()} == before
    assert len(list(differentiable_twice(nn.Sequential()).modules())) == 1
    assert differentiable_twice(differentiable_twice(body)) is body
