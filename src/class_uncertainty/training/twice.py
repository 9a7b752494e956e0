"""A convolution whose second derivative costs what its first does.

torch differentiates a convolution twice by convolutions with kernels as large as the picture, ten times slower on a GPU. But y, the input's
gradient and the weight's are each linear in two of the three things x, W and dy, and so are their own derivatives: always one of the three.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

Shape = tuple[int, int]  # stride and groups


def _back(dy: Tensor, x: Tensor, w: Tensor, shape: Shape, wanted: tuple[bool, bool]) -> tuple[Tensor, Tensor]:
    stride, groups = shape
    fixed = ([stride, stride], [1, 1], [1, 1], False, [0, 0], groups)
    return torch.ops.aten.convolution_backward(dy, x, w, None, *fixed, [*wanted, False])[:2]


class _Forth(Function):
    """y of x (B, in, H, W) and W (out, in / groups, 3, 3)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, shape: Shape) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.shape = shape
        return torch.conv2d(x, w, None, shape[0], 1, 1, shape[1])

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (x, w), (dy,), (for_x, for_w, _) = ctx.saved_tensors, grad, ctx.needs_input_grad
        return _Back.apply(dy, w, x, ctx.shape) if for_x else None, _Weigh.apply(x, dy, w, ctx.shape) if for_w else None, None


class _Back(Function):
    """dx of dy and W; x gives it its shape."""

    @staticmethod
    def forward(ctx: Any, dy: Tensor, w: Tensor, x: Tensor, shape: Shape) -> Tensor:
        ctx.save_for_backward(dy, w)
        ctx.shape = shape
        return _back(dy, x, w, shape, (True, False))[0]

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (dy, w), (ddx,), (for_dy, for_w, *_) = ctx.saved_tensors, grad, ctx.needs_input_grad
        return _Forth.apply(ddx, w, ctx.shape) if for_dy else None, _Weigh.apply(ddx, dy, w, ctx.shape) if for_w else None, None, None


class _Weigh(Function):
    """dW of x and dy; W gives it its shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dy: Tensor, w: Tensor, shape: Shape) -> Tensor:
        ctx.save_for_backward(x, dy)
        ctx.shape = shape
        return _back(dy, x, w, shape, (False, True))[1]

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (x, dy), (ddw,), (for_x, for_dy, *_) = ctx.saved_tensors, grad, ctx.needs_input_grad
        return _Back.apply(dy, ddw, x, ctx.shape) if for_x else None, _Forth.apply(x, ddw, ctx.shape) if for_dy else None, None, None


class Conv2d(nn.Conv2d):
    """nn.Conv2d of 3 x 3 with padding 1 and no bias, as all of ours are."""

    def forward(self, input: Tensor) -> Tensor:
        weight = self.weight
        if torch.is_autocast_enabled("cuda"):  # which does not reach into functions of one's own
            input, weight = input.bfloat16(), weight.bfloat16()
        return _Forth.apply(input, weight, (self.stride[0], self.groups))


def differentiable_twice(body: nn.Module) -> nn.Module:
    """The same body, whose convolutions compute their second derivatives as above."""
    for layer in body.modules():
        if type(layer) is nn.Conv2d:
            layer.__class__ = Conv2d
    return body
