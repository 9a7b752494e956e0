"""What stands in the rows of a store, as values."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.files import Bytes, parse_json
from class_uncertainty.metrics import Scores
from class_uncertainty.text import reason
from class_uncertainty.training import Recipe, Result

if TYPE_CHECKING:
    from class_uncertainty.training.stack import State

WRITTEN = 2**22  # bytes of probabilities that are written at once


@dataclass(frozen=True)
class Known:
    """A data set that results are stored of."""

    fingerprint: str
    name: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]


def npy(p: NDArray[np.float32]) -> Iterator[Bytes]:
    """(T, N, C) as a .npy file, in pieces."""
    header, size = io.BytesIO(), max(1, WRITTEN // (4 * p.shape[2]))
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": p.shape})
    yield header.getvalue()
    for member in p:
        for start in range(0, len(member), size):
            yield np.ascontiguousarray(member[start : start + size], dtype="<f4").data


def arrays(blob: bytes) -> dict[str, NDArray]:
    try:
        with np.load(io.BytesIO(blob)) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a damaged archive raises nearly anything
        raise ValueError(reason(error)) from error


def dataset_of(row: dict[str, Any]) -> Known:
    return Known(row["fingerprint"], row["name"], tuple(parse_json(row["classes"])), tuple(parse_json(row["counts"])))


def result_of(row: dict[str, Any]) -> Result:
    return parse_result(parse_json(row["document"]))


def network_of(row: dict[str, Any]) -> "tuple[Result, State]":
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return parse_result(parse_json(row["result"])), load(row["state"])
    except SafetensorError as error:
        raise ValueError(error) from error


def parse_result(document: dict[str, Any]) -> Result:
    scores, recipe, fold = document["scores"], document["recipe"], document["fold"]
    restored = {
        "scores": Scores(**{**scores, "class_errors": tuple(scores["class_errors"])}) if scores else None,
        "recipe": Recipe(**{**recipe, "drops": tuple(recipe["drops"])}),
        "fold": tuple(fold) if fold else None,
    }
    return Result(**(document | restored))
