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
from class_uncertainty.files import check_regular, near

BATCH = 1024  # examples of a table or an array

FORMS = "a picture, a folder of pictures, or a .csv, .parquet, .npz or .npy file"


@dataclass(frozen=True)
class Unlabelled:
    """Inputs in batches, as a network takes them; the name of each example: its file, line or row; sentences on what is odd about them."""

    names: Sequence[str]
    batches: Iterator[NDArray]
    notes: Sequence[str] = ()


def unlabelled(place: Path, shape: tuple[int, ...], columns: Sequence[Column] | None) -> Unlabelled:
    """What is there, for a network that takes examples of that shape; those of a table are made of `columns`."""
    if not place.exists():
        path = str(place).partition(":")[2]
        if path and Path(path).exists():
            raise InputError(f"{place} is not there: give the path alone, {path!r}.")
        raise InputError(f"{place} is not there{near(place)}: it must be {FORMS}.")
    if not place.is_dir():
        check_regular(place)
    if place.suffix.lower() in (".npz", ".npy"):
        return _arrays(place, shape)
    files = list(folder.files(place)) if place.is_dir() else [place]
    columnar = [file for file in files if file.suffix.lower() == ".parquet"]
    if len(shape) == 3:
        return _parquet_pictures(place, files, shape) if files and columnar == files else _pictures(place, files, shape)
    if columns is None:
        raise InputError(f"the network does not know how columns become its features: give an .npz or .npy file, not {place}.")
    if not columnar and (place.is_dir() or place.suffix.lower() in folder.PICTURES):
        raise InputError(f"the network takes rows of a table, and {place} has none: give a .csv or .parquet file.")
    table = tables.from_arrow(str(columnar[0]), *parquet.table(columnar)) if columnar else tables.read_csv(place)
    inputs, notes = encoding.features(table, columns)
    return Unlabelled(table.called(np.arange(len(inputs))), _cut(inputs), [*notes, *_left_out(files, columnar or files)])


def _pictures(place: Path, files: list[Path], shape: tuple[int, ...]) -> Unlabelled:
    """All of a folder whose names say that they are pictures, or the one file."""
    found = [file for file in files if file == place or file.suffix.lower() in folder.PICTURES]
    if place.suffix.lower() in (".csv", ".gz") or not found:
        raise InputError(f"{place} {'is a table' if found else 'holds no pictures'}, and the network takes pictures.")
    named: list[Named] = [(file.read_bytes, str(file)) for file in found]
    names = [str(file.relative_to(place)) if file != place else place.name for file in found]
    return Unlabelled(names, decode(named, (shape[1], shape[2]), shape[0]), _left_out(files, found))


def _left_out(files: list[Path], found: list[Path]) -> list[str]:
    known = set(found)
    others = [file for file in files if file not in known]
    return [f"Left out, by their names: {len(others):,} of {len(files):,} files, first of them {others[0]}."] if others else []


def _parquet_pictures(place: Path, files: list[Path], shape: tuple[int, ...]) -> Unlabelled:
    column = parquet.image_column(files)
    if column is None:
        raise InputError(f"{files[0]} has no column of pictures, and the network takes pictures.")
    rows = [(file, row) for file in files for row in range(parquet.rows(file))]
    names = [f"{file.relative_to(place)}, row {row}" if place.is_dir() else f"row {row}" for file, row in rows]
    return Unlabelled(names, decode(parquet.pictures(files, column), (shape[1], shape[2]), shape[0]))


def _arrays(place: Path, shape: tuple[int, ...]) -> Unlabelled:
    """The array x, or the only one."""
    arrays = npz.arrays_of(place)
    if "x" not in arrays and len(arrays) != 1:
        raise InputError(f"{place} holds {', '.join(arrays) or 'nothing'}: it must hold x, or one array only.")
    inputs = arrays["x"] if "x" in arrays else next(iter(arrays.values()))
    if len(shape) == 3:
        inputs = npz.channels_first(f"{place}: x", inputs)
    if inputs.shape[1:] != shape or inputs.dtype.kind not in "fiub":
        told = f"x has shape {inputs.shape} and type {inputs.dtype}"
        raise InputError(f"{place}: {told}, and the network takes numbers of shape (N, {', '.join(map(str, shape))}).")
    if not len(inputs):
        raise InputError(f"{place} holds no examples: one at least is needed.")
    if len(shape) == 1:
        with np.errstate(over="ignore"):
            inputs = inputs.astype(np.float32)
        if len(bad := np.argwhere(~np.isfinite(inputs))):
            raise InputError(f"{place}: feature {bad[0][1]} of example {bad[0][0]} is not finite as float32: features must be.")
    return Unlabelled([f"row {i}" for i in range(len(inputs))], _cut(inputs))


def _cut(inputs: NDArray) -> Iterator[NDArray]:
    return (inputs[start : start + BATCH] for start in range(0, len(inputs), BATCH))
