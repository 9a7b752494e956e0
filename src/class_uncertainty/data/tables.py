"""Tables with a label column, from CSV or Parquet: numbers stay numbers, text becomes one feature a category ('city=Oslo')."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.core import Data
from class_uncertainty.data.shaping import held_share
from class_uncertainty.errors import InputError, MachineFault, unknown
from class_uncertainty.text import printable

MOST = 100  # categories of a column
DELIMITERS = (",", ";", "\t", "|")
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}  # in any case; blanks around a value never count
WAYS = ("refuse", "fill", "drop")
NUMBERLIKE = re.compile(r"[+-]?[\d.,_' ]*\d[\d.,_' ]*%?")  # 1,5 and 1_000 and 12 %: what people mean by them differs
LARGEST = float(np.finfo(np.float32).max)
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
        short = {file: Path(file).name for _, file in self.parts}
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


# Reading.


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
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}): write it again, or name an uncompressed file .csv.") from None
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
        if kind in TEXTS:
            columns[name] = np.where(null, "", column.to_numpy().astype(object))
            missing[name] = _missing(columns[name])
        else:
            number = column.cast("int8") if kind == "bool" else column if kind in NUMBERS else column.cast("double")
            columns[name] = number.fill_null(0).to_numpy()  # filled: integers with nulls would come as floats
            missing[name] = null | np.isnan(columns[name])
    return Table(file, columns, missing, unusable=unusable, parts=parts)


# Encoding.


def encode(
    train: Table, test: Table | None, *, label: str, categorical: Sequence[str] = (), drop: Sequence[str] = (), missing: str = "refuse"
) -> tuple[Data, Data | None]:
    """(train, test) with the features, categories and medians of `train`; a category that only `test` has is zero everywhere."""
    if missing not in WAYS:
        raise unknown("way with missing values", missing, WAYS)
    tables = [train] if test is None else [train, test]
    features = _features(tables, label, categorical, drop)
    classes, labels = _labels(tables, label)
    numbers = {name: None if name in categorical else _numbers(tables, name) for name in features}
    kept = _kept(tables, features, missing)
    names: list[str] = []
    parts: list[list[NDArray]] = []  # of each feature column, one for each table
    for name, values in numbers.items():
        if values is None:
            texts = [_texts(table, name)[rows] for table, rows in zip(tables, kept, strict=True)]
            categories = sorted(set(texts[0]))
            if (many := len(categories)) > MOST:
                raise InputError(f"{train.file}: column {name!r} has {many:,} categories, and may have {MOST}: drop it with ?drop={name}.")
            parts.append([_one_hot(text, categories) for text in texts])
            names += [f"{name}={category}" for category in categories]
        else:
            middle = np.nanmedian(values[0])
            filled = [np.where(np.isnan(v), middle, v) for v in values]
            parts.append([v[rows, None] for v, rows in zip(filled, kept, strict=True)])
            names.append(name)
    inputs = [np.hstack(blocks) for blocks in zip(*parts, strict=True)]
    data = [
        Data(x, y[rows], classes, columns=tuple(names), names=table.called(np.flatnonzero(rows)))
        for table, x, y, rows in zip(tables, inputs, labels, kept, strict=True)
    ]
    return data[0], data[1] if test is not None else None


def hold_out(table: Table, label: str, share: float, seed: int) -> tuple[Table, Table]:
    """(train, test), cut before anything is learnt of a column: medians and categories are those of the training rows."""
    if label not in table.names:
        raise _no_column("label", label, table.file, table.names)
    classes, (labels,) = _labels([table], label)
    kept, held = held_share(Data(np.zeros((len(labels), 1)), labels, classes), share, seed)
    return table.take(kept), table.take(held)


def _features(tables: list[Table], label: str, categorical: Sequence[str], drop: Sequence[str]) -> list[str]:
    """The columns of the first table that are features, if every table has them and nothing else."""
    train = tables[0]
    if label not in train.names:
        raise _no_column("label", label, train.file, train.names)
    known = list(dict.fromkeys(name for table in tables for name in table.names if name != label))
    for option, name in [("?categorical", name) for name in categorical] + [("?drop", name) for name in drop]:
        if name == label:
            raise InputError(f"{option} names {name!r}, which is the label of {train.file}: it takes columns such as {_some(known, 20)}.")
        if name not in known:
            raise _no_column(option, name, _files(tables), known)
    used = [[name for name in table.names if name not in drop] for table in tables]
    only = [sorted(set(mine) - set(other)) for mine, other in zip(used, used[::-1], strict=True)]
    if any(only):
        told = "; ".join(f"only {table.file} has {_some(names, 20)}" for table, names in zip(tables, only, strict=True) if names)
        raise InputError(f"{_files(tables)} must have the same columns: {told}.")
    for table in tables:
        for name in [name for name in table.unusable if name not in drop]:
            advice = "name another label" if name == label else f"drop it with ?drop={name}"
            told = f"column {name!r} has type {table.unusable[name]}"
            raise InputError(f"{table.file}: {told}: numbers, booleans and text can be used; {advice}.")
    features = [name for name in used[0] if name != label]
    if not features:
        raise InputError(f"{train.file} has no feature columns: besides the label {label!r} it needs at least one that is not dropped.")
    for name in features:
        if train.missing[name].all():
            raise InputError(f"{train.file}: column {name!r} is missing in every row: drop it with ?drop={name}.")
    return features


def _no_column(role: str, name: str, file: str, names: list[str]) -> InputError:
    lower = {column.lower(): column for column in names}
    near = get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[near[0]]!r}? " if near else ""
    return InputError(f"no column {name!r} in {file} for {role}: {hint}There are {_some(names, 20)}.")


def _some(names: list[str], most: int) -> str:
    """'age, city and 4 more'"""
    return ", ".join(map(printable, names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _files(tables: list[Table]) -> str:
    return " and ".join(table.file for table in tables)


def _labels(tables: list[Table], label: str) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The class names, in order over all tables, and the labels of each table."""
    for table in tables:
        column = table.columns[label]
        blank = np.array([not cell.strip() for cell in column]) if column.dtype == object else table.missing[label]  # a class may be 'None'
        if blank.any():
            raise InputError(f"{table.at(label, int(blank.argmax()))}: it is the label, and every row needs one.")
    texts = [_texts(replace(table, missing={label: np.zeros(len(table.columns[label]), dtype=bool)}), label) for table in tables]
    classes = sorted({name for text in texts for name in text})
    numbers = {name: _number(name) for name in classes}
    if not np.isnan(list(numbers.values())).any():
        classes.sort(key=numbers.__getitem__)
        for one, other in pairwise(classes):
            if numbers[one] == numbers[other]:
                raise InputError(f"{_files(tables)}: labels {one!r} and {other!r} are the same number: write it in one way.")
    index = {name: i for i, name in enumerate(classes)}
    return classes, [np.array([index[name] for name in text], dtype=np.int64) for text in texts]


def _numbers(tables: list[Table], name: str) -> list[NDArray[np.float64]] | None:
    """The column in each table, NaN where it is missing; None if it is text."""
    found, kinds = [], {}
    for table in tables:
        column, missing = table.columns[name], table.missing[name]
        numbers = np.fromiter(map(_number, column), float, len(column)) if column.dtype == object else column.astype(float)
        values = np.where(missing, np.nan, numbers)
        text, large, count = np.isnan(values) & ~missing, np.abs(values) > LARGEST, int((~np.isnan(values)).sum())
        if text.any() and count:
            those = "value that is a number" if count == 1 else "values that are numbers"
            raise InputError(f"{table.at(name, int(text.argmax()))}, and {count:,} {those}: mend it, or say ?categorical={name}.")
        if large.any():
            raise InputError(f"{table.at(name, int(large.argmax()))}: numbers must be finite, and {LARGEST:.2g} at most.")
        if text.any() and all(NUMBERLIKE.fullmatch(cell.strip()) for cell in column[text]):
            told = table.at(name, int(text.argmax()))
            raise InputError(f"{told}: write numbers as 1234.5, or say ?categorical={name} if these are names.")
        if text.any() or count:
            kinds["numbers" if count else "text"] = table.file
        found.append(values)
    if len(kinds) == 2:
        told = f"column {name!r} is numbers in {kinds['numbers']} and text in {kinds['text']}"
        raise InputError(f"{told}: make them agree, or say ?categorical={name}.")
    return None if "text" in kinds else found


def _number(text: str) -> float:
    """NaN for what is no number; Python's own reading would let '1_000' through."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def _kept(tables: list[Table], features: list[str], way: str) -> list[NDArray[np.bool_]]:
    """The rows that stay in each table."""
    counts = {name: sum(int(table.missing[name].sum()) for table in tables) for name in features}
    told = _some([f"{name} {count:,}" for name, count in counts.items() if count], 10)
    if told and way == "refuse":
        ways = "?missing=fill puts in training medians and a category 'missing', ?missing=drop leaves those rows out"
        raise InputError(f"{_files(tables)}: values are missing ({told}): {ways}.")
    kept = [~np.any([table.missing[name] & (way == "drop") for name in features], axis=0) for table in tables]
    for table, rows in zip(tables, kept, strict=True):
        if not rows.any():
            raise InputError(f"{table.file}: every row has a missing value ({told}) and ?missing=drop leaves none: say ?missing=fill.")
    return kept


def _texts(table: Table, name: str) -> NDArray[np.object_]:
    """The column as text without blanks around it; 2.0 is '2', and what is missing is 'missing'."""
    column = table.columns[name]
    if column.dtype == object:
        texts = [cell.strip() for cell in column]
    else:
        texts = [text.removesuffix(".0") for text in (column + 0).astype(str).tolist()]  # + 0: there is no -0
    return np.where(table.missing[name], "missing", np.array(texts, dtype=object))


def _one_hot(texts: NDArray[np.object_], categories: list[str]) -> NDArray[np.float32]:
    """(rows, categories); zero everywhere for another category."""
    index = {category: i for i, category in enumerate(categories)}
    codes = np.array([index.get(text, -1) for text in texts])
    return (codes[:, None] == np.arange(len(categories))).astype(np.float32)
