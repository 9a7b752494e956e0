"""Examples without labels, for a network to classify: images, rows of a table, or arrays."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from os.path import isfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import Frame, is_frame
from class_uncertainty.data import tabular
from class_uncertainty.data.frames import FRAME, table_of
from class_uncertainty.data.images import ImageSource, decode
from class_uncertainty.data.readers import folder, parquet
from class_uncertainty.data.readers.csv_file import header_of, read_csv
from class_uncertainty.data.readers.npz import by_lower_case, channels_first, read_arrays
from class_uncertainty.data.table import Column, Table
from class_uncertainty.errors import InputError
from class_uncertainty.io import check_regular, near

BATCH = 1024  # examples of a table or an array
FOLDERS, Y = "the folders", "the array y"  # that name the classes of examples
FORMS = "an image, a folder of images, or a .csv, .parquet, .npz or .npy file"


@dataclass(frozen=True)
class Unlabelled:
    """Inputs in batches, the name of each example (its file, line or row), and sentences on what is unusual.

    Examples that cannot be read are left out of the batches, and `skipped` says why, by their places among the names.
    """

    names: Sequence[str]
    batches: Iterator[NDArray]
    notes: Sequence[str] = ()
    skipped: dict[int, str] = field(default_factory=dict)  # complete when the batches have been read
    table: Callable[[], Table] | None = None  # all columns of the examples, where they are rows of a table
    labels: tuple[str, Sequence[str]] | None = None  # FOLDERS or Y, and the class of each; "" where they name none

    @property
    def read_places(self) -> list[int]:
        """The examples that have been read."""
        return [place for place in range(len(self.names)) if place not in self.skipped]

    @property
    def read_names(self) -> list[str]:
        return [self.names[place] for place in self.read_places]


def read_unlabelled(place: Path | Frame, shape: tuple[int, ...], columns: Sequence[Column] | None) -> Unlabelled:
    """The examples at a path or of a frame, for a network that takes that shape; `columns` encode rows of a table."""
    if is_frame(place):
        return _frame(place, columns)
    if not place.exists():
        path = str(place).partition(":")[2]
        if path and Path(path).exists():
            raise InputError(f"{place} does not exist: give the path alone, {path!r}.")
        raise InputError(f"{place} does not exist{near(place)}: give {FORMS}.")
    if not place.is_dir():
        check_regular(place)
    if place.suffix.lower() in (".npz", ".npy"):
        return _arrays(place, shape)
    files = list(folder.entries_once(place)) if place.is_dir() else [place]
    parquet_files = [file for file in files if file.suffix.lower() == ".parquet" and isfile(file)]
    if len(shape) == 3 and parquet_files == files != []:
        return _parquet_images(place, files, shape)
    if len(shape) == 3:
        return _images(place, files, shape)
    if columns is None:
        raise InputError(f"the network takes features and names no columns: give an .npz or .npy file, not {place}.")
    if not parquet_files and (place.is_dir() or place.suffix.lower() in folder.IMAGE_SUFFIXES):
        raise InputError(f"the network takes rows of a table, and {place} has none: give a .csv or .parquet file.")
    table = parquet.table(parquet_files) if parquet_files else _csv(place, columns)
    return _rows(table, columns, _left_out(files, parquet_files or files))


def _frame(frame: Frame, columns: Sequence[Column] | None) -> Unlabelled:
    if columns is None:
        raise InputError(f"the network names no columns, and cannot take {FRAME}: give {FORMS}.")
    return _rows(table_of(frame), columns)


def _rows(table: Table, columns: Sequence[Column], left_out: Sequence[str] = ()) -> Unlabelled:
    inputs, notes, faults = tabular.features(table, columns)
    names = table.row_names(np.arange(len(inputs) + len(faults)))
    return Unlabelled(names, _batches(inputs), [*notes, *left_out], faults, lambda: table)


def _csv(place: Path, columns: Sequence[Column]) -> Table:
    """With a header, unless the network was trained without one: then its columns are called '1', '2', ..."""
    numbered = all(column.name.isdigit() for column in columns)
    return read_csv(place, header=not numbered or {column.name for column in columns} <= {*header_of(place)})


def _images(place: Path, files: list[Path], shape: tuple[int, ...]) -> Unlabelled:
    """All files of a folder whose names end like those of images, or the one file; what is no file is skipped."""
    image_files = [
        file for file in files if file == place or file.suffix.lower() in folder.IMAGE_SUFFIXES or not isfile(file)
    ]
    if place.suffix.lower() in (".csv", ".gz") or not image_files:
        raise InputError(f"{place} {'is a table' if image_files else 'holds no images'}, and the network takes images.")
    sources: list[ImageSource] = [(partial(folder.read_entry, file), str(file)) for file in image_files]
    names = [str(file.relative_to(place)) if file != place else place.name for file in image_files]
    skipped: dict[int, str] | None = {} if place.is_dir() else None  # the one file that was given is refused
    batches = decode(sources, (shape[1], shape[2]), shape[0], skipped)
    folders = [Path(name).parts[0] if len(Path(name).parts) > 1 else "" for name in names]
    labels = (FOLDERS, folders) if any(folders) else None
    return Unlabelled(names, batches, _left_out(files, image_files), {} if skipped is None else skipped, labels=labels)


def _left_out(files: list[Path], used: list[Path]) -> list[str]:
    used_files = set(used)
    others = [file for file in files if file not in used_files]
    count = f"{len(others):,} of {len(files):,} files"
    return [f"Left out, as files of other kinds: {count}, the first is {others[0]}."] if others else []


def _parquet_images(place: Path, files: list[Path], shape: tuple[int, ...]) -> Unlabelled:
    column = parquet.image_column(files)
    if column is None:
        raise InputError(f"{files[0]} has no column of images, and the network takes images.")
    rows = [(file, row) for file in files for row in range(parquet.rows(file))]
    names = [f"{file.relative_to(place)}, row {row}" if place.is_dir() else f"row {row}" for file, row in rows]
    batches = decode(parquet.images(files, column), (shape[1], shape[2]), shape[0])
    return Unlabelled(names, batches, table=lambda: parquet.table(files, without=column))


def _arrays(place: Path, shape: tuple[int, ...]) -> Unlabelled:
    """The array x, or the only one."""
    arrays = read_arrays(place, by_lower_case)
    if "x" not in arrays and len(arrays) != 1:
        raise InputError(f"{place} holds {', '.join(arrays) or 'nothing'}: it must hold x, or one array only.")
    inputs = arrays["x"] if "x" in arrays else next(iter(arrays.values()))
    if len(shape) == 3:
        inputs = channels_first(f"{place}: x", inputs)
    if inputs.shape[1:] != shape or inputs.dtype.kind not in "fiub":
        given = f"x has shape {inputs.shape} and type {inputs.dtype}"
        raise InputError(f"{place}: {given}, and the network takes numbers of shape (N, {', '.join(map(str, shape))}).")
    if not len(inputs):
        raise InputError(f"{place} holds no examples: at least one is needed.")
    if len(shape) == 1:
        with np.errstate(over="ignore"):
            inputs = inputs.astype(np.float32)
        for example, feature in np.argwhere(~np.isfinite(inputs)):
            raise InputError(f"{place}: feature {feature} of example {example} must be finite, as float32 too.")
    y = arrays["y"] if "y" in arrays else np.empty(0)
    labels = (Y, list(map(str, y.tolist()))) if y.shape == (len(inputs),) else None
    return Unlabelled([f"row {i}" for i in range(len(inputs))], _batches(inputs), labels=labels)


def _batches(inputs: NDArray) -> Iterator[NDArray]:
    return (inputs[start : start + BATCH] for start in range(0, len(inputs), BATCH))
