"""The rows of a store as values."""

import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.boundary import checked
from class_uncertainty.data import Dataset
from class_uncertainty.documents import from_document
from class_uncertainty.files import Bytes, checksum, parse_json
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.runs.measurement import Measurement
from class_uncertainty.runs.store_layout import SEALED
from class_uncertainty.training import Result
from class_uncertainty.training.keys import ENGINE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from class_uncertainty.training.networks.stack import State

COST_NOTE = "Errors are of the classes of least expected cost; what was wrong is said of the most probable ones."
WRITTEN = 2**22  # bytes of probabilities that are written at once


@checked
@dataclass(frozen=True)
class StoredDataset:
    """A data set with stored results."""

    fingerprint: str
    name: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> "StoredDataset":
        return cls(dataset.fingerprint, dataset.name, dataset.classes, tuple(dataset.train.counts.tolist()))


def dataset_row(stored: StoredDataset) -> dict[str, Any]:
    return {name: json.dumps(value) if isinstance(value, tuple) else value for name, value in asdict(stored).items()}


def document_row(key: str, data: str, value: "DataclassInstance") -> dict[str, Any]:
    """A row whose document holds a value; `data` is the fingerprint of its data set."""
    return {"key": key, "engine": ENGINE, "data": data, "document": json.dumps(asdict(value))}


def result_row(key: str, data: str, result: Result) -> dict[str, Any]:
    columns = {"method": result.method, "lr": result.lr, "seed": result.seed, "error": result.error}
    return document_row(key, data, result) | columns


def npy(p: NDArray[np.float32]) -> Iterator[Bytes]:
    """(T, N, C) as a .npy file, in pieces."""
    header, size = io.BytesIO(), max(1, WRITTEN // (4 * p.shape[2]))
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": p.shape})
    yield header.getvalue()
    for member in p:
        for start in range(0, len(member), size):
            yield np.ascontiguousarray(member[start : start + size], dtype="<f4").data


def parse_dataset(row: dict[str, Any]) -> StoredDataset:
    lists = {name: parse_json(row[name]) for name in ("classes", "counts")}
    return from_document(StoredDataset, {"fingerprint": row["fingerprint"], "name": row["name"], **lists})


def parse_network(row: dict[str, Any]) -> "tuple[Result, State]":
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return from_document(Result, _renamed(parse_json(row["result"]))), load(row["state"])
    except SafetensorError as error:
        raise ValueError(error) from error


def parse_fix_report(document: dict[str, Any]) -> FixReport | None:
    """None for a report of an older version, which had no ladder: it cannot be shown.

    Later ones call candidates dropped that are averaged in the end, and say in their note what `basis` says now.
    """
    if "teachers" in document:
        return None
    report = from_document(FixReport, document)
    averaged = names if len(names := report.candidate.split(" + ")) > 1 else []
    note = report.note.replace(f"{COST_NOTE} ", "") if report.basis else report.note
    return replace(report, rungs=tuple(rung.keeping(averaged) for rung in report.rungs), note=note)


def parse_measurement(document: dict[str, Any]) -> Measurement:
    vectors = {score: tuple(values) for score, values in document["raw"].items()}
    return from_document(Measurement, document | {"raw": vectors})


def parse_result(document: dict[str, Any]) -> Result:
    return from_document(Result, _renamed(document))


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Older documents call the class-mean error `class_mean_error`, and the top-1 error `error`."""
    scores = document["scores"]
    if scores and "class_mean_error" in scores:
        scores["top1_error"], scores["error"] = scores["error"], scores.pop("class_mean_error")
    return document


def seal(table: str, row: dict[str, Any]) -> str:
    """The checksum of a row."""
    values = (row[name] for name in SEALED[table])
    return checksum(table, *(value if isinstance(value, bytes) else str(value) for value in values))
