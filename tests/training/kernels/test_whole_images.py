"""Convolutions of whole images against torch in float64: on a CPU by an emulation of the warps, compiled by g++."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from class_uncertainty.training.kernels import whole_images

SMALL = {  # a block takes two tiles, so that few images are more than a block's
    kernel: {channels: tiling._replace(per_block=2 * tiling.images) for channels, tiling in tilings.items()}
    for kernel, tilings in whole_images.TILINGS.items()
}


def images_of(kernel: str, channels: int) -> int:
    """A block's, and one more."""
    return SMALL[kernel][channels].per_block + 1


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All kernels, compiled for a CPU."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    return emulation(tmp_path_factory.mktemp("emulated"))


def emulation(folder: Path) -> ctypes.CDLL:
    header = Path(__file__).parent / "emulated.h"
    text = [f'#include "{header}"', Path(whole_images.__file__).with_suffix(".cu").read_text()]
    whole_images.TILINGS, kept = SMALL, whole_images.TILINGS
    for kernel, channels in ((kernel, channels) for kernel, tilings in SMALL.items() for channels in tilings):
        arguments = whole_images.ARGUMENTS[kernel]
        names = ", ".join(argument.split()[-1] for argument in arguments.split(", "))
        head = f"bool launch_{kernel}_{channels}(int blocks, int lanes, int parts, int threads, int bytes, {arguments})"
        call = f"return emulate(blocks, lanes, parts, threads, bytes, [=] {{ {kernel}_{channels}({names}); }});"
        text += [whole_images.source(kernel, channels), f'extern "C" {head} {{ {call} }}']
    whole_images.TILINGS = kept
    (folder / "kernels.cpp").write_text("\n".join(text))
    command = ["g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-w", "kernels.cpp", "-o", "kernels.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def use(library: ctypes.CDLL) -> dict[str, object]:
    """What of whole_images a test replaces."""

    def program(kernel: str, channels: int, device: int) -> whole_images.Launch:
        run = getattr(library, f"launch_{kernel}_{channels}")
        run.restype = ctypes.c_bool

        def launch(grid: tuple[int, int, int], *arguments: Tensor | int | None) -> None:
            values = [ctypes.c_void_p(value.data_ptr()) if isinstance(value, Tensor) else value for value in arguments]
            sizes = SMALL[kernel][channels].threads, whole_images.shared(kernel, channels)
            assert run(*grid, *sizes, *values), "threads wait for each other for ever"

        return launch

    return {"program": program, "TILINGS": SMALL, "_are_there": lambda device: True}


@pytest.fixture
def emulated(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in use(library).items():
        monkeypatch.setattr(whole_images, name, value)


def random(*shape: int) -> Tensor:
    return torch.randn(shape).bfloat16()


def weights(lanes: int, channels: int) -> Tensor:
    return (torch.randn(lanes * channels, channels, 3, 3) / (3 * channels**0.5)).bfloat16().float()


def stacked(x: Tensor) -> Tensor:
    """(lanes, B, H, W, C) -> (B, lanes * C, H, W) in float64."""
    return x.double().permute(1, 0, 4, 2, 3).flatten(1, 2)


def gap(ours: Tensor, reference: Tensor) -> float:
    return float((ours.double() - reference).norm() / reference.norm())


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("channels", whole_images.SIDES)
def test_convolve(channels: int) -> None:
    torch.manual_seed(0)
    lanes, images, side = 2, images_of("convolve", channels), whole_images.SIDES[channels]
    x, weight = random(lanes, images, side, side, channels), weights(lanes, channels)
    y = torch.full_like(x, torch.nan)
    partial = whole_images.convolve(x, weight, y).sum(1)
    reference = F.conv2d(stacked(x), weight.double(), padding=1, groups=lanes)
    assert gap(stacked(y), reference) < 0.003  # rounded to bfloat16
    sums = reference.unflatten(1, (lanes, channels)).sum((0, 3, 4))
    squares = reference.square().unflatten(1, (lanes, channels)).sum((0, 3, 4))
    assert gap(partial, torch.stack([sums, squares], dim=1)) < 1e-5


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("channels", whole_images.SIDES)
def test_gradients(channels: int, residual: bool) -> None:
    torch.manual_seed(0)
    lanes, images, side = 2, images_of("gradients", channels), whole_images.SIDES[channels]
    shape = (lanes, images, side, side, channels)
    dz, y, x, beside = (random(*shape) for _ in range(4))
    weight, addend = weights(lanes, channels), random(*shape) if residual else None
    gamma, beta = torch.rand(lanes * channels) + 0.5, torch.randn(lanes * channels) / 5

    before = stacked(y).requires_grad_()
    normed = F.batch_norm(before, None, None, gamma.double(), beta.double(), training=True)
    after = F.relu(normed + stacked(beside) if residual else normed)
    (dy,) = torch.autograd.grad(after, before, stacked(dz))
    g, inputs, theirs = stacked(dz) * (after > 0), stacked(x).requires_grad_(), weight.double().requires_grad_()
    dx, dw = torch.autograd.grad(F.conv2d(inputs, theirs, padding=1, groups=lanes), (inputs, theirs), dy)

    mean, inverse = before.mean((0, 2, 3)), (before.var((0, 2, 3), correction=0) + 1e-5).rsqrt()
    standardised = (before - mean[:, None, None]) * inverse[:, None, None]
    statistics, sums = (
        torch.stack(pair, dim=1).view(lanes, channels, 2).transpose(1, 2).float().detach().contiguous()
        for pair in ((mean, inverse), (g.sum((0, 2, 3)), (g * standardised).sum((0, 2, 3))))
    )
    z = after.unflatten(1, (lanes, channels)).permute(1, 0, 3, 4, 2).bfloat16().contiguous()
    ours = whole_images.gradients(dz, z, y, x, (statistics, gamma, beta, sums), weight, addend, residual)
    assert ours[0] is not None
    assert gap(stacked(ours[0]), dx if addend is None else dx + stacked(addend)) < 0.005  # dy is rounded to bfloat16
    by_tap = dw.view(lanes, channels, channels, 9).permute(0, 3, 1, 2)
    assert gap(ours[1].sum(1), by_tap) < 0.005
    if residual:
        assert ours[2] is not None
        assert torch.equal(stacked(ours[2]), g.detach())
    nothing, same, _ = whole_images.gradients(
        dz, z, y, x, (statistics, gamma, beta, sums), weight, None, residual, needs_input=False
    )
    assert nothing is None
    assert torch.equal(same, ours[1])


@pytest.mark.usefixtures("emulated")
def test_weights_of_fewer_inputs() -> None:
    """The stem's three channels of sixteen: the others are zero, and have no weights."""
    x, weight = random(1, 1, 32, 32, 16), weights(1, 16)[:, :3].contiguous()
    x[..., 3:] = 0
    y = torch.empty_like(x)
    whole_images.convolve(x, weight, y)
    assert gap(stacked(y), F.conv2d(stacked(x)[:, :3], weight.double(), padding=1)) < 0.003


class Properties:
    shared_memory_per_block_optin = 232_448


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, module: Callable[[int], None]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties())
    monkeypatch.setattr(whole_images, "_are_there", cache(whole_images._are_there.__wrapped__))
    monkeypatch.setattr(whole_images, "_module", module)


def test_kernels_that_do_not_compile_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def broken(device: int) -> None:
        tried.append(device)
        raise RuntimeError("kernels.cu(1): error: no such thing")

    on_a_gpu(monkeypatch, broken)
    x = random(1, 1, 32, 32, 16)
    with pytest.warns(RuntimeWarning, match=r"no such thing.*more slowly"):
        assert not whole_images.fits(x, 16, stride=1)
    assert not whole_images.fits(x, 16, stride=1)
    assert tried == [0]


def test_a_gpu_with_little_shared_memory_has_tritons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word: nothing is wrong."""
    on_a_gpu(monkeypatch, lambda device: pytest.fail("compiled"))
    monkeypatch.setattr(Properties, "shared_memory_per_block_optin", 101_376)
    assert not whole_images.fits(random(1, 1, 32, 32, 16), 16, stride=1)


def test_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_images, "_are_there", lambda device: True)
    for channels, side in whole_images.SIDES.items():
        x = random(1, 1, side, side, channels)
        assert whole_images.fits(x, channels, stride=1)
        assert not whole_images.fits(x, channels, stride=2)
        assert not whole_images.fits(x, 2 * channels, stride=1)
        assert not whole_images.fits(x.float(), channels, stride=1)
        assert not whole_images.fits(x[:, :, 1:], channels, stride=1)
