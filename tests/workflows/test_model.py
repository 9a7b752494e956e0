"""Model: probabilities of DataFrames and arrays, and what is saved from Python as --save writes it."""

import json
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from refusals import refused

import class_uncertainty as cu


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("table") / "t.csv"
    lines = [f"{i % 7},{'ab'[i % 2]},{'xy'[i % 3 == 0]}" for i in range(60)]
    file.write_text("\n".join(["size,kind,label", *lines]))
    recipe = cu.Recipe("forest", epochs=1, batch=64, trees=5)
    return cu.Model(cu.train(cu.load(f"csv:{file}"), recipe=recipe).module)


def test_a_frame_and_its_features_have_the_same_probabilities(model):
    frame = pyarrow.table({"kind": ["b", "a", "new"], "size": [3, 1, 2]})
    p = model.predict_proba(frame)
    np.testing.assert_allclose(p, model.predict_proba([[3, 0, 1], [1, 1, 0], [2, 0, 0]]))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.classes_.tolist() == ["x", "y"]
    assert model.predict(frame).tolist() == [model.classes_[c] for c in p.argmax(axis=1)]


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([[1, 2]], ["of shape (1, 2)", "(N, 3)"]),
        (np.zeros((0, 3)), ["give one at least"]),
        ([["a", "b", "c"]], ["as numbers"]),
        ([[1, 2, np.nan]], ["not finite"]),
        ([[1, 2], [3]], ["give a DataFrame or an array"]),
        (pyarrow.table({"size": [1]}), ["kind"]),
        (None, ["of shape ()"]),
    ],
)
def test_other_rows_are_refused(model, rows, parts):
    with refused(*parts):
        model.predict_proba(rows)


class WithColumns(np.ndarray):
    """An array that has names of columns, and is no DataFrame."""

    columns = ("size", "kind=a", "kind=b")


def test_an_array_with_columns_is_an_array(model):
    rows = np.array([[3, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(model.predict_proba(rows.view(WithColumns)), model.predict_proba(rows))


def test_images_are_uint8(digits):
    model = cu.Model(cu.train(digits, recipe=cu.Recipe("small-conv", epochs=1, batch=32)).module)
    images = digits.train.inputs[:2]
    assert model.predict_proba(images).shape == (2, len(digits.train.classes))
    for other in (images / 255, images.astype(np.int64)):
        with refused(f"type {other.dtype}", "as uint8 of shape (N, "):
            model.predict_proba(other)


@pytest.fixture
def trained(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return cu.train(digits, "balanced-softmax", recipe=cu.Recipe("small-conv", epochs=1, batch=32), save="as-option")


def test_the_same_files_as_by_the_option(trained):
    assert cu.save(trained, "model") == (Path("model.safetensors"), Path("model.json"))
    for suffix in (".safetensors", ".json"):
        assert Path(f"model{suffix}").read_bytes() == Path(f"as-option{suffix}").read_bytes()


def test_a_restored_module_is_saved_with_what_it_knows(trained):
    cu.save(cu.restore("as-option"), "again")
    assert Path("again.json").read_bytes() == Path("as-option.json").read_bytes()
    module = cu.restore("again")
    assert module.purpose == trained.module.purpose
    assert module.purpose is not None
    assert len(module.purpose.prior) == 10
    assert sum(module.purpose.counts) == len(trained.dataset.train)
    assert json.loads(Path("again.json").read_text())["about"]["result"]["method"] == "balanced-softmax"


def test_what_was_fixed(digits, tmp_path):
    recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    fixed = cu.fix(digits, recipe=recipe, goal="overall", candidates=["naive"], trainings=2, seeds=1)
    cu.save(fixed, tmp_path / "model")
    module, images = cu.restore(tmp_path / "model"), torch.from_numpy(digits.test.inputs[:9])
    assert torch.equal(module(images), fixed.module(images))
    assert module.purpose is not None
    assert module.purpose.goal == "overall"
    assert module.purpose == fixed.module.purpose


def test_what_cannot_be_saved(trained):
    with refused("backbone"):
        cu.save(trained, "model", embed_weights=True)
    with refused("model", "Fix", "Trained"):
        cu.save("model", "model")  # type: ignore[arg-type]
    Path("foreign.json").write_text("{}")
    with refused("foreign.json", "force=True"):
        cu.save(trained, "foreign")
    assert not Path("model.json").exists()
