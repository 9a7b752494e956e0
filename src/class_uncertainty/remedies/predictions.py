"""Predictions, counts and priors that another program has saved."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.estimation.saved import load
from class_uncertainty.files import check_regular, parse_json
from class_uncertainty.measures.scores import check_labels, check_probabilities
from class_uncertainty.measures.stats import Vector
from class_uncertainty.remedies.ensemble import combined

NAMES = ("probabilities", "logits", "labels", "counts")


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says of some examples, and what is known of them."""

    probabilities: NDArray  # (N, C) float32 or float64
    labels: NDArray[np.int64] | None = None  # (N,)
    counts: NDArray | None = None  # (C,) of the training examples


def read_predictions(path: Path) -> Predictions:
    """From a .npy file of probabilities, or a .npz file with probabilities or logits and perhaps labels and counts.

    Of members (T, N, C) it is the geometric mean: what is chosen on single networks suits it.
    """
    found = load(path, lambda loaded: _arrays(path, loaded))
    name = next((name for name in NAMES[:2] if name in found), None)
    if name is None:
        raise InputError(f"{path} has no array called probabilities or logits: save it with np.savez({path.name!r}, probabilities=p).")
    given = found[name]
    if given.ndim not in (2, 3):
        raise InputError(f"{path} has {name} of the shape {given.shape}: they need (examples, classes) or (members, examples, classes).")
    try:
        p = given if name == "probabilities" else _softmax(given)
        p = combined(p) if p.ndim == 3 else check_probabilities(p[None])[0]
        labels = check_labels(found["labels"], *p.shape) if "labels" in found else None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Predictions(p.astype(np.result_type(given.dtype, np.float32)), labels, found.get("counts"))


def _arrays(path: Path, loaded: Any) -> dict[str, NDArray]:
    """Those of a .npz file that have one of our names, or its only one, or that of a .npy file: of no name, they are probabilities."""
    if isinstance(loaded, np.ndarray):
        return {NAMES[0]: loaded}
    alone = len(loaded.files) == 1 and loaded.files[0] not in NAMES
    found = {NAMES[0]: loaded[loaded.files[0]]} if alone else {name: loaded[name] for name in NAMES if name in loaded.files}
    if not all(isinstance(array, np.ndarray) for array in found.values()):
        raise InputError(f"{path} is no .npy or .npz file of numbers.")
    return found


def _softmax(logits: NDArray) -> NDArray[np.float64]:
    from scipy.special import softmax

    if logits.dtype.kind != "f" or not logits.size or not np.isfinite(logits).all():
        raise InputError("logits must be finite floating point numbers, one at least.")
    return softmax(logits.astype(np.float64), axis=-1)


def read_numbers(given: str, option: str, words: str = "") -> Vector:
    """'500,60,7' or a file of numbers, one a class: .npy, .json with a list, or text with a number on each line or commas between them.

    `words` are what else the option takes.
    """
    try:
        return _parse(given) if _is_numbers(given) else _read(given)
    except FileNotFoundError:
        raise InputError(
            f"{option} is {given!r}: it must be {words}numbers with commas between them, or a file of numbers that exists."
        ) from None
    except OSError as error:
        raise MachineFault(f"{given} could not be read: {error.strerror or error}.") from error
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):  # of text, of JSON, and of bytes that are neither
        raise InputError(f"{given} is no file of numbers: give one number a class.") from None


def _is_numbers(given: str) -> bool:
    try:
        return len(_parse(given)) > 0 and not os.path.isfile(given)
    except ValueError:
        return False


def _parse(text: str) -> Vector:
    return np.array([float(part) for part in text.replace(",", " ").split()])


def _read(path: str) -> Vector:
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: give a file of numbers, one a class.")
    if path.endswith(".npy"):
        return np.asarray(load(path, lambda loaded: loaded), dtype=np.float64)
    if not path:
        raise FileNotFoundError  # which Path would take for this folder
    check_regular(Path(path))
    text = Path(path).read_text(encoding="utf-8-sig")
    return np.array(parse_json(text), dtype=np.float64) if path.endswith(".json") else _parse(text)
