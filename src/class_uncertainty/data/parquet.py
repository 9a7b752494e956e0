"""Parquet: pictures in the layout of Hugging Face image data sets (a struct of bytes and path, or plain binary), or a table."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.cache import Decoding
from class_uncertainty.data.folder import entries
from class_uncertainty.data.images import Named, decode, own_size
from class_uncertainty.data.labels import factorise, split_of
from class_uncertainty.errors import InputError, blame_machine, unknown
from class_uncertainty.files import check_regular, parse_json
from class_uncertainty.text import reason

if TYPE_CHECKING:
    import pyarrow

LABELS = ("label", "fine_label", "labels", "target", "class")  # looked for in this order where none is named


def find(place: Path) -> dict[str, list[Path]]:
    """The Parquet files of a folder, or the file, by split; all are training data where their names say nothing."""
    if not place.is_dir():
        return {"train": [place]}
    files = below(place)
    if not files:
        raise InputError(f"{place} holds no .parquet file.")
    return by_split(files)


def below(folder: Path) -> list[Path]:
    return sorted(file for file in entries(folder) if file.suffix == ".parquet")


def by_split(files: Sequence[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(split_of(file.name) or split_of(file.parent.name) or "", []).append(file)
    if "" in found and len(found) > 1:
        known = next(file for split, some in found.items() if split for file in some)
        raise InputError(
            f"{known} names its split and {found[''][0]} does not: name all of them, as train-*.parquet and test-*.parquet, or none."
        )
    return {"train": found[""]} if "" in found else found


def schema(files: Sequence[Path]) -> "pyarrow.Schema":
    """What all of the files have in common; they must agree on it."""
    first = _open(files[0]).schema_arrow
    for file in files[1:]:
        other = _open(file).schema_arrow
        if not other.equals(first):
            apart = sorted({field.name for field in set(first) ^ set(other)}) or ["the order of columns"]
            raise InputError(f"{files[0]} and {file} disagree on their schema: {', '.join(apart)}.")
    return first


def _open(file: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise InputError("Parquet files need pyarrow: install it with pip install pyarrow.") from None
    try:
        check_regular(file)
        return pyarrow.parquet.ParquetFile(file)
    except InputError:
        raise
    except Exception as error:  # a damaged file raises nearly anything
        blame_machine(file, error)
        raise InputError(f"{file} cannot be read as Parquet: {reason(error)}.") from error


def _is_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)


def image_column(files: Sequence[Path], asked: str | None = None) -> str | None:
    """The one column that holds pictures, or None: then it is a table."""
    found = schema(files)
    import pyarrow.types as types

    def holds_pictures(kind: Any) -> bool:
        return _is_bytes(kind) or (types.is_struct(kind) and kind.get_field_index("bytes") >= 0)

    names = [field.name for field in found if holds_pictures(field.type)]
    if asked is not None:
        if asked not in found.names:
            raise unknown("image column", asked, found.names)
        if asked not in names:
            raise InputError(f"{files[0]} has {found.field(asked).type} in column {asked!r}: pictures are bytes, or structs with bytes.")
        return asked
    if len(names) > 1:
        raise InputError(f"{files[0]}: columns {', '.join(names)} all hold pictures: say which with ?image=COLUMN.")
    return names[0] if names else None


def label_column(files: Sequence[Path], asked: str | None) -> str:
    found = schema(files)
    import pyarrow.types as types

    if asked is not None and asked not in found.names:
        raise unknown("label column", asked, found.names)
    column = asked or next((name for name in LABELS if name in found.names), None)
    if column is None:
        raise InputError(f"{files[0]} has no column called label: say which it is with ?label=COLUMN, one of {', '.join(found.names)}.")
    if types.is_nested(kind := found.field(column).type) or _is_bytes(kind):
        raise InputError(f"{files[0]} has {kind} in column {column!r}: labels are whole numbers or text.")
    return column


def decoding(
    files: Sequence[Path],
    label: str | None,
    image: str | None = None,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    classes: Sequence[str] | None = None,
) -> Decoding:
    """The pictures of some files as one split, of the given classes or those that the files name."""
    column = image_column(files, image)
    if column is None:
        raise InputError(f"{files[0]} has no column of pictures.")
    label = label_column(files, label)
    labels, names = _labels(files, label, classes or _class_names(schema(files), label))
    if (first := next(pictures(files, column), None)) is None:  # a damaged file may have labels and no pictures
        raise InputError(f"{files[0]} has no pictures in column {column!r}.")
    size = size or own_size(first)
    return Decoding(labels, names, (channels, *size), decode(pictures(files, column), size, channels))


def _class_names(found: "pyarrow.Schema", label: str) -> list[str] | None:
    """As the `datasets` library writes them into the schema."""
    try:
        names = parse_json(found.metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the Parquet metadata names the classes of column {label!r} as {brief(names)}: they must be a list of texts.")
    return names


def _labels(files: Sequence[Path], column: str, names: Sequence[str] | None) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Numbers are positions among the names, where there are names; text is one of them."""
    parts, position = [], {name: i for i, name in enumerate(names or ())}
    for file in files:
        values = _read(file, column)
        if values.null_count:
            row = next(i for i, value in enumerate(values) if not value.is_valid)
            raise InputError(f"{file} has no {column} in row {row}: every picture needs one.")
        part = values.to_numpy()
        if names and part.dtype.kind == "O" and not set(part) <= position.keys():
            row = next(i for i, name in enumerate(part) if name not in position)
            raise InputError(f"{file} has the {column} {part[row]!r} in row {row}: it is none of its {len(names)} classes.")
        if names and part.dtype.kind in "iu" and (outside := (part < 0) | (part >= len(names))).any():
            row = int(outside.argmax())
            raise InputError(f"{file} has the {column} {part[row]} in row {row}: its {len(names)} classes run from 0 to {len(names) - 1}.")
        parts.append(np.array([position[name] for name in part], dtype=np.int64) if names and part.dtype.kind == "O" else part)
    values = np.concatenate(parts)
    if not len(values):
        raise InputError(f"{files[0]} has no rows.")
    if values.dtype.kind not in "iuOUb":
        raise InputError(f"{files[0]} has {values.dtype} in column {column!r}: labels are whole numbers or text.")
    return (values.astype(np.int64), names) if names and values.dtype.kind in "iu" else factorise(values)


def _read(file: Path, column: str) -> "pyarrow.ChunkedArray":
    import pyarrow

    try:
        return _open(file).read(columns=[column])[column]
    except (pyarrow.ArrowException, OSError) as error:
        blame_machine(file, error)
        raise InputError(f"{file}, column {column!r}, cannot be read: {reason(error)}.") from error


def pictures(files: Sequence[Path], column: str) -> Iterator[Named]:
    import pyarrow

    for file in files:
        row = 0
        try:
            with _open(file) as parquet:
                for batch in parquet.iter_batches(1024, columns=[column]):
                    values = batch.column(0)
                    contents = (values.field("bytes") if pyarrow.types.is_struct(values.type) else values).to_pylist()
                    for content in contents:
                        yield partial(_present, content), f"{file}, row {row},"
                        row += 1
        except (pyarrow.ArrowException, OSError) as error:
            blame_machine(file, error)
            raise InputError(f"{file} is damaged after row {row}: {reason(error)}.") from error


def rows(file: Path) -> int:
    return _open(file).metadata.num_rows


def _present(content: bytes | None) -> bytes:
    if content is None:
        raise ValueError("there are no bytes (a path alone is not followed)")
    return content


def table(files: Sequence[Path]) -> tuple["pyarrow.Table", tuple[tuple[int, str], ...]]:
    """All rows of some files, and the first row of each file."""
    schema(files)  # which says so where pyarrow is not there
    import pyarrow

    try:
        each = [_open(file).read() for file in files]
        found = pyarrow.concat_tables(each)
        found.validate(full=True)  # of a damaged file, text may not be UTF-8
        starts = [0, *accumulate(len(part) for part in each[:-1])]
        own = found.drop_columns([name for name in found.column_names if name.startswith("__index_level_")])  # what pandas adds
        return own, tuple(zip(starts, map(str, files), strict=True))
    except (pyarrow.ArrowException, OSError) as error:
        blame_machine(files[0], error)
        raise InputError(f"{files[0]} cannot be read: {reason(error)}.") from error
