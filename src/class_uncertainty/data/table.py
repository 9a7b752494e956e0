"""Tables as they are read, with the place of each row in its file, and how their columns become features."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as brief
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.errors import InputError

LARGEST = float(np.finfo(np.float32).max)  # number that a network takes
FLAGS = ("label", "test", "group", "drop", "missing")  # options of data that commands have too
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}  # in any case, with any blanks around
INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBERS = {"bool", "halffloat", "float", "double", *INTEGERS}  # as Arrow names them
TEXTS = {"string", "large_string", "string_view", "null"}


def as_typed(option: str, value: str = "") -> str:
    """'--drop id' of an option that commands have, and '?min=2' of others, which stand in the name of data."""
    if option in FLAGS:
        return f"--{option} {quote(value)}" if value else f"--{option}"
    return f"?{option}={value}" if value else f"?{option}"


def advised(option: str, value: str = "") -> str:
    """The same with its form in Python, where that is another: '--drop id (in Python drop=)'."""
    return f"{as_typed(option, value)} (in Python {option}=)" if option in FLAGS else as_typed(option, value)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length: object arrays of text as it was written, or arrays of numbers."""

    file: str
    columns: dict[str, NDArray]
    missing: dict[str, NDArray[np.bool_]]
    lines: NDArray[np.int64] | None = None  # CSV: the line on which each row starts, from 1
    unusable: dict[str, str] = field(default_factory=dict)  # Parquet: columns to drop, and their types
    files: tuple[tuple[int, str], ...] = ()  # Parquet: (first row, file), if there are several files
    rows: NDArray[np.int64] | None = None  # the rows of the files that these are, if not all
    is_frame: bool = False  # made of a DataFrame

    def __len__(self) -> int:
        return len(next(iter(self.missing.values()), ()))

    def option(self, name: str, *values: object) -> str:
        """How an option is given: --drop id,name, ?min=2 in the name of data, or drop=['id', 'name'] of a DataFrame."""
        if self.is_frame:
            value = repr(values[0]) if len(values) == 1 else list(values)
            return f"{name}={value}" if values else name
        return as_typed(name, ",".join(map(str, values)))

    def advised(self, name: str, *values: object) -> str:
        """The same for sentences that are read in Python too: '--drop id (in Python drop=)'."""
        return self.option(name, *values) if self.is_frame else advised(name, ",".join(map(str, values)))

    @property
    def names(self) -> list[str]:
        return [*self.columns, *self.unusable]

    def at(self, name: str, row: int) -> str:
        """'a.csv: column 'age' has 'abc' in line 17' (where the row starts), or 'in row 31006' of Parquet (from 0)."""
        cell = self.columns[name][row]
        text = brief(cell) if isinstance(cell, str) else "nothing" if self.missing[name][row] else str(cell)
        ((file, where),) = self.places(np.array([row]))
        return f"{file}: column {name!r} has {text} in {where}"

    def row_names(self, rows: NDArray[np.int64]) -> list[str]:
        """'line 17' for each row, after its file if there are several."""
        files = [file for _, file in self.files] if len(self.files) > 1 else []
        above = os.path.commonpath([Path(file).parent for file in files]) if files else ""
        short = {file: os.path.relpath(file, above) for file in files}
        return [f"{short[file]}, {where}" if short else where for file, where in self.places(rows)]

    def places(self, rows: NDArray[np.int64]) -> list[tuple[str, str]]:
        """The file of each row, and 'line 17' or 'row 31006' of it."""
        rows = self.file_rows(rows)
        if self.lines is not None:
            return [(self.file, f"line {line}") for line in self.lines[rows].tolist()]
        starts, files = zip(*(self.files or ((0, self.file),)), strict=True)
        index = np.searchsorted(starts, rows, side="right") - 1
        return [(files[i], f"row {row - starts[i]}") for i, row in zip(index.tolist(), rows.tolist(), strict=True)]

    def file_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the files that these are."""
        return rows if self.rows is None else self.rows[rows]

    def take(self, rows: NDArray[np.int64]) -> "Table":
        """The table with those rows only."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        missing = {name: mask[rows] for name, mask in self.missing.items()}
        return replace(self, columns=columns, missing=missing, rows=self.file_rows(rows))


def check_names(file: str, names: list[str], rows: int) -> list[str]:
    """The names of the columns, if they are unique and there are rows."""
    if "" in names:
        raise InputError(f"{file}: column {names.index('') + 1} has no name: name it, or leave it out (index=False).")
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{file}: column {repeated!r} appears twice: names must differ.")
    if not rows:
        raise InputError(f"{file} has columns and no rows: at least one is needed.")
    return names


def is_missing(column: NDArray) -> NDArray[np.bool_]:
    """(N,) of a column of text."""
    return np.fromiter((cell.strip().lower() in MISSING for cell in column), dtype=bool, count=len(column))


def from_arrow(file: str, table: Any, files: tuple[tuple[int, str], ...] = (), is_frame: bool = False) -> Table:
    """A pyarrow.Table: booleans become 0 and 1, dictionaries their values, nulls and NaN are missing.

    Columns of other types are kept by name only: `encode` refuses them unless they are dropped.
    """
    names = check_names(file, list(table.column_names), table.num_rows)
    columns, missing, unusable = {}, {}, {}
    for name, column in zip(names, table.columns, strict=True):
        indexed = str(column.type).startswith("dictionary")
        kind = str(column.type.value_type if indexed else column.type)
        if kind not in NUMBERS | TEXTS and not kind.startswith("decimal"):
            unusable[name] = str(column.type)
            continue
        column = _decoded(column) if indexed else column
        null = column.is_null().to_numpy()
        long_integer = kind.startswith("decimal") and column.type.scale <= 0  # of any length: kept as text
        if kind in TEXTS or long_integer:
            texts = [str(int(number or 0)) for number in column.to_pylist()] if long_integer else column.to_numpy()
            columns[name] = np.where(null, "", np.array(texts, dtype=object))
            missing[name] = is_missing(columns[name])
        else:
            number = column.cast("int8") if kind == "bool" else column if kind in NUMBERS else column.cast("double")
            columns[name] = number.fill_null(0).to_numpy()  # integers with nulls would become floats
            missing[name] = null | np.isnan(columns[name])
    return Table(file, columns, missing, unusable=unusable, files=files, is_frame=is_frame)


def _decoded(column: Any) -> Any:
    """The values of a dictionary column."""
    kind = column.type.value_type
    if str(kind) != "string_view":
        return column.cast(kind)
    import pyarrow

    return pyarrow.chunked_array([column.to_pylist()], "string")  # as polars has them: Arrow casts no such column


def is_number(value: object) -> bool:
    """Whether it is an int or a float other than NaN; a bool, which Python counts as an int, is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


@dataclass(frozen=True, kw_only=True)
class Column:
    """How a column becomes features: numbers are one, text is one per category; stored with a network, for new rows."""

    name: str
    categories: Sequence[str] | None = None
    median: float | None = None  # of the numbers in the training rows
    fills: bool = False  # missing values by the median, or as a category; else they are refused

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.fills, bool):
            raise ValueError(f"column {brief(self.name)} fills {brief(self.fills)}: they are text, and true or false")
        names = () if self.categories is None else self.categories
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"categories of {self.name!r} are {brief(self.categories)}: they must be texts")
        if self.median is not None and (not is_number(self.median) or abs(self.median) > LARGEST):
            raise ValueError(f"the median of {self.name!r} is {brief(self.median)}: it must be a number, and finite")

    @property
    def width(self) -> int:
        return 1 if self.categories is None else len(self.categories)

    @property
    def features(self) -> list[str]:
        return [self.name] if self.categories is None else [f"{self.name}={category}" for category in self.categories]

    def encoded(self, values: NDArray) -> NDArray[np.floating]:
        """(N,) numbers, NaN if missing, or texts -> (N, features); unseen categories encode as zeros."""
        if self.categories is None:
            return (values if self.median is None else np.where(np.isnan(values), self.median, values))[:, None]
        index = {category: i for i, category in enumerate(self.categories)}
        codes = np.array([index.get(text, -1) for text in values])
        return (codes[:, None] == np.arange(len(self.categories))).astype(np.float32)
