"""Heads, which make logits of features: linear, cosine, and DUQ's radial basis functions."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from class_uncertainty.training.networks.layers import Linear, affine, pad_batch


class StackedHead(Linear):
    """Features to logits in every lane, linear or cosine: (B, lanes * D) -> (lanes, B, C)."""

    cosine: Tensor  # (lanes, 1, 1)

    def __init__(self, features: int, classes: int, cosine: Tensor) -> None:
        super().__init__(features, classes, len(cosine))
        self.register_buffer("cosine", cosine.view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (self.lanes, -1)).transpose(0, 1)  # (lanes, B, D)
        weight, bias = self.weight.unflatten(0, (self.lanes, -1)), self.bias.view(self.lanes, 1, -1)
        x = torch.where(self.cosine, F.normalize(x, dim=-1), x)
        weight = torch.where(self.cosine, F.normalize(weight, dim=-1), weight)
        return affine(x, weight, torch.where(self.cosine, 0.0, bias))


class CosineHead(nn.Module):
    """The cosine head of a plain network: the cosine between features and class weights."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, features))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))


LENGTH = 0.1  # sigma, the length scale
GAMMA = 0.999  # of the moving averages
PENALTY = 0.5  # weight of the gradient penalty
COUNT = 13.0  # N_c at the start
SPREAD = 0.05  # standard deviation of the centroids at the start
FLOOR = 1e-6  # of N_c: below it a class that is never seen stays as it is, as 0 / 0 is no centroid


def log_kernel(embedded: Tensor, count: Tensor, total: Tensor) -> Tensor:
    """log K_c: W_c f (..., C, size), N_c (..., C) and m_c (..., C, size) -> (..., C)."""
    away = embedded - total / count.unsqueeze(-1)
    return away.square().mean(dim=-1) / (-2 * LENGTH**2)


class RBFHead(nn.Module):
    """The plain head: features (B, D) -> log K (B, C). A centroid has the size D of the features."""

    count: Tensor  # N_c
    total: Tensor  # m_c

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes * features, features))  # W_c
        self.register_buffer("count", torch.full((classes,), COUNT))
        self.register_buffer("total", torch.zeros(classes, features))

    def forward(self, x: Tensor) -> Tensor:
        return log_kernel(F.linear(x, self.weight).unflatten(-1, self.total.shape), self.count, self.total)


class StackedRBFHead(RBFHead):
    """The same in every lane: (B, lanes * D) -> (lanes, B, C)."""

    def __init__(self, features: int, classes: int, lanes: int) -> None:
        super().__init__(features, lanes * classes)
        self.lanes, self.classes, self.size = lanes, classes, features

    def embed(self, x: Tensor) -> Tensor:
        """W_c f(x): (B, lanes * D) -> (lanes, B, C, size)."""
        x = x.unflatten(1, (self.lanes, -1)).transpose(0, 1)  # (lanes, B, D)
        return _product(x, self.weight.unflatten(0, (self.lanes, -1))).unflatten(-1, (self.classes, self.size))

    def forward(self, x: Tensor) -> Tensor:
        count, total = self.count.view(self.lanes, 1, -1), self.total.view(self.lanes, 1, -1, self.size)
        return log_kernel(self.embed(x), count, total)

    @torch.no_grad()
    def update(self, x: Tensor, labels: Tensor) -> None:
        """N_c <- gamma N_c + (1 - gamma) n_c, and m_c likewise by the sum of its class's W_c f(x).

        Features (B, lanes * D), labels (lanes, B); in the reference after the step, of the network as it evaluates.
        """
        one_hot = F.one_hot(labels, self.classes).to(self.weight.dtype).mT  # (lanes, C, B)
        x = x.unflatten(1, (self.lanes, -1)).permute(1, 2, 0).to(one_hot.dtype)  # (lanes, D, B)
        seen, summed = one_hot.sum(dim=-1).flatten(), _product(one_hot, x).flatten(0, 1)  # (lanes * C,), (lanes * C, D)
        weight = self.weight.unflatten(0, (-1, self.size))
        embedded = (weight * summed.unsqueeze(1)).sum(dim=-1)  # of the sum, and so the sum of theirs
        decay = torch.where(self.count > FLOOR, torch.full_like(seen, GAMMA), 1.0)
        self.count.mul_(decay).add_(seen, alpha=1 - GAMMA)
        self.total.mul_(decay.unsqueeze(-1)).add_(embedded, alpha=1 - GAMMA)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """x weight' in every lane: (lanes, rows, D), (lanes, out, D) -> (lanes, rows, out).

    Never in bfloat16: a distance is a small difference of large numbers, then divided by sigma. Padded to a multiple
    of 16 rows: with fewer, the product of one lane alone has other bits than the same among several.
    """
    rows = x.shape[1]
    with torch.autocast(x.device.type, enabled=False):
        return affine(F.pad(x.to(weight.dtype), (0, 0, 0, -rows % 16)), weight, weight.new_zeros(1, 1, 1))[:, :rows]


def initial_rbf_head(rng: np.random.Generator, features: int, classes: int) -> dict[str, NDArray[np.float32]]:
    """The state of a lane: He's normal for W (size, C, D), whose fan-in torch takes to be C D; centroids near zero."""
    weight = rng.standard_normal((classes * features, features)) * np.sqrt(2 / (classes * features))
    total = rng.standard_normal((classes, features)) * SPREAD * COUNT
    state = {"weight": weight, "count": np.full(classes, COUNT), "total": total}
    return {name: value.astype(np.float32) for name, value in state.items()}


def kernel_loss(z: Tensor, targets: Tensor) -> Tensor:
    """The mean over classes of -t log K - (1 - t) log(1 - K), z = log K: (..., C), (..., C) -> (...).

    log(1 - K) has the form that is exact on its side of K = 1/2; K is kept as far from 1 as numbers can tell apart.
    """
    info = torch.finfo(z.dtype)
    z = z.clamp(min=info.min)  # 0 log 0 is 0
    below = z.clamp(max=-info.eps)
    log_miss = torch.where(below < -math.log(2), torch.log1p(-below.exp()), torch.log(-torch.expm1(below)))
    return -(targets * z + (1 - targets) * log_miss).mean(dim=-1)


def gradient_penalty(x: Tensor, z: Tensor) -> Tensor:
    """(|d sum_c K_c / dx| - 1)^2: inputs (B, lanes * channels, ...) with a gradient, log K (lanes, B, C) -> (lanes, B).

    Padded for the reason that `pad_batch` gives.
    """
    lanes = len(z)
    kernels = pad_batch(z).exp()
    (slope,) = torch.autograd.grad(kernels, x, torch.ones_like(kernels), create_graph=True)
    by_lane = slope.unflatten(1, (lanes, -1)).flatten(2)  # (B, lanes, numbers)
    by_lane = F.pad(by_lane, (0, -by_lane.shape[2] % 16))  # sums too depend on where they start in memory
    length = torch.linalg.vector_norm(by_lane, dim=-1)  # (B, lanes); its gradient at zero is zero
    return (length - 1).square().T


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
