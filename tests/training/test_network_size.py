"""The number of a network's parameters, by hand and in words."""

import os
import subprocess
import sys

import pytest
import torch
from own_networks import swin_folder

from class_uncertainty.data.sources import shape_of
from class_uncertainty.text import amount
from class_uncertainty.training.network_size import NOTHING_TRAINED, NetworkSize, parameters
from class_uncertainty.training.networks.classifier import Classifier
from class_uncertainty.training.networks.network_table import NETWORKS
from class_uncertainty.training.recipe import TREES


@pytest.mark.parametrize(
    ("network", "shape", "classes", "expected"),
    [
        ("resnet32", (3, 32, 32), 10, 464_154),
        ("resnet32", (3, 64, 64), 10, 464_154),  # the size of images does not matter
        ("resnet32", (1, 32, 32), 10, 464_154 - 2 * 9 * 16),
        ("linear", (7,), 3, 8 * 3),
        ("mlp", (7,), 3, 8 * 64 + 2 * 64 + 65 * 3),
    ],
)
def test_by_hand(network, shape, classes, expected):
    assert parameters(network, shape, classes) == expected


@pytest.mark.parametrize("network", [network for network in NETWORKS if network not in TREES])
def test_it_is_what_the_real_network_has(network):
    """And counting takes no memory, nor a random number."""
    before, shape = torch.get_rng_state(), (1, 8, 8) if NETWORKS[network].images else (5,)
    count = parameters(network, shape, 4)
    assert torch.equal(torch.get_rng_state(), before)
    assert count == sum(p.numel() for p in Classifier(network, shape, tuple("abcd")).parameters())


def test_counting_does_not_load_the_compiler():
    """Some operations on tensors that hold no memory do, which would cost every command two seconds."""
    counted = "from class_uncertainty.training.network_size import listed_parameters; listed_parameters()"
    code = f"import sys; {counted}; print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(650, "650"), (7_386, "7.4 k"), (99_949, "99.9 k"), (99_950, "0.10 M"), (464_154, "0.46 M"), (994_999, "0.99 M"),
     (995_000, "1.0 M"), (7_386_186, "7.4 M"), (11_173_962, "11.2 M")],
)  # fmt: skip
def test_in_words(number, words):
    assert amount(number) == words


def test_what_is_not_known_is_not_said():
    assert str(NetworkSize.of("forest", (4,), 3)) == "forest"  # as many as the data ask for
    assert str(NetworkSize.of("resnet32", (3, 32, 32), 100)) == "resnet32, 0.47 M parameters"
    assert NetworkSize.of("resnet32", None, 100) == NetworkSize("resnet32", None)
    assert str(NetworkSize.of("of a later version", (3, 32, 32), 100)) == "of a later version"
    assert str(NetworkSize.of("linear?size=3", (7,), 100)) == "linear?size=3"
    assert NetworkSize.of_results([], (3, 32, 32), 100) == NOTHING_TRAINED


@pytest.mark.parametrize("network", ["timm:resnet50", "hf:microsoft/swin-tiny", "gone.py:make", "timm:a?views=3"])
def test_a_network_that_cannot_be_built_is_not_counted(network, monkeypatch):
    """A report shows results of another machine, which has other packages and files."""
    for package in ("timm", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    assert NetworkSize.of(network, (3, 32, 32), 10) == NetworkSize(network)


def test_a_network_that_could_be_built_is_not(tmp_path, monkeypatch):
    """The name may come from a file, and building takes time and memory."""
    monkeypatch.chdir(tmp_path)
    swin_folder(tmp_path)
    assert parameters("hf:swin", (3, 32, 32), 10) is not None
    assert NetworkSize.of("hf:swin", (3, 32, 32), 10) == NetworkSize("hf:swin")


def test_shapes_that_a_name_tells(digits):
    assert shape_of(digits.name) == digits.train.shape
    assert shape_of("cifar100-lt:50?duplicate=0.5") == (3, 32, 32)
    assert [shape_of(name) for name in ("folder:photos", "npz:digits", "places-lt", "data")] == [None] * 4
