"""A saved network comes back as it was, and damage is told in one sentence."""

import json
import os
from pathlib import Path

import pytest
import torch
from refusals import refused
from safetensors.torch import save_file

import class_uncertainty as cu
from class_uncertainty.training.model_files import check_savable, save

HEADS = ("naive", "ldam", "duq", "crt", "dro-learned")


@pytest.fixture(scope="module")
def fitted(digits: cu.Dataset) -> cu.Fit:
    return cu.fit(
        digits.train, [cu.Lane(method) for method in HEADS], recipe=cu.Recipe("small-conv", epochs=1, batch=32)
    )


@pytest.mark.parametrize("lane", range(len(HEADS)), ids=HEADS)
@pytest.mark.parametrize("name", ["model", "deep/folder/model.safetensors", "model.v2"])
def test_round_trip(fitted: cu.Fit, digits: cu.Dataset, lane: int, name: str, tmp_path: Path) -> None:
    weights, description = save(fitted.module(lane), tmp_path / name, {})
    restored, images = cu.restore(tmp_path / name), torch.from_numpy(digits.test.inputs)
    assert weights.suffix == ".safetensors"
    assert json.loads(description.read_text())["classes"] == list(digits.classes)
    assert torch.equal(restored(images), fitted.module(lane)(images))
    assert restored.classes == digits.classes
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda p: (p / "m.json").unlink(), "m.json does not exist"),
        (lambda p: (p / "m.safetensors").unlink(), "m.safetensors does not exist"),
        (lambda p: (p / "m.safetensors").write_bytes(b"xx"), "has changed since it was saved"),
        (lambda p: (p / "m.json").write_text("{"), "not a network"),
        (lambda p: (p / "m.json").write_text("[1]"), "not a network"),
        (lambda p: (p / "m.json").write_text('{"format": 99}'), "newer version"),
        (lambda p: (p / "m.json").write_bytes(b"\xff\xfe"), "not a network"),
    ],
)
def test_damage(fitted: cu.Fit, damage: object, sentence: str, tmp_path: Path) -> None:
    save(fitted.module(0), tmp_path / "m", {})
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(cu.InputError, match=sentence):
        cu.restore(tmp_path / "m")


def changed(**fields: object) -> object:
    def damage(folder: Path) -> None:
        document = json.loads((folder / "m.json").read_text())
        (folder / "m.json").write_text(json.dumps(document | fields))

    return damage


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (changed(scale="a"), "scale is 'a': it must be a finite number above 0"),
        (changed(scale=float("nan")), "scale is nan"),
        (changed(scale=0), "scale is 0"),
        (changed(classes=list(range(10))), "classes are .*: they must be different names"),
        (changed(classes=["a"] * 10), "classes are .*: they must be different names"),
        (changed(shape=[1, -8, 8]), r"shape is \(1, -8, 8\): it must be whole numbers above 0"),
        (changed(shape=[1, 40000, 40000]), r"shape is \(1, 40000, 40000\): .* 67,108,864 pixels"),
        (changed(encoding=[{"name": "age"}]), r"the encoding makes 1 features, and shape is \(1, 8, 8\)"),
        (changed(encoding=[{"name": "age", "median": "x"}]), "the median of 'age' is 'x': it must be a number"),
        (changed(encoding=[{"name": "city", "categories": [1]}]), "categories of 'city' are .1.: they must be texts"),
        (changed(encoding=[{"age": 1}]), "not a network that --save wrote"),
        (changed(encoding=[{"name": "city", "categories": "ab"}]), "categories of 'city' are 'ab': they must be texts"),
        (changed(encoding=[{"name": "age", "median": 10**400}]), "the median of 'age' is 1000.*: it must be a number"),
        (changed(encoding=[{"name": "age", "fills": "no"}]), "fills 'no'"),
        (changed(encoding=[{"name": 7}]), "column 7"),
        (changed(encoding="ab"), "not a network that --save wrote"),
        (changed(scale=10**400), "scale is 1000.*: it must be a finite number above 0"),
        (changed(scale=True), "scale is True"),
        (changed(scale=1e39), "scale is 1e.39"),
        (changed(head="zz"), "unknown head 'zz': .*linear, cosine, rbf"),
        (changed(head=[]), "unknown head"),
        (changed(head="liner"), "did you mean 'linear'"),
        (changed(network="resnet"), "unknown network 'resnet': did you mean 'resnet32'"),
        (changed(network=["mlp"]), "not a network that --save wrote"),
        (changed(classes="abcdefghij"), "classes are 'abcdefghij': they must be different names"),
        (changed(classes=["one"]), "classes are .'one'.: .* two at least"),
        (changed(classes=None), "classes are None"),
        (changed(shape=[]), r"shape is \(\): of the network 'small-conv' it .* 3 numbers"),
        (changed(shape=[64]), r"shape is \(64,\): of the network"),
        (changed(shape=[True, 8, 8]), r"shape is \(True, 8, 8\)"),
        (changed(shape="188"), "shape is '188'"),
        (changed(shape=[10**18, 8, 8]), "not a network that --save wrote"),
        (changed(format="1"), "format is '1'"),
        (changed(about={"data": "other"}), "has changed since it was saved"),
        (lambda p: (p / "m.json").write_text('{"format": 1, "about": ' + "[" * 100_000), "nested too deeply"),
    ],
)
def test_a_changed_description(fitted: cu.Fit, damage: object, sentence: str, tmp_path: Path) -> None:
    save(fitted.module(0), tmp_path / "m", {})
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(cu.InputError, match=sentence) as caught:
        cu.restore(tmp_path / "m")
    assert all(name in str(caught.value) for name in ("m.safetensors", "m.json"))


def without_checksum(folder: Path) -> None:
    """As older versions wrote it."""
    document = json.loads((folder / "m.json").read_text())
    del document["checksum"]
    (folder / "m.json").write_text(json.dumps(document))


def test_an_older_network_has_no_checksum(fitted: cu.Fit, digits: cu.Dataset, tmp_path: Path) -> None:
    save(fitted.module(0), tmp_path / "m", {})
    without_checksum(tmp_path)
    images = torch.from_numpy(digits.test.inputs)
    assert torch.equal(cu.restore(tmp_path / "m")(images), fitted.module(0)(images))


def test_what_is_about_it_may_be_anything_that_json_has(fitted: cu.Fit, tmp_path: Path) -> None:
    """Keys that JSON turns into text, numbers that it has no word for, names that are not UTF-8."""
    save(
        fitted.module(0),
        tmp_path / "m",
        {"t": (1, 2.50), 3: {None: 1, True: 1e-300}, "n": float("nan"), "\udce4": "\u00e9\x1b"},
    )
    cu.restore(tmp_path / "m")


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_while_a_network_replaces_another(
    fitted: cu.Fit, renames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first rename the old one is whole; between the two, its weights do not go with the new description."""
    save(fitted.module(0), tmp_path / "m", {})
    real, calls = os.replace, []

    def killed(partial: Path, place: Path) -> None:
        if len(calls) == renames:
            raise KeyboardInterrupt
        calls.append(place)
        real(partial, place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            save(fitted.module(3), tmp_path / "m", {})
    if not renames:
        cu.restore(tmp_path / "m")
        return
    with refused("m.safetensors", "m.json", "changed", "damaged"):
        cu.restore(tmp_path / "m")


def test_one_bit_of_the_weights(fitted: cu.Fit, tmp_path: Path) -> None:
    weights, _ = save(fitted.module(0), tmp_path / "m", {})
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with refused("m.safetensors", "m.json", "changed", "damaged"):
        cu.restore(tmp_path / "m")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["head.weight", "preprocess.std", "body.1.running_var"])
def test_weights_that_are_not_finite(fitted: cu.Fit, value: float, name: str, tmp_path: Path) -> None:
    network = fitted.module(0)
    network.state_dict()[name].view(-1)[0] = value
    save(network, tmp_path / "m", {})
    with refused("m.safetensors", repr(name), "not finite"):
        cu.restore(tmp_path / "m")


def test_weights_of_another_type_or_shape(fitted: cu.Fit, tmp_path: Path) -> None:
    weights, _ = save(fitted.module(0), tmp_path / "m", {})
    without_checksum(tmp_path)
    state = fitted.module(0).state_dict()
    for other in (state["head.bias"].half(), state["head.bias"][:-1].clone(), None):
        changed_state = {name: tensor for name, tensor in (state | {"head.bias": other}).items() if tensor is not None}
        save_file(changed_state, weights)
        with refused("m.safetensors", "'head.bias'"):
            cu.restore(tmp_path / "m")


def test_what_was_not_saved_here_is_not_replaced(fitted: cu.Fit, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"my": "settings"}')
    with refused(tmp_path / "m.json", "description of a network"):
        check_savable(tmp_path / "m")
    (tmp_path / "n.safetensors").write_bytes(b"another framework's")
    with refused(tmp_path / "n.safetensors", "without n.json"):
        check_savable(tmp_path / "n")
    save(fitted.module(0), tmp_path / "o", {})
    check_savable(tmp_path / "o")


def test_nothing_can_be_written_below_a_file_or_as_a_folder(fitted: cu.Fit, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(cu.InputError, match=r"is a folder: give the name of a network in it, as in .*model"):
        check_savable(tmp_path)
    with pytest.raises(cu.InputError, match="file is not a folder"):
        check_savable(tmp_path / "file" / "model")
    with pytest.raises(cu.InputError, match="file is not a folder"):
        save(fitted.module(0), tmp_path / "file" / "model", {})
