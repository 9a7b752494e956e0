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


def test_nothing_can_be_written_below_a_file_or_as_a_folder(fitted: cu.Fit, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(cu.InputError, match=r"is a folder: give the name of a network in it, as in .*model"):
        check_savable(tmp_path)
    with pytest.raises(cu.InputError, match="file is not a folder"):
        check_savable(tmp_path / "file" / "model")
    with pytest.raises(cu.InputError, match="file is not a folder"):
        save(fitted.module(0), tmp_path / "file" / "model", {})
