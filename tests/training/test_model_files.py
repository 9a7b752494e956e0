"""A saved network comes back as it was, and damage is told in one sentence."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused
from safetensors.torch import save_file

import class_uncertainty as cu
from class_uncertainty.data.examples import Embedding
from class_uncertainty.io import origin
from class_uncertainty.training.model_files import check_savable, save
from class_uncertainty.training.purpose import Purpose
from class_uncertainty.training.saved_model import FORMAT, model_checksum

HEADS = ("naive", "ldam", "duq", "crt", "dro-learned")


@pytest.fixture(scope="module")
def fitted(digits):
    return cu.fit(
        digits.train, [cu.Lane(method) for method in HEADS], recipe=cu.Recipe("small-conv", epochs=1, batch=32)
    )


@pytest.mark.parametrize("lane", range(len(HEADS)), ids=HEADS)
@pytest.mark.parametrize("name", ["model", "deep/folder/model.safetensors", "model.v2"])
def test_round_trip(fitted, digits, lane, name, tmp_path):
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
        (lambda p: (p / "m.json").write_bytes(b"\xff\xfe"), "not a network"),
    ],
)
def test_damage(fitted, damage, sentence, tmp_path):
    save(fitted.module(0), tmp_path / "m", {})
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(cu.InputError, match=sentence):
        cu.restore(tmp_path / "m")


def changed(**fields: object) -> Callable[[Path], None]:
    """What a forger does, who can write a checksum that matches."""

    def damage(folder: Path) -> None:
        document = json.loads((folder / "m.json").read_text()) | fields
        document["checksum"] = model_checksum(document, (folder / "m.safetensors").read_bytes())
        (folder / "m.json").write_text(json.dumps(document))

    return damage


def edited(**fields: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        document = json.loads((folder / "m.json").read_text()) | fields
        (folder / "m.json").write_text(json.dumps(document))

    return damage


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (changed(scale="a"), "scale is 'a': it must be a finite number above 0"),
        (changed(scale=float("nan")), "scale is nan"),
        (changed(scale=0), "scale is 0"),
        (changed(classes=list(range(10))), "classes are .*: they must be different names"),
        (changed(classes=["a"] * 10), "classes are .*: they must be different names"),
        (changed(shape=[1, -8, 8]), r"shape is \[1, -8, 8\]: it must be whole numbers above 0"),
        (changed(shape=[1, 40000, 40000]), r"shape is \[1, 40000, 40000\]: .* 67,108,864 pixels"),
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
        (changed(shape=[]), r"shape is \[\]: it must be whole numbers above 0"),
        (changed(shape=[64]), r"shape is \(64,\): of the network"),
        (changed(shape=[True, 8, 8]), r"shape is \[True, 8, 8\]"),
        (changed(shape="188"), "shape is '188'"),
        (changed(shape=[10**18, 8, 8]), "not a network that --save wrote"),
        (edited(about={"data": "other"}), "has changed since it was saved"),
        (lambda p: (p / "m.json").write_text('{"format": 1, "about": ' + "[" * 100_000), "nested too deeply"),
    ],
)
def test_a_changed_description(fitted, damage, sentence, tmp_path):
    save(fitted.module(0), tmp_path / "m", {})
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(cu.InputError, match=sentence) as caught:
        cu.restore(tmp_path / "m")
    assert all(name in str(caught.value) for name in ("m.safetensors", "m.json"))


@pytest.mark.parametrize("version", [0, FORMAT - 1, FORMAT + 1, str(FORMAT), True, None])
def test_a_model_of_another_format_is_refused(fitted, version, tmp_path):
    save(fitted.module(0), tmp_path / "m", {})
    changed(format=version)(tmp_path)
    with refused("m.json", f"format {version!r}", FORMAT):
        cu.restore(tmp_path / "m")


@pytest.mark.parametrize("name", ["format", "checksum", "decides_by", "purpose", "encoding", "embedding", "code"])
def test_a_description_that_lacks_a_field_is_refused(fitted, name, tmp_path):
    save(fitted.module(0), tmp_path / "m", {})
    document = json.loads((tmp_path / "m.json").read_text())
    del document[name]
    if name != "checksum":
        document["checksum"] = model_checksum(document, (tmp_path / "m.safetensors").read_bytes())
    (tmp_path / "m.json").write_text(json.dumps(document))
    with refused("m.safetensors", "m.json", repr(name)):
        cu.restore(tmp_path / "m", trust_code=True)


def test_what_is_about_it_may_be_anything_that_json_has(fitted, tmp_path):
    """Keys that JSON turns into text, numbers that it has no word for, names that are not UTF-8."""
    save(
        fitted.module(0),
        tmp_path / "m",
        {"t": (1, 2.50), 3: {None: 1, True: 1e-300}, "n": float("nan"), "\udce4": "\u00e9\x1b"},
    )
    cu.restore(tmp_path / "m")


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_while_a_network_replaces_another(fitted, renames, tmp_path, monkeypatch):
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


def test_one_bit_of_the_weights(fitted, tmp_path):
    weights, _ = save(fitted.module(0), tmp_path / "m", {})
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with refused("m.safetensors", "m.json", "changed", "damaged"):
        cu.restore(tmp_path / "m")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["head.weight", "preprocess.std", "body.1.running_var"])
def test_weights_that_are_not_finite(fitted, value, name, tmp_path):
    network = fitted.module(0)
    network.state_dict()[name].view(-1)[0] = value
    save(network, tmp_path / "m", {})
    with refused("m.safetensors", repr(name), "not finite"):
        cu.restore(tmp_path / "m")


def test_weights_of_another_type_or_shape(fitted, tmp_path):
    weights, _ = save(fitted.module(0), tmp_path / "m", {})
    state = fitted.module(0).state_dict()
    for other in (state["head.bias"].half(), state["head.bias"][:-1].clone(), None):
        changed_state = {name: tensor for name, tensor in (state | {"head.bias": other}).items() if tensor is not None}
        save_file(changed_state, weights)
        changed()(tmp_path)
        with refused("m.safetensors", "'head.bias'"):
            cu.restore(tmp_path / "m")


def test_what_was_not_saved_here_is_not_replaced(fitted, tmp_path):
    (tmp_path / "m.json").write_text('{"my": "settings"}')
    (tmp_path / "n.safetensors").write_bytes(b"another framework's")
    here, elsewhere = origin("digits", "here"), origin("digits", "elsewhere")
    save(fitted.module(0), tmp_path / "o", {"made_from": here})
    check_savable(tmp_path / "o", here)
    (tmp_path / "p.json").write_bytes((tmp_path / "o.json").read_bytes())
    (tmp_path / "p.safetensors").write_bytes(b"another framework's")  # beside a description of ours
    for name, kept, made_from in (
        ("m", "m.json", here),
        ("n", "n.safetensors", here),
        ("p", "p.safetensors", here),
        ("o", "made from digits", elsewhere),
    ):
        with refused(kept, "--force"):
            check_savable(tmp_path / name, made_from)
        check_savable(tmp_path / name, made_from, force=True)


@pytest.mark.parametrize("ending", [".pt", ".PTH", ".onnx", ".pkl"])
def test_the_ending_of_another_format_is_refused(ending, tmp_path):
    with refused(f"m{ending}", ".safetensors"):
        check_savable(tmp_path / f"m{ending}", "")


@pytest.mark.parametrize("name", ["m", "m.safetensors", "m.json", "resnet.v2", "lr0.1"])
def test_a_dot_in_the_name_of_a_model_is_no_ending(name, tmp_path):
    check_savable(tmp_path / name, "")


def test_nothing_can_be_written_below_a_file_or_as_a_folder(fitted, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(cu.InputError, match=r"is a folder: give the name of a network in it, as in .*model"):
        check_savable(tmp_path, "")
    with pytest.raises(cu.InputError, match="file is not a folder"):
        check_savable(tmp_path / "file" / "model", "")
    with pytest.raises(cu.InputError, match="file is not a folder"):
        save(fitted.module(0), tmp_path / "file" / "model", {})


class Correction:
    """An adjustment, as posthoc makes it."""

    temperature, shift = 1.6, np.linspace(-2, 1, 10)


COSTS = np.arange(100.0).reshape(10, 10) % 7
DEPLOYED = {
    "adjusted": lambda fitted: fitted.adjusted_module(0, Correction()),
    "adjusted, by costs": lambda fitted: fitted.adjusted_module(1, Correction(), COSTS),
    "ensemble": lambda fitted: fitted.take([0, 1, 3]).ensemble_module(Correction()),
    "ensemble, by costs": lambda fitted: fitted.take([0, 0]).ensemble_module(Correction(), COSTS),
}


@pytest.mark.parametrize("kind", DEPLOYED)
def test_what_is_deployed_comes_back(fitted, digits, kind, tmp_path):
    module, images = DEPLOYED[kind](fitted), torch.from_numpy(digits.test.inputs)
    document = json.loads(save(module, tmp_path / "m", {})[1].read_text())
    restored = cu.restore(tmp_path / "m")
    assert type(restored) is type(module)
    assert torch.equal(restored(images), module(images))
    assert (restored.classes, restored.rebuild) == (module.classes, module.rebuild)
    assert not any(part.training for part in restored.modules())
    assert document.get("networks") == ({"ensemble": 3, "ensemble, by costs": 2}.get(kind))
    if "costs" in kind:
        assert document["decides_by"] == "cost"
        np.testing.assert_array_equal(restored.costs, COSTS)
    else:
        assert restored.costs is None


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (changed(networks=4), "networks is 4, and members are .*: they must be as many"),
        (changed(members=[]), "networks is 3, and members are .*: they must be as many"),
        (changed(members="abc"), "members are 'abc'"),
        (
            changed(members=[{"head": "linear", "scale": 1}] * 2 + [{"head": "liner", "scale": 1}]),
            "did you mean 'linear'",
        ),
        (changed(members=[{"head": "linear", "scale": 1}] * 2 + [{"head": "linear", "scale": -1}]), "scale is -1"),
        (changed(members=[{"head": "linear"}, 3, 4]), "not a network that --save wrote"),
        (changed(scale=0), "scale is 0"),
        (changed(decides_by="costs"), "decides_by is 'costs': it must be probability or cost"),
        (changed(decides_by=[]), "decides_by is .*: it must be probability or cost"),
        (changed(shape=[64]), r"shape is \(64,\)"),
    ],
)
def test_a_changed_description_of_an_ensemble(fitted, damage, sentence, tmp_path):
    save(DEPLOYED["ensemble"](fitted), tmp_path / "m", {})
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(cu.InputError, match=sentence):
        cu.restore(tmp_path / "m")


def test_costs_that_are_not_there(fitted, tmp_path):
    save(fitted.module(0), tmp_path / "m", {})
    changed(decides_by="cost")(tmp_path)
    with refused("'costs' are missing"):
        cu.restore(tmp_path / "m")


PURPOSE = {"counts": [9] * 10, "prior": [0.1] * 10, "goal": "mean", "method": "naive", "label": None}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"counts": [9] * 9}, "counts are .*: they must be whole numbers above 0, one a class"),
        ({"counts": [0] * 10}, "counts are .*: they must be whole numbers above 0, one a class"),
        ({"counts": ["x"] * 10}, "not a network that --save wrote"),
        ({"prior": [0.1] * 9}, "prior must be 10 probabilities that sum to 1"),
        ({"prior": [0.2] * 10}, "prior must be 10 probabilities that sum to 1, .* of sum 2"),
        ({"goal": 7}, "the goal, the method and the label of the purpose must be text"),
        ({"why": "so"}, "not a network that --save wrote"),
    ],
)
def test_a_purpose_that_was_edited(fitted, fields, sentence, tmp_path):
    save(fitted.module(0), tmp_path / "m", {})
    changed(purpose=PURPOSE | fields)(tmp_path)  # type: ignore[operator]
    with pytest.raises(cu.InputError, match=sentence):
        cu.restore(tmp_path / "m")


def test_the_purpose_of_a_network_comes_back(fitted, tmp_path):
    module = fitted.module(0)
    module.purpose, module.about = Purpose.of(**PURPOSE), {"data": "digits"}
    save(module, tmp_path / "m", module.about)
    restored = cu.restore(tmp_path / "m")
    assert (restored.purpose, restored.about) == (module.purpose, module.about)


def test_members_beyond_what_the_weights_hold_are_not_built(fitted, tmp_path, monkeypatch):
    save(DEPLOYED["ensemble"](fitted), tmp_path / "m", {})
    changed(networks=100_000, members=[{"network": "small-conv", "head": "linear", "scale": 1}] * 100_000)(tmp_path)
    built = []
    linear = torch.nn.Linear.__init__
    monkeypatch.setattr(torch.nn.Linear, "__init__", lambda *args, **options: built.append(linear(*args, **options)))
    with refused("m.safetensors", "m.json", "100,000"):
        cu.restore(tmp_path / "m")
    assert not built


def test_layers_of_a_backbone_beyond_what_the_weights_hold_are_not_built(tmp_path):
    """A configuration of Transformers may ask for any number of layers."""
    head = cu.fit(cu.Data(np.eye(8), ["a", "b"] * 4), [cu.Lane()], recipe=cu.Recipe("linear", epochs=1, batch=4))
    module = head.module(0)
    module.embedding = Embedding("hf:swin", "0" * 16, 32)
    save(module, tmp_path / "m", {})
    changed(backbone={"model_type": "vit", "num_hidden_layers": 10**9, "hidden_size": 12})(tmp_path)
    with refused("m.safetensors", "m.json", "layers"):
        cu.restore(tmp_path / "m")


@pytest.mark.parametrize(
    "fields", [{"classes": [str(i) for i in range(200_000)]}, {"shape": [10**12]}, {"shape": [4, 8000, 8000]}]
)
def test_more_classes_or_larger_inputs_than_the_weights_are_of(fitted, fields, tmp_path):
    save(fitted.module(0), tmp_path / "m", {})
    changed(**fields)(tmp_path)
    tracemalloc.start()
    try:
        with refused("m.safetensors", "m.json"):
            cu.restore(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("given", ["m", "m.json", "m.safetensors"])
def test_half_a_model_is_not_suggested_in_the_place_of_itself(given, tmp_path):
    (tmp_path / "m.json").write_text("{}")
    with refused("m.safetensors") as caught:
        cu.restore(tmp_path / given)
    assert "did you mean" not in str(caught.value)
