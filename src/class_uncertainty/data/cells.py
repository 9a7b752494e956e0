"""Cells of a table as numbers or as text; columns that are neither are refused, all of them in one sentence."""

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.example_checks import check_apart
from class_uncertainty.data.table import LARGEST, Table
from class_uncertainty.errors import InputError

EXACT = 2**53  # up to which float64 holds every whole number
NUMBERLIKE = re.compile(r"[+-]?[\d.,_' ]*\d[\d.,_' ]*%?")  # 1,5 or 1_000 or 12 %: people mean different things by them
FEW = 3  # columns that a sentence says everything about

T = TypeVar("T")


class ColumnProblem(InputError):
    """A column cannot be used, and an option that names it helps: 'GIVEN: ADVICE.'"""

    def __init__(self, table: Table, name: str, given: str, advice: str, option: str) -> None:
        super().__init__(f"{given}: {advice.format(table.option(option, name))}.")
        self.table, self.name, self.given, self.option = table, name, given, option


def of_columns(names: Iterable[str], take: Callable[[str], T]) -> dict[str, T]:
    """What `take` makes of each column; those that it refuses are refused together."""
    taken, problems = dict[str, T](), list[ColumnProblem]()
    for name in names:
        try:
            taken[name] = take(name)
        except ColumnProblem as problem:
            problems.append(problem)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        advice = [
            problems[0].table.option(option, *(problem.name for problem in problems if problem.option == option))
            for option in dict.fromkeys(problem.option for problem in problems)
        ]
        file = problems[0].table.file
        given = "; ".join(problem.given.removeprefix(f"{file}: ") for problem in problems[:FEW])
        more = f"; and {len(problems) - FEW} more" if len(problems) > FEW else ""
        advised = f"correct them, or add {' and '.join(advice)}"
        raise InputError(f"{file}: {len(problems)} columns cannot be used ({given}{more}): {advised}.")
    return taken


def numbers(tables: list[Table], name: str) -> list[NDArray[np.float64]] | None:
    """The column in each table, NaN where it is missing; None if it is text."""
    columns, files = [], {}  # files: the last one with numbers, and with text
    for table in tables:
        values = np.where(table.missing[name], np.nan, as_numbers(table.columns[name]))
        is_number = ~np.isnan(values)
        is_text = ~is_number & ~table.missing[name]
        _check_cells(table, name, values, is_text)
        if is_number.any() or is_text.any():
            files["numbers" if is_number.any() else "text"] = table.file
        columns.append(values)
    if len(files) == 2:
        given = f"column {name!r} is numbers in {files['numbers']} and text in {files['text']}"
        raise ColumnProblem(tables[0], name, given, "make them agree, or add {}", "categorical")
    return None if "text" in files else columns


def _check_cells(table: Table, name: str, values: NDArray[np.float64], is_text: NDArray[np.bool_]) -> None:
    """Refuse numbers mixed with text, too large, written oddly, or lost when rounded."""
    count, large, first_text = int((~np.isnan(values)).sum()), np.abs(values) > LARGEST, int(is_text.argmax())
    if is_text.any() and count:
        given = f"{table.at(name, first_text)}, and {count:,} {'number' if count == 1 else 'numbers'}"
        raise ColumnProblem(table, name, given, "correct it, or add {}", "categorical")
    if large.any():
        given, most = table.at(name, int(large.argmax())), f"numbers must be finite, and {LARGEST:.2g} at most"
        raise ColumnProblem(table, name, given, f"{most}; {{}} leaves it out", "drop")
    if is_text.any() and all(NUMBERLIKE.fullmatch(cell.strip()) for cell in table.columns[name][is_text]):
        advice = "write numbers as 1234.5, or add {} if these are names"
        raise ColumnProblem(table, name, table.at(name, first_text), advice, "categorical")
    _check_integers(table, name, values)


def _check_integers(table: Table, name: str, values: NDArray[np.float64]) -> None:
    """Compare whole numbers that float64 does not hold as they were written: as floats, all ids may be equal."""
    column, rows = table.columns[name], np.flatnonzero(~np.isnan(values))
    if column.dtype.kind == "f" or not len(rows) or np.abs(values[rows]).max() < EXACT:
        return
    whole = [int(exact(cell)) if isinstance(cell, str) else int(cell) for cell in column[rows]]
    lowest = min(whole)
    offsets = np.array([number - lowest for number in whole], dtype=float)[:, None]
    advice = f"drop it with {table.option('drop', name)}, or add {table.option('categorical', name)}"
    check_apart([f"{table.file}: column {name!r}"], values[rows].astype(np.float32)[:, None], offsets, advice)


def as_numbers(column: NDArray) -> NDArray[np.float64]:
    if column.dtype == object:
        return np.fromiter(map(_number, column), float, len(column))
    with np.errstate(invalid="ignore"):  # some NaN of float16 and float32 signal
        return column.astype(float)


def _number(text: str) -> float:
    """NaN for text that is no number; float() alone would accept '1_000'."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def exact(text: str) -> int | float:
    """A number as `_number` reads it, but exact where float64 is not."""
    number = _number(text)
    return int(Decimal(text.strip())) if EXACT <= abs(number) <= LARGEST else number


def texts(table: Table, name: str) -> NDArray[np.object_]:
    """The column as text; missing values are 'missing'."""
    return np.where(table.missing[name], "missing", as_texts(table.columns[name]))


def as_texts(column: NDArray) -> NDArray[np.object_]:
    """A column as text without blanks around it; 2.0 is '2'."""
    if column.dtype == object:
        return np.array([cell.strip() for cell in column], dtype=object)
    return np.array([text.removesuffix(".0") for text in (column + 0).astype(str).tolist()], dtype=object)  # + 0: no -0
