"""A saved network comes back as it was, and damage is told in one sentence."""

import json
from pathlib import Path

import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.training.saving import check_savable, save

HEADS = ("naive", "ldam", "duq", "crt", "dro-learned")


@pytest.fixture(scope="module")
def digits() -> cu.Dataset:
    return cu.load("digits-lt:20")


@pytest.fixture(scope="module")
def fitted(digits: cu.Dataset) -> cu.Fit:
    return cu.fit(digits.train, [cu.Lane(method) for method in HEADS], recipe=cu.Recipe("small-conv", epochs=1, batch=32))


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
        (lambda p: (p / "m.safetensors").write_bytes(b"xx"), "not a network"),
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
        (changed(shape=[1, 40000, 40000]), r"shape is \(1, 40000, 40000\): .* no more than 67,108,864 pixels"),
        (changed(encoding=[{"name": "age"}]), r"the encoding makes 1 features, and shape is \(1, 8, 8\)"),
        (changed(encoding=[{"name": "age", "median": "x"}]), "the median of 'age' is 'x': it must be a number"),
        (changed(encoding=[{"name": "city", "categories": [1]}]), "categories of 'city' are .1.: they must be texts"),
        (changed(encoding=[{"age": 1}]), "not a network that --save wrote"),
    ],
)
def test_a_changed_description(fitted: cu.Fit, damage: object, sentence: str, tmp_path: Path) -> None:
    save(fitted.module(0), tmp_path / "m", {})
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(cu.InputError, match=sentence) as caught:
        cu.restore(tmp_path / "m")
    assert "not a network that --save wrote" in str(caught.value)


def test_what_was_not_saved_here_is_not_replaced(fitted: cu.Fit, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"my": "settings"}')
    with pytest.raises(cu.InputError, match=r"m\.json is there, and is no description of a network that was written here"):
        check_savable(tmp_path / "m")
    (tmp_path / "n.safetensors").write_bytes(b"another framework's")
    with pytest.raises(cu.InputError, match=r"n\.safetensors is there without n\.json, so it was not written here"):
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
