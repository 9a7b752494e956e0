"""Data of the Hugging Face library `datasets`, which is not imported here: whoever has a data set has it loaded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import check, check_least, shortly
from class_uncertainty.data.class_names import factorise
from class_uncertainty.data.dataset import LeftOut
from class_uncertainty.data.examples import Data
from class_uncertainty.data.finding import Finding
from class_uncertainty.data.frame_sources import table_options
from class_uncertainty.data.images import ImageSource, common_size, decode
from class_uncertainty.data.readers.parquet import LABELS
from class_uncertainty.data.table import Table, from_arrow
from class_uncertainty.data.table_splits import TableOptions, encode_splits
from class_uncertainty.data.tabular import row_cells
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.text import read_faults

NAME = "the Hugging Face data set"  # in messages, as a file has its name
BLOCK = 256  # rows whose encoded images are in memory
LISTS = ("list", "large_list", "fixed_size_list")  # as Arrow names them

Split = Any  # datasets.Dataset


def splits_of(given: Any) -> tuple[Split, Split | None]:
    """(train, test) of a DatasetDict with these splits, or of one Dataset."""
    if not isinstance(given, dict):
        return check_split(given), None
    others = sorted(set(given) - {"train", "test"})
    if "train" not in given:
        raise InputError(f"{NAME} has the splits {', '.join(others) or 'none'}: one must be called 'train'.")
    test = given.get("test")
    return check_split(given["train"]), None if test is None else check_split(test)


def check_split(given: Any) -> Split:
    """Refuse anything but a whole split."""
    if isinstance(given, dict) and given and type(given).__module__.startswith("datasets"):
        first = next(iter(given))
        advice = f"give one, as ds[{first!r}], or all of them to Dataset.from_hf"
        raise InputError(f"ds has the splits {', '.join(given)}: {advice}.")
    if not all(hasattr(given, name) for name in ("features", "with_format", "select_columns")):
        raise InputError(f"ds is {shortly(given)}: it must be a Dataset of the library 'datasets'.")
    if not hasattr(type(given), "__len__"):
        raise InputError(
            "ds is streamed: load it with streaming=False, or collect the rows with Dataset.from_generator."
        )
    if not len(given):
        raise InputError(f"{NAME} has no rows: at least one is needed.")
    return given


def data_of(
    train: Split,
    test: Split | None,
    image: str | None,
    label: str | None,
    *,
    group: str | None = None,
    size: int | None = None,
    channels: int = 3,
    categorical: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: str | None = None,
) -> tuple[list[Data], list[LeftOut], list[Finding]]:
    """The splits as Data, images where a column holds them, else a table; what options left out; what was noticed."""
    check(str | None, image=image, label=label, group=group)
    check(int, channels=channels)
    options = table_options(label, group, categorical, drop, missing)
    splits = [train] if test is None else [train, test]
    label, image = _label_column(train, label), _image_column(train, image)
    for split in splits:
        for column in filter(None, (label, image)):
            if column not in split.features:
                raise InputError(f"column {column!r} is in one split alone: both need it.")
    codes, names = _labels(splits, label)
    of_images = {"size": size is not None, "channels": channels != 3}
    of_tables = {"categorical": bool(options.categorical), "drop": bool(options.drop), "missing": missing is not None}
    for option, is_given in (of_tables if image else of_images).items():
        if is_given:
            raise InputError(f"{NAME} holds {'images' if image else 'a table'}: leave out {option}.")
    if image is not None:
        return _images(splits, image, codes, names, size, channels, group), [], []
    left_out = list[LeftOut]()
    noticed = list[Finding]()
    tables = _tables(splits, replace(options, label=label), codes, names, left_out, noticed)
    return tables, left_out, noticed


def _label_column(split: Split, given: str | None) -> str:
    columns = list(split.features)
    if given is not None and given not in columns:
        raise unknown("label column", given, columns)
    column = given or next((name for name in LABELS if name in columns), None)
    if column is None:
        raise InputError(f"{NAME} has no column 'label': name it with label='COLUMN', of {', '.join(columns)}.")
    return column


def _image_column(split: Split, given: str | None) -> str | None:
    """The one column of images, or None."""
    images = [name for name, feature in split.features.items() if type(feature).__name__ == "Image"]
    if given is not None and given not in split.features:
        raise unknown("image column", given, images or split.features)
    if given is not None and given not in images:
        raise InputError(f"column {given!r} holds {shortly(split.features[given])}: images are of the feature Image.")
    if given is None and len(images) > 1:
        raise InputError(f"columns {', '.join(images)} all hold images: name one with image='COLUMN'.")
    return given or (images[0] if images else None)


def _arrow(split: Split, columns: Sequence[str]) -> Any:
    return split.select_columns(list(columns)).with_format("arrow")[:]


def _labels(splits: Sequence[Split], column: str) -> tuple[list[NDArray[np.int64]], list[str]]:
    """The labels of each split, and the names of the classes that occur, in the order of ClassLabel if there is one."""
    values = []
    for split in splits:
        with read_faults(f"{NAME}, column {column!r},", "cannot be read"):
            cells = _arrow(split, [column])[column]
        if cells.null_count:
            raise InputError(f"{NAME} has no {column} in {cells.null_count:,} rows: every row needs one.")
        values.append(np.asarray(cells.to_numpy()))
        if values[-1].dtype.kind not in "iuOUb" or str(cells.type).startswith((*LISTS, "struct")):
            raise InputError(f"{NAME} has {cells.type} in column {column!r}: labels are whole numbers or text.")
    joined = np.concatenate(values)
    if (all_names := getattr(splits[0].features[column], "names", None)) is None:
        codes, names = factorise(joined)
    else:
        for row in np.flatnonzero((joined < 0) | (joined >= len(all_names))):
            given = f"{NAME} has the {column} {joined[row]} in row {row}"
            raise InputError(f"{given}: its {len(all_names)} classes are numbered from 0; leave out rows without one.")
        used, codes = np.unique(joined, return_inverse=True)
        names = [all_names[i] for i in used]
    return np.split(codes, np.cumsum([len(part) for part in values])[:-1]), names


def _images(
    splits: Sequence[Split],
    image: str,
    codes: Sequence[NDArray[np.int64]],
    names: list[str],
    size: int | None,
    channels: int,
    group: str | None,
) -> list[Data]:
    """Test images get the size of the training images."""
    if channels not in (1, 3):
        raise InputError(f"channels is {channels}: it must be 3 (colour) or 1 (grey).")
    if size is not None:
        check_least("size", size, 1)
    shape = common_size(_sources(splits[0], image)) if size is None else (size, size)
    data = []
    for split, labels in zip(splits, codes, strict=True):
        inputs = np.concatenate(list(decode(_sources(split, image), shape, channels)))
        groups = None if group is None else _groups(split, group)
        data.append(Data(inputs, labels, names, names=[f"row {i}" for i in range(len(labels))], groups=groups))
    return data


def _sources(split: Split, column: str) -> Iterator[ImageSource]:
    """The encoded images, row by row."""
    rows = split.select_columns([column]).with_format("arrow")
    for start in range(0, len(split), BLOCK):
        with read_faults(f"{NAME}, rows from {start},", "cannot be read"):
            cells = rows[start : start + BLOCK][column].to_pylist()
        for row, cell in enumerate(cells, start):
            yield partial(_content, cell), f"{NAME}, row {row},"


def _content(cell: dict[str, Any] | None) -> bytes:
    """The bytes of an image, or of its file."""
    if cell is None or (cell["bytes"] is None and not cell["path"]):
        raise ValueError("there are no bytes")
    return cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()


def _groups(split: Split, column: str) -> list[Any]:
    if column not in split.features:
        raise unknown("group column", column, split.features)
    groups = row_cells(from_arrow(NAME, _arrow(split, [column]), is_frame=True), column, "group")
    if None in groups:
        raise InputError(
            f"{NAME} has no {column} in row {groups.index(None)}: it is the group, and every row needs one."
        )
    return groups


def _tables(
    splits: Sequence[Split],
    options: TableOptions,
    codes: Sequence[NDArray[np.int64]],
    names: list[str],
    left_out: list[LeftOut],
    noticed: list[Finding],
) -> list[Data]:
    tables = [_table(split, options.label, labels, options.drop) for split, labels in zip(splits, codes, strict=True)]
    encoded = encode_splits(tables[0], tables[1] if len(tables) > 1 else None, options, left_out, noticed)
    return [replace(data, classes=tuple(names)) for data in encoded if data is not None]


def _table(split: Split, label: str, codes: NDArray[np.int64], drop: Sequence[str]) -> Table:
    """The columns as those of a DataFrame; lists of equally many numbers become a column each."""
    import pyarrow

    with read_faults(NAME, "cannot be read"):
        table, columns = _arrow(split, list(split.features)), dict[str, Any]()
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name not in (label, *drop) and str(column.type).startswith(LISTS):
                columns |= _unlisted(name, column)
            else:
                columns[name] = pyarrow.array(codes) if name == label else column
        return from_arrow(NAME, pyarrow.table(columns), is_frame=True)


def _unlisted(name: str, column: Any) -> dict[str, Any]:
    """'x[0]', 'x[1]' and so on; lists of several lengths, or of anything but numbers, stay as they are."""
    rows = column.to_pylist()
    lengths = {len(row) if row is not None else -1 for row in rows}
    try:
        values = np.array(rows, dtype=np.float64) if len(lengths) == 1 and min(lengths) > 0 else None
    except (TypeError, ValueError):
        values = None
    if values is None or values.ndim != 2:
        return {name: column}
    return {f"{name}[{i}]": values[:, i] for i in range(values.shape[1])}
