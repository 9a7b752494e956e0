"""Backbones by name: what they do to images, what tells one from another, and what is refused."""

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refused
from torch import nn

from class_uncertainty.data.examples import Embedding
from class_uncertainty.training.networks.backbones import (
    Embedder,
    check_named,
    find_backbone,
    fitted,
    fused,
    same_backbone,
    seen,
    weights_hash,
)  # fmt: skip
from class_uncertainty.training.networks.user_code import trust

FACTORY = """
from torch import nn

def pooled():
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()), {"size": 16, "mean": [0, 0, 0], "std": [1, 1, 1]}

def convolution():
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def broken():
    raise KeyError("no such thing")

def number():
    return 3
"""


@pytest.fixture
def factory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "mine.py", FACTORY)
    return "mine.py"


def written(file, code):
    """A file of code whose functions a user has named."""
    file.write_text(code)
    for function in ("pooled", "convolution", "broken", "number", "missing"):
        trust(f"{file.name}:{function}")


def test_fusing_changes_no_feature():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(4, 5, 1), nn.BatchNorm2d(5))
    body = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), inner)
    body(torch.randn(8, 3, 6, 6))  # statistics other than at the start
    x, quick = torch.randn(2, 3, 6, 6), fused(body)
    assert torch.allclose(quick(x), body.eval()(x), atol=1e-6)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in quick.modules())
    assert any(isinstance(module, nn.BatchNorm2d) for module in body.modules())


class NormAndReLU(nn.BatchNorm2d):
    def forward(self, x):
        return super().forward(x).relu()


class Doubled(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def test_fusing_leaves_alone_what_does_more():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 4, 1), NormAndReLU(4), Doubled(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)))
    x = torch.randn(2, 3, 4, 4)
    assert torch.allclose(fused(body)(x), body.eval()(x), atol=1e-6)


def test_random_weights_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "mine.py", FACTORY)
    with refused("'mine.py:convolution' has other weights at every call", "?weights=FILE"):
        find_backbone("mine.py:convolution")


def test_images_are_scaled_and_cropped_as_pillow_does():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    ours = fitted(torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None], 20)[0]
    scaled = Image.fromarray(pixels).resize((30, 20), Image.Resampling.BICUBIC).crop((5, 0, 25, 20))
    assert (ours - torch.from_numpy(np.array(scaled).transpose(2, 0, 1)).float()).abs().max() <= 1  # Pillow rounds


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (2, 1, 3, 50), (1, 3, 16, 16)])
def test_any_image_becomes_a_square(shape, factory):
    embedder = Embedder(find_backbone(f"{factory}:pooled"))
    assert embedder(torch.zeros(shape, dtype=torch.uint8)).shape == (shape[0], 12)


def test_features_are_of_standardised_images(factory):
    embedder = Embedder(find_backbone(f"{factory}:pooled"))
    images = torch.full((1, 1, 16, 16), 51, dtype=torch.uint8)
    assert torch.allclose(embedder(images), torch.full((1, 12), 0.2))


def test_views_are_the_image_its_mirror_image_and_crops():
    x = torch.arange(2 * 3 * 16 * 16.0).view(2, 3, 16, 16)
    views = seen(x, 10)
    assert [view.shape for view in views] == [x.shape] * 10
    assert torch.equal(views[0], x)
    assert all(torch.equal(views[i + 1], views[i].flip(3)) for i in range(0, 10, 2))
    assert len({tuple(view.flatten().tolist()) for view in views}) == 10
    assert [len(seen(x, number)) for number in (1, 2, 3, 4)] == [1, 2, 3, 4]


def test_options_of_a_name(factory):
    embedding = find_backbone(f"{factory}:pooled?size=24&views=2").embedding
    assert (embedding.size, embedding.views, embedding.mean) == (24, 2, (0, 0, 0))
    assert find_backbone(f"{factory}:pooled").embedding.size == 16


def test_another_weight_code_or_architecture_has_another_hash(factory, tmp_path):
    module = nn.Linear(2, 3)
    before = weights_hash(module)
    assert weights_hash(module) == before
    with torch.no_grad():
        module.weight[0, 0] += 1e-3
    assert weights_hash(module) != before
    relus = (find_backbone(nn.Sequential(kind())) for kind in (nn.ReLU, nn.ReLU6))
    assert len({backbone.embedding.weights for backbone in relus}) == 2
    first = find_backbone(f"{factory}:pooled").embedding.weights
    written(tmp_path / factory, FACTORY.replace("2)", "4)"))
    assert find_backbone(f"{factory}:pooled").embedding.weights != first


def test_the_backbone_that_made_features_is_found_again(factory, tmp_path):
    embedding = find_backbone(f"{factory}:pooled").embedding
    assert same_backbone(embedding).embedding == embedding
    written(tmp_path / factory, FACTORY.replace("AdaptiveAvgPool2d(2)", "AdaptiveMaxPool2d(2)"))
    with refused("mine.py:pooled", "other weights or code", embedding.weights):
        same_backbone(embedding)


def test_a_backbone_without_a_name_is_refused():
    with refused("'Sequential'", "given in Python"):
        check_named(Embedding("Sequential", "abc", 8))
    assert find_backbone(nn.Sequential(nn.Flatten())).embedding.backbone == "Sequential"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("efficientnet-lite1", ["did you mean 'efficientnet-lite0'", "timm:NAME"]),
        ("resnet", ["unknown backbone 'resnet'"]),
        ("mine.py:missing", ["factory of mine.py 'missing'", "pooled, convolution"]),
        ("mine.py:broken", ["broken() of mine.py raised KeyError", "no such thing"]),
        ("mine.py:number", ["returned int", "torch.nn.Module"]),
        ("absent.py:pooled", ["absent.py is not a Python file"]),
        ("mine.py:pooled?size=3", ["'size' is '3'", "8 to 1024"]),
        ("mine.py:pooled?views=11", ["'views' is '11'", "1 to 10"]),
        ("mine.py:pooled?download=maybe", ["download 'maybe'", "no, yes"]),
        ("mine.py:convolution?weights=none.pth", ["none.pth does not exist"]),
    ],
)
def test_what_is_refused(factory, name, parts):
    with refused(*parts):
        find_backbone(name)
