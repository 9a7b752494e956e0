"""Networks of a user's own: the same seed gives the same weights, and neighbours or a stop never change a bit."""

import dataclasses
from collections.abc import Callable
from functools import partial
from threading import Lock

import numpy as np
import pytest
import torch
from own_networks import Layers, Scaled, images, python_file, registered, swin_folder
from refusals import refused
from torch import nn
from training.networks.few_images import DATA, TEST

import class_uncertainty as cu
from class_uncertainty.training.lane import Epoch
from class_uncertainty.training.model_files import save
from class_uncertainty.training.networks import user_code
from class_uncertainty.training.networks.custom_network import epoch_seed, seeded
from class_uncertainty.training.networks.fingerprints import printed
from class_uncertainty.training.networks.network_table import find_network, sealed

STATS = cu.Stats(DATA.counts, [0.1, 0.2, 0.3])
LANES = [cu.Lane("naive"), cu.Lane("ubrw", seed=1), cu.Lane("ldam-rw+mixup", seed=2)]


def states_equal(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("stack", ["loop", "vmap"])
@pytest.mark.parametrize("factory", [Scaled, Layers])
def test_a_lane_alone_is_the_lane_among_others(factory, stack, no_global_random):
    if (factory, stack) == (Scaled, "vmap"):
        pytest.skip("it has dropout")
    with registered("mine", factory, stack=stack):
        recipe = cu.Recipe("mine", epochs=2, batch=16, optimizer="adamw", lr=0.01)
        together = cu.fit(DATA, LANES, recipe=recipe, stats=STATS, test=TEST)
        for i, lane in enumerate(LANES):
            alone = cu.fit(DATA, [lane], recipe=recipe, stats=STATS, test=TEST)
            assert states_equal(alone.states[0], together.states[i])


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_stop_in_the_middle_changes_no_bit(optimizer, tmp_path):
    """Dropout, a learned scalar and a parameter without a gradient included."""
    with registered("mine", Scaled):
        recipe = cu.Recipe("mine", epochs=4, batch=16, optimizer=optimizer, lr=0.01, average=0.5)
        lanes = [cu.Lane("naive"), cu.Lane("2s-cb-rs", seed=3)]
        whole = cu.fit(DATA, lanes, recipe=recipe)

        def stop(epoch: Epoch) -> None:
            if epoch.epoch == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cu.fit(DATA, lanes, recipe=recipe, checkpoints=tmp_path / "running", every=1, progress=stop)
        assert list((tmp_path / "running").glob("*.safetensors"))
        torch.rand(7)  # whatever else the process draws
        resumed = cu.fit(DATA, lanes, recipe=recipe, checkpoints=tmp_path / "running", every=1)
        for a, b in zip(whole.states, resumed.states, strict=True):
            assert states_equal(a, b)


def test_a_seed_initialises_and_another_one_does_otherwise():
    with registered("mine", Scaled):
        recipe = cu.Recipe("mine", epochs=1, batch=16, lr=1e-30)
        first, again, other = cu.fit(DATA, [cu.Lane(seed=s) for s in (5, 5, 6)], recipe=recipe).states
        name = "body.module.first.weight"
        assert torch.equal(first[name], again[name])
        assert not torch.allclose(first[name], other[name])


def test_all_lanes_start_from_pretrained_weights_with_heads_of_their_own(tmp_path):
    recipe = cu.Recipe(f"{python_file(tmp_path)}:loaded", epochs=1, batch=16, lr=1e-30, pretrained=True)
    first, other = cu.fit(DATA, [cu.Lane(seed=1), cu.Lane(seed=2)], recipe=recipe).states
    expected = torch.linspace(-1, 1, 5 * 27).view(5, 3, 3, 3)
    assert torch.equal(first["body.module.0.weight"], expected)
    assert torch.equal(first["body.module.3.weight"], other["body.module.3.weight"])
    assert not torch.allclose(first["head.weight"], other["head.weight"])


def test_all_methods_train_and_say_what_they_cannot():
    with registered("mine", Scaled):
        recipe = cu.Recipe("mine", epochs=2, batch=16, lr=0.01)
        names = ["naive", "pb-ubrs", "cb-focal", "dro", "dro-learned", "2s-cam-rs", "crt", "duq", "cyclic", "vs+remix"]
        fitted = cu.fit(DATA, [cu.Lane(name) for name in names], recipe=recipe, stats=STATS, test=TEST)
        assert all(np.isfinite(fitted.probabilities(TEST)).all(axis=(1, 2)))
    with registered("mine", Layers), refused("2s-cam-rs", "maps", "'mine'"):
        cu.fit(DATA, [cu.Lane("2s-cam-rs")], recipe=cu.Recipe("mine", epochs=1, batch=16))


def test_students_learn_from_networks_of_a_users_own():
    for stack in ("loop", "vmap"):
        with registered("mine", Layers, stack=stack):
            recipe = cu.Recipe("mine", epochs=1, batch=16)
            teachers = cu.fit(DATA, [cu.Lane(seed=s) for s in range(3)], recipe=recipe)
            student = cu.Lane(teaching=cu.Teaching(tau=0.5), seed=9)
            fitted = cu.fit(DATA, [student], recipe=recipe, teachers=teachers, test=TEST)
            assert fitted.results[0].error is not None


def test_swin_trains_from_scratch_and_from_its_weights(tmp_path, capfd):
    name = f"hf:{swin_folder(tmp_path)}"
    changes = {"optimizer": "adamw", "lr": 1e-3, "layer_decay": 0.8, "head_rate": 10.0, "accumulate": 2}
    photographs = {"resized_crop": 0.2, "jitter": 0.4, "flip": True}
    for pretrained in (False, True):
        recipe = cu.Recipe(name, epochs=1, batch=16, pretrained=pretrained, **changes, **photographs)
        fitted = cu.fit(DATA, LANES[:2], recipe=recipe, stats=STATS, test=TEST)
        assert fitted.standardise.side == 32  # the network's, not that of the images
        z = fitted.module(1)(torch.from_numpy(TEST.inputs))
        assert np.allclose(z.detach().softmax(1).numpy(), fitted.probabilities(TEST)[1], atol=1e-5)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("estimator", ["ensemble", "out-of-fold", "online", "snapshot", "mc-dropout", "duq"])
def test_estimators_measure_by_them(estimator, tmp_path):
    recipe = cu.Recipe(f"hf:{swin_folder(tmp_path)}", epochs=2, batch=16)
    estimated = cu.estimate(DATA, estimator, members=2, recipe=recipe)
    assert np.isfinite(estimated.mu).all()


def test_grey_images_become_what_the_network_takes(tmp_path):
    recipe = cu.Recipe(f"{python_file(tmp_path)}:described", epochs=1, batch=16)
    fitted = cu.fit(images(channels=1), [cu.Lane()], recipe=recipe)
    assert fitted.standardise.mean.flatten().tolist() == pytest.approx([255 * 0.4, 255 * 0.5, 255 * 0.6])
    with refused("3 channels", "these have 4"):
        cu.fit(images(channels=4), [cu.Lane()], recipe=recipe)


def test_a_frozen_parameter_stays_as_it_is():
    def factory() -> nn.Module:
        network = Layers()
        network.first.requires_grad_(False)
        return network

    with registered("mine", factory):
        recipe = cu.Recipe("mine", epochs=1, batch=16, lr=0.1)
        before = find_network("mine").own.initial(False, 0)
        after = cu.fit(DATA, [cu.Lane()], recipe=recipe).states[0]
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        assert changed == {f"body.module.{n}" for n in ("norm.weight", "norm.bias", "second.weight", "second.bias")}


def test_save_and_restore(tmp_path, monkeypatch):
    file = python_file(tmp_path)
    recipe = cu.Recipe(f"{file}:described", epochs=1, batch=16)
    fitted = cu.fit(DATA, [cu.Lane()], recipe=recipe)
    save(fitted.module(0), tmp_path / "model", {})
    pixels = torch.from_numpy(TEST.inputs)
    assert torch.equal(cu.restore(tmp_path / "model")(pixels), fitted.module(0)(pixels))
    file.write_text(file.read_text() + "\n# changed\n")
    assert torch.equal(cu.restore(tmp_path / "model")(pixels), fitted.module(0)(pixels))  # as it was named
    monkeypatch.setattr(user_code, "_named", {})
    with refused("mine.py", "SHA-256", "trust_code"):
        cu.restore(tmp_path / "model")
    with refused("mine.py", "SHA-256", "model.json"):
        cu.restore(tmp_path / "model", trust_code=True)
    file.unlink()
    with refused("mine.py:described", "is not here"):
        cu.restore(tmp_path / "model")


def test_a_registered_network_is_asked_for_by_name_when_it_is_restored(tmp_path):
    with registered("mine", Scaled):
        save(cu.fit(DATA, [cu.Lane()], recipe=cu.Recipe("mine", 1, 16)).module(0), tmp_path / "model", {})
        cu.restore(tmp_path / "model")
    with refused("'mine'", "is not here", "register it"):
        cu.restore(tmp_path / "model")
    with registered("mine", Layers), refused("'mine'", "have changed"):
        cu.restore(tmp_path / "model")


def test_fix_works_on_them(tmp_path):
    with registered("mine", Scaled):
        recipe = cu.Recipe("mine", epochs=1, batch=16)
        fixed = cu.fix(cu.Dataset("d", DATA, TEST), recipe=recipe, candidates=["naive", "cb-rs"], trainings=8, seeds=1)
        assert fixed.network.parameters == sum(p.numel() for p in fixed.module.parameters())


def test_another_file_under_the_same_name_is_another_result(tmp_path):
    file = python_file(tmp_path)
    recipe = cu.Recipe(f"{file}:small", epochs=1, batch=16)
    before = sealed(recipe)
    file.write_text(file.read_text().replace("nn.ReLU()", "nn.GELU()"))
    assert before.fingerprint != sealed(recipe).fingerprint
    with refused("is not the one of the recipe"):
        sealed(before)
    folder = tmp_path / "a"
    folder.mkdir()
    swin = cu.Recipe(f"hf:{swin_folder(folder, seed=1)}", epochs=1, batch=16, pretrained=True)
    first = sealed(swin).fingerprint
    swin_folder(folder, seed=2)
    assert sealed(swin).fingerprint != first
    assert sealed(dataclasses.replace(swin, pretrained=False)).fingerprint not in ("", first)


class Powered(nn.Module):
    """A layer whose number is no parameter, and whose code may be another's."""

    def __init__(self, power: int = 1) -> None:
        super().__init__()
        self.power, self.whole, self.flat = power, (self,), self.flatten  # it holds itself

    def flatten(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.flat(x) ** self.power


def rooted() -> nn.Module:
    class Powered(nn.Module):
        """Of the same name and the same numbers, and other code."""

        def __init__(self) -> None:
            super().__init__()
            self.power = 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1).abs() ** (1 / self.power)

    return Powered()


def fingerprint(factory: object) -> str:
    with registered("mine", factory):
        return sealed(cu.Recipe("mine", epochs=1, batch=16)).fingerprint


def test_what_a_registered_network_holds_is_part_of_its_fingerprint():
    """Code and numbers of its layers, those that its factory passes on included."""

    def around(layer: Callable[..., nn.Module], **options: int) -> object:
        return lambda: nn.Sequential(layer(**options))

    networks = [around(Powered), around(Powered, power=2), around(rooted)]
    networks += [partial(Powered, power=power) for power in (1, 2)]
    assert len({fingerprint(network) for network in networks}) == len(networks)
    assert [fingerprint(network) for network in networks] == [fingerprint(network) for network in networks]


def test_a_factory_of_values_that_cannot_be_told_apart_is_known_by_its_source():
    lock = Lock()

    def locked() -> nn.Module:
        with lock:
            return nn.Flatten()

    def other() -> nn.Module:
        with lock:
            return nn.Flatten(1)

    assert fingerprint(locked) == fingerprint(locked) != fingerprint(other)


def test_built_in_networks_have_no_fingerprint_and_no_weights():
    recipe = cu.Recipe("small-conv", epochs=1, batch=16)
    assert sealed(recipe) == recipe
    with refused("'small-conv' has no pretrained weights"):
        sealed(dataclasses.replace(recipe, pretrained=True))


def test_the_generators_of_torch_are_as_they_were(no_global_random):
    with seeded(3):
        first = torch.rand(4)
    with seeded(3):
        assert torch.equal(first, torch.rand(4))


def test_layers_draw_other_numbers_in_every_epoch_of_every_lane():
    seeds = [epoch_seed(seed, epoch) for seed in range(3) for epoch in range(4)]
    assert len(set(seeds)) == len(seeds)
    assert epoch_seed(2, 3) == seeds[-1]


def test_versions_of_torch_that_print_more_have_the_same_fingerprint(monkeypatch):
    """Results of one machine count on another one. A norm without a bias is another architecture."""
    texts = {
        "2.11": "BatchNorm2d(6, eps=1e-05, affine=True, track_running_stats=True)",
        "2.13": "BatchNorm2d(6, eps=1e-05, affine=True, bias=True, track_running_stats=True)",
        "none": "BatchNorm2d(6, eps=1e-05, affine=True, bias=False, track_running_stats=True)",
    }
    prints = {}
    for version, text in texts.items():
        monkeypatch.setattr(nn.Module, "__repr__", lambda self, text=text: text)
        prints[version] = printed(nn.ReLU())
    assert prints["2.11"] == prints["2.13"] == texts["2.11"]
    assert prints["none"] == texts["none"]
