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
from training.kernels.test_fused_body import WHOLE, above, interpreted

from class_uncertainty.training.kernels import whole_images

SMALL = {  # a block takes two tiles, so that few images are more than a block's
    kernel: {channels: tiling._replace(per_block=2 * tiling.images) for channels, tiling in tilings.items()}
    for kernel, tilings in whole_images.TILINGS.items()
}


def images_of(kernel: str, channels: int) -> int:
    """A block's, and one more."""
    return SMALL[kernel][channels].per_block + 1


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """All kernels, compiled for a CPU."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    return emulation(tmp_path_factory.mktemp("emulated"))


def emulation(folder: Path) -> ctypes.CDLL:
    header = Path(__file__).parent / "emulated.h"
    text = [f'#include "{header}"', Path(whole_images.__file__).with_suffix(".cu").read_text()]
    whole_images.TILINGS, kept = SMALL, whole_images.TILINGS
    for kernel, channels in ((kernel, channels) for kernel, tilings in SMALL.items() for channels in tilings):
        arguments = whole_images.ARGUMENTS[kernel.partition("_")[0]]
        names = ", ".join(argument.split()[-1] for argument in arguments.split(", "))
        head = f"bool launch_{kernel}_{channels}(int parts, int blocks, int lanes, int threads, int bytes, {arguments})"
        call = f"return emulate(parts, blocks, lanes, threads, bytes, [=] {{ {kernel}_{channels}({names}); }});"
        text += [whole_images.source(kernel, channels), f'extern "C" {head} {{ {call} }}']
    whole_images.TILINGS = kept
    (folder / "kernels.cpp").write_text("\n".join(text))
    command = ["g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-w", "kernels.cpp", "-o", "kernels.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def use(library: ctypes.CDLL) -> dict[str, object]:
    """What of whole_images a test replaces."""

    def program(kernel: str, channels: int) -> whole_images.Launch:
        run = getattr(library, f"launch_{kernel}_{channels}")
        run.restype = ctypes.c_bool

        def launch(grid: tuple[int, int, int], *arguments: Tensor | int | None) -> None:
            values = [ctypes.c_void_p(value.data_ptr()) if isinstance(value, Tensor) else value for value in arguments]
            sizes = SMALL[kernel][channels].threads, whole_images.shared(kernel, channels)
            assert run(*grid, *sizes, *values), "threads wait for each other for ever"

        return launch

    programs = {
        (kernel, channels): program(kernel, channels) for kernel, tilings in SMALL.items() for channels in tilings
    }
    return {"programs": lambda device: programs, "TILINGS": SMALL, "_are_there": lambda device: True}


@pytest.fixture
def emulated(library, monkeypatch):
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
def test_convolve(channels):
    torch.manual_seed(0)
    lanes, images, side = 2, images_of("convolve", channels), whole_images.SIDES[channels]
    x, weight = random(lanes, images, side, side, channels), weights(lanes, channels)
    y = torch.full_like(x, torch.nan)
    same, partial = whole_images.convolve(x, weight, y)
    assert same is x
    reference = F.conv2d(stacked(x), weight.double(), padding=1, groups=lanes)
    assert gap(stacked(y), reference) < 0.003  # rounded to bfloat16
    sums = reference.unflatten(1, (lanes, channels)).sum((0, 3, 4))
    squares = reference.square().unflatten(1, (lanes, channels)).sum((0, 3, 4))
    assert gap(partial.sum(1), torch.stack([sums, squares], dim=1)) < 1e-5


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("channels", whole_images.SIDES)
def test_convolve_what_is_still_to_be_normed(channels, residual):
    torch.manual_seed(0)
    lanes, images, side = 2, images_of("convolve", channels), whole_images.SIDES[channels]
    before, beside = (random(lanes, images, side, side, channels) for _ in range(2))
    before[0, 0, 0, 0, 0] = torch.nan  # must show
    statistics, weight = torch.rand(lanes, 2, channels) + 0.5, weights(lanes, channels)
    gamma, beta = torch.rand(lanes * channels) + 0.5, torch.randn(lanes * channels) / 5
    y = torch.full_like(before, torch.nan)
    layer = whole_images.Normed(before, statistics, gamma, beta, beside if residual else None)
    z, partial = whole_images.convolve(layer, weight, y)
    mean, inverse, gamma, beta = (
        values.view(lanes, 1, 1, 1, channels) for values in (statistics[:, 0], statistics[:, 1], gamma, beta)
    )
    reference = ((before.double() - mean) * inverse * gamma + beta + (beside.double() if residual else 0)).relu()
    assert torch.isnan(z[0, 0, 0, 0, 0])
    assert torch.isnan(y[0, 0, :2, :2]).any(-1).all()
    z[0, 0], reference[0, 0], y[0, 0] = 0, 0, 0
    assert gap(z, reference) < 0.003
    convolved = F.conv2d(stacked(z), weight.double(), padding=1, groups=lanes).unflatten(1, (lanes, channels))
    assert gap(y, convolved.permute(1, 0, 3, 4, 2)) < 0.003
    assert gap(partial[1].sum(0)[0], convolved[:, 1].sum((0, 2, 3))) < 1e-4


def by_lane(values: Tensor, lanes: int) -> Tensor:
    """(B, lanes * C, H, W) -> (lanes, B, H, W, C) in bfloat16."""
    return values.detach().unflatten(1, (lanes, -1)).permute(1, 0, 3, 4, 2).bfloat16().contiguous()


def statistics_of(y: Tensor, lanes: int) -> tuple[Tensor, Tensor]:
    """Mean and 1 / deviation (lanes, 2, C) of y (B, lanes * C, H, W), and y standardised."""
    mean, inverse = y.mean((0, 2, 3)), (y.var((0, 2, 3), correction=0) + 1e-5).rsqrt()
    pair = torch.stack([mean.view(lanes, -1), inverse.view(lanes, -1)], dim=1)
    return pair.float().detach().contiguous(), (y - mean[:, None, None]) * inverse[:, None, None]


def sums_of(g: Tensor, standardised: Tensor, lanes: int) -> Tensor:
    """Those of g and of g times y standardised, (lanes, 2, C)."""
    return torch.stack([values.sum((0, 2, 3)).view(lanes, -1) for values in (g, g * standardised)], dim=1).detach()


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("channels", whole_images.SIDES)
def test_gradients(channels, masked):
    torch.manual_seed(0)
    lanes, images, side = 2, images_of("gradients", channels), whole_images.SIDES[channels]
    shape = (lanes, images, side, side, channels)
    dz, y, beside, y_before, addend = (random(*shape) for _ in range(5))
    x = random(*shape).relu()  # the z of the layer before
    weight, gamma, beta = (
        weights(lanes, channels),
        torch.rand(lanes * channels) + 0.5,
        torch.randn(lanes * channels) / 5,
    )

    before = stacked(y).requires_grad_()
    normed = F.batch_norm(before, None, None, gamma.double(), beta.double(), training=True)
    after = F.relu(normed + stacked(beside))
    (dy,) = torch.autograd.grad(after, before, stacked(dz))
    g, inputs, theirs = stacked(dz) * (after > 0), stacked(x).requires_grad_(), weight.double().requires_grad_()
    dx, dw = torch.autograd.grad(F.conv2d(inputs, theirs, padding=1, groups=lanes), (inputs, theirs), dy)
    behind = (dx + stacked(addend)) * (stacked(x) > 0)

    statistics, standardised = statistics_of(before, lanes)
    normed_before, standardised_before = statistics_of(stacked(y_before), lanes)
    given = (by_lane(g, lanes) if masked else dz, by_lane(after, lanes), y, x)
    known = (statistics, gamma, sums_of(g, standardised, lanes).float())
    layer = whole_images.Before(y_before, normed_before)
    ours = whole_images.gradients(*given, known, weight, layer, masked, addend)
    assert ours[0] is not None
    assert ours[3] is not None
    assert gap(stacked(ours[0]), behind) < 0.005  # dy is rounded to bfloat16
    assert gap(ours[1].sum(1), dw.view(lanes, channels, channels, 9).permute(0, 3, 1, 2)) < 0.005
    assert torch.equal(stacked(ours[2]), g.detach())
    assert gap(ours[3].sum(1), sums_of(behind, standardised_before, lanes)) < 0.005

    plain = whole_images.gradients(*given, known, weight, layer, masked)
    assert gap(stacked(plain[0]), dx * (stacked(x) > 0)) < 0.005
    first = whole_images.gradients(*given, known, weight, None, masked)
    assert (first[0], first[3]) == (None, None)
    assert torch.equal(first[1], ours[1])


@pytest.mark.usefixtures("emulated")
def test_weights_of_fewer_inputs():
    """The stem's three channels of sixteen: the others are zero, and have no weights."""
    x, weight = random(1, 1, 32, 32, 16), weights(1, 16)[:, :3].contiguous()
    x[..., 3:] = 0
    y = torch.empty_like(x)
    whole_images.convolve(x, weight, y)
    assert gap(stacked(y), F.conv2d(stacked(x)[:, :3], weight.double(), padding=1)) < 0.003


EMULATED = """
import ctypes, json, torch, test_fused_body as body, test_whole_images as whole
for name, value in whole.use(ctypes.CDLL({library!r})).items():
    setattr(whole.whole_images, name, value)
print(json.dumps({{name: body.errors(case, "cpu", torch.bfloat16) for name, case in body.WHOLE.items()}}))
"""


def test_bodies_of_whole_images(library):
    """Between them Triton's kernels are interpreted."""
    made = interpreted(EMULATED.format(library=library._name))
    assert made.keys() == WHOLE.keys()
    assert above(0.01, made) == {}


class Properties:
    shared_memory_per_block_optin = 232_448


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, programs: Callable[[int], None]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties())
    monkeypatch.setattr(whole_images, "_are_there", cache(whole_images._are_there.__wrapped__))
    monkeypatch.setattr(whole_images, "programs", programs)


def test_kernels_that_do_not_compile_are_told_once(monkeypatch):
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


def test_a_gpu_with_little_shared_memory_has_tritons(monkeypatch):
    """Without a word: nothing is wrong."""
    on_a_gpu(monkeypatch, lambda device: pytest.fail("compiled"))
    monkeypatch.setattr(Properties, "shared_memory_per_block_optin", 101_376)
    assert not whole_images.fits(random(1, 1, 32, 32, 16), 16, stride=1)


def test_what_fits(monkeypatch):
    monkeypatch.setattr(whole_images, "_are_there", lambda device: True)
    for channels, side in whole_images.SIDES.items():
        x = random(1, 1, side, side, channels)
        assert whole_images.fits(x, channels, stride=1)
        assert not whole_images.fits(x, channels, stride=2)
        assert not whole_images.fits(x, 2 * channels, stride=1)
        assert not whole_images.fits(x.float(), channels, stride=1)
        assert not whole_images.fits(x[:, :, 1:], channels, stride=1)
