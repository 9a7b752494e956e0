"""The figures: the two measures against each other, test errors against each measure, the methods' errors.

Altair is imported late, so that training works where it is not installed. A chart holds no colour of its own: all colours come
from `config`, which the HTML report calls with CSS variables, so that its charts turn dark with the page.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from class_uncertainty.errors import InputError
from class_uncertainty.reporting.tables import ClassRow, MethodRow, Section, spearman

MEASURES = {"cardinality": "Cardinality", "effective": "Effective number", "uncertainty": "Uncertainty"}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
LIGHT = {
    "ink": "#1c2126", "muted": "#58626d", "line": "#dfe3e8", "surface": "#ffffff", "soft": "#f4f6f8",
    "c1": "#0b62a8", "c2": "#b8470a", "c3": "#00755a", "c4": "#8a3f8f", "c5": "#7d5a00", "c6": "#55606b", "c7": "#b02a63",
}  # fmt: skip
DARK = {
    "ink": "#e7eaed", "muted": "#a4adb6", "line": "#333a42", "surface": "#15191d", "soft": "#1e242a",
    "c1": "#6fb4f3", "c2": "#f0965e", "c3": "#4fc4a2", "c4": "#d595d9", "c5": "#d7b24f", "c6": "#a9b2bb", "c7": "#f184b1",
}  # fmt: skip
SHAPES = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right"]  # colour alone is not for all eyes
LABEL = 14  # characters of a class name that is written into a chart
NAMED = 10  # classes that a chart names at most; it tries three times as many


def charts(section: Section) -> dict[str, Any]:
    """Name -> chart, of those that the section has data for."""
    alt = _altair()
    drawn: dict[str, Any] = {}
    if section.classes:
        drawn["measures"] = _measures(alt, section.classes)
    if any(row.error is not None for row in section.classes):
        drawn["errors"] = _errors(alt, section.classes)
    if any(row.error is not None for row in section.methods):
        drawn["comparison"] = _comparison(alt, section.methods)
    if section.mended:
        from class_uncertainty.reporting import mended  # which needs this module

        drawn |= mended.charts(alt, section.mended)
    return {name: chart.configure(**config(LIGHT)) for name, chart in drawn.items()}


def files(section: Section, specs: Mapping[str, dict[str, Any]], folder: Path) -> dict[Path, tuple[str, dict[str, Any]]]:
    """Each chart as SVG and as PNG, to be drawn; the files are named after the section, so that several share a folder."""
    prefix = re.sub(r"\W+", "-", section.name).strip("-_")
    if len(prefix) > 40:  # file names have at most 255 bytes, a letter up to 4
        prefix = f"{prefix[:33].strip('-_')}-{hashlib.sha256(section.name.encode()).hexdigest()[:6]}"
    stems = {name: f"{prefix}-{name}" if prefix else name for name in specs}
    return {folder / f"{stems[name]}.{suffix}": (suffix, spec) for name, spec in specs.items() for suffix in ("svg", "png")}


def vegalite() -> str:
    """The version Altair writes for: '6.4'."""
    return ".".join(_altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])


def _altair() -> Any:
    try:
        return import_module("altair")
    except ModuleNotFoundError:
        raise InputError("charts need altair, which is not installed: run 'pip install altair'.") from None


def config(colours: Mapping[str, str]) -> dict[str, Any]:
    """Vega-Lite's configuration in the given colours: those of LIGHT, or CSS variables in their place."""
    ink, muted, line = colours["ink"], colours["muted"], colours["line"]
    words = {"labelColor": muted, "titleColor": muted, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "background": colours["surface"],
        "font": FONT,
        "view": {"stroke": None},
        "mark": {"aria": False},  # the same numbers stand in the tables, which are the better thing to have read aloud
        "axis": {"gridColor": line, "domainColor": line, "tickColor": line, "labelPadding": 5, "titlePadding": 8} | words,
        "legend": {"orient": "top", "offset": 8, "symbolSize": 70, "symbolStrokeWidth": 0, "labelLimit": 240} | words,
        "title": {"color": ink, "subtitleColor": muted, "anchor": "start", "fontSize": 13, "subtitleFontSize": 12, "offset": 10},
        "range": {"category": [colours[f"c{i}"] for i in range(1, 8)]},
        "style": {
            "dot": {"color": colours["c1"], "size": 55, "opacity": 0.9},
            "name": {"color": ink, "fontSize": 11},
            "diagonal": {"color": muted, "strokeWidth": 1, "strokeDash": [4, 4]},
            "deviation": {"color": colours["c1"], "strokeWidth": 2},
            "reference": {"color": muted, "strokeWidth": 1, "strokeDash": [4, 4]},
            "remark": {"color": muted, "fontSize": 11},
        },
    }


def _measures(alt: Any, rows: Sequence[ClassRow]) -> Any:
    """mu^C across, mu^U up, one dot a class; on the dashed diagonal both say the same."""
    axis = _Shares(alt, [value for row in rows for value in (row.cardinality, row.uncertainty)])
    above, below = "larger share by uncertainty", "larger share by cardinality"
    values = [_values(row) | {"side": above if row.uncertainty > row.cardinality else below} for row in rows]
    spots = [(axis.place(row.cardinality), axis.place(row.uncertainty)) for row in rows]
    names = _names(rows, spots, sorted(range(len(rows)), key=lambda i: -abs(spots[i][0] - spots[i][1])))
    x = alt.X("cardinality:Q", title="share by cardinality", **axis.looks)
    y = alt.Y("uncertainty:Q", title="share by uncertainty", **axis.looks)
    low, high = axis.domain
    diagonal = alt.Chart(alt.Data(values=[{"both": low}, {"both": high}])).mark_line(style="diagonal", tooltip=None)
    diagonal = diagonal.encode(x=alt.X("both:Q", **axis.looks), y=alt.Y("both:Q", **axis.looks))
    colour = alt.Color("side:N", title=None, scale=alt.Scale(domain=[below, above]), legend=alt.Legend(columns=1))
    dots = alt.Chart(alt.Data(values=values)).mark_point(style="dot", filled=True).encode(x, y, colour, tooltip=_class_hover(alt))
    return alt.layer(diagonal, dots, *_name_layers(alt, names, x, y)).properties(
        width=440, height=380, description="Each class by its share of cardinality and of uncertainty."
    )


def _errors(alt: Any, rows: Sequence[ClassRow]) -> Any:
    """Test error up, one measure across each panel, with Spearman's rho above it."""
    known = [row for row in rows if row.error is not None]
    highest = max(row.error or 0 for row in known) or 1
    panels = []
    for measure, title in MEASURES.items():
        axis, rho = _Shares(alt, [getattr(row, measure) for row in known]), spearman(rows, measure)
        x = alt.X(f"{measure}:Q", title=f"share by {title.lower()}", **axis.looks)
        y = alt.Y("error:Q", title="test error, %", scale=alt.Scale(domain=[0, 1.06 * highest]), axis=alt.Axis(tickCount=5))
        spots = [(axis.place(getattr(row, measure)), (row.error or 0) / highest) for row in known]
        names = _names(known, spots, sorted(range(len(known)), key=lambda i: -spots[i][1]))
        dots = alt.Chart().mark_point(style="dot", filled=True)
        found = "rho not defined" if rho is None else f"Spearman’s rho {rho:.2f}".replace("-", "−")
        panels.append(
            alt.layer(dots.encode(x, y, tooltip=_class_hover(alt)), *_name_layers(alt, names, x, y)).properties(
                width=250, height=230, title=alt.TitleParams(title, subtitle=found), description=f"Test error of each class by {measure}."
            )
        )
    return alt.concat(*panels, data=alt.Data(values=[_values(row) for row in known]), columns=3, spacing=28)


def _comparison(alt: Any, rows: Sequence[MethodRow]) -> Any:
    """A row a method: its mean error as a dot, a bar of one standard deviation to each side; naive's mean as a dashed rule."""
    values = [_method_values(row) for row in rows if row.error is not None]
    methods = list(dict.fromkeys(row.method for row in rows))
    rates = [f"{rate:g}" for rate in sorted({row.lr for row in rows})]
    colour, apart, legend = _by_rate(alt, rates) if len(rates) > 1 else ({}, {}, {})
    looks = {"title": ["class-mean error, %", "mean ± standard deviation"], "scale": alt.Scale(zero=False), "axis": alt.Axis(tickCount=6)}
    y = alt.Y("method:N", title=None, scale=alt.Scale(domain=methods), axis=alt.Axis(ticks=False, domain=False, labelLimit=170))
    mean, low, hover = alt.X("error:Q", **looks), alt.X("low:Q", **looks), _method_hover(alt)

    def layer(chosen: list[dict[str, Any]]) -> Any:
        return alt.Chart(alt.Data(values=chosen))

    layers = [
        layer(values).mark_rule(style="deviation").encode(low, y, x2="high:Q", tooltip=hover, **apart, **colour),
        layer(values).mark_point(style="dot", filled=True, size=70).encode(mean, y, tooltip=hover, **apart, **legend),
    ]
    if naive := [value for value in values if value["method"] == "naive"]:
        layers.insert(0, layer(naive).mark_rule(style="reference", tooltip=None).encode(mean, **colour))
    if gone := [{"method": name} for name in methods if name not in {value["method"] for value in values}]:
        layers.append(layer(gone).mark_text(style="remark", align="left", text="no run finished").encode(y, x=alt.value(6)))
    # the legend is of the dots alone: merged with that of the bars it is a blot
    drawn = alt.layer(*layers).resolve_legend(color="independent", shape="independent")
    return drawn.properties(width=640, height=len(methods) * (12 + 12 * len(rates)), description="Mean class-mean error of each method.")


def _by_rate(alt: Any, rates: list[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Encodings that tell learning rates apart: the colour, a line of its own within the method's, and the legend of the dots."""
    scale, named = alt.Scale(domain=rates), {"title": "learning rate", "legend": alt.Legend(columns=4)}
    return (
        {"color": alt.Color("lr:N", scale=scale, legend=None)},
        {"yOffset": alt.YOffset("lr:N", scale=alt.Scale(domain=rates, paddingOuter=0.4))},
        {
            "color": alt.Color("lr:N", scale=scale, **named),
            "shape": alt.Shape("lr:N", scale=alt.Scale(domain=rates, range=SHAPES), **named),
        },
    )


class _Shares:
    """An axis of shares: logarithmic where they lie far apart, as counts of a long tail do, and none is 0."""

    def __init__(self, alt: Any, values: Sequence[float]) -> None:
        low, high = min(values), max(values)
        self.log = low > 0 and high / low > 4
        self.domain = (low / 1.2, high * 1.2) if self.log else (0.0, high * 1.08 or 1.0)
        scale = alt.Scale(type="log" if self.log else "linear", domain=list(self.domain), nice=False)
        ticks = {"values": _round(*self.domain)} if self.log else {"tickCount": 5}
        self.looks = {"scale": scale, "axis": alt.Axis(format="~%", labelOverlap="greedy", **ticks)}

    def place(self, value: float) -> float:
        """Where a value stands on the axis, from 0 to 1."""
        low, high = self.domain
        return math.log(value / low) / math.log(high / low) if self.log else (value - low) / (high - low)


def _round(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis at 1, 2, 5, or fewer where there are many decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine, middle, coarse = ([digit * 10.0**k for k in decades for digit in digits] for digits in ((1, 2, 5), (1, 3), (1,)))
    return next((inside for ticks in (fine, middle) if len(inside := [t for t in ticks if low <= t <= high]) <= 7), coarse)


def _names(rows: Sequence[ClassRow], spots: Sequence[tuple[float, float]], order: Iterable[int]) -> list[dict[str, Any]]:
    """Names to write beside their dots: those first in order that cover no dot and no other name; the rest are named on hover."""
    boxes: list[tuple[float, float, float]] = []
    named = []
    for i in list(order)[: 3 * NAMED]:
        (x, y), label = spots[i], short(_values(rows[i])["name"])
        width = 0.03 + 0.025 * len(label)  # of a chart some 280 pixels wide, as on a phone
        left = x > 0.6
        start, end = (x - width, x) if left else (x, x + width)
        clear_of_dots = not any(start - 0.02 < a < end + 0.02 and abs(b - y) < 0.04 for j, (a, b) in enumerate(spots) if j != i)
        if clear_of_dots and not any(start < b and a < end and abs(c - y) < 0.06 for a, b, c in boxes):
            boxes.append((start, end, y))
            named.append(_values(rows[i]) | {"label": label, "left": left})
        if len(named) == NAMED:
            break
    return named


def _name_layers(alt: Any, names: list[dict[str, Any]], x: Any, y: Any) -> list[Any]:
    layers = []
    for left, align, dx in ((True, "right", -7), (False, "left", 7)):
        if chosen := [name for name in names if name["left"] == left]:
            mark = alt.Chart(alt.Data(values=chosen)).mark_text(style="name", align=align, dx=dx, baseline="middle", tooltip=None)
            layers.append(mark.encode(x, y, text="label:N"))
    return layers


def short(name: str) -> str:
    return name if len(name) <= LABEL else name[: LABEL - 1] + "…"


def _values(row: ClassRow) -> dict[str, Any]:
    """What charts and tooltips need of a class; numbers that may be missing are also there as text, since Vega would say 'null'."""
    shown = {field: getattr(row, field) for field in ("count", *MEASURES, "raw", "error", "rank_cardinality", "rank_uncertainty")}
    name = row.name.encode(errors="replace").decode()  # of a folder whose name is not UTF-8
    return shown | {
        "name": name,
        "error_text": _text(row.error),
        "epistemic_text": _text(None if row.epistemic_share is None else 100 * row.epistemic_share, 0),
    }


def _method_values(row: MethodRow) -> dict[str, Any]:
    mean, deviation = row.error or 0.0, row.error_sd or 0.0
    shown = {field: getattr(row, field) for field in ("method", "error", "runs", "diverged")}
    bar = {"low": max(0.0, mean - deviation), "high": mean + deviation}  # no error lies below 0
    return shown | bar | {"lr": f"{row.lr:g}", "deviation_text": _text(row.error_sd), "gain_text": _text(row.gain)}


def _text(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}".replace("-", "−")


def _class_hover(alt: Any) -> list[Any]:
    shares = {"cardinality": "by cardinality", "effective": "by effective number", "uncertainty": "by uncertainty"}
    ranks = {"rank_cardinality": "rank by cardinality", "rank_uncertainty": "rank by uncertainty"}
    return [
        *_hover(alt, {"name": "class"}),
        *_hover(alt, {"count": "training examples"}, ",d"),
        *_hover(alt, shares, ".2%"),
        *_hover(alt, ranks, ".4~g"),
        *_hover(alt, {"raw": "mean uncertainty"}, ".2f"),
        *_hover(alt, {"epistemic_text": "epistemic share, %", "error_text": "test error, %"}),
    ]


def _method_hover(alt: Any) -> list[Any]:
    return [
        *_hover(alt, {"method": "method", "lr": "learning rate"}),
        *_hover(alt, {"error": "mean class-mean error, %"}, ".2f"),
        *_hover(alt, {"deviation_text": "standard deviation", "gain_text": "gain over naive"}),
        *_hover(alt, {"runs": "runs", "diverged": "diverged runs"}, "d"),
    ]


def _hover(alt: Any, titles: Mapping[str, str], form: str = "") -> list[Any]:
    """Lines of a tooltip: numbers in the given form, or text."""
    kind = {"type": "quantitative", "format": form} if form else {"type": "nominal"}
    return [alt.Tooltip(field, title=title, **kind) for field, title in titles.items()]
