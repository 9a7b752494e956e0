"""ResNet-32 against the public implementation, and how it starts."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import class_uncertainty as cu
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.resnet32 import ResNet32
from class_uncertainty.training.networks.stack import Stack
from class_uncertainty.training.streams import initial_state

RECIPE = cu.Recipe("small-conv", epochs=6, batch=32)


@pytest.mark.parametrize(("classes", "parameters"), [(10, 464_154), (20, 464_804), (100, 470_004)])
def test_resnet32_has_the_published_number_of_parameters(classes, parameters):
    module = Classifier("resnet32", (3, 32, 32), tuple(map(str, range(classes))))
    assert sum(p.numel() for p in module.parameters()) == parameters
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in module.modules()) == 32


class Reference(nn.Module):
    """ResNet-32 as Bag-of-Tricks and LDAM-DRW write it: BasicBlock [5, 5, 5], option A."""

    class Basic(nn.Module):
        def __init__(self, inputs, planes, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.planes, self.change = planes, inputs != planes

        def forward(self, x):
            out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            if self.change:
                x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.planes // 4, self.planes // 4), "constant", 0)
            return F.relu(out + x)

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        sizes = [(16, 16, 1)] * 5 + [(16, 32, 2)] + [(32, 32, 1)] * 4 + [(32, 64, 2)] + [(64, 64, 1)] * 4
        self.layers = nn.Sequential(*(self.Basic(*size) for size in sizes))

    def forward(self, x):
        out = self.layers(F.relu(self.bn1(self.conv1(x))))
        return F.avg_pool2d(out, out.size()[3]).flatten(1)


def test_resnet32_is_the_usual_one():
    torch.manual_seed(0)
    ours, theirs = ResNet32((3, 32, 32)).double(), Reference().double()
    assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    x = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x))


def test_initialisation_is_he_normal_for_convolutions_and_torchs_own_for_the_head():
    state = initial_state(Classifier("resnet32", (3, 32, 32), tuple("ab")), 0)
    weight = state["body.blocks.14.second.conv.weight"]
    assert weight.std() == pytest.approx(np.sqrt(2 / (64 * 9)), rel=0.02)  # fan-in
    assert np.abs(state["head.weight"]).max() <= 1 / 8


def test_class_weights_of_a_cosine_head_begin_with_length_one():
    state = Stack(RECIPE, (1, 8, 8), tuple("abc"), [cu.Lane("naive"), cu.Lane("ldam")]).states()
    np.testing.assert_allclose(state[1]["head.weight"].norm(dim=1), 1, rtol=1e-6)
    assert (state[0]["head.weight"].norm(dim=1) < 0.9).all()
