"""Our own kernels against torch in float64: interpreted where there is no GPU, in bfloat16 where there is one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

CASES = {  # lanes, images, side, channels, those with something in them, output channels, stride, residual
    "stem": (2, 2, 8, 16, 3, 16, 1, False),
    "first of a block": (1, 3, 8, 16, 16, 16, 1, False),
    "second of a block": (2, 2, 8, 32, 32, 32, 1, True),
    "half the size": (2, 3, 8, 16, 16, 32, 2, False),
    "half an odd size": (1, 2, 7, 32, 32, 64, 2, False),
    "a width that is no power of two": (1, 3, 6, 16, 16, 16, 1, True),
    "more images than a program takes": (1, 9, 4, 64, 64, 64, 1, True),
}
WHOLE = {  # by the kernels of whole_images.cu
    "stem": (2, 3, 32, 16, 3, 16, 1, False),
    "32 pixels": (2, 3, 32, 16, 16, 16, 1, True),
    "16 pixels": (2, 3, 16, 32, 32, 32, 1, True),
    "8 pixels": (1, 5, 8, 64, 64, 64, 1, False),
}

Case = tuple[int, int, int, int, int, int, int, bool]
Errors = dict[str, dict[str, float]]


def errors(case: Case, device: str, dtype: torch.dtype) -> dict[str, float]:
    """‖ours − float64‖ / ‖float64‖ of the output, of every gradient and of the running statistics."""
    from class_uncertainty.training.kernels.fused_convolution import ConvolveNormalise

    lanes, images, side, channels, inputs, outputs, stride, residual = case
    torch.manual_seed(0)
    out_side = -(-side // stride)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, device=device).to(dtype)

    x = random(lanes, images, side, side, channels)
    x[..., inputs:] = 0
    beside = random(lanes, images, out_side, out_side, outputs) if residual else None
    weight = (torch.randn(lanes * outputs, inputs, 3, 3, device=device) / (3 * inputs**0.5)).to(dtype).float()
    gamma, beta = torch.rand(lanes * outputs, device=device) + 0.5, torch.randn(lanes * outputs, device=device) / 5
    given = random(lanes, images, out_side, out_side, outputs), random(*x.shape)  # gradients of both outputs
    running = torch.zeros(lanes * outputs, device=device), torch.ones(lanes * outputs, device=device)

    mine = [tensor.clone().requires_grad_() for tensor in (x, weight, gamma, beta, *([beside] if residual else []))]
    z, again = ConvolveNormalise.apply(*(mine if residual else [*mine, None]), running, stride, True)
    torch.autograd.backward([z, again], list(given))

    theirs = [tensor.double().requires_grad_() for tensor in (x, weight, gamma, beta, *([beside] if residual else []))]
    kept = torch.zeros(lanes * outputs, device=device).double(), torch.ones(lanes * outputs, device=device).double()
    stacked = theirs[0].permute(1, 0, 4, 2, 3)[:, :, :inputs].flatten(1, 2)  # (B, lanes * inputs, H, W)
    y = F.batch_norm(
        F.conv2d(stacked, theirs[1], stride=stride, padding=1, groups=lanes), *kept, *theirs[2:4], training=True
    )
    y = y.unflatten(1, (lanes, outputs)).permute(1, 0, 3, 4, 2)
    reference = F.relu(y + theirs[4] if residual else y)
    torch.autograd.backward([reference, theirs[0] * 1], [tensor.double() for tensor in given])

    pairs = {"output": (z, reference), "running mean": (running[0], kept[0]), "running variance": (running[1], kept[1])}
    pairs |= {
        name: (a.grad, b.grad)
        for name, a, b in zip(("x", "weight", "gamma", "beta", "residual"), mine, theirs, strict=False)
    }
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
    return {(case, name): error for case, named in errors.items() for name, error in named.items() if error > limit}


def test_kernels_interpreted() -> None:
    errors = "{name: t.errors(case, 'cpu', torch.float32) for name, case in t.CASES.items()}"
    made = interpreted(f"import json, torch, test_fused_convolution as t; print(json.dumps({errors}))")
    assert made.keys() == CASES.keys()
    assert above(2e-6, made) == {}


EMULATED = """
import json, sys, torch, test_fused_convolution as t, test_whole_images as whole
from pathlib import Path
for name, value in whole.use(whole.emulation(Path(sys.argv[1]))).items():
    setattr(whole.whole_images, name, value)
print(json.dumps({name: t.errors(case, "cpu", torch.bfloat16) for name, case in t.WHOLE.items()}))
"""


def test_whole_images_emulated(tmp_path: Path) -> None:
    """Beside the interpreted kernels of batch norm. bfloat16 moves some activations across 0."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    made = interpreted(EMULATED.replace("sys.argv[1]", repr(str(tmp_path))))
    assert made.keys() == WHOLE.keys()
    assert above(0.03, made) == {}


ON_A_GPU = CASES | {f"whole {name}": (lanes, 19, *sizes) for name, (lanes, _, *sizes) in WHOLE.items()}


@pytest.mark.gpu
@pytest.mark.parametrize("case", ON_A_GPU.values(), ids=ON_A_GPU)
def test_kernels_on_a_gpu(case: Case) -> None:
    assert {name: error for name, error in errors(case, "cuda", torch.bfloat16).items() if error > 0.03} == {}
