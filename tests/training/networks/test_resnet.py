"""Residual networks against the public implementations, and how they start."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.training.fit_result import width_of
from class_uncertainty.training.model_files import save
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.network_table import NETWORKS
from class_uncertainty.training.networks.stack import Stack, to_device
from class_uncertainty.training.streams import initial_state

RECIPE = cu.Recipe("small-conv", epochs=6, batch=32)
SIZES = {  # channels of the stages, blocks of each, whether shortcuts are convolutions
    "resnet32": ((16, 32, 64), 5, False),
    "resnet32x4": ((64, 128, 256), 5, False),
    "resnet18": ((64, 128, 256, 512), 2, True),
}


def count(channels: int, widths: tuple[int, ...], blocks: int, projected: bool, classes: int) -> int:
    """By hand: 9 ab weights of a 3 x 3 convolution from a to b channels, and 2b of its batch norm."""
    total = 9 * channels * widths[0] + 2 * widths[0]
    for before, width in zip((widths[0], *widths), widths, strict=False):
        total += 9 * before * width + 9 * width**2 * (2 * blocks - 1) + 2 * width * 2 * blocks
        total += (before * width + 2 * width) * (projected and before != width)
    return total + (widths[-1] + 1) * classes


@pytest.mark.parametrize(
    ("network", "classes", "parameters", "layers"),
    [
        ("resnet32", 10, 464_154, 32),
        ("resnet32", 20, 464_804, 32),
        ("resnet32", 100, 470_004, 32),
        ("resnet32x4", 10, 7_386_186, 32),
        ("resnet18", 10, 11_173_962, 18 + 3),  # and three shortcuts
        ("resnet18", 100, 11_220_132, 18 + 3),
    ],
)
def test_published_numbers_of_parameters(network, classes, parameters, layers):
    assert count(3, *SIZES[network], classes) == parameters
    module = Classifier(network, (3, 32, 32), tuple(map(str, range(classes))))
    assert sum(p.numel() for p in module.parameters()) == parameters
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in module.modules()) == layers


class Reference(nn.Module):
    """Residual networks as public code writes them: stages of BasicBlocks with option A, or with option B."""

    class Basic(nn.Module):
        def __init__(self, inputs, planes, projected):
            super().__init__()
            stride = 1 if inputs == planes else 2
            self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.planes, self.change = planes, inputs != planes
            if self.change and projected:
                self.shortcut = nn.Sequential(nn.Conv2d(inputs, planes, 1, 2, bias=False), nn.BatchNorm2d(planes))

        def forward(self, x):
            out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            if self.change and hasattr(self, "shortcut"):
                x = self.shortcut(x)
            elif self.change:
                x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.planes // 4, self.planes // 4), "constant", 0)
            return F.relu(out + x)

    def __init__(self, widths, blocks, projected):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0])
        planes = [widths[0], *(width for width in widths for _ in range(blocks))]
        self.layers = nn.Sequential(*(self.Basic(*pair, projected) for pair in pairwise(planes)))

    def forward(self, x):
        out = self.layers(F.relu(self.bn1(self.conv1(x))))
        return F.adaptive_avg_pool2d(out, 1).flatten(1)


@pytest.mark.parametrize("network", SIZES)
@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_the_usual_one(network, training):
    """With batch statistics that are not at rest, in two lanes of their own weights."""
    torch.manual_seed(0)
    ours = NETWORKS[network].body((3, 16, 16), 2).double().train(training)
    for name, value in ours.state_dict().items():
        if "norm" in name and value.is_floating_point():
            value.copy_(torch.rand_like(value) + 0.5)
    x = torch.randn(3, 6, 16, 16, dtype=torch.float64)
    expected = []
    for lane, images in enumerate(x.chunk(2, dim=1)):
        theirs = Reference(*SIZES[network]).double().train(training)
        values = [v.chunk(2)[lane] if v.ndim else v for v in ours.state_dict().values()]
        theirs.load_state_dict(dict(zip(theirs.state_dict(), values, strict=True)))
        expected.append(theirs(images))
    torch.testing.assert_close(ours(x), torch.cat(expected, dim=1))


def test_our_kernels_are_for_the_channels_that_they_are_written_for(monkeypatch):
    """A wide network runs by torch's own kernels on a GPU, without a word."""
    fused_body = pytest.importorskip("class_uncertainty.training.kernels.fused_body")
    tables = (fused_body.CONVOLVE, fused_body.CONVOLVE_ROWS, fused_body.WEIGH)
    assert all(set(table) == set(SIZES["resnet32"][0]) for table in tables)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(Stack, "to", lambda stack, *_, **__: stack)
    for network in SIZES:
        stack = Stack(dataclasses.replace(RECIPE, network=network), (3, 8, 8), ("a", "b"), [cu.Lane("naive")])
        assert to_device(stack, "cuda").kernels == (network == "resnet32")
        assert stack.bf16


@pytest.mark.parametrize(("network", "cpu", "gpu"), [("resnet32", 1, 64), ("resnet32x4", 1, 16), ("small-conv", 5, 64)])
def test_lanes_of_a_stack(network, cpu, gpu):
    recipe = cu.Recipe(network, 1, 2)
    assert (width_of(recipe, "cpu"), width_of(recipe, "cuda")) == (cpu, gpu)


@pytest.mark.parametrize("network", SIZES)
def test_a_saved_network_is_restored(network, tmp_path):
    module = Classifier(network, (3, 16, 16), tuple("ab")).eval()
    save(module, tmp_path / "model", {})
    x = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    assert torch.equal(cu.restore(tmp_path / "model")(x), module(x))


def test_initialisation_is_he_normal_for_convolutions_and_torchs_own_for_the_head():
    state = initial_state(Classifier("resnet32", (3, 32, 32), tuple("ab")), 0)
    weight = state["body.blocks.14.second.conv.weight"]
    assert weight.std() == pytest.approx(np.sqrt(2 / (64 * 9)), rel=0.02)  # fan-in
    assert np.abs(state["head.weight"]).max() <= 1 / 8


def test_class_weights_of_a_cosine_head_begin_with_length_one():
    state = Stack(RECIPE, (1, 8, 8), tuple("abc"), [cu.Lane("naive"), cu.Lane("ldam")]).states()
    np.testing.assert_allclose(state[1]["head.weight"].norm(dim=1), 1, rtol=1e-6)
    assert (state[0]["head.weight"].norm(dim=1) < 0.9).all()
