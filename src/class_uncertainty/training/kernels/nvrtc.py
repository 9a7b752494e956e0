"""CUDA C++ on the current GPU: compiled by NVRTC, which comes with torch, and launched on torch's stream."""

import ctypes
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

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
