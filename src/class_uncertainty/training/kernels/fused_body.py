"""Convolutions, batch norms, shortcuts and ReLUs of a residual network in every lane: one function of our kernels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from class_uncertainty.training.kernels import programs, whole_images

MOMENTUM, EPS = 0.1, 1e-5  # of batch norm: torch's defaults

# By output channels, the fastest of those tried on an H200 (docs/performance.md).
CONVOLVE = {16: (256, 1, 4), 32: (128, 4, 4), 64: (128, 1, 4)}  # pixels of a tile, tiles of a program, warps
CONVOLVE_BACK = {16: (256, 4), 32: (128, 4)}  # pixels of a tile, warps
CONVOLVE_ROWS = {16: (128, 4), 32: (64, 4), 64: (64, 4)}  # pixels of a tile, warps
WEIGH = {16: (128, 32, 1), 32: (128, 16, 2), 64: (64, 32, 4)}  # pixels of a tile, tiles of a program, warps
NUMBERS = 4096  # of a tile in kernels that go through numbers one by one
GATHERED = 4  # tiles of a program that sums


def _sizes(x: Tensor) -> tuple[int, int]:
    """(lanes, pixels) of activations."""
    lanes, images, height, width, _ = x.shape
    return lanes, images * height * width


def _by_rows(x: Tensor, stride: int, pixels: int) -> int:
    """How many images make a tile of so many pixels; 0 where rows are no power of two, or longer."""
    width = x.shape[3]
    return pixels // width if stride == 1 and width & (width - 1) == 0 and width <= pixels else 0


def _by_tap(weight: Tensor, lanes: int, inputs: int, dtype: torch.dtype) -> Tensor:
    """Weights (lanes * out, in, 3, 3) -> (lanes, 9, inputs, out), with zeros for inputs that only fill x up."""
    by_tap = F.pad(weight.view(lanes, -1, weight.shape[1], 9).permute(0, 3, 2, 1), (0, 0, 0, inputs - weight.shape[1]))
    return torch.empty(by_tap.shape, dtype=dtype, device=weight.device).copy_(by_tap)


def _convolve(x: Tensor, w: Tensor, y: Tensor, stride: int, addend: Tensor | None = None, back: bool = False) -> Tensor:
    """Fill y from x by w (lanes, 9, in, out), or by its transpose -> sums of y (lanes, blocks, 2, channels).

    By the transpose there are no sums, and the stride is 1.
    """
    (lanes, images, height, width, ci), co = x.shape, y.shape[-1]
    flags: dict[str, bool | int] = {"TRANSPOSED": back, "ADD": addend is not None, "SUMS": not back}
    tensors = (x, w, y if addend is None else addend, y)
    pixels, warps = CONVOLVE_ROWS[co]
    if tile := _by_rows(x, stride, pixels):
        partial = torch.empty(lanes, triton.cdiv(images, tile), 2, co, device=x.device)
        sizes = (images, height, width, tile, ci, co)
        launch = programs.convolve_rows[partial.shape[1], lanes]
        launch(*tensors, partial, *sizes, **flags, num_warps=warps, num_stages=1)
        return partial
    block, tiles, warps = CONVOLVE[co]
    _, pixels = _sizes(y)
    partial = torch.empty(lanes, triton.cdiv(pixels, block * tiles), 2, co, device=x.device)
    sizes, flags = (pixels, *y.shape[2:4], height, width, tiles, ci, co, stride), flags | {"BLOCK": block}
    programs.convolve[partial.shape[1], lanes](*tensors, partial, *sizes, **flags, num_warps=warps, num_stages=1)
    return partial


def _convolve_back(dy: Tensor, w: Tensor, dx: Tensor, stride: int, shortcut: Tensor | None) -> None:
    """Fill dx from dy by w (lanes, 9, in, out), plus the gradient of the shortcut from its own."""
    if stride == 1:
        _convolve(dy, w, dx, 1, shortcut, back=True)
        return
    (lanes, images, height, width, co), ci = dx.shape, dy.shape[-1]
    pixels, warps = CONVOLVE_BACK[co]
    tiles = triton.cdiv(images * triton.cdiv(height, 2) * triton.cdiv(width, 2), pixels)
    tensors, sizes = (dy, w, dy if shortcut is None else shortcut, dx), (images, height, width, *dy.shape[2:4], ci, co)
    flags = {"ADD": shortcut is not None, "BLOCK": pixels}
    programs.convolve_back[4 * tiles, lanes](*tensors, *sizes, **flags, num_warps=warps, num_stages=1)


def _weigh(x: Tensor, dy: Tensor, stride: int) -> Tensor:
    """The gradient of the weights, (lanes, out, in, 3, 3)."""
    lanes, ci, co = x.shape[0], x.shape[-1], dy.shape[-1]
    block, tiles, warps = WEIGH[co]
    _, pixels = _sizes(dy)
    partial = torch.empty(lanes, triton.cdiv(pixels, block * tiles), co, ci, 3, 3, device=x.device)
    sizes = (pixels, *dy.shape[2:4], *x.shape[2:4], tiles, ci, co, stride)
    programs.weigh[partial.shape[1], 3, lanes](x, dy, partial, *sizes, BLOCK=block, num_warps=warps, num_stages=2)
    return _total(partial).view(lanes, co, ci, 3, 3)


def _total(partial: Tensor, taps: int = 1) -> Tensor:
    """(lanes, blocks, taps, ...) -> (lanes, ..., taps), flat."""
    lanes, blocks = partial.shape[:2]
    sums = partial.new_empty(lanes, partial[0, 0].numel())
    size = sums.shape[1]
    programs.total[(triton.cdiv(size, 256), lanes)](partial, sums, size, blocks, taps, BLOCK=256)
    return sums


class Layer(NamedTuple):
    """A convolution and its batch norm."""

    running: tuple[Tensor, Tensor]  # mean and variance
    stride: int
    closes: bool  # a block: the block's input is added before the ReLU


class FusedBody(torch.autograd.Function):
    """Activations (lanes, B, H, W, C) after the last of some layers, each ReLU(batch norm(convolution(x)) [+ block]).

    Called with the input, the layers, whether they train, and the weights, gammas and betas of all layers. There is no
    gradient of the input.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[Layer], training: bool, *parameters: Tensor) -> Tensor:
        block, made = x, []  # the input of a block; of each layer x, y and statistics
        before: whole_images.Normed | None = None  # the layer whose z is still to be made
        for layer, weight, gamma, beta in zip(layers, *_by_kind(parameters), strict=True):
            like = x if before is None else before.y
            lanes, images, height, width, ci = like.shape
            stride, co = layer.stride, len(weight) // lanes
            y = like.new_empty(lanes, images, -(-height // stride), -(-width // stride), co)
            if whole_images.fits(like, co, stride):
                x, partial = whole_images.convolve(x if before is None else before, weight, y)
            else:
                x = x if before is None else _normalised(*before)
                partial = _convolve(x, _by_tap(weight, lanes, ci, x.dtype), y, stride)
            made += [x]
            if not layer.closes:
                block = x
            statistics = _settled(y, partial, layer.running) if training else _kept(layer.running, lanes)
            before = whole_images.Normed(y, statistics, gamma, beta, _shortcut(block, y) if layer.closes else None)
            made += [y, statistics]
        assert before is not None
        x = _normalised(*before)
        ctx.save_for_backward(*made, x, *parameters)  # of each layer its x, y and statistics; the last z
        ctx.layers = layers
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        depth = len(ctx.layers)
        passed, weights, gammas, betas = ctx.saved_tensors[: 3 * depth], *_by_kind(ctx.saved_tensors[3 * depth + 1 :])
        xs, ys, all_statistics = passed[0::3], passed[1::3], passed[2::3]
        zs = [*xs[1:], ctx.saved_tensors[3 * depth]]
        dx: Tensor | None = dz.contiguous()
        sums: Tensor | None = None  # of batch norm's gradient
        shortcut: Tensor | None = None  # the gradient of the last block's output
        gradients: list[Tensor] = []
        for i, layer in reversed(list(enumerate(ctx.layers))):
            inputs, (lanes, pixels), co = xs[i], _sizes(ys[i]), ys[i].shape[-1]
            assert dx is not None
            dz = dx
            tensors = (dz, zs[i], ys[i], all_statistics[i], gammas[i], betas[i])
            masked = sums is not None  # dz is behind the ReLU
            if sums is None:
                sums = _gathered(*tensors, layer.closes)
            addend = None if layer.closes else shortcut
            dx, sums_before = None, None
            if whole_images.fits(inputs, co, layer.stride):
                before = whole_images.Before(ys[i - 1], all_statistics[i - 1]) if i else None
                normed = (all_statistics[i], gammas[i], sums)
                given = (dz, zs[i], ys[i], inputs, normed, weights[i], before, masked, addend)
                dx, by_block, g, gathered = whole_images.gradients(*given)
                dw = _total(by_block, taps=9).view(lanes, co, co, 3, 3)
                sums_before = None if gathered is None else _total(gathered).view(lanes, 2, co)
            else:
                dy = torch.empty_like(ys[i])
                g = torch.empty_like(dy) if layer.closes else dy  # which is not written otherwise
                block = NUMBERS // co
                grid = (triton.cdiv(pixels, block), lanes)
                programs.spread[grid](*tensors, sums, dy, g, pixels, co, layer.closes, BLOCK=block)
                dw = _weigh(inputs, dy, layer.stride)
                if i:
                    dx, w = torch.empty_like(inputs), _by_tap(weights[i], lanes, inputs.shape[-1], dy.dtype)
                    _convolve_back(dy, w, dx, layer.stride, addend)
            shortcut = g if layer.closes else None
            dw = dw[:, :, : weights[i].shape[1]].flatten(0, 1).contiguous()
            gradients += [sums[:, 0].flatten(), sums[:, 1].flatten(), dw]  # from the last to the first
            sums = sums_before
        return None, None, None, *reversed(gradients)


def _by_kind(parameters: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]]:
    """Weights, gammas and betas."""
    return parameters[0::3], parameters[1::3], parameters[2::3]


def _shortcut(x: Tensor, y: Tensor) -> Tensor:
    """x as it is, or every other pixel of it with zero channels on both sides, in the shape of y."""
    if x.shape == y.shape:
        return x
    more = (y.shape[-1] - x.shape[-1]) // 2
    return F.pad(x[:, :, ::2, ::2], (more, more))


def _settled(y: Tensor, partial: Tensor, running: tuple[Tensor, Tensor]) -> Tensor:
    """Mean and 1 / deviation (lanes, 2, C) of a batch from its sums; running statistics move on."""
    (lanes, pixels), co = _sizes(y), y.shape[-1]
    statistics = torch.empty(lanes, 2, co, device=y.device)
    programs.settle[(lanes,)](partial, statistics, *running, pixels, MOMENTUM, EPS, partial.shape[1], co, BLOCK=64)
    return statistics


def _kept(running: tuple[Tensor, Tensor], lanes: int) -> Tensor:
    """Mean and 1 / deviation (lanes, 2, C) as they run."""
    mean, var = (value.view(lanes, -1) for value in running)
    return torch.stack([mean, (var + EPS).rsqrt()], dim=1)


def _normalised(y: Tensor, statistics: Tensor, gamma: Tensor, beta: Tensor, residual: Tensor | None) -> Tensor:
    (lanes, pixels), co, z = _sizes(y), y.shape[-1], torch.empty_like(y)
    block = NUMBERS // co
    tensors = (y, statistics, gamma, beta, y if residual is None else residual, z)
    grid = (triton.cdiv(pixels, block), lanes)
    programs.normalise[grid](*tensors, pixels, co, ADD=residual is not None, BLOCK=block)
    return z


def _gathered(
    dz: Tensor, z: Tensor, y: Tensor, statistics: Tensor, gamma: Tensor, beta: Tensor, residual: bool
) -> Tensor:
    """Sums (lanes, 2, C) of the gradient behind the ReLU, and of it times y standardised."""
    (lanes, pixels), co = _sizes(y), y.shape[-1]
    block = NUMBERS // co
    partial = torch.empty(lanes, triton.cdiv(pixels, block * GATHERED), 2, co, device=y.device)
    tensors = (dz, z, y, statistics, gamma, beta)
    programs.gather[(partial.shape[1], lanes)](*tensors, partial, pixels, GATHERED, co, residual, BLOCK=block)
    return _total(partial).view(lanes, 2, co)
