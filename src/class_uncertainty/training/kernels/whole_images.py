"""Convolutions of whole images in shared memory, for ResNet-32's stages on images of 32 pixels: whole_images.cu."""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.errors import fallback
from class_uncertainty.training.kernels import nvrtc

SIDES = {16: 32, 32: 16, 64: 8}  # of images, by their channels

ARGUMENTS = {
    "convolve": "const bf16* x, const uint4* w, bf16* y, float* partial, int images",
    "gradients": "const bf16* dz, const bf16* z, const bf16* y, const bf16* x, const float* statistics, "
    "const float* gamma, const float* beta, const float* sums, const uint4* w, const bf16* addend, bf16* g, bf16* dx, "
    "float* partial, int images",
}
ARGUMENTS["gradients_residual"] = ARGUMENTS["gradients"]


class Tiling(NamedTuple):
    """How a kernel divides its work."""

    images: int  # of a tile in shared memory
    per_block: int  # images
    matrices: int  # of 16 pixels that a warp convolves at once
    warps: tuple[int, ...]  # that convolve; or that make gradients, convolve and weigh
    taps: int = 0  # of a warp that weighs
    parts: int = 1  # blocks that share the output channels
    blocks: int = 1  # of a multiprocessor at once, which bounds the registers

    @property
    def threads(self) -> int:
        return 32 * sum(self.warps)


# By channels, the fastest of those tried on an H200 (docs/performance.md).
BACK = {
    16: Tiling(1, 8, 4, (8, 8, 6), taps=3),
    32: Tiling(1, 8, 2, (8, 8, 9), taps=1),
    64: Tiling(2, 16, 2, (4, 4, 9), taps=1, parts=2),
}
TILINGS = {
    "convolve": {
        16: Tiling(1, 4, 8, (8,), blocks=2),
        32: Tiling(1, 4, 4, (4,), blocks=3),
        64: Tiling(1, 8, 2, (2,), blocks=2),
    },
    "gradients": BACK,
    "gradients_residual": BACK | {64: Tiling(2, 16, 2, (8, 4, 9), taps=1, parts=2)},
}

Launch = Callable[..., None]


def fits(x: Tensor, outputs: int, stride: int) -> bool:
    """Whether these kernels compute a convolution of x (lanes, images, H, W, C)."""
    height, width, channels = x.shape[2:]
    whole = stride == 1 and channels == outputs and SIDES.get(channels) == height == width
    return whole and x.dtype == torch.bfloat16 and _are_there(x.device.index or 0)


@cache
def _are_there(device: int) -> bool:
    """Whether a GPU has the shared memory for these kernels, and they compile for it."""
    needed = max(shared(kernel, channels) for kernel, tilings in TILINGS.items() for channels in tilings)
    if getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", needed) < needed:
        return False
    try:
        _module(device)
    except (AttributeError, OSError, RuntimeError) as error:
        fallback("convolutions of whole images in shared memory do not work here", error)
        return False
    return True


def source(kernel: str, channels: int) -> str:
    """The line that makes a kernel for so many channels of its template."""
    tiling, arguments = TILINGS[kernel][channels], ARGUMENTS[kernel]
    tile = (channels, SIDES[channels], tiling.images, _plane(channels, tiling.images))
    template, _, residual = kernel.partition("_")
    sizes = (*tile, tiling.per_block, tiling.matrices, *tiling.warps)
    if tiling.taps:
        sizes += (tiling.taps, tiling.parts, int(bool(residual)))
    names = ", ".join(argument.split()[-1] for argument in arguments.split(", "))
    apart = arguments.replace("* ", "* __restrict__ ")  # tensors do not overlap
    head = f"KERNEL void __launch_bounds__({tiling.threads}, {tiling.blocks}) {kernel}_{channels}({apart})"
    return f"{head} {{ {template}<{', '.join(map(str, sizes))}>({names}); }}\n"


def _plane(channels: int, images: int) -> int:
    """Cells of a plane: those of the images with their borders, and so many that a pixel's cells meet all banks."""
    cells, planes = images * (SIDES[channels] + 2) ** 2, channels // 8
    return cells + (8 // planes - cells) % 8


def shared(kernel: str, channels: int) -> int:
    """Bytes of shared memory of a block: tiles, of this turn and of the next, weights, and constants of channels."""
    tiling = TILINGS[kernel][channels]
    tiles = (4 if tiling.taps else 2) * channels // 8 * _plane(channels, tiling.images)
    return 16 * (tiles + 9 * channels**2 // 8 // tiling.parts + (channels if tiling.taps else 0))


@cache
def _module(device: int) -> nvrtc.Module:
    """All kernels, compiled for a GPU."""
    text = [files(__package__).joinpath("whole_images.cu").read_text()]
    text += [source(kernel, channels) for kernel, tilings in TILINGS.items() for channels in tilings]
    return nvrtc.Module("".join(text), device)


@cache
def program(kernel: str, channels: int, device: int) -> Launch:
    """A kernel on a GPU."""
    threads = TILINGS[kernel][channels].threads
    return nvrtc.Program(_module(device), f"{kernel}_{channels}", threads, shared(kernel, channels))


def _launch(kernel: str, partial: tuple[int, ...], *arguments: Tensor | None) -> Tensor:
    """Run a kernel on tensors like the first argument -> what each block has summed up, (lanes, blocks, ...)."""
    assert arguments[0] is not None
    lanes, images, *_, channels = arguments[0].shape
    tiling = TILINGS[kernel][channels]
    blocks = -(-images // tiling.per_block)
    sums = torch.empty(lanes, blocks, *partial, device=arguments[0].device)
    program(kernel, channels, sums.device.index or 0)((blocks, lanes, tiling.parts), *arguments, sums, images)
    return sums


def packed(weight: Tensor, channels: int, lanes: int, back: bool = False, parts: int = 1) -> Tensor:
    """Weights (lanes * out, in, 3, 3) as warps multiply by them, with zeros for inputs that x has beyond theirs.

    A thread has its numbers of two neighbouring matrices of 16 x 8 beside each other, and its output channels are
    neighbours too. `back` is for the gradient, whose outputs are the inputs.
    """
    by_tap = weight.view(lanes, channels, -1, 9)
    if beyond := channels - by_tap.shape[2]:
        by_tap = F.pad(by_tap, (0, 0, 0, beyond))
    if back:
        by_tap = by_tap.transpose(1, 2)
    outputs, inputs = (parts, 4, channels // 16 // parts, 2, 2), (channels // 16, 2, 4, 2)
    # lane, part, quad, pair, matrix, half; step, matrix, thread, half; tap
    by_thread = by_tap.unflatten(1, outputs).unflatten(6, inputs).permute(0, 1, 10, 6, 3, 2, 5, 8, 4, 7, 9)
    return torch.empty(by_thread.shape, dtype=torch.bfloat16, device=weight.device).copy_(by_thread)


def convolve(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    """Fill y from x by weights (lanes * out, in, 3, 3) -> sums of y and of its square (lanes, blocks, 2, channels)."""
    lanes, channels = x.shape[0], x.shape[-1]
    return _launch("convolve", (2, channels), x, packed(weight, channels, lanes), y)


def gradients(
    dz: Tensor,
    z: Tensor,
    y: Tensor,
    x: Tensor,
    normed: tuple[Tensor, ...],
    weight: Tensor,
    addend: Tensor | None,
    residual: bool,
    needs_input: bool = True,
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """The gradients (of x plus an addend, of the weights, of the residual) from that of z = ReLU(norm(y) [+ residual]).

    `normed` are batch norm's statistics, weights and biases, and the sums of its gradient. That of the weights is by
    block and tap: (lanes, blocks, 9, out, in).
    """
    lanes, channels = y.shape[0], y.shape[-1]
    g, dx = (torch.empty_like(y) if needed else None for needed in (residual, needs_input))
    kernel = "gradients_residual" if residual else "gradients"
    w = packed(weight, channels, lanes, True, TILINGS[kernel][channels].parts) if needs_input else None
    dw = _launch(kernel, (9, channels, channels), dz, z, y, x, *normed, w, addend, g, dx)
    return dx, dw, g
