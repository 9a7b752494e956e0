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
from rich.console import Console
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
PIPE_WIDTH = 160  # of a wide table that goes to a file or another program
LINE_WIDTH, WIDEST_LINE = 80, 100  # of a sentence: in a pipe, and on a terminal at most
NO_VALUE = ("", "–")
MISSING = "-"  # in the place of a number that there is not
LABEL = 7  # characters of a label before a text, as in 'Kept   '
FILL = "\N{WORD JOINER}"  # the second cell of a wide character, as 猫; `printable` leaves none in a text

Rows = Sequence[Sequence[str]]


class Verbosity(StrEnum):
    """How much a command says: its last block, its answer, or how that came to be as well."""

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
    """The text with +- for ±, where it is read by a program or from a file."""
    return text if sys.stdout.isatty() else text.replace("±", "+-")


def show_lines(lines: Sequence[str], explain: bool = False) -> None:
    """Print the answer of a command and, where that is asked for, what its words mean."""
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
    """The text in lines of at most so many columns, broken between characters."""
    lines = [""]
    for character in text:
        if cell_len(lines[-1] + character) > width:
            lines.append("")
        lines[-1] += character
    return lines


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


def plain_table(columns: Sequence[str], rows: Rows, left: int = 1, widths: Sequence[int] = ()) -> Table:
    """A table whose first `left` columns are aligned left, the others right, as numbers are.

    The first columns are wrapped to `widths`. Without any, the first one is on one line.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        options: dict[str, Any] = {"justify": "left" if i < left else "right", "overflow": "fold"}
        if i < len(widths):
            options["width"] = widths[i]
        elif i == 0:
            options["no_wrap"] = True
        table.add_column(shown(column), **options)
    for row in rows:
        table.add_row(*(Text(shown(printable(cell))) for cell in row))  # Text: a class may be called [red]
    return table


def fitting_table(
    console: Console, columns: Sequence[str], rows: Rows, drop: Rows, last: Sequence[str] = ()
) -> tuple[Table, list[str]]:
    """The table without the groups of columns that must be dropped to fit, and the columns that were dropped.

    The first groups go first; those that still have room beside the columns that are left come back, the last first.
    If it never fits, cells are wrapped; where a number would be cut, more columns go: `last`, then from the right.
    """

    def kept(dropped: Sequence[str]) -> tuple[list[str], list[list[str]]]:
        places = [i for i, column in enumerate(columns) if column not in dropped]
        return [columns[i] for i in places], [[row[i] for i in places] for row in rows]

    def without(groups: Rows) -> tuple[Table, list[str], int]:
        dropped = [column for group in groups for column in group]
        table = plain_table(*kept(dropped))
        wide = console.measure(table, options=console.options.update(width=1000)).maximum
        return table, dropped, wide - console.width

    for number in range(len(drop) + 1):
        table, dropped, excess = without(drop[:number])
        if excess <= 0:
            break
    else:
        order = [column for column in dict.fromkeys([*last, *columns[:0:-1]]) if column not in dropped]
        while not (widths := _wrapped_widths(console.width, *kept(dropped))) and order:
            dropped.append(order.pop(0))
        return plain_table(*kept(dropped), widths=widths), dropped
    groups = list(drop[:number])
    for group in reversed(drop[:number]):
        fewer = [other for other in groups if other != group]
        again = without(fewer)
        if again[2] <= 0:
            groups, (table, dropped, _) = fewer, again
    return table, dropped


def _wrapped_widths(room: int, columns: Sequence[str], rows: Rows) -> list[int]:
    """How wide wrapped columns are, the widest narrowed first; none where a number or a short word would be cut."""
    texts = [shown("\n".join([name, *map(printable, cells)])) for name, *cells in zip(columns, *rows, strict=True)]
    widths = [max(map(cell_len, text.split("\n"))) for text in texts]
    room -= 3 * len(columns) - 1  # a space at both ends, and three between columns
    least = [max((_least(word) for word in text.split()), default=0) for text in texts]
    if sum(least) > room:
        return []
    while sum(widths) > room:
        widths[max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))] -= 1
    return widths


def _least(word: str) -> int:
    """The width below which a word would be cut; long ones of letters may go on in the next line."""
    return min(cell_len(word), NARROWEST) if re.search(r"[^\W\d]", word) else cell_len(word)


def print_fitting(
    columns: Sequence[str],
    rows: Rows,
    drop: Sequence[str],
    words: Sequence[str] = (),
    unnamed: Sequence[str] = (),
    hidden: Sequence[str] = (),
    last: Sequence[str] = (),
) -> list[str]:
    """Print the table that fits, name the columns that were dropped, and return them; the first of `drop` go first.

    Columns of `words` are aligned left, as the first one is. The caller tells what stood in those that are `unnamed`.
    Those that are `hidden`, and those to drop that no row has a value in, are left out, not named, and returned.
    Those that are `last` go where a number would be cut.
    """
    cells = dict(zip(columns, zip(*rows, strict=True), strict=False))  # no rows: none
    hidden = [*hidden, *(column for column in drop if column in cells and set(cells[column]) <= set(NO_VALUE))]
    out, places = console(), [i for i, column in enumerate(columns) if column not in hidden]
    kept, groups = [[row[i] for i in places] for row in rows], [[column] for column in drop if column not in hidden]
    table, dropped = fitting_table(out, [columns[i] for i in places], kept, groups, last)
    for column in table.columns:
        if column.header in words:
            column.justify = "left"
    out.print(table)
    named = [" ".join(column.split()) for column in dropped if column not in unnamed]  # on one line
    if named:
        say(f"No room for {', '.join(named)}: widen the terminal, or use --json.")
    return [*hidden, *dropped]


def print_json(document: Any) -> None:
    """Print one JSON document. Infinity and NaN become null, and control characters are escaped."""
    text = json.dumps(finite(document), indent=2, ensure_ascii=False)
    print(re.sub(r"[^\n -~]", lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text))
