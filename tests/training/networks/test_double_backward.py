"""Convolutions whose second derivatives are our own, against torch's."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from class_uncertainty.training.networks.bodies import ResNet, resnet32, small_conv
from class_uncertainty.training.networks.double_backward import Conv2d, differentiable_twice

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
def test_numeric_derivatives(shape: tuple[int, int, int], size: tuple[int, int]) -> None:
    """First and second, by differences; a stride of 2 over odd and even sizes."""
    x, weight = random(2, 6, *size), random(6, 6 // shape[1], shape[2], shape[2], seed=1)
    assert torch.autograd.gradcheck(lambda x, weight: convolve(x, weight, shape), (x, weight), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x, weight: convolve(x, weight, shape), (x, weight), fast_mode=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_are_torchs(shape: tuple[int, int, int]) -> None:
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
def test_a_gradient_penalty_through_a_network(make: Callable[..., nn.Module]) -> None:
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


def test_only_what_is_a_convolution_changes() -> None:
    """The same parameters under the same names; a body that has none stays as it is."""
    body = small_conv((1, 8, 8), 3)
    before = {name: value.data_ptr() for name, value in body.state_dict().items()}
    differentiable_twice(body)
    assert [type(layer) for layer in body][:3] == [Conv2d, nn.BatchNorm2d, nn.ReLU]
    assert {name: value.data_ptr() for name, value in body.state_dict().items()} == before
    assert len(list(differentiable_twice(nn.Sequential()).modules())) == 1
    assert differentiable_twice(differentiable_twice(body)) is body
