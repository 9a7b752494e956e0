"""cu export: what a file gives is what the model gives, whatever the model is made of."""

import io
import json
import sys
import zipfile
from copy import deepcopy
from functools import cache
from importlib import import_module

import numpy as np
import pytest
import torch
from optional import optional, slow
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.integrations.export import TOLERANCE
from class_uncertainty.training import default_recipe
from class_uncertainty.training.networks.backbones import fitted, seen
from class_uncertainty.training.networks.classifier import Classifier, Deployed, Ensemble

RNG = np.random.default_rng(5)
LABELS = np.repeat([0, 1, 2], [60, 20, 10])
FEATURES = (RNG.normal(size=(90, 4)) + np.eye(3, 4)[LABELS]).astype(np.float32)
TABLE = cu.Data(FEATURES, LABELS, ["cat", "dog", "owl"])
IMAGES = cu.Data(RNG.integers(0, 256, (30, 3, 20, 26), dtype=np.uint8), np.arange(30) % 3)
BACKBONE = """
import torch
def tiny():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
"""


def trained(data: cu.Data, recipe: cu.Recipe) -> Deployed:
    return cu.fit(data, [cu.Lane()], recipe=recipe, device="cpu").module(0)


@cache
def model(kind: str) -> Deployed:
    if kind in ("forest", "boosting", "logistic"):
        return trained(TABLE, default_recipe(TABLE, kind))
    if kind == "images":
        return trained(IMAGES, cu.Recipe("small-conv", epochs=1, batch=8))
    if kind == "resized":  # someone's own network, for images of another size
        layers = [torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)]
        factory = lambda: torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(4, 3))  # noqa: E731
        cu.register_network("resized", factory, preprocess={"size": 32})
        return trained(IMAGES, cu.Recipe("resized", epochs=1, batch=8))
    if kind == "ensemble":
        networks = [model("logistic"), model("forest")]
        assert all(isinstance(network, Classifier) for network in networks)
        return Ensemble(
            networks, 0.8, shift=torch.tensor([0.0, 0.5, 1.0]), costs=torch.tensor([[0, 1, 1], [3, 0, 1], [9, 2, 0.0]])
        )
    head = {"linear": "naive", "cosine": "ldam", "rbf": "duq"}[kind]
    return cu.fit(TABLE, [cu.Lane(head)], recipe=cu.Recipe("mlp", epochs=1, batch=16), device="cpu").module(0)


def on_backbone(folder, views: int) -> Deployed:
    (folder / "tiny.py").write_text(BACKBONE)
    features = cu.embed(IMAGES, f"{folder / 'tiny.py'}:tiny?size=16&views={views}", cache=False)
    return trained(features, cu.Recipe("linear", epochs=1, batch=8))


def outputs(file, to: str, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Probabilities, labels and class names, by whatever runs such a file, without this package."""
    if to == "pt2":
        extra = {"classes": ""}
        program = torch.export.load(file, extra_files=extra).module()
        p, label = program(torch.from_numpy(inputs))
        return p.numpy(), label.numpy(), json.loads(extra["classes"])
    session = import_module("onnxruntime").InferenceSession(file)
    p, label = session.run(["probabilities", "label"], {"inputs": inputs})
    return p, label, json.loads(session.get_modelmeta().custom_metadata_map["classes"])


def check(module: Deployed, to: str, inputs: np.ndarray, folder) -> None:
    """The file against `cu.Model`, on examples that the export did not look at."""
    exported = cu.export(module, folder / f"model.{to}", to=to)
    p, label, classes = outputs(exported.file, to, inputs)
    own = cu.Model(module)
    np.testing.assert_allclose(p, own.predict_proba(inputs), atol=TOLERANCE)
    assert classes == list(module.classes) == list(exported.classes)
    assert np.array(classes)[label].tolist() == own.predict(inputs).tolist()
    assert exported.difference <= TOLERANCE


KINDS = ["forest", "boosting", "logistic", "linear", "cosine", "rbf", "images", "resized", "ensemble"]


@pytest.mark.parametrize(
    ("kind", "to"), [("ensemble", "pt2"), *(pytest.param(kind, "onnx", marks=slow) for kind in KINDS)]
)
def test_the_file_gives_what_the_model_gives(kind, to, tmp_path):
    if to == "onnx":
        optional("onnxruntime")
    check(model(kind), to, IMAGES.inputs if kind in ("images", "resized") else FEATURES, tmp_path)


@pytest.mark.parametrize("views", [pytest.param(1, marks=slow), 5])
@pytest.mark.parametrize("to", ["pt2", pytest.param("onnx", marks=slow)])
def test_a_backbone_is_inside(to, views, tmp_path):
    """Images of any content go in, and are resized as the package resizes them."""
    if to == "onnx":
        optional("onnxruntime")
    module = on_backbone(tmp_path, views)
    exported = cu.export(module, tmp_path / f"model.{to}", to=to)
    assert exported.input == "uint8 (batch, 3, 20, 26)"
    p, _, _ = outputs(exported.file, to, IMAGES.inputs)
    expected = cu.predict(module, _images_file(tmp_path)).probabilities
    np.testing.assert_allclose(p, expected, atol=TOLERANCE)  # the prior of training is that of the softmax


def _images_file(folder):
    """As `cu predict` takes them: the same pixels, as files."""
    from PIL import Image

    (folder / "new").mkdir()
    for i, image in enumerate(IMAGES.inputs):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / "new" / f"{i:02}.png")
    return folder / "new"


def test_matrices_resize_as_the_package_does():
    from class_uncertainty.integrations.exportable import Resize, Views

    images = torch.from_numpy(IMAGES.inputs)
    for side in (16, 20, 31):
        torch.testing.assert_close(Resize(20, 26, side)(images), fitted(images, side), rtol=0, atol=1e-3)
    x = fitted(images, 16)
    for mine, own in zip(Views(16, 7)(x), seen(x, 7), strict=True):
        torch.testing.assert_close(mine, own, rtol=1e-5, atol=1e-3)


def test_trees_of_a_fixed_number_of_steps_end_in_the_same_leaves():
    for kind in ("forest", "boosting"):
        head, x = deepcopy(model(kind).head), torch.from_numpy(FEATURES)
        before = head(x)
        head.fix_steps()
        torch.testing.assert_close(head(x), before)
        head.steps -= 1
        assert not torch.equal(head.leaves(x), deepcopy(model(kind).head).leaves(x))  # no step is too many


def test_gaps_in_a_table_are_filled_as_in_training(tmp_path):
    import pandas

    city, age = np.where(LABELS == 1, "Oslo", "Rome"), np.where(np.arange(90) % 7, FEATURES[:, 0], np.nan)
    frame = pandas.DataFrame({"age": age, "city": city, "label": LABELS})
    data = cu.Data.from_frame(frame, missing="fill")
    module = trained(data, cu.Recipe("linear", epochs=1, batch=16))
    exported = cu.export(module, tmp_path / "model.pt2", to="pt2")
    rows = np.stack([age, city == "Oslo", city == "Rome"], axis=1).astype(np.float32)
    p, _, _ = outputs(exported.file, "pt2", rows)
    np.testing.assert_allclose(p, cu.Model(module).predict_proba(frame), atol=TOLERANCE)


@slow
@pytest.mark.parametrize("recipe", ["forest", "logistic"])
def test_a_table_s_columns_go_into_onnx(recipe, tmp_path):
    """Texts too, one of which training did not have; a column may have the name of an output."""
    import pandas

    optional("onnxruntime")
    city = np.where(LABELS == 1, "Oslo", "Rome").astype(object)
    age = np.where(np.arange(90) % 7, FEATURES[:, 0], np.nan).astype(np.float32)
    frame = pandas.DataFrame({"age": age, "city": city, "probabilities": FEATURES[:, 1], "label": LABELS})
    data = cu.Data.from_frame(frame, missing="fill")
    module = trained(data, default_recipe(data, recipe))
    exported = cu.export(module, tmp_path / "model.onnx")
    frame.loc[3, "city"] = "Bergen"
    session = import_module("onnxruntime").InferenceSession(exported.file)
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert exported.input == "the columns of a table, (batch, 1) each"
    assert names == {"age": "age", "city": "city", "probabilities": "column probabilities"}
    assert {value.name for value in session.get_inputs()} == set(names.values())
    p, _ = session.run(None, {names[name]: frame[name].to_numpy()[:, None] for name in names})
    np.testing.assert_allclose(p, cu.Model(module).predict_proba(frame), atol=TOLERANCE)


def test_the_command_writes_beside_the_model(run, tmp_path):
    cu.save(model("linear"), tmp_path / "net")
    code, out, _ = run("export", "net", "--to", "pt2")
    assert code == 0
    assert "float32 (batch, 4)" in out
    assert zipfile.is_zipfile(tmp_path / "net.pt2")
    code, out, _ = run("export", "net.json", "--to", "pt2", "--out", "other.pt2", "--json")
    assert json.loads(out)["classes"] == ["cat", "dog", "owl"]
    for arguments, part in (
        (("net", "--to", "onxx"), "'onnx'"),
        (("nett", "--to", "pt2"), "nett.safetensors does not exist"),
    ):
        code, _, err = run("export", *arguments)
        assert (code, part in err) == (2, True)
    code, _, err = run("export", "net", "--to", "pt2", "--out", "net.json")
    assert (code, "net.pt2" in err) == (2, True)


def test_the_name_of_the_file_says_the_format(tmp_path):
    data = cu.Data(np.eye(8), ["cat", "dog"] * 4)
    trained = cu.train(data, recipe=cu.Recipe("mlp", epochs=1, batch=4))
    assert cu.export(trained, tmp_path / "model.pt2").to == "pt2"
    assert cu.export(trained, tmp_path / "MODEL.PT2").to == "pt2"
    assert cu.export(trained, tmp_path / "model", to="pt2").to == "pt2"
    for name, to, allowed in (("model.onnx", "pt2", r"\.pt2"), ("model.foo", None, r"\.onnx or \.pt2")):
        with pytest.raises(cu.InputError, match=allowed):
            cu.export(trained, tmp_path / name, to=to)
        assert not (tmp_path / name).exists()


def test_what_cannot_be_traced_is_refused_by_name(tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    module = deepcopy(model("linear"))
    module.body = Odd()
    with refused("network 'mlp' cannot be exported to pt2"):
        cu.export(module, tmp_path / "model.pt2", to="pt2")
    assert not (tmp_path / "model.pt2").exists()


def test_a_file_that_differs_is_not_written(tmp_path, monkeypatch):
    import class_uncertainty.integrations.export as exporting

    content = io.BytesIO()
    wrong = exporting.Exportable(exporting.whole(model("cosine")))
    torch.export.save(
        torch.export.export(wrong, (wrong.examples(3),), dynamic_shapes={"inputs": {0: torch.export.Dim("b", min=1)}}),
        content,
    )
    monkeypatch.setattr(exporting, "_to_pt2", lambda program: content.getvalue())
    with refused("probabilities differ", "was not written"):
        cu.export(model("linear"), tmp_path / "model.pt2", to="pt2")
    assert not (tmp_path / "model.pt2").exists()


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path, monkeypatch):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None if name == package else io)
    with refused(f"{package} is not installed", "class-uncertainty[onnx]"):
        cu.export(model("linear"), tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ["lightning", "transformers"])
def test_a_missing_framework_is_named_with_its_extra(name, monkeypatch):
    monkeypatch.delitem(sys.modules, f"class_uncertainty.integrations.{name}", raising=False)
    for module in [name, *(module for module in sys.modules if module.startswith(f"{name}."))]:
        monkeypatch.setitem(sys.modules, module, None)  # those of earlier tests too
    with refused(f"{name} is not installed", f"class-uncertainty[{name}]"):
        import_module(f"class_uncertainty.integrations.{name}")
