"""What all charts share: colours, fonts, shapes, tooltips, and labels that cover neither dots nor each other.

A chart has no colours of its own. They come from `config`: the page passes CSS variables, so that its charts follow
the page into dark mode. Altair is imported late, so that training works where it is not installed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from statistics import fmean
from typing import Any

from class_uncertainty.errors import missing

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
LIGHT = {
    "ink": "#1c2126", "muted": "#58626d", "line": "#dfe3e8", "surface": "#ffffff", "soft": "#f4f6f8", "c1": "#0b62a8",
    "c2": "#b8470a", "c3": "#00755a", "c4": "#8a3f8f", "c5": "#7d5a00", "c6": "#55606b", "c7": "#b02a63",
    "red": "#b3121d",
}  # fmt: skip
DARK = {
    "ink": "#e7eaed", "muted": "#a4adb6", "line": "#333a42", "surface": "#15191d", "soft": "#1e242a", "c1": "#6fb4f3",
    "c2": "#f0965e", "c3": "#4fc4a2", "c4": "#d595d9", "c5": "#d7b24f", "c6": "#a9b2bb", "c7": "#f184b1",
    "red": "#ff8f8a",
}  # fmt: skip
# shapes repeat what colours say, for readers who do not tell the colours apart
SHAPES = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right"]
LABEL_LENGTH = 14  # characters of a class name in a chart
MOST_LABELS = 20  # that are placed beside dots; three times as many are tried
# of the numbers in tooltips; all other fields are text
FORMATS = {"count": ",d", "raw": ".2f", "error": ".2f", "runs": "d", "diverged": "d", "change": "+.1f"}
FORMATS |= {"cardinality": ".2%", "effective": ".2%", "uncertainty": ".2%"}
FORMATS |= {"rank_cardinality": ".4~g", "rank_uncertainty": ".4~g", "before": ".1f", "after": ".1f"}
FORMATS |= {"share": ".1%", "confidence": ".1%", "accuracy": ".1%", "probability": ".2f", "percent": ".1f"}


def altair() -> Any:
    try:
        return import_module("altair")
    except ModuleNotFoundError:
        raise missing("altair", needed_by="charts need") from None


def vegalite_version() -> str:
    """The version that Altair writes for: '6.4'."""
    return ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])


def page_config() -> dict[str, Any]:
    """The configuration in the page's CSS variables."""
    return config({name: f"var(--{name})" for name in LIGHT})


def config(colours: Mapping[str, str]) -> dict[str, Any]:
    """Vega-Lite's configuration in the given colours: LIGHT, or CSS variables of the same names."""
    ink, muted, line = colours["ink"], colours["muted"], colours["line"]
    text = dict(labelColor=muted, titleColor=muted, labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
    axis = {"gridColor": line, "domainColor": line, "tickColor": line, "labelPadding": 5, "titlePadding": 8}
    legend = {"orient": "top", "offset": 8, "symbolSize": 70, "symbolStrokeWidth": 0, "labelLimit": 240}
    title = {"color": ink, "fontSize": 13, "subtitleColor": muted, "subtitleFontSize": 12}
    title |= {"anchor": "start", "offset": 10}
    dashed = {"color": muted, "strokeWidth": 1, "strokeDash": [4, 4]}
    styles = {
        "dot": {"color": colours["c1"], "size": 55, "opacity": 0.9},
        "name": {"color": ink, "fontSize": 11},
        "diagonal": dashed,
    }
    styles |= {"deviation": {"color": colours["c1"], "strokeWidth": 2}, "reference": dashed}
    styles |= {"remark": {"color": muted, "fontSize": 11}, "errors": {"color": colours["c6"]}}
    styles |= {"inside": {"color": colours["surface"], "fontSize": 11}}
    # not aria: the tables hold the same numbers and are easier to have read aloud
    page = {"background": colours["surface"], "font": FONT, "view": {"stroke": None}, "mark": {"aria": False}}
    page["padding"] = {"left": 16, "right": 16, "top": 5, "bottom": 5}  # where an SVG is shown, letters may be wider
    # from the first class to the last; no chart of the page has it, since CSS variables cannot be interpolated
    ramp = [colours["c1"], colours["c4"], colours["red"]]
    scales = {"range": {"category": [colours[f"c{i}"] for i in range(1, 8)], "ramp": ramp}}
    return page | {"axis": axis | text, "legend": legend | text, "title": title} | scales | {"style": styles}


def chart_of(alt: Any, values: list[dict[str, Any]]) -> Any:
    return alt.Chart(alt.Data(values=values))


def diagonal(alt: Any, low: float, high: float, axis: Mapping[str, Any]) -> Any:
    """The dashed line on which both coordinates are equal."""
    line = chart_of(alt, [{"both": low}, {"both": high}]).mark_line(style="diagonal", tooltip=None)
    return line.encode(alt.X("both:Q", **axis), alt.Y("both:Q", **axis))


def tooltips(alt: Any, titles: Mapping[str, str]) -> list[Any]:
    """Lines of a tooltip: field -> title."""
    numbers = {field: {"type": "quantitative", "format": FORMATS[field]} for field in titles if field in FORMATS}
    return [alt.Tooltip(field, title=titles[field], **numbers.get(field, {"type": "nominal"})) for field in titles]


def short_label(name: str) -> str:
    return name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…"


def valid_unicode(name: str) -> str:
    """A class takes its name from a folder, whose name may not be UTF-8."""
    return name.encode(errors="replace").decode()


def number_text(value: float | None, digits: int = 2) -> str:
    """For tooltips, since Vega would show a missing number as 'null'."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}".replace("-", "−")


def free_labels(
    labels: Sequence[str], dots: Sequence[tuple[float, float]], order: Iterable[int], height: int
) -> dict[int, bool]:
    """Index -> whether the label goes to the left of its dot, for those first in order that cover nothing.

    The dots are (x, y) from 0 to 1, in a chart of that height in pixels and about 280 wide, as on a phone.
    """
    near_dot, near_label = 9 / height, 14 / height
    boxes: list[tuple[float, float, float]] = []  # (left end, right end, height)
    placed: dict[int, bool] = {}
    for i in list(order)[: 3 * MOST_LABELS]:
        x, y = dots[i]
        width = 0.03 + 0.025 * len(labels[i])
        beside = [dot_x for j, (dot_x, dot_y) in enumerate(dots) if j != i and abs(dot_y - y) < near_dot]
        for to_left in (x > 0.6, x <= 0.6):
            start, end = (x - width, x) if to_left else (x, x + width)
            covers_dot = any(start - 0.02 < dot_x < end + 0.02 for dot_x in beside)
            # every box has a gap of 0.02 between dot and label
            covers_label = any(min(end, b) - max(start, a) > 0.02 and abs(at - y) < near_label for a, b, at in boxes)
            if start >= 0 and end <= 1 and not covers_dot and not covers_label:
                boxes.append((start, end, y))
                placed[i] = to_left
                break
        if len(placed) == MOST_LABELS:
            break
    return placed


def centred_heights(heights: Sequence[float], gap: float) -> list[float]:
    """Falling heights from 0 to 1, with a gap between neighbours: those too close stay around their middle.

    With i gaps added to the i-th, heights that keep their distance fall: this is isotonic regression.
    """
    blocks: list[list[float]] = []
    for i, height in enumerate(heights):
        blocks.append([height + i * gap])
        while len(blocks) > 1 and fmean(blocks[-2]) < fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    places = [fmean(block) for block in blocks for _ in block]
    return spread_heights([min(place, 1) - i * gap for i, place in enumerate(places)], gap)


def spread_heights(heights: Sequence[float], gap: float) -> list[float]:
    """Falling heights, moved as little as leaves a gap between neighbours; none falls below 0."""
    places = list(heights)
    for i in range(1, len(places)):
        places[i] = min(places[i], places[i - 1] - gap)
    for i in reversed(range(len(places))):
        places[i] = max(places[i], places[i + 1] + gap if i + 1 < len(places) else 0.0)
    return places


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks at 1, 2 and 5 of each decade; at 1 and 3, or at 1 alone, where those are more than seven."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3)):
        ticks = [tick for k in decades for digit in digits if low <= (tick := digit * 10.0**k) <= high]
        if len(ticks) <= 7:
            return ticks
    return [10.0**k for k in decades]
