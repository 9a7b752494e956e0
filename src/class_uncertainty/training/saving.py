"""A trained network on disk: weights as safetensors, and a JSON file beside them that rebuilds it."""

import json
import math
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from class_uncertainty.boundary import checked
from class_uncertainty.data.columns import Column
from class_uncertainty.data.images import PIXELS
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.files import check_writable, near, write_whole
from class_uncertainty.training.networks import Classifier

FORMAT = 1
OURS = re.compile(rb'\{\s*"format": \d+,\s*"network": ')  # how a description begins


def files_of(path: str | Path) -> tuple[Path, Path]:
    """(weights, description) for 'model', 'model.safetensors' or 'model.json'."""
    path = Path(path)
    if not path.name:
        raise InputError(f"{str(path)!r} names no file: give a name, as in 'model'.")
    stem = path.with_suffix("") if path.suffix in (".safetensors", ".json") else path
    return stem.with_name(stem.name + ".safetensors"), stem.with_name(stem.name + ".json")


def check_savable(path: str | Path) -> None:
    """Say before hours of training, not after, that nothing can be written there."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder: give the name of a network in it, as in {Path(path) / 'model'}.")
    weights, description = files_of(path)
    check_writable(description, OURS, "description of a network")
    check_writable(weights)
    if weights.exists() and not description.exists():
        raise InputError(f"{weights} is there without {description.name}, so it was not written here: give another name, or take it away.")


def save(module: Classifier, path: str | Path, about: dict[str, Any]) -> tuple[Path, Path]:
    """Write both files, whole or not at all. `about` is kept for the reader."""
    from safetensors.torch import save as to_bytes

    weights, description = files_of(path)
    statistics = {name: value.flatten().tolist() for name, value in module.preprocess.named_buffers()}
    encoding = module.encoding and [asdict(column) for column in module.encoding]
    document = {"format": FORMAT, **module.rebuild, "preprocessing": statistics, "encoding": encoding, "about": about}
    write_whole(description, json.dumps(document, indent=2).encode())  # first: weights without it are nobody's
    write_whole(weights, to_bytes(module.state_dict()))
    return weights, description


@checked
def restore(path: str | Path) -> Classifier:
    """What `cu train --save PATH` or `cu fix --save PATH` wrote, as a plain nn.Module in evaluation mode: raw inputs in, logits out."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights, description = files_of(path)
    for file in (weights, description):
        if not os.path.isfile(file):  # a name may be too long for file.is_file()
            raise InputError(f"{file} does not exist{near(file)}: a saved network is a .safetensors and a .json file of one name.")
    try:
        document = json.loads(description.read_text())
        if document["format"] > FORMAT:
            raise InputError(f"{description} was written by a newer version (format {document['format']}; this one reads {FORMAT}).")
        module = _built(document)
        module.load_state_dict(load_file(weights))
    except OSError as error:
        raise MachineFault(f"{error.filename} could not be read: {error.strerror}.") from error
    except InputError:
        raise
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(":.")
        raise InputError(f"{weights} and {description.name} are not a network that --save wrote ({why}).") from error
    return module.eval()


def _built(document: dict[str, Any]) -> Classifier:
    """A network without its weights; a description that somebody has changed is refused here, not where the network is asked."""
    shape, classes, scale = tuple(document["shape"]), tuple(document["classes"]), document["scale"]
    encoding = tuple(Column(**column) for column in document.get("encoding") or ()) or None
    if len(set(classes)) < len(classes) or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"classes are {classes}: they must be different names")
    if not isinstance(scale, int | float) or not 0 < scale < math.inf:
        raise ValueError(f"scale is {scale!r}: it must be a finite number above 0")
    if not all(isinstance(side, int) and side > 0 for side in shape) or math.prod(shape[1:]) > PIXELS:
        raise ValueError(f"shape is {shape}: it must be whole numbers above 0, and no more than {PIXELS:,} pixels")
    if encoding and shape != (made := sum(len(column.features) for column in encoding),):
        raise ValueError(f"the encoding makes {made} features, and shape is {shape}")
    return Classifier(document["network"], shape, classes, document["head"], float(scale), encoding)
