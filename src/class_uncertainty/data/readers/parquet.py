"""Parquet: images as Hugging Face data sets have them (a struct of bytes and path, or plain binary), or a table."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.cache import Decoding
from class_uncertainty.data.class_names import factorise, split_of
from class_uncertainty.data.images import ImageSource, common_size, decode
from class_uncertainty.data.readers.folder import entries
from class_uncertainty.data.table import Table, from_arrow
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.io import check_regular, parse_json
from class_uncertainty.text import read_faults

if TYPE_CHECKING:
    import pyarrow

LABELS = ("label", "fine_label", "labels", "target", "class")  # tried in this order unless a column is named
BYTES = ("binary", "large_binary", "binary_view")  # as Arrow names them


def find(place: Path) -> dict[str, list[Path]]:
    """The Parquet files of a folder, or the file, by split; all are for training if their names tell no split."""
    if not place.is_dir():
        return {"train": [place]}
    files = below(place)
    if not files:
        raise InputError(f"{place} holds no .parquet file.")
    return by_split(files)


def below(folder: Path) -> list[Path]:
    """The Parquet files in a folder and below it; none where there is no folder."""
    if not folder.exists():
        return []
    return sorted(file for file in entries(folder) if file.suffix == ".parquet")


def by_split(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Files by the split that their names, or their folders' names, tell."""
    splits: dict[str, list[Path]] = {}
    for file in files:
        splits.setdefault(split_of(file.name) or split_of(file.parent.name) or "", []).append(file)
    unnamed = splits.pop("", [])
    if unnamed and splits:
        named = next(iter(splits.values()))[0]
        raise InputError(
            f"{named} names its split and {unnamed[0]} does not: name all, such as train-*.parquet, or none."
        )
    return {"train": unnamed} if unnamed else splits


def schema(files: Sequence[Path]) -> "pyarrow.Schema":
    """The schema of the files, which must agree on it."""
    first = _open(files[0]).schema_arrow
    for file in files[1:]:
        other = _open(file).schema_arrow
        if not other.equals(first):
            differing = sorted({field.name for field in set(first) ^ set(other)}) or ["the order of columns"]
            raise InputError(f"{files[0]} and {file} disagree on their schema: {', '.join(differing)}.")
    return first


def _open(file: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise InputError("Parquet files need pyarrow: install it with pip install pyarrow.") from None
    with read_faults(file, "cannot be read as Parquet"):
        check_regular(file)
        return pyarrow.parquet.ParquetFile(file)


def image_column(files: Sequence[Path], given: str | None = None) -> str | None:
    """The one column that holds images, or None if the files hold a table."""
    fields = schema(files)

    def holds_images(kind: Any) -> bool:
        return str(kind) in BYTES or (str(kind).startswith("struct<") and kind.get_field_index("bytes") >= 0)

    names = [field.name for field in fields if holds_images(field.type)]
    if given is not None and given not in fields.names:
        raise unknown("image column", given, fields.names)
    if given is not None and given not in names:
        raise InputError(f"{files[0]} has {fields.field(given).type} in column {given!r}: images are bytes or structs.")
    if given is None and len(names) > 1:
        raise InputError(f"{files[0]}: columns {', '.join(names)} all hold images: name one with ?image=COLUMN.")
    return given or (names[0] if names else None)


def label_column(files: Sequence[Path], given: str | None) -> str:
    """The column of classes: the given one, or the first of LABELS."""
    fields = schema(files)
    import pyarrow.types as types

    if given is not None and given not in fields.names:
        raise unknown("label column", given, fields.names)
    column = given or next((name for name in LABELS if name in fields.names), None)
    if column is None:
        names = ", ".join(fields.names)
        raise InputError(f"{files[0]} has no column 'label': name it with --label (in Python label=), of {names}.")
    if types.is_nested(kind := fields.field(column).type) or str(kind) in BYTES:
        raise InputError(f"{files[0]} has {kind} in column {column!r}: labels are whole numbers or text.")
    return column


def decoding(
    files: Sequence[Path],
    label: str | None,
    image: str | None = None,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    skipped: dict[int, str] | None = None,
    advice: str = "",
) -> Decoding:
    """The images of some files as one split, with the given classes or those that the files name."""
    column = image_column(files, image)
    if column is None:
        raise InputError(f"{files[0]} has no column of images.")
    label = label_column(files, label)
    labels, names = _labels(files, label, classes or _class_names(schema(files), label))
    if next(images(files, column), None) is None:  # a damaged file may have labels alone
        raise InputError(f"{files[0]} has no images in column {column!r}.")
    size = size or common_size(images(files, column))
    batches = decode(images(files, column), size, channels, skipped, advice)
    return Decoding(labels, names, (channels, *size), batches, skipped={} if skipped is None else skipped)


def groups(files: Sequence[Path], column: str) -> NDArray[np.object_]:
    """What the image of each row belongs to."""
    if column not in (names := schema(files).names):
        raise unknown("group column", column, names)
    values = [_present_values(file, column).to_pylist() for file in files]
    return np.array([str(value) for part in values for value in part], dtype=object)


def _class_names(fields: "pyarrow.Schema", label: str) -> list[str] | None:
    """As the `datasets` library writes them into the schema."""
    try:
        names = parse_json(fields.metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the metadata name the classes of {label!r} as {brief(names)}: they must be a list of texts.")
    return names


def _labels(files: Sequence[Path], column: str, names: Sequence[str] | None) -> tuple[NDArray[np.int64], Sequence[str]]:
    """The labels, and the class names: numbers are indices of given names, and text is one of them."""
    values = np.concatenate([_indices(file, column, names) for file in files])
    if not len(values):
        raise InputError(f"{files[0]} has no rows.")
    if values.dtype.kind not in "iuOUb":
        raise InputError(f"{files[0]} has {values.dtype} in column {column!r}: labels are whole numbers or text.")
    return (values.astype(np.int64), names) if names and values.dtype.kind in "iu" else factorise(values)


def _indices(file: Path, column: str, names: Sequence[str] | None) -> NDArray:
    """The labels of one file, as indices of the class names if there are any."""
    values = _present_values(file, column).to_numpy()
    if not names or values.dtype.kind not in "iuO":
        return values
    is_text = values.dtype.kind == "O"
    index = {name: i for i, name in enumerate(names)} if is_text else {i: i for i in range(len(names))}
    for row, value in enumerate(values.tolist()):
        if value not in index:
            allowed = "named otherwise" if is_text else f"numbered from 0 to {len(names) - 1}"
            raise InputError(f"{file} has the {column} {value!r} in row {row}: its {len(names)} classes are {allowed}.")
    return np.array([index[value] for value in values.tolist()], dtype=np.int64)


def _present_values(file: Path, column: str) -> "pyarrow.ChunkedArray":
    """A column of which every row has a value."""
    values = _read(file, column)
    if values.null_count:
        row = next(i for i, value in enumerate(values) if not value.is_valid)
        others = f", nor in {values.null_count - 1:,} others" if values.null_count > 1 else ""
        raise InputError(f"{file} has no {column} in row {row}{others}: every image needs one.")
    return values


def _read(file: Path, column: str) -> "pyarrow.ChunkedArray":
    import pyarrow

    with read_faults(f"{file}, column {column!r},", "cannot be read", (pyarrow.ArrowException, OSError)):
        return _open(file).read(columns=[column])[column]


def images(files: Sequence[Path], column: str) -> Iterator[ImageSource]:
    """The encoded images of the files, row by row."""
    import pyarrow

    for file in files:
        row = 0
        with _open(file) as parquet:
            batches = parquet.iter_batches(1024, columns=[column])
            while True:
                with read_faults(file, f"is damaged after row {row}", (pyarrow.ArrowException, OSError)):
                    if (batch := next(batches, None)) is None:
                        break
                    values = batch.column(0)
                    contents = (values.field("bytes") if pyarrow.types.is_struct(values.type) else values).to_pylist()
                for content in contents:
                    yield partial(_present, content), f"{file}, row {row},"
                    row += 1


def rows(file: Path) -> int:
    """The number of rows of a file."""
    return _open(file).metadata.num_rows


def _present(content: bytes | None) -> bytes:
    if content is None:
        raise ValueError("there are no bytes (a path alone is not followed)")
    return content


def table(files: Sequence[Path], without: str | None = None) -> Table:
    """All rows of some files as one table, without the index that pandas adds, and without the given column."""
    names = schema(files).names  # refuses files that disagree, or a missing pyarrow
    columns = [name for name in names if name != without] if without in names else None
    import pyarrow

    with read_faults(files[0], "cannot be read", (pyarrow.ArrowException, OSError)):
        tables = [_open(file).read(columns=columns) for file in files]
        joined = pyarrow.concat_tables(tables)
        joined.validate(full=True)  # text in a damaged file may not be UTF-8
    joined = joined.drop_columns([name for name in joined.column_names if name.startswith("__index_level_")])
    starts = [0, *accumulate(len(part) for part in tables[:-1])]
    return from_arrow(str(files[0]), joined, tuple(zip(starts, map(str, files), strict=True)))
