"""Forged models, with checksums that match: each is refused within 2 s and 100 MB, before anything large is built."""

import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_networks import swin_folder
from refusals import refused
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

import class_uncertainty as cu
from class_uncertainty.data.examples import Embedding
from class_uncertainty.training.model_files import save
from class_uncertainty.training.networks import pretrained
from class_uncertainty.training.networks.backbones import Backbone, Embedder
from class_uncertainty.training.networks.classifier import Ensemble
from class_uncertainty.training.networks.tree_heads import LARGEST
from class_uncertainty.training.saved_model import model_checksum

Tensors = dict[str, Tensor]
SECONDS, MEGABYTES = 2, 100  # a good model of this size takes next to nothing
ROOM = 2**30  # bytes of address space that an attack may ask for until it fails
STATUS, PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@pytest.fixture(scope="module")
def models(tmp_path_factory, digits):
    """Good ones, of every kind."""
    folder = tmp_path_factory.mktemp("models")
    images = cu.fit(digits.train, [cu.Lane(seed=s) for s in (0, 1)], recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    save(images.module(0), folder / "images", {})
    save(Ensemble([images.module(0), images.module(1)]), folder / "ensemble", {})
    table = cu.Data(np.random.default_rng(0).normal(size=(60, 4)), ["a", "b", "c"] * 20)
    for network in ("forest", "boosting", "linear"):
        trees = 0 if network == "linear" else 3
        fitted = cu.fit(table, [cu.Lane()], recipe=cu.Recipe(network, epochs=1, batch=16, trees=trees))
        save(fitted.module(0), folder / network, {})
    head = fitted.module(0)
    head.embedding = Embedding("hf:swin", "0" * 16, 32, images=(32, 32))
    save(head, folder / "head", {})
    transformers = pytest.importorskip("transformers")
    swin_folder(folder)
    for name, kind in (("swin", "Swin"), ("swinv2", "Swinv2")):
        about = {"image_size": 32, "patch_size": 2, "embed_dim": 4, "depths": [1], "num_heads": [1], "window_size": 4}
        config = getattr(transformers, f"{kind}Config")(**about)
        module = pretrained.Pooled(getattr(transformers, f"{kind}Model")(config))
        head.backbone = Embedder(Backbone(module, head.embedding))
        save(head, folder / name, {})
    return folder


@contextmanager
def bounded() -> Iterator[None]:
    """What happens inside takes little time and little memory, as far as the system tells."""
    before, limits = _kilobytes("VmRSS"), resource.getrlimit(resource.RLIMIT_AS)
    if STATUS.exists():
        PEAK.write_text("5")
        resource.setrlimit(resource.RLIMIT_AS, (1024 * _kilobytes("VmSize") + ROOM, limits[1]))
    began = time.perf_counter()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert time.perf_counter() - began < SECONDS
    assert _kilobytes("VmHWM") - before < 1024 * MEGABYTES


def _kilobytes(name: str) -> int:
    if not STATUS.exists():
        return 0
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1])


def forged(
    models: Path, place: Path, model: str, fields: dict[str, Any], change: Callable[[Tensors], Tensors] | None
) -> None:
    tensors = load_file(models / f"{model}.safetensors")
    content = to_bytes(change(tensors) if change else tensors)
    document = json.loads((models / f"{model}.json").read_text())
    for name, value in fields.items():
        merges = name in ("backbone", "embedding") and "model_type" not in value
        document[name] = document[name] | value if merges else value
    document["checksum"] = model_checksum(document, content)
    (place / "m.safetensors").write_bytes(content)
    (place / "m.json").write_text(json.dumps(document))


MEMBER = {"network": "small-conv", "head": "linear", "scale": 1}
LINEAR = MEMBER | {"network": "linear"}
NAMES = [str(i) for i in range(100_000)]


def members(number: int, member: dict[str, Any] = MEMBER) -> dict[str, Any]:
    return {"networks": number, "members": [member] * number}


def many(tensors: Tensors) -> Tensors:
    """Tensors that hold nothing, to be allowed many layers."""
    return tensors | {f"x{i}": torch.zeros(0) for i in range(5000)}


def with_shifts(tensors: Tensors) -> Tensors:
    """And a shift for each of 500 networks."""
    return many(tensors) | {f"networks.{i}.shift": torch.zeros(10) for i in range(500)}


def tree(below: Tensor, roots: Tensor | None = None) -> Callable[[Tensors], Tensors]:
    """Nodes that all ask the same; leaves are those that are below themselves."""
    is_leaf = below == torch.arange(len(below))
    threshold = torch.where(is_leaf, torch.tensor(LARGEST), torch.tensor(-LARGEST))

    def change(tensors: Tensors) -> Tensors:
        width = tensors["head.values"].shape[1]
        parts = {"below": below.int(), "feature": torch.zeros(len(below), dtype=torch.int32), "threshold": threshold}
        parts |= {"values": torch.zeros(int(is_leaf.sum()), width)}
        parts |= {"roots": torch.zeros(1, dtype=torch.int32) if roots is None else roots.int()}
        if "head.target" in tensors:
            parts["target"] = torch.zeros(len(parts["roots"]), dtype=torch.int32)
        return tensors | {f"head.{name}": value for name, value in parts.items()}

    return change


def chain(depth: int) -> Tensor:
    """A node that asks, a leaf, a node that asks, a leaf, ..."""
    below = torch.arange(2 * depth + 1)
    below[: 2 * depth : 2] += 1
    return below


def shared(nodes: int) -> Tensor:
    """Each node leads to the next two: as many paths as there are rabbits."""
    below = torch.arange(nodes + 2)
    below[:nodes] += 1
    return below


FORGED: dict[str, tuple[Any, ...]] = {  # model, fields of its description, what becomes of its weights
    "100,000 members": ("ensemble", members(100_000)),
    "members beside empty tensors": ("ensemble", members(4000), many),
    "members and many classes": ("ensemble", members(4000) | {"classes": NAMES}, many),
    "members of many categories": (
        "ensemble",
        members(500, LINEAR) | {"shape": [100_000], "encoding": [{"name": "c", "categories": NAMES}]},
        with_shifts,
    ),
    "members with classes of their own": ("ensemble", members(2, MEMBER | {"head": "rbf", "shape": [10**9, 1, 1]})),
    "fewer members": ("ensemble", members(1)),
    "100,000 classes": ("images", {"classes": NAMES}),
    "classes of trees": ("forest", {"classes": NAMES}),
    "one class less": ("images", {"classes": NAMES[:9]}),
    "a trillion features": ("linear", {"shape": [10**12]}),
    "10^18 features": ("linear", {"shape": [10**18]}),
    "a million axes": ("linear", {"shape": [1] * 10**6}),
    "large images": ("images", {"shape": [4, 8000, 8000]}),
    "centroids": ("linear", {"shape": [10**7], "head": "rbf"}),
    "costs": ("images", {"decides_by": "cost", "classes": NAMES}),
    "a wide network": ("images", {"network": "resnet:99999999"}),
    "a path and more": ("images", {"network": "PATH:x:y"}),
    "a name of 10 MB": ("images", {"network": "x" * 10**7}),
    "a long name of code": ("images", {"network": "x" * 10**6 + ".py:f", "architecture": "0" * 16}),
    "code of a device": ("images", {"network": "/dev/zero.py:f", "architecture": "0" * 16}),
    "a large side": ("images", {"network": "efficientnet-lite0?size=99999999", "architecture": "0" * 16}),
    "a head of 10 MB": ("images", {"head": "x" * 10**7}),
    "an empty tensor of 10^15 columns": ("images", {}, lambda t: t | {"x": torch.zeros(0, 10**15)}),
    "a deep tree": ("forest", {}, tree(chain(100_000))),
    "a tree that is one node deeper than any": ("forest", {}, tree(chain(513))),
    "nodes of two parents": ("forest", {}, tree(shared(60))),
    "nodes of no parent": ("forest", {}, tree(torch.arange(3), torch.tensor([0, 1]))),
    "a node of two parents beside one of none": ("forest", {}, tree(torch.tensor([1, 2, 2, 3, 4]))),
    "a root a million times": ("forest", {}, tree(torch.arange(2), torch.zeros(10**6))),
    "scores of such a root": ("boosting", {}, tree(torch.arange(2), torch.zeros(10**6))),
    "views": ("head", {"embedding": {"views": 10**9}}),
    "a large backbone": ("head", {"embedding": {"size": 10**9}}),
    "large photographs": ("head", {"embedding": {"images": [10**9, 1]}}),
    "a backbone of 10 MB": ("head", {"embedding": {"backbone": "x" * 10**7}}),
    "10^9 layers": ("swin", {"backbone": {"model_type": "vit", "num_hidden_layers": 10**9}}),
    "60,000 layers": ("swin", {"backbone": {"model_type": "vit", "num_hidden_layers": 60_000}}),
    "a word for each layer": ("swin", {"backbone": {"model_type": "qwen2", "num_hidden_layers": 10**8}}),
    "a rate for each layer": ("swin", {"backbone": {"model_type": "convnext", "depths": [10**9, 1, 1, 1]}}),
    "100,000 stages": ("swin", {"backbone": {"depths": [1] * 10**5, "num_heads": [1] * 10**5}}),
    "points of an image": ("swin", {"backbone": {"model_type": "levit", "image_size": 10**5}}),
    "a large side of a backbone": ("swin", {"backbone": {"image_size": 10**6}}),
    "a number that is none": ("swin", {"backbone": {"mlp_ratio": float("nan")}}),
    "numbers beside the weights": ("swinv2", {"backbone": {"window_size": 128, "image_size": 256}}),
    "code of others for attention": ("swin", {"backbone": {"attn_implementation": "evil/kernel"}}),
    "the same by its inner name": ("swin", {"backbone": {"_attn_implementation": "evil/kernel"}}),
    "a network within": ("swin", {"backbone": {"model_type": "dpt", "backbone": "evil/x", "is_hybrid": False}}),
    "a pretrained one": ("swin", {"backbone": {"model_type": "detr", "use_pretrained_backbone": True}}),
    "one of timm": ("swin", {"backbone": {"model_type": "timm_wrapper", "architecture": "hf-hub:evil/x"}}),
    "no such type": ("swin", {"backbone": {"model_type": "x" * 1000}}),
}


@pytest.mark.parametrize("attack", FORGED)
def test_a_forged_model(attack, models, tmp_path, monkeypatch):
    model, fields, *change = FORGED[attack]
    monkeypatch.chdir(tmp_path)
    forged(models, tmp_path, model, fields, *(change or [None]))
    with bounded(), refused() as caught:
        cu.restore("m")
    assert len(str(caught.value)) < 10_000  # a name may be as long as a file


def test_the_attacks_are_counted():
    text, number = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text(), len(FORGED)
    held = f"{number} | {number} | `pytest tests/training/test_saved_model.py`"
    assert f"within {SECONDS} s and {MEGABYTES} MB each | {held}" in text


@pytest.mark.parametrize("model", ["images", "ensemble", "forest", "boosting", "linear", "head", "swin", "swinv2"])
def test_good_models_come_back(model, models, tmp_path):
    forged(models, tmp_path, model, {}, None)
    with bounded():
        cu.restore(tmp_path / "m")


def test_names_of_labels_are_not_built(models, tmp_path):
    """Of those there may be many, and none is part of a backbone."""
    forged(models, tmp_path, "swin", {"backbone": {"num_labels": 10**8}}, None)
    with bounded():
        cu.restore(tmp_path / "m")


def test_a_tree_as_deep_as_any_comes_back(models, tmp_path):
    forged(models, tmp_path, "forest", {}, tree(chain(512)))
    with bounded():
        restored = cu.restore(tmp_path / "m")
    restored.head.fix_steps()  # type: ignore[union-attr]
    assert restored.head.steps == 512
