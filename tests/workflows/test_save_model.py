"""What is saved from Python is what --save writes."""

import json
from pathlib import Path

import pytest
import torch
from refusals import refused

import class_uncertainty as cu


@pytest.fixture
def trained(digits: cu.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cu.Trained:
    monkeypatch.chdir(tmp_path)
    return cu.train(digits, "balanced-softmax", recipe=cu.Recipe("small-conv", epochs=1, batch=32), save="as-option")


def test_the_same_files_as_by_the_option(trained: cu.Trained) -> None:
    assert cu.save(trained, "model") == (Path("model.safetensors"), Path("model.json"))
    for suffix in (".safetensors", ".json"):
        assert Path(f"model{suffix}").read_bytes() == Path(f"as-option{suffix}").read_bytes()


def test_a_restored_module_is_saved_with_what_it_knows(trained: cu.Trained) -> None:
    cu.save(cu.restore("as-option"), "again")
    assert Path("again.json").read_bytes() == Path("as-option.json").read_bytes()
    module = cu.restore("again")
    assert module.purpose == trained.module.purpose
    assert module.purpose is not None
    assert len(module.purpose.prior) == 10
    assert sum(module.purpose.counts) == len(trained.dataset.train)
    assert json.loads(Path("again.json").read_text())["about"]["result"]["method"] == "balanced-softmax"


def test_what_was_fixed(digits: cu.Dataset, tmp_path: Path) -> None:
    recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    fixed = cu.fix(digits, recipe, goal="accuracy", candidates=["naive"], trainings=2, seeds=1)
    cu.save(fixed, tmp_path / "model")
    module, images = cu.restore(tmp_path / "model"), torch.from_numpy(digits.test.inputs[:9])
    assert torch.equal(module(images), fixed.module(images))
    assert module.purpose is not None
    assert module.purpose.goal == "accuracy"
    assert module.purpose == fixed.module.purpose


def test_refusals(trained: cu.Trained) -> None:
    with refused("backbone"):
        cu.save(trained, "model", embed_weights=True)
    with refused("model", "Fix", "Trained"):
        cu.save("model", "model")  # type: ignore[arg-type]
    Path("foreign.json").write_text("{}")
    with refused("foreign.json", "force=True"):
        cu.save(trained, "foreign")
    assert not Path("model.json").exists()
