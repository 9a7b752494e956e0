"""A convolution with batch norm, residual and ReLU in every lane, as one differentiable function of our kernels."""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from class_uncertainty.training.kernels import programs, whole_images

MOMENTUM, EPS = 0.1, 1e-5  # of batch norm: torch's defaults

# By output channels, the fastest of those tried on an H200 (docs/performance.md).
CONVOLVE = {16: (256, 1, 4), 32: (128, 4, 4), 64: (128, 1, 4)}  # pixels of a tile, tiles of a program, warps
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
    """Fill y from x by w (lanes, 9, in, out), or by its transpose -> sums of y (lanes, blocks, 2, channels)."""
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


class ConvolveNormalise(torch.autograd.Function):
    """ReLU(batch norm(convolution(x)) [+ residual]), and x again.

    x again is for the residual of a later call: its gradient comes back here, where it is added on the way.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        gamma: Tensor,
        beta: Tensor,
        residual: Tensor | None,
        running: tuple[Tensor, Tensor],
        stride: int,
        training: bool,
    ) -> tuple[Tensor, Tensor]:
        lanes, images, height, width, ci = x.shape
        co = len(weight) // lanes
        y = x.new_empty(lanes, images, -(-height // stride), -(-width // stride), co)
        whole = whole_images.fits(x, co, stride)
        w = weight if whole else _by_tap(weight, lanes, ci, x.dtype)
        partial = whole_images.convolve(x, w, y) if whole else _convolve(x, w, y, stride)
        _, pixels = _sizes(y)
        if training:
            statistics = torch.empty(lanes, 2, co, device=x.device)
            sizes = (pixels, MOMENTUM, EPS, partial.shape[1], co)
            programs.settle[(lanes,)](partial, statistics, *running, *sizes, BLOCK=64)
        else:
            mean, var = (value.view(lanes, co) for value in running)
            statistics = torch.stack([mean, (var + EPS).rsqrt()], dim=1)
        z, block = torch.empty_like(y), NUMBERS // co
        tensors = (y, statistics, gamma, beta, y if residual is None else residual, z)
        grid = (triton.cdiv(pixels, block), lanes)
        programs.normalise[grid](*tensors, pixels, co, ADD=residual is not None, BLOCK=block)
        ctx.save_for_backward(x, w, y, z, statistics, gamma, beta)
        ctx.set_materialize_grads(False)  # no zeros where x again was not asked for
        ctx.stride, ctx.has_residual, ctx.inputs, ctx.whole = stride, residual is not None, weight.shape[1], whole
        return z, x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor, dx: Tensor | None) -> tuple[Tensor | None, ...]:
        x, w, y, z, statistics, gamma, beta = ctx.saved_tensors
        (lanes, pixels), co, dz = _sizes(y), y.shape[-1], dz.contiguous()
        block = NUMBERS // co
        partial = torch.empty(lanes, triton.cdiv(pixels, block * GATHERED), 2, co, device=x.device)
        tensors, residual = (dz, z, y, statistics, gamma, beta), ctx.has_residual
        programs.gather[(partial.shape[1], lanes)](*tensors, partial, pixels, GATHERED, co, residual, BLOCK=block)
        sums = _total(partial).view(lanes, 2, co)
        total: Tensor | None = None
        if ctx.whole:
            normed, needed = (statistics, gamma, beta, sums), ctx.needs_input_grad[0]
            total, by_block, g = whole_images.gradients(dz, z, y, x, normed, w, dx, residual, needed)
            dw = _total(by_block, taps=9).view(lanes, co, co, 3, 3)
        else:
            dy, g = torch.empty_like(y), torch.empty_like(y) if residual else None
            grid = (triton.cdiv(pixels, block), lanes)
            programs.spread[grid](*tensors, sums, dy, dy if g is None else g, pixels, co, residual, BLOCK=block)
            dw = _weigh(x, dy, ctx.stride)
            if ctx.needs_input_grad[0]:
                total = torch.empty_like(x)
                _convolve(dy, w, total, ctx.stride, dx, back=True)
        dw = dw[:, :, : ctx.inputs].flatten(0, 1).contiguous()
        return total, dw, sums[:, 1].flatten(), sums[:, 0].flatten(), g, None, None, None
