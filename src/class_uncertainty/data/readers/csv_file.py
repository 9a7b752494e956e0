"""CSV files as tables: UTF-8, plain or gzipped, with any of the usual delimiters."""

import csv
import gzip
import io
import re
import zlib
from pathlib import Path

import numpy as np

from class_uncertainty.data.table import Table, check_names, is_missing
from class_uncertainty.errors import InputError, notice
from class_uncertainty.io import read_regular
from class_uncertainty.text import listed, read_faults

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
DELIMITERS = (",", ";", "\t", "|")


def read_csv(path: Path, header: bool = True) -> Table:
    """A .csv or .csv.gz file whose first line names the columns; without a header they are called '1', '2', ..."""
    file = str(path)
    rows, lines = read_rows(path)
    names = [name.strip() for name in rows[0]]
    if header and len(names) > 1 and not names[0] and _numbers_rows([row[0].strip() for row in rows[1:]]):
        notice(f"{file}: column 1 has no name and only numbers the rows: it is left out.")
        names, rows = names[1:], [row[1:] for row in rows]
    if not header:
        names, rows, lines = [str(i + 1) for i in range(len(names))], [names, *rows], [0, *lines]
    elif _looks_like_data(names, rows[1:]):
        given = f"line {lines[0]} is taken for the names of columns, and looks like data"
        notice(f"{file}: {given} ({listed(names, 3)}): add ?header=no if it is.")
    check_names(file, names, len(rows) - 1)
    cells = np.array(rows[1:], dtype=object)  # (rows, columns)
    columns = {name: cells[:, i] for i, name in enumerate(names)}
    return Table(file, columns, {name: is_missing(column) for name, column in columns.items()}, np.array(lines[1:]))


def header_of(path: Path) -> list[str]:
    """The cells of the first line."""
    return [name.strip() for name in read_rows(path)[0][0]]


def _numbers_rows(cells: list[str]) -> bool:
    """Whether these are whole numbers that all differ, as programs write them before the columns of a table."""
    return all(cell.isascii() and cell.isdigit() for cell in cells) and len(set(cells)) == len(cells)


def _looks_like_data(names: list[str], rows: list[list[str]]) -> bool:
    """Whether numbers stand above numbers, other than those that count columns or years: 0, 1, 2 or 2023, 2024."""
    numeric = [i for i, name in enumerate(names) if NUMBER.fullmatch(name)]
    if len(numeric) > 1 and all(names[i].isdigit() for i in numeric):
        first = int(names[numeric[0]])
        if [int(names[i]) for i in numeric] == list(range(first, first + len(numeric))):
            return False
    return any(NUMBER.fullmatch(row[i].strip()) for row in rows[:1] for i in numeric)


def read_rows(path: Path) -> tuple[list[list[str]], list[int]]:
    """Rows of equally many cells, at least one, and the line on which each starts. Blank lines are no rows.

    The file is in UTF-8. Its first line tells which of , ; tab | ends a cell.
    """
    file, text = str(path), _text(path)
    # the most frequent one in the header, outside quoted names
    header = re.match(r'(?:[^"\r\n]+|"[^"]*")*', text.lstrip("\r\n"))
    delimiter = max(DELIMITERS, key=re.sub(r'"[^"]*"', "", header.group() if header else "").count)
    # StringIO would take four bytes a character
    stream = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8", newline="")
    reader = csv.reader(stream, delimiter=delimiter, strict=True)  # or an unclosed quote would swallow rows
    rows, lines, start = list[list[str]](), list[int](), 1
    uneven = list[tuple[int, int]]()  # lines, and how many cells they have
    try:
        for row in reader:
            if row and rows and len(row) != len(rows[0]):
                uneven.append((start, len(row)))
            elif row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        limit = f"a quoted cell ends with a quote, and no cell has more than {csv.field_size_limit():,} characters"
        raise InputError(f"{file} is not CSV in line {start} ({error}): {limit}.") from None
    if uneven:
        line, count = uneven[0]
        counts = f"{count} cells, and the header {len(rows[0])} (cells end at {delimiter!r})"
        others = f", and {len(uneven) - 1:,} more lines have another number" if uneven[1:] else ""
        raise InputError(f"{file}: line {line} has {counts}{others}: every row needs as many.")
    if not rows:
        raise InputError(f"{file} is empty: its first line must name the columns.")
    return rows, lines


def _text(path: Path) -> str:
    content = read_regular(path)
    if path.suffix.lower() == ".gz":
        with read_faults(path, "is not a complete gzip file", (gzip.BadGzipFile, EOFError, zlib.error)):
            content = gzip.decompress(content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte, line = error.object[error.start], _line(error.object, error.start)
        raise InputError(f"{path} has byte {byte:#04x} in line {line}: save it as UTF-8.") from None
    if "\0" in text:
        raise InputError(f"{path} has a NUL byte in line {_line(content, content.index(0))}: save it as UTF-8 text.")
    return text


def _line(content: bytes, position: int) -> int:
    return len((content[:position] + b".").splitlines())
