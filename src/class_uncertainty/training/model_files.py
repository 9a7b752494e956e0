"""A trained network on disk: weights as safetensors, and a JSON file beside them that rebuilds it."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.checks import check
from class_uncertainty.data import Data
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.io import blank_mark, check_replaceable, finite, parse_json, read_regular, signed, write_together
from class_uncertainty.text import reason
from class_uncertainty.training.networks.backbones import (
    Backbone,
    Embedder,
    architecture,
    check_named,
    check_same,
    same_backbone,
)  # fmt: skip
from class_uncertainty.training.networks.classifier import DECISIONS, Classifier, Deployed, Ensemble
from class_uncertainty.training.networks.network_name import code_of
from class_uncertainty.training.networks.network_table import NETWORKS, Network, find_network
from class_uncertainty.training.networks.pretrained import config_of
from class_uncertainty.training.networks.tree_heads import FREE, TreeHead
from class_uncertainty.training.networks.user_code import (
    UntrustedCode,
    code_hash,
    is_named,
    shown,
    trust,
    trust_code,
    trusted_code,
)
from class_uncertainty.training.saved_model import (
    FORMAT,
    SavedModel,
    files_of,
    model_checksum,
    names_in,
    read_files,
    reading,
)

ROOM = 8  # layers, weights and statistics for each tensor of a file, and numbers for each number
SPARE = 2**20  # numbers that need none in the file
FOREIGN = (".bin", ".ckpt", ".h5", ".joblib", ".keras", ".onnx", ".pickle", ".pkl", ".pt", ".pt2", ".pth")  # of models


def check_savable(path: str | Path, made_from: str, force: bool = False, read: Iterable[object] = ()) -> None:
    """Refuse before hours of training, not after, a path where nothing can be written, or another model is."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder: give the name of a network in it, as in {Path(path) / 'model'}.")
    if (ending := Path(path).suffix).lower() in FOREIGN:
        files = "a model is a .safetensors and a .json file"
        raise InputError(f"{path} ends in {ending}, but {files}: name it {Path(path).with_suffix('')}.")
    for file in files_of(path):
        check_replaceable(file, made_from, force, read=read)


def check_embeds(features: Data | Deployed, embed_weights: bool) -> None:
    """Refuse to embed the weights of a backbone that there is not, or that a file cannot name."""
    check(bool, embed_weights=embed_weights)
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
    document |= {"embedding": embedding, "backbone": None, "purpose": purpose, "about": finite(about)}
    code = [code_of(name) for name in names_in(document) if is_named(name)]
    document["code"] = {str(place[0]): code_hash(trusted_code(*place)) for place in code if place}
    if isinstance(module.backbone, Embedder):
        document["backbone"] = config_of(module.backbone.body)
    tensors = {name: value.clone(memory_format=torch.contiguous_format) for name, value in module.state_dict().items()}
    made_from = about.get("made_from", "")
    mark = {"mark": blank_mark(made_from)}
    content = signed(to_bytes(tensors, mark), made_from)  # copies of tensors: some may be shared
    document["checksum"] = model_checksum(parse_json(json.dumps(document)), content)  # of what a reader will parse
    described = json.dumps(document | mark, indent=2).encode()
    write_together({description: [signed(described, made_from)], weights: [content]})
    return weights, description


def restore(path: str | Path, trust_code: bool = False) -> Deployed:
    """Load a network that `cu train --save PATH` or `cu fix --save PATH` wrote.

    Parameters
    ----------
    path : str or Path
        PATH, with or without .safetensors or .json.
    trust_code : bool
        Whether to run code that the model names as PATH.py:FACTORY, if it is unchanged since the model was saved.

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
    check(Path, path=path)
    check(bool, trust_code=trust_code)
    with reading(path) as (weights, description):
        saved = read_files(weights, description)
        if trust_code:
            _trust_code(saved.document, description)
        with torch.device("meta"), _at_most(ROOM * len(saved.weights)):
            empty = _built(saved)
        _check_weights(empty.state_dict(), saved.weights)
        if sum(buffer.numel() for buffer in empty.buffers()) > SPARE + ROOM * saved.parameters:
            raise ValueError("it holds too many numbers beside the weights")
        module = _built(saved)
        module.load_state_dict(saved.weights)
        for part in module.modules():
            if isinstance(part, TreeHead):
                part.check()
        if isinstance(module.backbone, Embedder):
            check_same(module.backbone)
    return module.eval()


def _trust_code(document: Mapping[str, Any], description: Path) -> None:
    """Let the code run that a description names, if it is the code that the model was saved with."""
    hashes = document["code"]
    for name in names_in(document):
        place = code_of(name)
        if not place:
            trust(name)  # which may be downloaded
            continue
        file = place[0]
        if not os.path.isfile(file):
            continue  # refused where it is needed
        code = read_regular(file)
        saved, present = hashes.get(str(file)), code_hash(code)
        if saved != present:
            both = f"SHA-256 {shown(saved)} when it was saved, and {shown(present)} now"
            raise InputError(f"{file} is not the code that {description} was saved with: {both}.")
        trust_code(name, code)


@contextmanager
def _at_most(layers: int) -> Iterator[None]:
    """Refuse to build a network with more layers and weights than a file can be of."""
    built = 0

    def count(*_: Any) -> None:
        nonlocal built
        built += 1
        if built > layers:
            raise ValueError("it describes more layers than the file has weights for")

    modules = nn.modules.module
    hooks = [modules.register_module_module_registration_hook(count)]
    hooks.append(modules.register_module_parameter_registration_hook(count))
    hooks.append(modules.register_module_buffer_registration_hook(count))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


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


def _built(saved: SavedModel) -> Deployed:
    """A network without its weights, for what it is for, with room for the weights of a backbone that is in the file.

    A description that was edited is refused here, not when the network predicts.
    """
    document = saved.document
    networks = [_built_classifier(member, saved) for member in saved.members]
    module: Deployed = networks[0]
    if "members" in document:
        module = Ensemble(networks, document["scale"], costs=_no_costs(document))
    module.purpose, module.about = saved.purpose, saved.about
    if (config := document["backbone"]) is not None:
        if saved.embedding is None:
            raise ValueError("there is a backbone, and no embedding")
        module.backbone = Embedder(Backbone(architecture(saved.embedding.backbone, config), saved.embedding))
    return module


def _built_classifier(member: dict[str, Any], saved: SavedModel) -> Classifier:
    network, shape = member["network"], tuple(member["shape"])
    row = _row(network, member)
    sides = {None: (1, 3), True: (3,), False: (1,)}[row.images]
    if len(shape) not in sides:
        raise ValueError(f"shape is {brief(shape)}: of the network {network!r} it must have {sides[-1]} numbers")
    # of an ensemble, the costs are not those of its members
    costs = None if "members" in saved.document else _no_costs(member)
    head, scale = member["head"], member["scale"]
    about = (network, shape, saved.classes, head, scale, saved.encoding)
    return Classifier(*about, costs=costs, embedding=saved.embedding)


def _row(network: str, document: dict[str, Any]) -> Network:
    """The network that a description names; one that is not the package's own must be the same as when it was saved."""
    if "architecture" not in document and network not in NETWORKS:
        raise ValueError(reason(unknown("network", brief(network).strip("'"), NETWORKS)))
    try:
        row = find_network(network)
        architecture = row.own.architecture if row.own else None
    except UntrustedCode:
        raise
    except InputError as error:
        advice = f"register it, or put its file or package where it was ({reason(error)})"
        raise InputError(f"the network was saved as {network!r}, which is not here: {advice}.") from None
    if architecture != document.get("architecture"):
        raise InputError(f"the network was saved as {network!r}, whose code or layers have changed: restore that one.")
    return row


def _no_costs(document: dict[str, Any]) -> Tensor | None:
    """Room for the costs that a network decides by, if it does."""
    number = len(document["classes"])
    return torch.zeros(number, number) if document["decides_by"] == DECISIONS[1] else None
