"""embed(): features of the images, once; killed half-way, it goes on."""

import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn

import class_uncertainty as cu
from class_uncertainty.training import embed as embedding


class Means(nn.Module):
    """The mean of each channel; counts the images that pass through."""

    passed = 0

    def forward(self, x):
        Means.passed += len(x)
        return x.mean(dim=(2, 3))


def images(number=10, channels=3, side=6, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (number, channels, side, side), dtype=np.uint8)
    return cu.Data(pixels, np.arange(number) % 2, ["a", "b"], names=[f"{i}.png" for i in range(number)])


@pytest.fixture(autouse=True)
def counted(tmp_path, monkeypatch):
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "cache"))
    Means.passed = 0


def whole(x):
    return x / 255.0


def test_features_are_those_of_the_network():
    data = images()
    features = cu.embed(data, Means(), transform=whole, batch=3)
    assert np.allclose(features.inputs, data.inputs.mean(axis=(2, 3)) / 255, atol=1e-6)
    assert (features.classes, features.labels.tolist()) == (data.classes, data.labels.tolist())
    assert features.names.tolist() == data.names.tolist()
    assert np.array_equal(features.take([3, 1]).picture(0), data.inputs[3])


def test_a_second_call_embeds_nothing_and_other_images_or_weights_do():
    data, seen = images(), []
    first = cu.embed(data, Means(), progress=lambda *now: seen.append(now))
    assert (Means.passed, seen[-1]) == (10, ("features by Means", 10, 10))
    assert np.array_equal(cu.embed(data, Means()).inputs, first.inputs)
    assert Means.passed == 10
    cu.embed(images(seed=1), Means())
    cu.embed(data, nn.Sequential(Means()))
    cu.embed(data, Means(), transform=whole)
    assert Means.passed == 40
    cu.embed(data, Means(), cache=False)
    assert Means.passed == 50


def test_what_was_embedded_before_a_kill_is_not_embedded_again(monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 4)
    data = images()

    def stop(what, done, total):
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cu.embed(data, Means(), batch=4, progress=stop)
    cu.embed(data, Means(), batch=4)
    assert Means.passed == 8 + 6  # the block that was stopped, and the one after it
    assert np.array_equal(cu.embed(data, Means(), cache=False).inputs, cu.embed(data, Means()).inputs)


def test_only_the_whole_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 4)
    cu.embed(images(), Means())
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_heads_train_on_features_and_know_their_backbone():
    features = cu.embed(images(20), Means())
    module = cu.fit(features, [cu.Lane()], recipe=cu.Recipe("linear", epochs=1, batch=4)).module(0)
    assert module.embedding == features.embedding
    assert (module.embedding.backbone, module.embedding.images) == ("Means", (6, 6))


class Growing(nn.Module):
    def forward(self, x):
        Means.passed += 1
        return torch.zeros(len(x), 2 + Means.passed)


@pytest.mark.parametrize(
    ("network", "parts"),
    [
        (Growing(), ["made 3 features, then 4"]),
        (nn.Flatten(2), ["made (3, 3, 50176) of 3 images", "(B, D)"]),
        (nn.Sequential(nn.Flatten(), nn.Linear(3, 2)), ["'Sequential' cannot take images of shape (3, 6, 6)"]),
    ],
)
def test_networks_that_make_no_features(network, parts):
    with refused(*parts):
        cu.embed(images(), network, batch=3)


def test_features_must_be_finite():
    with refused("'Means' made features that are not finite"):
        cu.embed(images(), Means(), transform=lambda x: x / 0.0)


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


def scaled_by(factor):
    return lambda x: x * factor


def half(x, factor=0.5):
    return x * factor


@pytest.mark.parametrize("make", [scaled_by, Scaled, lambda factor: Scaled(factor).__call__])
def test_another_value_of_a_transform_is_another_transform(make):
    data = images()
    one, two = (cu.embed(data, Means(), transform=make(factor)).inputs for factor in (1.0, 2.0))
    assert np.allclose(2 * one, two)
    assert Means.passed == 20


def test_another_default_of_a_transform_is_another_transform(monkeypatch):
    data = images()
    one = cu.embed(data, Means(), transform=half).inputs
    monkeypatch.setattr(half, "__defaults__", (1.0,))
    assert np.allclose(2 * one, cu.embed(data, Means(), transform=half).inputs)


class Powered(Means):
    def __init__(self, power):
        super().__init__()
        self.power = power

    def forward(self, x):
        return super().forward(x.abs() ** self.power)


def test_another_value_in_a_network_is_another_network():
    data = images()
    one, two = (cu.embed(data, Powered(power), transform=whole).inputs for power in (1, 2))
    assert not np.allclose(one, two)


def test_the_network_that_is_given_stays_as_it_is():
    network = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()).train()
    cu.embed(images(), network)
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_maps_are_averaged():
    maps, pooled = nn.Conv2d(3, 4, 3), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    features = cu.embed(images(), maps).inputs
    assert np.allclose(features, cu.embed(images(), nn.Sequential(maps, pooled)).inputs, atol=1e-5)


def test_what_is_refused():
    with refused("shape (2,)", "1 or 3 channels"):
        cu.embed(cu.Data(np.eye(2), [0, 1]), Means())
    with refused("shape (4, 6, 6)"):
        cu.embed(images(channels=4), Means())
    with refused("batch is 0"):
        cu.embed(images(), Means(), batch=0)
    with refused("no source"):
        cu.embed(images(), Means(), transform=eval("lambda x: x / 255"))
