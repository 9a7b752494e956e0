"""Examples without labels, for a network to say what they are: pictures, rows of a table, or arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import encoding, folder, npz, parquet, tables
from class_uncertainty.data.columns import Column
from class_uncertainty.data.images import Named, decode
from class_uncertainty.errors import InputError

BATCH = 1024  # examples of a table or an array

FORMS = "a picture, a folder of pictures, or a .csv, .parquet, .npz or .npy file"


@dataclass(frozen=True)
class Unlabelled:
    """Inputs in batches, as a network takes them, and the name of each example: its file, line or row."""

    names: Sequence[str]
    batches: Iterator[NDArray]


def unlabelled(place: Path, shape: tuple[int, ...], columns: Sequence[Column] | None) -> Unlabelled:
    """What is there, for a network that takes examples of that shape; those of a table are made of `columns`."""
    if not place.exists():
        path = str(place).partition(":")[2]
        hint = f"give the path alone, {path!r}" if path and Path(path).exists() else f"it must be {FORMS}"
        raise InputError(f"{place} is not there: {hint}.")
    if place.suffix.lower() in (".npz", ".npy"):
        return _arrays(place, shape)
    files = _parquet_files(place)
    if len(shape) == 3:
        return _pictures(place, files, (shape[1], shape[2]), shape[0])
    if columns is None:
        raise InputError(f"{place} names its columns, and the network was trained on arrays, without names: give an .npz or .npy file.")
    table = tables.from_arrow(str(files[0]), *parquet.table(files)) if files else tables.read_csv(place)
    inputs = encoding.features(table, columns)
    return Unlabelled(table.called(np.arange(len(inputs))), _cut(inputs))


def _parquet_files(place: Path) -> list[Path]:
    if place.is_dir():
        return sorted(place.rglob("*.parquet"))
    return [place] if place.suffix.lower() == ".parquet" else []


def _pictures(place: Path, files: list[Path], size: tuple[int, int], channels: int) -> Unlabelled:
    if files:
        column = parquet.image_column(files)
        if column is None:
            raise InputError(f"{files[0]} has no column of pictures, and the network takes pictures.")
        rows = [(file.name, row) for file in files for row in range(parquet.rows(file))]
        names = [f"{file}, row {row}" if len(files) > 1 else f"row {row}" for file, row in rows]
        return Unlabelled(names, decode(parquet.pictures(files, column), size, channels))
    found = list(folder.files(place)) if place.is_dir() else [place]
    if not found:
        raise InputError(f"{place} holds no pictures.")
    named: list[Named] = [(file.read_bytes, str(file)) for file in found]
    return Unlabelled([str(file.relative_to(place)) if file != place else place.name for file in found], decode(named, size, channels))


def _arrays(place: Path, shape: tuple[int, ...]) -> Unlabelled:
    """The array x, or the only one."""
    arrays = npz.arrays_of(place)
    if "x" not in arrays and len(arrays) != 1:
        raise InputError(f"{place} holds {', '.join(arrays) or 'nothing'}: it must hold x, or one array only.")
    name, inputs = next((name, array) for name, array in arrays.items() if name == "x" or len(arrays) == 1)
    try:
        inputs = npz.channels_first(name, inputs)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    if inputs.shape[1:] != shape or not len(inputs) or inputs.dtype.kind not in "fiub":
        told = f"{name} has shape {inputs.shape} and type {inputs.dtype}"
        raise InputError(f"{place}: {told}, and the network takes (N, {', '.join(map(str, shape))}): one example at least.")
    if len(shape) == 1:
        with np.errstate(over="ignore"):
            inputs = inputs.astype(np.float32)
        if len(bad := np.argwhere(~np.isfinite(inputs))):
            raise InputError(f"{place}: feature {bad[0][1]} of example {bad[0][0]} is not finite as float32: features must be.")
    return Unlabelled([f"row {i}" for i in range(len(inputs))], _cut(inputs))


def _cut(inputs: NDArray) -> Iterator[NDArray]:
    return (inputs[start : start + BATCH] for start in range(0, len(inputs), BATCH))
