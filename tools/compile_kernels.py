"""Compile our Triton kernels for a GPU that is not there, as the tests of tests/training/kernels launch them.

    python tools/compile_kernels.py [--capability 90]
    PYTHONPATH=FOLDER python tools/compile_kernels.py    # by another Triton (pip install --no-deps --target FOLDER)

Versions of Triton differ in what they compile. Interpreted kernels, which CI runs, do not show that.
"""

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

TESTS = Path(__file__).parents[1] / "tests/training/kernels/test_fused_body.py"


class AbsentGPU:
    """As much of a Triton driver as compiling asks for."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capability", type=int, default=90, help="of the GPU; 90 is an H100 or H200")
    driver.set_active(AbsentGPU(parser.parse_args().capability))
    launch, compiled, failed = JITFunction.run, set[str](), list[str]()

    def compile_only(kernel: Any, *args: Any, **options: Any) -> None:
        try:
            compiled.add(launch(kernel, *args, **options | {"warmup": True}).hash)
        except Exception as error:  # whatever a compiler raises
            sizes = [tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args]
            failed.append(f"{kernel.__name__} {sizes}: {error}")

    JITFunction.run = compile_only
    tests = runpy.run_path(str(TESTS))
    for case in tests["CASES"].values():
        tests["errors"](case, "cpu", torch.bfloat16)
    print(f"Triton {triton.__version__}: {len(compiled)} kernels compiled, {len(failed)} launches failed")
    print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
