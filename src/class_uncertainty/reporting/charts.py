"""Charts as SVG, as wide as the page: lines of a table with a mark at each value, and curves.

Places across are in percent of the width and places down in pixels, so that text keeps its size on a phone. Colours
are classes of the style sheet, in which light and dark differ.
Hovering over a mark shows its title.
"""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from class_uncertainty.text import amount_of, printable

MOST_ROWS = 15
WIDTH = 720  # pixels of a chart in a file of its own; in the page it is as wide as there is room
ROW, LEGEND, AXIS = 30, 26, 40  # pixels of height
PANEL = 250  # of the plot of a curve chart
NAME = 14  # characters of a name beside a line; its title has all
CHARACTER = 1.85  # percent of the narrowest chart, 360 pixels
MOST_COLUMN = 30.0  # percent of the width for names, or for what stands at the end of a line
MARGIN = 9.0  # percent of the width for the labels of an axis that goes up
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)  # steps of an axis, times a power of ten
MOST_STEPS = 5
MOST_KEYS = 12  # curves whose names stand above
MOST_LETTERS = 40  # of the data's name in the name of a file


@dataclass(frozen=True)
class Chart:
    """A drawing, its name as a file, and a sentence on what it shows."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Row:
    """A line of a row chart: a value, where it came from, and the interval that it may lie in."""

    name: str
    value: float
    text: str  # at the end of the line
    start: float | None = None
    low: float | None = None
    high: float | None = None
    tone: str = ""  # "good", "bad", or "" where nothing is clear
    about: str = ""  # its title, after the name

    @property
    def ends(self) -> list[float]:
        return [end for end in (self.value, self.start, self.low, self.high) if end is not None]


@dataclass(frozen=True)
class Axis:
    """Values along a side, from low to high, with ticks and their labels."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def place(self, value: float) -> float:
        """Where a value stands, in percent of the side."""
        return 100 * (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Series:
    """Points (x, y, title), which lines join in their order; without `has_dots` only the lines are seen."""

    name: str
    points: Sequence[tuple[float, float, str]]
    is_joined: bool = True
    has_dots: bool = True


def axis_from_zero(title: str, highest: float, format_tick: Callable[[float], str] = "{:g}".format) -> Axis:
    """From 0 to the first tick that no value exceeds, so that differences look as large as they are."""
    highest = highest if math.isfinite(highest) and highest > 0 else 1.0
    power = 10.0 ** math.floor(math.log10(highest / MOST_STEPS))
    step = next(nice * power for nice in NICE if nice * power * MOST_STEPS >= highest * (1 - 1e-9))
    number = math.ceil(highest / step - 1e-9)
    values = [round(i * step, 12) for i in range(number + 1)]
    return Axis(title, 0.0, values[-1], [(value, format_tick(value)) for value in values])


def row_chart(
    name: str, rows: Sequence[Row], title: str, caption: str, *, legend: str = "", reference: float | None = None
) -> Chart:
    """A line for each of the first rows: a ring where it started, a dot at its value, a bar for its interval.

    A dashed line stands at the reference. The caption counts the rows that are not drawn.
    """
    if len(rows) > MOST_ROWS:
        caption += f" {amount_of(len(rows) - MOST_ROWS, 'more is', 'more are')} in the table alone."
        rows = rows[:MOST_ROWS]
    ends = [end for row in rows for end in row.ends if math.isfinite(end)]
    axis = axis_from_zero(title, max([*ends, reference or 0.0], default=0.0))
    top = LEGEND if legend else 8
    bottom = top + ROW * len(rows)
    left = _column([row.name[:NAME] for row in rows])
    right = _column([row.text for row in rows])
    plot = [_line(axis.place(tick), top - 4, axis.place(tick), bottom, "grid") for tick, _ in axis.ticks]
    plot += [_text(f"{axis.place(tick):.2f}%", bottom + 16, label, "tick", "middle") for tick, label in axis.ticks]
    plot.append(_text("50%", bottom + 33, title, "tick", "middle"))
    if reference is not None:
        plot.append(_line(axis.place(reference), top - 4, axis.place(reference), bottom, "reference"))
    beside = [_text("0", 14, legend, "tick")] if legend else []
    for place, row in enumerate(rows):
        middle = top + ROW * (place + 0.5)
        plot.append(_row_marks(row, middle, axis))
        beside.append(_text(f"{left - 2.5:.2f}%", middle + 4, _short(row.name), "name", "end"))
        beside.append(_text("100%", middle + 4, row.text, "value", "end"))
    inner = f'<svg x="{left:.2f}%" width="{100 - left - right:.2f}%" height="{bottom + AXIS}" overflow="visible">'
    return _chart(name, [*beside, inner, *plot, "</svg>"], bottom + AXIS, caption)


def _row_marks(row: Row, middle: float, axis: Axis) -> str:
    """The marks of a line, with one title for all; its whole height answers to the pointer."""
    marks = [f'<rect x="0" y="{middle - ROW / 2:g}" width="100%" height="{ROW}" class="hit"/>']
    value = axis.place(row.value)
    if row.low is not None and row.high is not None:
        marks.append(_line(axis.place(row.low), middle, axis.place(row.high), middle, f"interval {row.tone}"))
    if row.start is not None:
        start = axis.place(row.start)
        marks.append(_line(start, middle, value, middle, f"change {row.tone}"))
        marks.append(_dot(start, f"{middle:g}", "start"))
    marks.append(_dot(value, f"{middle:g}", f"dot {row.tone}"))
    return f"<g>{_title(f'{row.name}: {row.about or row.text}')}{''.join(marks)}</g>"


def curve_chart(
    name: str, series: Sequence[Series], across: Axis, up: Axis, caption: str, *, diagonal: bool = False
) -> Chart:
    """Curves or clouds of dots, in up to seven colours; on a dashed diagonal both coordinates are equal."""
    bottom = LEGEND + PANEL
    plot = [_line(0, up_place, 100, up_place, "grid") for up_place in _heights(up)]
    plot += [_line(across.place(tick), LEGEND, across.place(tick), bottom, "grid") for tick, _ in across.ticks]
    if diagonal:
        plot.append(_line(0, bottom, 100, LEGEND, "reference"))
    for number, one in enumerate(series):
        plot += _curve(one, f"s{number % 7 + 1}", across, up)
    plot += [_text(f"{across.place(tick):.2f}%", bottom + 16, label, "tick", "middle") for tick, label in across.ticks]
    plot += [
        _text("-5", height + 4, label, "tick", "end") for height, (_, label) in zip(_heights(up), up.ticks, strict=True)
    ]
    plot.append(_text("50%", bottom + 33, across.title, "tick", "middle"))
    inner = f'<svg x="{MARGIN}%" width="{98 - MARGIN}%" height="{bottom + AXIS}" overflow="visible">'
    key = f'<text x="0" y="14" class="tick">{_escaped(up.title)}{_key(series)}</text>'
    return _chart(name, [key, inner, *plot, "</svg>"], bottom + AXIS, caption)


def _heights(up: Axis) -> list[float]:
    return [_height(up, tick) for tick, _ in up.ticks]


def _height(up: Axis, value: float) -> float:
    """Pixels from the top of a curve chart."""
    return round(LEGEND + PANEL * (1 - up.place(value) / 100), 2)


def _curve(one: Series, colour: str, across: Axis, up: Axis) -> list[str]:
    places = [(across.place(x), _height(up, y)) for x, y, _ in one.points]
    marks = []
    if one.is_joined:
        for start, end in pairwise(places):
            marks.append(_line(*start, *end, f"curve {colour}"))
    if one.has_dots:
        for (x, y), (_, _, about) in zip(places, one.points, strict=True):
            marks.append(f"<g>{_title(about)}{_dot(x, f'{y:g}', f'point {colour}')}</g>")
    return marks


def _key(series: Sequence[Series]) -> str:
    """Which colour is which, where there are several, and not too many."""
    if not 1 < len(series) <= MOST_KEYS:
        return ""
    return "".join(
        f'<tspan dx="12" class="key s{number % 7 + 1}">●</tspan> {_escaped(one.name)}'
        for number, one in enumerate(series)
    )


def standalone(chart: Chart) -> str:
    """The chart as a file of its own, with the colours of the page, light and dark."""
    style = Path(__file__).with_name("chart_style.css").read_text()
    head, _, body = chart.svg.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">{_title(chart.caption)}<style>{style}</style>{body}\n'


def file_stem(section: str, chart: Chart) -> str:
    """The name of a chart's file: of the data and of what it shows."""
    data = re.sub(r"\W+", "-", section).strip("-_")
    if len(data) > MOST_LETTERS:
        digest = hashlib.sha256(section.encode(errors="replace")).hexdigest()[:6]
        data = f"{data[:MOST_LETTERS]}-{digest}"
    return f"{data}-{chart.name}" if data else chart.name


def _chart(name: str, parts: Sequence[str], height: float, caption: str) -> Chart:
    return Chart(name, f'<svg class="chart" width="{WIDTH}" height="{height:g}">{"".join(parts)}</svg>', caption)


def _column(texts: Sequence[str]) -> float:
    """Percent of the width that the longest of some texts needs."""
    longest = max(map(len, texts), default=0)
    return min(MOST_COLUMN, 5 + CHARACTER * longest)


def _short(name: str) -> str:
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.2f}%" y1="{y1:g}" x2="{x2:.2f}%" y2="{y2:g}" class="{kind.strip()}"/>'


def _dot(x: float, y: str, kind: str) -> str:
    return f'<circle cx="{x:.2f}%" cy="{y}" r="5" class="{kind.strip()}"/>'


def _text(x: str, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{_escaped(text)}</text>'


def _title(text: str) -> str:
    return f"<title>{_escaped(text)}</title>"


def _escaped(text: str) -> str:
    """Without characters that XML has no place for; minus signs are true ones."""
    return escape(printable(text), quote=False)
