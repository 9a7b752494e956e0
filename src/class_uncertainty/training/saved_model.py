"""SavedModel: what the files of a saved network hold. Reading them builds nothing and runs no code."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from torch import Tensor

from class_uncertainty.data.examples import VIEWS, Embedding
from class_uncertainty.data.images import PIXELS
from class_uncertainty.data.table import LARGEST, Column, is_number
from class_uncertainty.errors import InputError, MachineFault, blame_machine, unknown
from class_uncertainty.io import checksum, near, parse_json, read_regular
from class_uncertainty.text import LONGEST, reason
from class_uncertainty.training.networks.classifier import DECISIONS, HEADS, OWN, Names
from class_uncertainty.training.networks.network_table import NETWORKS
from class_uncertainty.training.networks.preprocessing import checked_preprocessing
from class_uncertainty.training.purpose import Purpose

FORMAT = 4  # of the description, raised when it changes
LARGEST_SIDE = 2**13  # pixels of an image that a backbone takes


def files_of(path: str | Path) -> tuple[Path, Path]:
    """(weights, description) for 'model', 'model.safetensors' or 'model.json'."""
    path = Path(path)
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a name, as in 'model'.")
    stem = path.with_suffix("") if path.suffix in (".safetensors", ".json") else path
    return stem.with_name(stem.name + ".safetensors"), stem.with_name(stem.name + ".json")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What the files of a model hold. Nothing of it has been built, and no code has run."""

    document: dict[str, Any]
    weights: dict[str, Tensor]
    purpose: Purpose | None
    encoding: tuple[Column, ...] | None
    embedding: Embedding | None

    @property
    def classes(self) -> Names:
        return tuple(self.document["classes"])

    @property
    def members(self) -> list[dict[str, Any]]:
        """The description of each network, of which there may be one."""
        members = self.document.get("members", [{}])
        return [self.document | {name: value for name, value in member.items() if name in OWN} for member in members]

    @property
    def about(self) -> dict[str, Any]:
        return dict(self.document["about"])

    @property
    def parameters(self) -> int:
        """How many numbers its weights hold, statistics included."""
        return sum(tensor.numel() for tensor in self.weights.values())


def read_model(path: str | Path) -> SavedModel:
    """Read the files of a model, check that they go together, and refuse a description that was edited."""
    with reading(path) as (weights, description):
        return read_files(weights, description)


@contextmanager
def reading(path: str | Path) -> Iterator[tuple[Path, Path]]:
    """The files of a model; what fails while they are read is told in one sentence."""
    from safetensors import SafetensorError

    weights, description = files_of(path)
    for file in (weights, description):
        if not os.path.exists(file):  # a name may be too long for file.exists()
            absent = f"there is no model at {path}, since {file} does not exist{near(file, weights, description)}"
            raise InputError(f"{absent}: a model is a .safetensors and a .json file.")
    try:
        yield weights, description
    except (InputError, MachineFault):
        raise
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError) as error:
        blame_machine(weights, error)
        why = f"there is no {error}" if isinstance(error, KeyError) else reason(error)
        raise InputError(f"{weights} and {description.name} are not a network that --save wrote ({why}).") from error


def read_files(weights: Path, description: Path) -> SavedModel:
    from safetensors.torch import load

    document = parse_json(read_regular(description))
    content = read_regular(weights)
    version = document["format"]
    if type(version) is not int or version != FORMAT:
        formats = f"format {brief(version)}, and this version of class-uncertainty reads {FORMAT}"
        raise InputError(f"{description} has {formats}: train and save the model again.")
    if document["checksum"] != model_checksum(document, content):
        why = "has changed since it was saved, or is damaged"
        raise InputError(f"{weights} or {description.name} {why}: train and save it again.")
    tensors = load(content)
    _check_description(document, tensors)
    purpose = document["purpose"]
    return SavedModel(
        document,
        tensors,
        purpose and Purpose.restored(purpose, len(document["classes"])),
        _encoding(document),
        _embedding(document),
    )


def names_in(document: Mapping[str, Any]) -> list[str]:
    """The names of the networks in a description, and of the backbone."""
    names = [member.get("network", document["network"]) for member in document.get("members", [document])]
    if document["embedding"]:
        names.append(document["embedding"]["backbone"])
    return list(dict.fromkeys(names))


def _check_description(document: dict[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Refuse what no network of these weights can have: a description may have been edited."""
    classes, shape, decides_by = document["classes"], document["shape"], document["decides_by"]
    are_names = isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    if not are_names or not 2 <= len(set(classes)) == len(classes):
        raise ValueError(f"classes are {brief(classes)}: they must be different names, two at least")
    are_sides = isinstance(shape, list) and shape and all(type(side) is int and side > 0 for side in shape)
    if not are_sides or math.prod(shape[1:]) > PIXELS:
        raise ValueError(f"shape is {brief(shape)}: it must be whole numbers above 0, {PIXELS:,} pixels at most")
    if decides_by not in DECISIONS:
        raise ValueError(f"decides_by is {brief(decides_by)}: it must be {' or '.join(DECISIONS)}")
    if "members" in document:
        members, number = document["members"], document["networks"]
        if not isinstance(members, list) or not members or number != len(members):
            raise ValueError(f"networks is {brief(number)}, and members are {brief(members)}: they must be as many")
        _check_scale(document["scale"])
    _check_shifts(len(classes), len(document.get("members", [])), weights)
    for member in document.get("members", [{}]):
        described = document | member
        network, head = described["network"], described["head"]
        if not isinstance(network, str) or len(network) > LONGEST:
            raise ValueError(reason(unknown("network", brief(network).strip("'"), NETWORKS)))
        if not isinstance(head, str) or head not in HEADS:
            raise ValueError(reason(unknown("head", brief(head).strip("'"), HEADS)))
        _check_scale(described["scale"])


def _check_shifts(classes: int, members: int, weights: Mapping[str, Tensor]) -> None:
    """Refuse other numbers of networks and classes than the weights are of: each network has a shift for each class."""
    for name in ("shift", *(f"networks.{i}.shift" for i in range(members))):
        shape = tuple(weights[name].shape) if name in weights else "missing"
        if shape != (classes,):
            raise ValueError(f"{members or 1:,} networks of {classes:,} classes need {name!r}, which is {shape}")


def _encoding(document: dict[str, Any]) -> tuple[Column, ...] | None:
    columns = tuple(Column(**column) for column in document["encoding"] or ())
    shape, made = tuple(document["shape"]), sum(column.width for column in columns)
    if columns and shape != (made,):
        raise ValueError(f"the encoding makes {made} features, and shape is {brief(shape)}")
    return columns or None


def _check_scale(scale: Any) -> None:
    if not is_number(scale) or not 0 < scale <= LARGEST:
        raise ValueError(f"scale is {brief(scale)}: it must be a finite number above 0")


def _embedding(document: dict[str, Any]) -> Embedding | None:
    if (fields := document["embedding"]) is None:
        return None
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    embedding = Embedding(**values)
    checked_preprocessing("the backbone", {name: values[name] for name in ("size", "mean", "std")})
    texts = (embedding.backbone, embedding.weights, embedding.transform)
    if not all(isinstance(text, str) and len(text) <= LONGEST for text in texts):
        raise ValueError(f"the backbone, its weights and its transform must be text, {LONGEST:,} characters at most")
    fewest, most = VIEWS
    if type(embedding.views) is not int or not fewest <= embedding.views <= most:
        raise ValueError(f"the embedding has {brief(embedding.views)} views")
    sides = (embedding.size, *embedding.images)
    if not all(type(side) is int and 0 < side <= LARGEST_SIDE for side in sides) or len(embedding.images) != 2:
        raise ValueError(f"the embedding has sides {brief(sides)}: they must be whole numbers up to {LARGEST_SIDE}")
    return embedding


def model_checksum(document: dict[str, Any], content: bytes) -> str:
    """Of both files together: one that was changed, or written before a crash, does not match the other."""
    rest = {name: value for name, value in document.items() if name not in ("checksum", "mark")}
    return checksum(json.dumps(rest, sort_keys=True), content)
