"""Residual networks by our own kernels against torch in float64, rounded where the kernels round.

Without a GPU, Triton's kernels are interpreted, and those of whole images are emulated: test_whole_images.py.
"""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.training.networks.bodies import Block, Convolution, ResNet

Case = tuple[int, int, int, int, tuple[int, ...], int, int]
CASES: dict[str, Case] = {  # lanes, images, channels, side, widths, blocks, lanes' seed
    "several lanes": (2, 2, 3, 8, (16, 32), 1, 0),
    "the smallest image that they take, odd and halved": (1, 9, 1, 5, (16, 32, 64), 1, 1),
    "more images than a program takes": (1, 9, 3, 4, (64,), 1, 3),
    "more pixels of a parity than a program takes": (1, 5, 3, 16, (16, 32), 1, 3),
}
WHOLE: dict[str, Case] = {  # all layers by the kernels of whole_images.cu
    "32 pixels": (2, 1, 3, 32, (16,), 2, 0),
    "16 pixels": (1, 2, 32, 16, (32,), 1, 1),
    "8 pixels": (1, 5, 64, 8, (64,), 1, 2),
}
Errors = dict[str, dict[str, float]]


class Rounded(torch.autograd.Function):
    """Numbers and their gradients as a type has them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.dtype = dtype
        return x.to(dtype).double()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient.to(ctx.dtype).double(), None


def reference_layer(layer: Convolution, x: Tensor, dtype: torch.dtype, residual: Tensor | None = None) -> Tensor:
    """Statistics are of what is not yet rounded."""
    exact, norm = layer.conv(x), layer.norm
    if exact.requires_grad:
        exact.register_hook(lambda gradient: gradient.to(dtype).double())
    variance = exact.var((0, 2, 3), correction=0) if layer.training else norm.running_var.clone()
    normed = F.batch_norm(exact, norm.running_mean, norm.running_var, norm.weight, norm.bias, training=layer.training)
    scale = norm.weight * (variance + 1e-5).rsqrt()
    normed = normed + ((exact.to(dtype).double() - exact) * scale[:, None, None]).detach()
    return Rounded.apply(F.relu(normed if residual is None else normed + residual), dtype)


def reference_maps(network: ResNet, x: Tensor, dtype: torch.dtype) -> Tensor:
    z = reference_layer(network.stem, x, dtype)
    for block in network.blocks:
        assert isinstance(block, Block)
        z = reference_layer(block.second, reference_layer(block.first, z, dtype), dtype, block.shortcut(z))
    return z


def errors(case: Case, device: str, dtype: torch.dtype) -> dict[str, float]:
    """‖ours − float64‖ / ‖float64‖ of the last activations, of every gradient and of the running statistics.

    Then of the last activations by these statistics.
    """
    lanes, images, channels, side, widths, blocks, seed = case
    torch.manual_seed(seed)
    ours = ResNet((channels, side, side), lanes, widths, blocks).to(device)
    for name, parameter in ours.named_parameters():
        if "norm" in name:
            parameter.data += torch.randn_like(parameter) / 5
        else:  # as the kernels have them
            parameter.data = parameter.data.to(dtype).float()
    theirs = deepcopy(ours).double()
    ours.kernels, ours.kernel_type = True, dtype
    x = torch.randn(images, lanes * channels, side, side, device=device).to(dtype).float()
    maps = ours.fused_maps(x)
    reference = reference_maps(theirs, x.double(), dtype).unflatten(1, (lanes, -1)).permute(1, 0, 3, 4, 2)
    given = torch.randn_like(maps)
    maps.backward(given)
    reference.backward(given.double())
    pairs = {"maps": (maps, reference)}
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        pairs[name] = (a.grad, b.grad)
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        if "running" in name:
            pairs[name] = (a, b)
    for network in (ours, theirs):
        network.eval()
    with torch.no_grad():
        by_lane = reference_maps(theirs, x.double(), dtype).unflatten(1, (lanes, -1)).permute(1, 0, 3, 4, 2)
        pairs["maps by running statistics"] = (ours.fused_maps(x), by_lane)
    return {
        name: float((a.detach().double() - b.detach()).norm() / b.detach().norm()) for name, (a, b) in pairs.items()
    }


def interpreted(code: str) -> Errors:
    """What code prints in a process of its own: Triton must be told before it is imported."""
    pytest.importorskip("triton")
    environment = os.environ | {
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def above(limit: float, errors: Errors) -> dict[tuple[str, str], float]:
    """Those that are not within the limit; what is no number is not."""
    return {
        (case, name): error for case, named in errors.items() for name, error in named.items() if not error <= limit
    }


def test_images_that_the_kernels_take():
    for _, _, channels, side, widths, blocks, _ in CASES.values():
        assert ResNet((channels, side, side), 1, widths, blocks).fits_kernels
    for shape in ((3, 4, 32), (3, 32, 4)):  # a side is halved to one pixel
        assert not ResNet(shape, 1, (16, 32, 64), 1).fits_kernels


INTERPRETED = """
import json, torch, test_fused_body as t
from class_uncertainty.training.kernels import fused_body
for co, (block, _, warps) in fused_body.WEIGH.items():  # few tiles: an interpreter goes through empty ones as slowly
    fused_body.WEIGH[co] = block, 2, warps
print(json.dumps({name: t.errors(case, "cpu", torch.float32) for name, case in t.CASES.items()}))
"""


def test_kernels_interpreted():
    made = interpreted(INTERPRETED)
    assert made.keys() == CASES.keys()
    assert above(1e-5, made) == {}


ON_A_GPU = CASES | {"several lanes": (2, 2, 3, 8, (16, 32, 64), 1, 0)}  # through three stages
ON_A_GPU |= {f"whole {name}": (lanes, 19, *sizes) for name, (lanes, _, *sizes) in WHOLE.items()}


@pytest.mark.gpu
@pytest.mark.parametrize("case", ON_A_GPU.values(), ids=ON_A_GPU)
def test_kernels_on_a_gpu(case):
    assert above(0.01, {"": errors(case, "cuda", torch.bfloat16)}) == {}


@pytest.mark.gpu
@pytest.mark.parametrize("case", [(3, 19, 3, 32, (16, 32, 64), 1, 0), (1, 9, 3, 4, (64,), 2, 2)])
def test_several_blocks_on_a_gpu(case):
    """By both kinds of kernels, and by Triton's alone. Numbers that round the other way add up, to 0.04 by either."""
    assert above(0.08, {"": errors(case, "cuda", torch.bfloat16)}) == {}
