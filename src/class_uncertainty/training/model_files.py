"""A trained network on disk: weights as safetensors, and a JSON file beside them that rebuilds it."""

import json
import math
import os
from copy import copy
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import torch
from torch import Tensor

from class_uncertainty.boundary import checked
from class_uncertainty.data import Data
from class_uncertainty.data.embedding import Embedding
from class_uncertainty.data.images import PIXELS
from class_uncertainty.data.table import LARGEST, Column, is_number
from class_uncertainty.errors import InputError, MachineFault, blame_machine, unknown
from class_uncertainty.files import check_replaceable, checksum, near, parse_json, read_regular, write_together
from class_uncertainty.text import reason
from class_uncertainty.training.networks.backbones import (
    WHOLE,
    Backbone,
    Embedder,
    architecture,
    check_named,
    check_same,
    same_backbone,
)  # fmt: skip
from class_uncertainty.training.networks.classifier import DECISIONS, HEADS, Classifier, Names
from class_uncertainty.training.networks.ensemble_network import Deployed, Ensemble
from class_uncertainty.training.networks.network_table import NETWORKS, Network, find_network
from class_uncertainty.training.networks.preprocessing import checked_preprocessing
from class_uncertainty.training.networks.pretrained import config_of
from class_uncertainty.training.networks.tree_heads import FREE, TreeHead
from class_uncertainty.training.purpose import Purpose

FORMAT = 4  # 1 had no shift, 2 no embedding, 3 no purpose
LARGEST_SIDE = 2**13  # pixels of an image that a backbone takes


def files_of(path: str | Path) -> tuple[Path, Path]:
    """(weights, description) for 'model', 'model.safetensors' or 'model.json'."""
    path = Path(path)
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a name, as in 'model'.")
    stem = path.with_suffix("") if path.suffix in (".safetensors", ".json") else path
    return stem.with_name(stem.name + ".safetensors"), stem.with_name(stem.name + ".json")


def check_savable(path: str | Path, made_from: str, force: bool = False) -> None:
    """Refuse before hours of training, not after, a path where nothing can be written, or another model is."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder: give the name of a network in it, as in {Path(path) / 'model'}.")
    for file in files_of(path):
        check_replaceable(file, made_from, force)


def check_embeds(features: Data | Deployed, embed_weights: bool) -> None:
    """Refuse to embed the weights of a backbone that there is not, or that a file cannot name."""
    if embed_weights and features.embedding is None:
        advice = "name one by --backbone, in Python by cu.embed"
        raise InputError(f"the weights of a backbone are to be saved, and there is none: {advice}.")
    if embed_weights and features.embedding:
        check_named(features.embedding)


def save(module: Deployed, path: str | Path, about: dict[str, Any], embed_weights: bool = False) -> tuple[Path, Path]:
    """Write both files, completely or not at all. `about` is for whoever reads the description.

    With `embed_weights` the backbone is part of the network: then images go in, not features.
    """
    from safetensors.torch import save as to_bytes

    if embed_weights and (embedded := module.embedding):
        module = copy(module)
        module._modules = dict(module._modules)  # not shared with the module that was given
        module.backbone = Embedder(same_backbone(embedded))
    weights, description = files_of(path)
    statistics = {name: value.flatten().tolist() for name, value in module.preprocess.named_buffers()}
    encoding = module.encoding and [asdict(column) for column in module.encoding]
    embedding = module.embedding and asdict(module.embedding)
    document = {"format": FORMAT, **module.rebuild, "preprocessing": statistics, "encoding": encoding}
    purpose = module.purpose and asdict(module.purpose)
    document |= {"embedding": embedding, "backbone": None, "purpose": purpose, "about": about}
    if isinstance(module.backbone, Embedder):
        document["backbone"] = config_of(module.backbone.body)
    tensors = {name: value.clone(memory_format=torch.contiguous_format) for name, value in module.state_dict().items()}
    made_from = {"made_from": about["made_from"]} if "made_from" in about else None
    content = to_bytes(tensors, made_from)  # copies: some may be shared
    document["checksum"] = _checksum(parse_json(json.dumps(document)), content)  # of what a reader will parse
    described = json.dumps(document, indent=2).encode()
    write_together({description: [described], weights: [content]})
    return weights, description


def _checksum(document: dict[str, Any], content: bytes) -> str:
    """Of both files together: one that was changed, or written before a crash, does not match the other."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    return checksum(json.dumps(rest, sort_keys=True), content)


@checked
def restore(path: str | Path) -> Deployed:
    """Load a network that `cu train --save PATH` or `cu fix --save PATH` wrote.

    Parameters
    ----------
    path : str or Path
        PATH, with or without .safetensors or .json.

    Returns
    -------
    torch.nn.Module
        A plain network in evaluation mode, or several as one, preprocessing included: raw inputs in, logits out.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from class_uncertainty.training.model_files import save
    >>> data = cu.load("digits-lt:20")
    >>> fitted = cu.fit(data.train, [cu.Lane("naive")], recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    >>> path = mkdtemp() + "/model"
    >>> weights, description = save(fitted.module(0), path, about={})
    >>> cu.restore(path).classes[:3]
    ('0', '1', '2')
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    weights, description = files_of(path)
    for file in (weights, description):
        if not os.path.exists(file):  # a name may be too long for file.exists()
            absent = f"there is no model at {path}, since {file} does not exist{near(file)}"
            raise InputError(f"{absent}: a model is a .safetensors and a .json file.")
    try:
        document, content = parse_json(read_regular(description)), read_regular(weights)
        version = document["format"]
        if type(version) is not int:
            raise ValueError(f"format is {brief(version)}: it must be a whole number")
        if version > FORMAT:
            raise InputError(f"{description} is of a newer version: format {brief(version)}, ours is {FORMAT}.")
        with torch.device("meta"):  # takes no memory: a description may claim a network that no machine could hold
            needed = _built(document).state_dict()
        if "checksum" in document and document["checksum"] != _checksum(document, content):  # older versions wrote none
            why = "has changed since it was saved, or is damaged"
            raise InputError(f"{weights} or {description.name} {why}: train and save it again.")
        given = load(content) if version > 1 else {"shift": torch.zeros(len(needed["shift"]))} | load(content)
        _check_weights(needed, given)
        module = _built(document)
        module.load_state_dict(given)
        for part in module.modules():
            if isinstance(part, TreeHead):
                part.check()
        if isinstance(module.backbone, Embedder):
            check_same(module.backbone)
    except (InputError, MachineFault):
        raise
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError) as error:
        blame_machine(weights, error)
        why = f"there is no {error}" if isinstance(error, KeyError) else reason(error)
        raise InputError(f"{weights} and {description.name} are not a network that --save wrote ({why}).") from error
    return module.eval()


def _check_weights(needed: dict[str, Tensor], given: dict[str, Tensor]) -> None:
    """Refuse weights that are not those of the network, or not finite."""
    shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in needed.items()}
    for name in sorted(shapes.keys() | given.keys()):
        kind = (tuple(given[name].shape), given[name].dtype) if name in given else None
        if kind and name in shapes and shapes[name][0][:1] == (FREE,):  # of trees there may be any number
            kind = ((FREE, *kind[0][1:]), kind[1])
        if kind != shapes.get(name):
            raise ValueError(f"weights {name!r} are {kind or 'missing'}: the network has {shapes.get(name, 'none')}")
        if not given[name].isfinite().all():
            raise ValueError(f"the weights {name!r} are not finite")


def _built(document: dict[str, Any]) -> Deployed:
    """A network without its weights. A description that was edited is refused here, not when the network predicts."""
    classes, decides_by = document["classes"], document.get("decides_by", DECISIONS[0])
    if decides_by not in DECISIONS:
        raise ValueError(f"decides_by is {brief(decides_by)}: it must be {' or '.join(DECISIONS)}")
    if "members" not in document:
        return _completed(_built_classifier(document, decides_by), document)
    members, number = document["members"], document["networks"]
    if not isinstance(members, list) or not members or number != len(members):
        raise ValueError(f"networks is {brief(number)}, and members are {brief(members)}: they must be as many")
    networks = [_built_classifier({**document, **member}) for member in members]
    ensemble = Ensemble(networks, _scale(document), costs=_no_costs(classes, decides_by))
    return _completed(ensemble, document)


def _completed(module: Deployed, document: dict[str, Any]) -> Deployed:
    """With what it is for, and room for the weights of the backbone, where they are in the file."""
    if (purpose := document.get("purpose")) is not None:
        module.purpose = Purpose.restored(purpose, len(module.classes))
    module.about = dict(document.get("about") or {})
    if (config := document.get("backbone")) is not None:
        if module.embedding is None:
            raise ValueError("there is a backbone, and no embedding")
        module.backbone = Embedder(Backbone(architecture(module.embedding.backbone, config), module.embedding))
    return module


def _built_classifier(document: dict[str, Any], decides_by: str = DECISIONS[0]) -> Classifier:
    network, head, shape, classes = (document[name] for name in ("network", "head", "shape", "classes"))
    row = _row(network, document)
    if not isinstance(head, str) or head not in HEADS:
        raise ValueError(reason(unknown("head", brief(head).strip("'"), HEADS)))
    are_names = isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    if not are_names or not 2 <= len(set(classes)) == len(classes):
        raise ValueError(f"classes are {brief(classes)}: they must be different names, two at least")
    scale = _scale(document)
    shape = tuple(shape) if isinstance(shape, list) else shape
    are_sides = isinstance(shape, tuple) and all(type(side) is int and side > 0 for side in shape)
    if not are_sides or math.prod(shape[1:]) > PIXELS:
        raise ValueError(f"shape is {brief(shape)}: it must be whole numbers above 0, {PIXELS:,} pixels at most")
    sides = {None: (1, 3), True: (3,), False: (1,)}[row.images]
    if len(shape) not in sides:
        raise ValueError(f"shape is {brief(shape)}: of the network {network!r} it must have {sides[-1]} numbers")
    encoding = tuple(Column(**column) for column in document.get("encoding") or ()) or None
    if encoding and shape != (made := sum(len(column.features) for column in encoding),):
        raise ValueError(f"the encoding makes {made} features, and shape is {shape}")
    costs = _no_costs(classes, decides_by)
    return Classifier(
        network, shape, tuple(classes), head, scale, encoding, costs=costs, embedding=_embedding(document)
    )


def _embedding(document: dict[str, Any]) -> Embedding | None:
    if (fields := document.get("embedding")) is None:
        return None
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    embedding = Embedding(**values)
    checked_preprocessing("the backbone", {name: values[name] for name in ("size", "mean", "std")})
    if not all(isinstance(text, str) for text in (embedding.backbone, embedding.weights, embedding.transform)):
        raise ValueError("the backbone, its weights and its transform must be text")
    if type(embedding.views) is not int or not WHOLE["views"][0] <= embedding.views <= WHOLE["views"][1]:
        raise ValueError(f"the embedding has {brief(embedding.views)} views")
    sides = (embedding.size, *embedding.images)
    if not all(type(side) is int and 0 < side <= LARGEST_SIDE for side in sides) or len(embedding.images) != 2:
        raise ValueError(f"the embedding has sides {brief(sides)}: they must be whole numbers up to {LARGEST_SIDE}")
    return embedding


def _row(network: Any, document: dict[str, Any]) -> Network:
    """The network that a description names; one that is not the package's own must be the same as when it was saved."""
    if not isinstance(network, str):
        raise ValueError(reason(unknown("network", brief(network).strip("'"), NETWORKS)))
    if "architecture" not in document and network not in NETWORKS:
        raise ValueError(reason(unknown("network", brief(network).strip("'"), NETWORKS)))
    try:
        row = find_network(network)
        architecture = row.own.architecture if row.own else None
    except InputError as error:
        advice = f"register it, or put its file or package where it was ({reason(error)})"
        raise InputError(f"the network was saved as {network!r}, which is not here: {advice}.") from None
    if architecture != document.get("architecture"):
        raise InputError(f"the network was saved as {network!r}, whose code or layers have changed: restore that one.")
    return row


def _scale(document: dict[str, Any]) -> float:
    scale = document["scale"]
    if not is_number(scale) or not 0 < scale <= LARGEST:
        raise ValueError(f"scale is {brief(scale)}: it must be a finite number above 0")
    return float(scale)


def _no_costs(classes: Names, decides_by: str) -> Tensor | None:
    """Room for the costs that a network decides by, if it does."""
    return torch.zeros(len(classes), len(classes)) if decides_by == DECISIONS[1] else None
