"""Tables and progress bars for a terminal."""

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import takewhile, zip_longest
from math import isnan
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)  # fmt: skip
from rich.table import Table
from rich.text import Text

from class_uncertainty.errors import InputError
from class_uncertainty.io import finite
from class_uncertainty.reporting.glossary import explained
from class_uncertainty.text import decimal, printable, shown, unbroken

NARROWEST = 13  # characters of a word, such as duplicate=0.3, that stay on one line
BETWEEN = 3  # characters between the columns of a wide table
PIPE_WIDTH = 160  # of a wide table that goes to a file or another program
LINE_WIDTH, WIDEST_LINE = 80, 100  # of a sentence: in a pipe, and on a terminal at most
MISSING = "-"  # instead of a number that is not known
LABEL = 7  # characters of a label before a text, as in 'Kept   '
FILL = "\N{WORD JOINER}"  # the second cell of a wide character, as 猫; `printable` leaves none in a text

Rows = Sequence[Sequence[str]]


class Verbosity(StrEnum):
    """How much a command prints: its last block, its answer, or also how it was found."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"

    @classmethod
    def of(cls, verbose: bool, quiet: bool) -> "Verbosity":
        """What --verbose and --quiet ask for."""
        if verbose and quiet:
            raise InputError("--quiet and --verbose are both given: give one of them.")
        if quiet:
            return cls.QUIET
        return cls.VERBOSE if verbose else cls.NORMAL


def console() -> Console:
    """Standard output, wide where it is not a terminal and COLUMNS does not say how wide."""
    told = os.environ.get("COLUMNS", "")
    is_known = sys.stdout.isatty() or (told.isascii() and told.isdigit() and int(told) > 0)  # rich reads COLUMNS
    return Console(width=None if is_known else PIPE_WIDTH, soft_wrap=False, highlight=False)


def say(*lines: str, width: int | None = None) -> None:
    """Print lines for people. Control characters in the names of files and classes are shown as escapes.

    In a pipe ± is written as +-.
    """
    text = "\n".join(wrapped(printable(line), width or console().width) for line in lines)
    console().print(_as_output(text), markup=False)


def _as_output(text: str) -> str:
    """The text with +- for ± in pipes and files."""
    return text if sys.stdout.isatty() else text.replace("±", "+-")


def show_lines(lines: Sequence[str], explain: bool = False) -> None:
    """Print the answer of a command and, with --explain, what its words mean."""
    meanings = explained(lines) if explain else []
    say(*lines, *meanings, width=line_width())


def line_width() -> int:
    """The width of sentences and narrow tables: 80 in a pipe, that of the terminal up to 100 elsewhere."""
    if os.environ.get("COLUMNS") or sys.stdout.isatty():
        return min(console().width, WIDEST_LINE)
    return LINE_WIDTH


def table_lines(columns: Sequence[str], rows: Rows, width: int, words: Sequence[str] = ()) -> list[str]:
    """The lines of `table_rows`, the headings first."""
    return [line for lines in table_rows(columns, rows, width, words) for line in lines]


def table_rows(columns: Sequence[str], rows: Rows, width: int, words: Sequence[str] = ()) -> list[list[str]]:
    """A table without rules as the lines of its headings and of each row, with two spaces before each column.

    The first column and those of `words` are aligned left, the others right, as numbers are. Of the former, cells that
    have no room go on in the next line. Nothing is dropped.
    """
    cells = [[_as_output(shown(printable(cell))) for cell in row] for row in (columns, *rows)]
    is_left = [i == 0 or column in words for i, column in enumerate(columns)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    _make_room(widths, [i for i in range(len(widths)) if is_left[i]], width - 2 * len(widths))
    lines = []
    for row in cells:
        parts = [_folded(cell, widths[i]) if is_left[i] else [cell] for i, cell in enumerate(row)]
        of_row = []
        for line in zip_longest(*parts, fillvalue=""):
            padded = [_padded(cell, widths[i], is_left[i]) for i, cell in enumerate(line)]
            of_row.append(("  " + "  ".join(padded)).rstrip())
        lines.append(of_row)
    return lines


def _make_room(widths: list[int], folding: Sequence[int], room: int) -> None:
    """Narrow the widest of the columns that fold until all fit, or each is NARROWEST."""
    while sum(widths) > room:
        widest = max(folding, key=lambda i: widths[i])
        if widths[widest] <= NARROWEST:
            return
        widths[widest] -= 1


def _padded(cell: str, width: int, is_left: bool) -> str:
    spaces = " " * (width - cell_len(cell))
    return cell + spaces if is_left else spaces + cell


def _folded(text: str, width: int) -> list[str]:
    """The text in lines of at most so many columns, broken at spaces where there are any."""
    lines = [""]
    for word in re.split("(?<= )", text):
        if lines[-1] and cell_len(lines[-1] + word.rstrip()) > width:
            lines.append("")
        for character in word:
            if lines[-1] and cell_len(lines[-1] + character) > width and character != " ":
                lines.append("")
            lines[-1] += character
    return [line.rstrip() for line in lines]


def labelled_lines(label: str, text: str, width: int) -> list[str]:
    """'Kept   one network, ...': a text behind its label, indented where it goes on."""
    first, *others = wrapped(printable(text), width - LABEL, cuts_words=True).split("\n")
    return [f"{label:<{LABEL}}{first}", *(" " * LABEL + line for line in others)]


def figure(value: float | None, digits: int = 1, sign: str = "") -> str:
    """A number of a table; MISSING for None and NaN."""
    return MISSING if value is None or isnan(value) else decimal(value, digits, sign)


def span(low: float | None, high: float | None, digits: int = 0, sign: str = "") -> str:
    """'3 to 12', the interval of a number; MISSING where it is not known."""
    if low is None or high is None or isnan(low) or isnan(high):
        return MISSING
    return f"{decimal(low, digits, sign)} to {decimal(high, digits, sign)}"


def cells_in_order(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """The columns of a table whose rows are dictionaries, and the rows; a column that no row has a value in is gone."""
    columns = [column for column in rows[0] if any(row[column] not in ("", MISSING) for row in rows)]
    return columns, [[row[column] for column in columns] for row in rows]


def in_blocks(blocks: Iterable[Sequence[str]], width: int) -> list[str]:
    """The lines of all blocks that have any, wrapped, with an empty line between two blocks."""
    lines: list[str] = []
    for block in filter(None, blocks):
        if lines:
            lines.append("")
        for line in block:
            lines += wrapped(printable(line), width).split("\n")
    return lines


def wrapped(line: str, width: int, cuts_words: bool = False) -> str:
    """The line in several, if need be: numbers stay with their units, and the last has not one word alone."""
    keep: dict[str, Any] = {"break_long_words": cuts_words, "break_on_hyphens": False}
    as_wide = "".join(c + FILL * (cell_len(c) - 1) for c in unbroken(line))  # textwrap counts characters
    first = textwrap.wrap(as_wide, width, **keep)
    narrower = (textwrap.wrap(as_wide, narrow, **keep) for narrow in range(width, width // 2, -1))
    same = takewhile(lambda lines: len(lines) == len(first), narrower)
    lines = next((lines for lines in same if len(lines) < 2 or " " in lines[-1]), first)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ").replace(FILL, "")


class SpeedColumn(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextmanager
def progress_bars(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A function of (what, done, total) that keeps a bar on stderr for each `what`."""
    amount = [DownloadColumn()] if unit == "bytes" else [MofNCompleteColumn(), TextColumn(unit), SpeedColumn()]
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *amount, TimeRemainingColumn())
    out = Console(stderr=True)
    quiet = not sys.stderr.isatty() or out.is_dumb_terminal
    with Progress(*columns, console=out, disable=quiet, transient=True) as progress:
        tasks = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(printable(what), total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield update


def print_table(
    columns: Sequence[str], rows: Rows, words: Sequence[str] = (), widths: Mapping[str, int] | None = None
) -> None:
    """Print a wide table: the first column and those of `words` aligned left, the others right, as numbers are.

    Words are wrapped, in columns of these `widths`. Nothing is dropped and no number is cut: lines may be too wide.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [[shown(printable(cell)) for cell in row] for row in rows]
    needed = 0
    for i, column in enumerate(columns):
        is_words = i == 0 or column in words
        justify: JustifyMethod = "left" if is_words else "right"
        width = (widths or {}).get(column)
        table.add_column(shown(column), justify=justify, overflow="fold", width=width, no_wrap=not is_words)
        longest = max(cell_len(line) for line in [*column.split("\n"), *(row[i] for row in cells)])
        needed += BETWEEN + (min(longest, NARROWEST) if is_words else longest)
    for row in cells:
        table.add_row(*map(Text, row))  # Text: a class may be called [red]
    out = console()
    out.width = max(out.width, needed)
    out.print(table)


def print_json(document: Any) -> None:
    """Print one JSON document. Infinity and NaN become null, and control characters are escaped."""
    text = json.dumps(finite(document), indent=2, ensure_ascii=False)
    print(re.sub(r"[^\n -~]", lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text))
