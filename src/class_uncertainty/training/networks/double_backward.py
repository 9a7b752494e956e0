"""A convolution whose second derivative costs what its first does.

torch differentiates a convolution twice by convolutions with kernels as large as the image, ten times slower on a GPU.
But the output y, the gradient of the input x and that of the weight w are each bilinear in the other two of x, w and
dy, and so are their own derivatives: always one of the three from the other two.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

Shape = tuple[int, int, int]  # stride, padding and groups


class _Third(Function):
    """The one of x (B, in, H, W), w (out, in / groups, k, k) and y called `name`, as large as `like`.

    It is computed from the other two, a and b, called `names`. Each derivative of it is another _Third.
    """

    @staticmethod
    def forward(
        ctx: Any, name: str, names: tuple[str, str], a: Tensor, b: Tensor, like: Tensor, shape: Shape
    ) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.name, ctx.names, ctx.shape = name, names, shape
        given, (stride, padding, groups) = dict(zip(names, (a, b), strict=True)), shape
        if name == "y":
            return torch.conv2d(given["x"], given["w"], None, stride, padding, 1, groups)
        x, w = given.get("x", like), given.get("w", like)
        fixed = ([stride, stride], [padding, padding], [1, 1], False, [0, 0], groups)
        wanted = [name == "x", name == "w", False]
        return torch.ops.aten.convolution_backward(given["y"], x, w, None, *fixed, wanted)[0 if name == "x" else 1]

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), (first, second), needs = ctx.saved_tensors, ctx.names, ctx.needs_input_grad
        for_a = _Third.apply(first, (ctx.name, second), grad[0], b, a, ctx.shape) if needs[2] else None
        for_b = _Third.apply(second, (ctx.name, first), grad[0], a, b, ctx.shape) if needs[3] else None
        return None, None, for_a, for_b, None, None


class Conv2d(nn.Conv2d):
    """nn.Conv2d of one stride and padding for both sides and no bias, as all of ours are."""

    def forward(self, input: Tensor) -> Tensor:
        weight = self.weight
        if torch.is_autocast_enabled("cuda"):  # which does not reach into functions of one's own
            input, weight = input.bfloat16(), weight.bfloat16()
        shape = (self.stride[0], self.padding[0], self.groups)
        return _Third.apply("y", ("x", "w"), input, weight, input, shape)


def differentiable_twice(body: nn.Module) -> nn.Module:
    """The same body, whose convolutions compute their second derivatives as above."""
    for layer in body.modules():
        if type(layer) is nn.Conv2d:
            layer.__class__ = Conv2d
    return body
