"""Tables as they are written, from CSV or Parquet: columns of numbers and of text, and where each row stands."""

import csv
import gzip
import io
import os
import re
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.files import read_regular
from class_uncertainty.text import reason

DELIMITERS = (",", ";", "\t", "|")
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}  # in any case; blanks around a value never count
NUMBERS = {"bool", "halffloat", "float", "double", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
TEXTS = {"string", "large_string", "string_view", "null"}  # as Arrow names them


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length: object arrays of text as it was written, or arrays of numbers."""

    file: str
    columns: dict[str, NDArray]
    missing: dict[str, NDArray[np.bool_]]
    lines: NDArray[np.int64] | None = None  # CSV: the line on which each row starts, from 1
    unusable: dict[str, str] = field(default_factory=dict)  # Parquet: columns to drop, and their types
    parts: tuple[tuple[int, str], ...] = ()  # Parquet: the first row of each file, where there are several
    rows: NDArray[np.int64] | None = None  # which rows of its files these are, where they are not all

    @property
    def names(self) -> list[str]:
        return [*self.columns, *self.unusable]

    def at(self, name: str, row: int) -> str:
        """'a.csv: column 'age' has 'abc' in line 17' (where the row starts), or 'in row 31006' of a Parquet file (from 0)."""
        cell = self.columns[name][row]
        told = brief(cell) if isinstance(cell, str) else "nothing" if self.missing[name][row] else str(cell)
        ((file, where),) = self.places(np.array([row]))
        return f"{file}: column {name!r} has {told} in {where}"

    def called(self, rows: NDArray[np.int64]) -> list[str]:
        """'line 17' of each row, with its file where there are several."""
        files = [file for _, file in self.parts] if len(self.parts) > 1 else []
        above = os.path.commonpath([Path(file).parent for file in files]) if files else ""
        short = {file: os.path.relpath(file, above) for file in files}
        return [f"{short[file]}, {where}" if short else where for file, where in self.places(rows)]

    def places(self, rows: NDArray[np.int64]) -> list[tuple[str, str]]:
        """The file of each row, and 'line 17' or 'row 31006' of it."""
        rows = rows if self.rows is None else self.rows[rows]
        if self.lines is not None:
            return [(self.file, f"line {line}") for line in self.lines[rows].tolist()]
        parts = self.parts or ((0, self.file),)
        part = np.searchsorted([start for start, _ in parts], rows, side="right") - 1
        return [(parts[i][1], f"row {row - parts[i][0]}") for i, row in zip(part.tolist(), rows.tolist(), strict=True)]

    def take(self, rows: NDArray[np.int64]) -> "Table":
        columns, missing = ({name: part[rows] for name, part in parts.items()} for parts in (self.columns, self.missing))
        return replace(self, columns=columns, missing=missing, rows=rows if self.rows is None else self.rows[rows])


def read_csv(path: Path) -> Table:
    """A .csv or .csv.gz file in UTF-8; the header says which of , ; tab | ends a cell. Blank lines are no rows."""
    file, text = str(path), _contents(path)
    delimiter = _delimiter(text)
    stream = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8", newline="")  # StringIO would take four bytes a character
    reader = csv.reader(stream, delimiter=delimiter, strict=True)  # or a quote that is not closed would swallow rows
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for row in reader:
            if row and rows and len(row) != len(rows[0]):
                told = f"line {start} has {len(row)} cells, and the header {len(rows[0])}"
                raise InputError(f"{file}: {told}: every row needs as many (cells end at {delimiter!r}).")
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        limit = f"a quoted cell ends with a quote, and no cell has more than {csv.field_size_limit():,} characters"
        raise InputError(f"{file} is not CSV in line {start} ({error}): {limit}.") from None
    if not rows:
        raise InputError(f"{file} is empty: its first line must name the columns.")
    names = _check_names(file, [name.strip() for name in rows[0]], len(rows) - 1)
    cells = np.array(rows[1:], dtype=object)  # (rows, columns)
    columns = {name: cells[:, i] for i, name in enumerate(names)}
    return Table(file, columns, {name: _missing(column) for name, column in columns.items()}, np.array(lines[1:]))


def _contents(path: Path) -> str:
    try:
        if path.is_dir() or not path.exists():
            raise InputError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: a .csv or .csv.gz file is needed.")
        raw = read_regular(path)
        raw = gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({reason(error)}): write it again, or name an uncompressed file .csv.") from None
    except OSError as error:
        raise MachineFault(f"{path} could not be read: {error.strerror}.") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(f"{path} has byte {byte:#04x} in line {_line(error.object, error.start)}: save it as UTF-8.") from None
    if "\0" in text:
        raise InputError(f"{path} has a NUL byte in line {_line(raw, raw.index(0))}: save it as text in UTF-8.")
    return text


def _line(raw: bytes, position: int) -> int:
    return len((raw[:position] + b".").splitlines())


def _delimiter(text: str) -> str:
    """The most frequent one in the header, quoted names left out."""
    header = re.match(r'(?:[^"\r\n]+|"[^"]*")*', text.lstrip("\r\n"))
    return max(DELIMITERS, key=re.sub(r'"[^"]*"', "", header.group() if header else "").count)


def _check_names(file: str, names: list[str], rows: int) -> list[str]:
    if "" in names:
        raise InputError(f"{file}: column {names.index('') + 1} has no name: name it in the header, or leave it out (pandas: index=False).")
    if len(set(names)) < len(names):
        raise InputError(f"{file}: column {next(n for n in names if names.count(n) > 1)!r} is there twice: names must differ.")
    if not rows:
        raise InputError(f"{file} has columns and no rows: at least one is needed.")
    return names


def _missing(column: NDArray) -> NDArray[np.bool_]:
    return np.fromiter((cell.strip().lower() in MISSING for cell in column), dtype=bool, count=len(column))


def from_arrow(file: str, table: Any, parts: tuple[tuple[int, str], ...] = ()) -> Table:
    """A pyarrow.Table, perhaps of several files; booleans are 0 and 1, dictionaries are what they stand for, and nulls and NaN are missing.

    Columns of other types are kept by name only, so that they can be dropped: `encode` refuses those that are not.
    """
    names = _check_names(file, list(table.column_names), table.num_rows)
    columns, missing, unusable = {}, {}, {}
    for name, column in zip(names, table.columns, strict=True):
        indexed = str(column.type).startswith("dictionary")
        kind = str(column.type.value_type if indexed else column.type)
        if kind not in NUMBERS | TEXTS and not kind.startswith("decimal"):
            unusable[name] = str(column.type)
            continue
        column = column.cast(column.type.value_type) if indexed else column
        null = column.is_null().to_numpy()
        whole = kind.startswith("decimal") and column.type.scale <= 0  # of any length: kept as it is written
        if kind in TEXTS or whole:
            texts = [str(int(number or 0)) for number in column.to_pylist()] if whole else column.to_numpy()
            columns[name] = np.where(null, "", np.array(texts, dtype=object))
            missing[name] = _missing(columns[name])
        else:
            number = column.cast("int8") if kind == "bool" else column if kind in NUMBERS else column.cast("double")
            columns[name] = number.fill_null(0).to_numpy()  # filled: integers with nulls would come as floats
            missing[name] = null | np.isnan(columns[name])
    return Table(file, columns, missing, unusable=unusable, parts=parts)
