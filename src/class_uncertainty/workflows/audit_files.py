"""Files of predictions to audit: .npz, .csv and .parquet, as any framework can write them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from class_uncertainty.data.readers.folder import IMAGE_SUFFIXES
from class_uncertainty.data.readers.npz import Loaded, read_arrays
from class_uncertainty.errors import InputError, nearest
from class_uncertainty.io import near
from class_uncertainty.posthoc.goal import read_costs
from class_uncertainty.posthoc.prediction_files import read_probabilities
from class_uncertainty.posthoc.written_predictions import COLUMN, LABEL, PredictionTable, read_written
from class_uncertainty.text import amount_of, listed, printable
from class_uncertainty.workflows.audit import Audit, audit
from class_uncertainty.workflows.audit_labels import left_out_note

ARRAYS = ("probabilities", "logits", "labels", "classes", "names", "images", "counts", "prior", "decisions", "costs")
KINDS = (".npz", ".csv", ".parquet")
IMAGE = "image"  # the column of a table that holds paths of pictures


def audit_file(path: Path, **given: Any) -> Audit:
    """The audit of a file; what is given, such as counts, stands in the place of what the file has.

    A .npz file has the arrays probabilities (or logits) and labels, and perhaps classes, names, images, counts,
    prior, decisions and costs. A .csv or .parquet file has a line for each example: columns label and p(CLASS), and
    perhaps example, image and class, the decision. Costs may be a CSV file.
    """
    if path.suffix.lower() not in KINDS:
        raise InputError(
            f"{path} has no known ending: predictions are in a {', '.join(KINDS[:-1])} or {KINDS[-1]} file."
        )
    if not path.exists():
        raise InputError(f"{path} does not exist{near(path)}: give a file of predictions with labels.")
    arguments, notes = (_from_arrays(path), []) if path.suffix.lower() == ".npz" else _from_table(path)
    arguments["by_cost"] = "costs" in arguments and "decisions" in arguments  # of the file: what the model decided by
    arguments |= {name: value for name, value in given.items() if value is not None}
    if isinstance(costs := arguments.get("costs"), Path):
        number = np.shape(arguments["probabilities"])[-1]
        arguments["costs"] = read_costs(costs, arguments.get("classes") or [str(c) for c in range(number)])
    try:
        audited = audit(**arguments)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return replace(audited, notes=(*notes, *audited.notes))


def _from_arrays(path: Path) -> dict[str, Any]:
    arrays = read_arrays(path, lambda loaded: _named(path, loaded))
    if "labels" not in arrays:
        advice = f"save them with np.savez({path.name!r}, probabilities=p, labels=y)"
        raise InputError(f"{path} has no array called labels: {advice}.")
    arguments: dict[str, Any] = {"labels": arrays["labels"], "probabilities": read_probabilities(path, arrays)}
    for name in ("classes", "names"):
        if name in arrays:
            arguments[name] = [str(value) for value in arrays[name].ravel().tolist()]
    others = ("images", "counts", "prior", "decisions", "costs")
    return arguments | {name: arrays[name] for name in others if name in arrays}


def _named(path: Path, loaded: Loaded) -> dict[str, NDArray]:
    if not isinstance(loaded, NpzFile):
        raise InputError(f"{path} holds one array without a name: an audit needs probabilities and labels.")
    return {name: loaded[name] for name in ARRAYS if name in loaded.files}


def _from_table(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The arguments, and what is not judged."""
    table, predictions = read_written(path)
    if predictions.labels is None:
        raise _no_labels(path, table)
    rows = np.flatnonzero(predictions.labels >= 0)
    arguments: dict[str, Any] = {
        "labels": predictions.labels[rows],
        "probabilities": predictions.probabilities[rows],
        "classes": list(table.classes),
        "names": [table.names[i] for i in rows.tolist()],
        "images": _image_paths(path.parent, table, rows),
    }
    notes, other = (
        list(table.notes),
        int((predictions.decisions != predictions.probabilities.argmax(axis=1))[rows].sum()),
    )
    if not np.allclose(predictions.probabilities, table.probabilities, atol=1e-5):
        notes.append("The probabilities of the file are for another prior: they were converted to that of training.")
    if len(rows) < len(predictions.labels):
        notes.append(left_out_note(len(predictions.labels) - len(rows)))
    if other:
        arguments["decisions"] = predictions.decisions[rows]
        few = amount_of(other, "example has a more probable class", "examples have a more probable class")
        decided = f"Errors are of the decisions in the column class: {few}, by the probabilities"
        under = "" if predictions.counts is None else ", which are for classes as frequent as in training"
        calibration = f"Uncertainty and NLL are of the probabilities{under}, ECE of those of the decided classes"
        notes.insert(0, f"{decided}. {calibration}.")
    known = {"counts": predictions.counts, "costs": predictions.costs}
    return arguments | {name: values for name, values in known.items() if values is not None}, notes


def _no_labels(path: Path, table: PredictionTable) -> InputError:
    """What the file has in place of the column label."""
    if LABEL in table.columns:
        return InputError(f"{path} has an empty column label: an audit needs the class of each example.")
    close = nearest(LABEL, [name for name in table.columns if not COLUMN.fullmatch(name)])
    hint = f" Rename {printable(close)!r} if it is that." if close else ""
    return InputError(f"{path} has no column label, and an audit needs it: it has {listed(table.columns, 8)}.{hint}")


def _image_paths(folder: Path, table: PredictionTable, rows: NDArray[np.int64]) -> list[Path] | None:
    """The column image, or names that are all image files: from this folder, or from the file's."""
    column = table.kept.get(IMAGE, table.names)
    named = [Path(column[i]) for i in rows.tolist()]
    if IMAGE not in table.kept and not all(name.suffix.lower() in IMAGE_SUFFIXES for name in named):
        return None
    for base in (Path(), folder):
        if all((base / name).is_file() for name in named):
            return [base / name for name in named]
    return [folder / name for name in named] if IMAGE in table.kept else None
