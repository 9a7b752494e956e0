"""Rows of results where people look at them: as HTML in notebooks, and as DataFrames of pandas."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

from class_uncertainty.errors import missing
from class_uncertainty.text import decimal

MOST = 20  # rows that a notebook shows
CELL = "padding:.2em .6em;text-align:{}"


def to_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A DataFrame with a column for each key; pandas is needed for that alone."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError:
        raise missing("pandas", needed_by="to_frame() needs") from None
    return pandas.DataFrame(list(rows))


def html_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> str:
    """A table for a notebook: the first column is aligned left, as names are; of many rows the first ones."""
    head = "".join(_cell("th", column, i) for i, column in enumerate(columns))
    body = "".join(f"<tr>{''.join(_cell('td', cell, i) for i, cell in enumerate(row))}</tr>" for row in rows[:MOST])
    rest = [f"{len(rows) - MOST:,} more rows: to_frame() has all."] if len(rows) > MOST else []
    below = "".join(f"<p>{escape(note)}</p>" for note in (*rest, *notes))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><p><b>{escape(title)}</b></p>{table}{below}</div>"


def number(value: float | None, digits: int = 1, sign: str = "") -> str:
    """A number of a table; a dash where there is none."""
    return "–" if value is None else decimal(value, digits, sign)


def interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:.0f} to {high:.0f}"


def _cell(tag: str, content: object, place: int) -> str:
    return f'<{tag} style="{CELL.format("left" if place == 0 else "right")}">{escape(str(content))}</{tag}>'
