"""The page: one value that says what a result is, as one HTML file that needs no network."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from class_uncertainty.errors import missing
from class_uncertainty.io import blank_mark, check_ending, check_replaceable, free_name, signed, write_whole
from class_uncertainty.reporting.charts import Chart, file_stem, standalone
from class_uncertainty.reporting.glossary import GLOSSARY
from class_uncertainty.reporting.page_examples import PAGE_BYTES, PICTURE_BYTES, PageExamples, page_data
from class_uncertainty.text import decimal, unbroken

ENDINGS = (".html", ".htm")
END = "</body>"
AT_ONCE = 50  # rows of a table that are laid out at first: the others are hidden until they are asked for
MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """A cell of a table, what the page sorts it by, and what a click on it opens."""

    text: str
    order: float | str | None = None  # None for a missing value, which goes last
    opens: str = ""  # examples of a class, "3", or of a confusion and how many it has, "3-5-17"
    tone: str = ""  # "good" or "bad"


@dataclass(frozen=True)
class Table:
    """Headings, and rows of as many cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def headings(self) -> list[tuple[str, bool]]:
        """The columns, and whether each holds words."""
        by_column = zip(*self.rows, strict=True)
        has_words = [any(isinstance(cell.order, str) for cell in cells) for cells in by_column]
        return list(zip(self.columns, has_words, strict=True))


@dataclass(frozen=True)
class Picture:
    """An image as a data URL, with lines below it."""

    url: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Block:
    """A part of a page below its first screen, folded or not."""

    heading: str
    text: Sequence[str] = ()
    chart: Chart | None = None
    table: Table | None = None
    pictures: Sequence[Picture] = ()
    is_folded: bool = True


@dataclass(frozen=True)
class KeyNumber:
    """One of the numbers of the first screen."""

    what: str
    number: str
    more: str = ""


@dataclass(frozen=True)
class Page:
    """What a page shows of one result: the answer first, and what is behind it below."""

    title: str
    about: str  # the data, and what judged
    lead: str
    chart: Chart | None = None
    numbers: Sequence[KeyNumber] = ()
    steps: Sequence[tuple[str, str]] = ()  # what to do next: (sentence, command)
    notes: Sequence[str] = ()
    blocks: Sequence[Block] = ()
    examples: PageExamples | None = None  # None where the data could not be read again

    @property
    def charts(self) -> list[Chart]:
        drawn = [self.chart, *(block.chart for block in self.blocks)]
        return [chart for chart in drawn if chart]

    def folded(self, heading: str) -> list[Block]:
        """The page as blocks of another one, the first with what this one leads with."""
        first, *others = self.blocks
        leading = Block(heading, [self.lead, *self.notes, *first.text], self.chart, first.table)
        return [leading, *others]


def text_cell(text: str, opens: str = "") -> Cell:
    """A cell of words, sorted by them."""
    return Cell(text, text, opens)


def number_cell(value: float | None, digits: int = 1, sign: str = "", tone: str = "") -> Cell:
    """A cell of a number, with a dash where there is none and a true minus sign."""
    if value is None or not math.isfinite(value):
        return Cell(MISSING)
    return Cell(decimal(value, digits, sign).replace("-", "−"), float(value), tone=tone)


def interval_cell(low: float | None, high: float | None, digits: int = 0, sign: str = "") -> Cell:
    """A cell of an interval, sorted by its lower end."""
    if low is None or high is None or not math.isfinite(low):
        return Cell(MISSING)
    ends = [decimal(end, digits, sign).replace("-", "−") for end in (low, high)]
    return Cell(" to ".join(ends), float(low))


def table_of(rows: Sequence[Mapping[str, Cell]]) -> Table | None:
    """A table of rows that are heading -> cell, without columns that have no value; None without rows."""
    if not rows:
        return None
    columns = [column for column in rows[0] if any(row[column].text != MISSING for row in rows)]
    return Table(columns, [[row[column] for column in columns] for row in rows])


def check_place(path: Path, made_from: str, force: bool = False, read: Iterable[object] = ()) -> None:
    """Refuse a path that cannot be written, that holds anything but this page, or that names another format."""
    check_ending(path, "report", ENDINGS)
    check_replaceable(path, made_from, force, read=read)


def page_place(
    made_from: str, page: Path | None, default: Path, force: bool = False, read: Iterable[object] = ()
) -> Path:
    """Where a page goes; without a name, to the default or beside it."""
    check = partial(check_place, made_from=made_from, force=force, read=read)
    page = page or free_name(default, check)
    check(page)
    return page


def write(
    pages: Sequence[Page], path: Path, folder: Path | None = None, made_from: str = "", force: bool = False
) -> list[Path]:
    """Write the pages as one file and, if a folder is given, every chart as SVG. Returns the files."""
    charts = dict[Path, Chart]()
    if folder:
        charts = {folder / f"{file_stem(page.title, chart)}.svg": chart for page in pages for chart in page.charts}
    for file in charts:
        check_replaceable(file, made_from, force)
    write_marked(path, render(pages, path.parent), made_from)
    for file, chart in charts.items():
        write_marked(file, standalone(chart), made_from)
    return [path, *charts]


def write_marked(path: Path, text: str, made_from: str) -> None:
    """Write a page or a chart with its mark."""
    marked = f"{text}<!-- {blank_mark(made_from)} -->\n"
    write_whole(path, signed(marked.encode(errors="replace"), made_from))


def render(pages: Sequence[Page], folder: Path) -> str:
    """The pages as HTML that will be in a folder, from which it links files. Examples share the room that is left."""
    with_examples = [(place, page.examples) for place, page in enumerate(pages) if page.examples]
    template = _template()
    shown: dict[str, Any] = {"pages": _lighter(pages), "glossary": GLOSSARY, "at_once": AT_ONCE}
    html = template.render(**shown, has_examples=bool(with_examples))
    room = (PAGE_BYTES - len(html.encode(errors="replace"))) // max(1, len(with_examples))
    data = {place: page_data(examples, folder, room) for place, examples in with_examples}
    scripts = [_data_script(place, of_page) for place, of_page in data.items()]
    before, _, after = html.rpartition(END)
    return f"{before}{''.join(scripts)}{END}{after}"


def _lighter(pages: Sequence[Page]) -> list[Page]:
    """The pages without the pictures beside the text that would make the file too large."""
    room = PICTURE_BYTES
    lighter = []
    for page in pages:
        blocks = []
        for block in page.blocks:
            size = sum(len(picture.url) for picture in block.pictures)
            if size > room:
                block = replace(block, pictures=())
            else:
                room -= size
            blocks.append(block)
        lighter.append(replace(page, blocks=blocks))
    return lighter


def _data_script(place: int, data: dict[str, Any]) -> str:
    """The examples of a page as JSON, in which no name can end the script."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" class="examples" data-page="{place}">{text}</script>\n'


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise missing("jinja2", needed_by="the report needs") from None
    environment = Environment(
        loader=PackageLoader("class_uncertainty", "reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: unbroken(value) if type(value) is str else value,  # not charts
    )
    return environment.get_template("page.html")
