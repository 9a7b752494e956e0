"""Convolutions of whole images in shared memory, for ResNet-32's stages on images of 32 pixels: whole_images.cu."""

import ctypes
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.errors import fallback

SIDES = {16: 32, 32: 16, 64: 8}  # of images, by their channels

ARGUMENTS = {
    "convolve": "const bf16* before, const float* statistics, const float* gamma, const float* beta, "
    "const bf16* residual, bf16* x, const uint4* w, bf16* y, float* partial, int images",
    "gradients": "const bf16* dz, const bf16* z, const bf16* y, const bf16* x, const float* statistics, "
    "const float* gamma, const float* sums, const uint4* w, const bf16* addend, const bf16* y_before, "
    "const float* statistics_before, bf16* g, bf16* dx, float* gathered, float* partial, int images",
}
FLAGS = {  # of the templates, by kernel: whether x is made of the layer before, with a residual; whether dz is masked
    "convolve": (0, 0),
    "convolve_normed": (1, 0),
    "convolve_residual": (1, 1),
    "gradients": (0,),
    "gradients_masked": (1,),
}


class Tiling(NamedTuple):
    """How a kernel divides its work."""

    images: int  # of a tile in shared memory
    per_block: int  # images
    matrices: int  # of 16 pixels that a warp convolves at once
    warps: tuple[int, ...]  # that make tiles, that convolve them, and that weigh them
    taps: int = 0  # of a warp that weighs
    splits: int = 1  # warps that weigh the same taps, and share the output channels
    parts: int = 1  # blocks that share the output channels
    blocks: int = 1  # of a multiprocessor at once, which bounds the registers

    @property
    def threads(self) -> int:
        return 32 * sum(self.warps)


# By channels, the fastest of those tried on an H200 (docs/performance.md).
FORTH = {
    16: Tiling(1, 4, 4, (8, 8), blocks=2),
    32: Tiling(1, 8, 2, (4, 4), blocks=3),
    64: Tiling(1, 8, 2, (4, 2), blocks=2),
}
BACK = {
    16: Tiling(1, 8, 4, (8, 8, 3), taps=3),
    32: Tiling(1, 8, 2, (4, 8, 6), taps=3, splits=2),
    64: Tiling(2, 16, 2, (4, 4, 9), taps=1, parts=2),
}
TILINGS = {kernel: FORTH if kernel.startswith("convolve") else BACK for kernel in FLAGS}

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
        programs(device)
    except (AttributeError, OSError, RuntimeError) as error:
        fallback("convolutions of whole images in shared memory do not work here", error)
        return False
    return True


def source(kernel: str, channels: int) -> str:
    """The line that makes a kernel for so many channels of its template."""
    tiling, template = TILINGS[kernel][channels], kernel.partition("_")[0]
    arguments = ARGUMENTS[template]
    tile = (channels, SIDES[channels], tiling.images, _plane(channels, tiling.images))
    sizes = (*tile, tiling.per_block, tiling.matrices, *tiling.warps)
    if tiling.taps:
        sizes += (tiling.taps, tiling.splits, tiling.parts)
    names = ", ".join(argument.split()[-1] for argument in arguments.split(", "))
    apart = arguments.replace("* ", "* __restrict__ ")  # tensors do not overlap
    head = f"KERNEL void __launch_bounds__({tiling.threads}, {tiling.blocks}) {kernel}_{channels}({apart})"
    return f"{head} {{ {template}<{', '.join(map(str, sizes + FLAGS[kernel]))}>({names}); }}\n"


def _plane(channels: int, images: int) -> int:
    """Cells of a plane: those of the images with their borders, and so many that a pixel's cells meet all banks."""
    cells, planes = images * (SIDES[channels] + 2) ** 2, channels // 8
    return cells + (8 // planes - cells) % 8


def shared(kernel: str, channels: int) -> int:
    """Bytes of shared memory of a block: tiles, of this turn and of the next, weights, and constants of channels."""
    tiling = TILINGS[kernel][channels]
    tiles = (4 if tiling.taps else 2) * channels // 8 * _plane(channels, tiling.images)
    return 16 * (tiles + 9 * channels**2 // 8 // tiling.parts + 3 * channels // 4)


@cache
def programs(device: int) -> dict[tuple[str, int], Launch]:
    """All kernels on a GPU, by name and channels."""
    template = files(__package__).joinpath("whole_images.cu").read_text()
    kernels = [(kernel, channels) for kernel, tilings in TILINGS.items() for channels in tilings]
    binaries = compile_all([template + source(*kernel) for kernel in kernels], device)
    return {
        (kernel, channels): Program(
            binary, f"{kernel}_{channels}", device, TILINGS[kernel][channels].threads, shared(kernel, channels)
        )
        for (kernel, channels), binary in zip(kernels, binaries, strict=True)
    }


def _launch(kernel: str, partial: tuple[int, ...], *arguments: Tensor | None) -> Tensor:
    """Run a kernel on activations of one shape -> what each block has summed up, (lanes, blocks, ...)."""
    like = next(tensor for tensor in arguments if tensor is not None)
    lanes, images, *_, channels = like.shape
    tiling = TILINGS[kernel][channels]
    blocks = -(-images // tiling.per_block)
    sums = torch.empty(lanes, blocks, *partial, device=like.device)
    programs(sums.device.index or 0)[kernel, channels]((tiling.parts, blocks, lanes), *arguments, sums, images)
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


class Normed(NamedTuple):
    """A layer whose output is still to be made: z = ReLU(norm(y) [+ residual])."""

    y: Tensor
    statistics: Tensor
    gamma: Tensor
    beta: Tensor
    residual: Tensor | None


def convolve(x: Tensor | Normed, weight: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Fill y from x by weights (lanes * out, in, 3, 3) -> x, and sums of y and of its square (lanes, blocks, 2, C)."""
    lanes, channels = y.shape[0], y.shape[-1]
    w = packed(weight, channels, lanes)
    if isinstance(x, Tensor):
        return x, _launch("convolve", (2, channels), None, None, None, None, None, x, w, y)
    kernel, z = "convolve_normed" if x.residual is None else "convolve_residual", torch.empty_like(x.y)
    return z, _launch(kernel, (2, channels), *x, z, w, y)


class Before(NamedTuple):
    """The layer whose output is the input of another."""

    y: Tensor
    statistics: Tensor


def gradients(
    dz: Tensor,
    z: Tensor,
    y: Tensor,
    x: Tensor,
    normed: tuple[Tensor, Tensor, Tensor],
    weight: Tensor,
    before: Before | None,
    masked: bool,
    addend: Tensor | None = None,
) -> tuple[Tensor | None, Tensor, Tensor, Tensor | None]:
    """The gradients (behind the ReLU before x, of the weights, behind this layer's ReLU) from dz, that of z.

    z = ReLU(norm(y) [+ residual]); where `masked`, dz is behind its ReLU. `normed` are batch norm's statistics and
    weights, and the sums of its gradient. The gradient of x has an addend, and is not made if no layer is before it.
    That of the weights is by block and tap, (lanes, blocks, 9, out, in). Last are the sums of the layer before, by
    block, (lanes, blocks, 2, channels).
    """
    lanes, images, *_, channels = y.shape
    kernel = "gradients_masked" if masked else "gradients"
    tiling, w, dx, gathered = TILINGS[kernel][channels], None, None, None
    if before is not None:
        w, dx = packed(weight, channels, lanes, True, tiling.parts), torch.empty_like(x)
        gathered = torch.empty(lanes, -(-images // tiling.per_block), 2, channels, device=y.device)
    g = dz if masked else torch.empty_like(y)
    given = (dz, z, y, x, *normed, w, addend, *(before or (None, None)), g, dx, gathered)
    return dx, _launch(kernel, (9, channels, channels), *given), g, gathered


SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def compile_all(sources: Iterable[str], device: int) -> list[ctypes.Array]:
    """Binaries for a GPU, compiled side by side."""
    major, minor = torch.cuda.get_device_capability(device)
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"--std=c++17"]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda source: _compiled(source, options), sources))


class Program:
    """A kernel of a binary: called with a grid and its arguments, None for a null pointer."""

    def __init__(self, binary: ctypes.Array, name: str, device: int, threads: int, shared: int) -> None:
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.threads, self.shared = threads, shared
        with torch.cuda.device(device):
            torch.cuda.current_stream()  # so that there is a context
            _call(_driver(), "cuModuleLoadData", ctypes.byref(module), binary)
        _call(_driver(), "cuModuleGetFunction", ctypes.byref(self.function), module, name.encode())
        _call(_driver(), "cuFuncSetAttribute", self.function, SHARED_MEMORY, shared)

    def __call__(self, grid: tuple[int, int, int], *arguments: Tensor | int | None) -> None:
        values = [
            ctypes.c_int(value)
            if isinstance(value, int)
            else ctypes.c_void_p(None if value is None else value.data_ptr())
            for value in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        block, launch = (self.threads, 1, 1), (self.shared, stream, pointers, None)
        _call(_driver(), "cuLaunchKernel", self.function, *grid, *block, *launch)


def _compiled(source: str, options: list[bytes]) -> ctypes.Array:
    """The binary, by NVRTC."""
    nvrtc, program, size = _nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    _call(nvrtc, "nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
            _call(nvrtc, "nvrtcGetProgramLogSize", program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            _call(nvrtc, "nvrtcGetProgramLog", program, log)
            raise RuntimeError(log.value.decode())
        _call(nvrtc, "nvrtcGetCUBINSize", program, ctypes.byref(size))
        binary = ctypes.create_string_buffer(size.value)
        _call(nvrtc, "nvrtcGetCUBIN", program, binary)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary


def _call(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    if code := getattr(library, name)(*arguments):
        raise RuntimeError(f"{name} fails with code {code}")


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@cache
def _nvrtc() -> ctypes.CDLL:
    """The library of torch's CUDA version: from the packages beside torch, or wherever the system has it."""
    name = f"libnvrtc.so.{str(torch.version.cuda).partition('.')[0]}"
    beside = sorted(Path(torch.__file__).parents[1].glob(f"nvidia/*/lib/{name}"))
    return ctypes.CDLL(str(beside[0]) if beside else name)
