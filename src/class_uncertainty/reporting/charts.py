"""The charts of a section: the measures of each class and against each other, errors against them, the methods."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from class_uncertainty.reporting import chart_style as style
from class_uncertainty.reporting.before_after_charts import before_after_charts
from class_uncertainty.reporting.chart_images import ChartRequest
from class_uncertainty.reporting.class_curves import profile
from class_uncertainty.reporting.class_scatter import ALONE, ShareAxis, class_layers, error_panels, side_by_side
from class_uncertainty.reporting.section import Section
from class_uncertainty.runs.rows import ClassRow, MethodRow

MEASURE_TITLES = {"cardinality": "Rarity", "effective": "Effective rarity", "uncertainty": "Uncertainty"}
CLASS_TOOLTIP = {"name": "class", "count": "training examples"}
CLASS_TOOLTIP |= {measure: f"by {title.lower()}" for measure, title in MEASURE_TITLES.items()}
CLASS_TOOLTIP |= {"rank_cardinality": "rank by rarity", "rank_uncertainty": "rank by uncertainty"}
CLASS_TOOLTIP |= {"raw": "mean uncertainty", "epistemic_text": "disputed, %", "error_text": "test error, %"}
METHOD_TOOLTIP = {"method": "method", "lr": "learning rate", "error": "mean class-mean error, %"}
METHOD_TOOLTIP |= {"deviation_text": "standard deviation", "gain_text": "gain over naive"}
METHOD_TOOLTIP |= {"runs": "runs", "diverged": "diverged runs"}
PREFIX_LENGTH = 40  # characters of a section's name in a file name: a file system allows 255 bytes


def charts(section: Section) -> dict[str, Any]:
    """Name -> chart, for those that the section has data for."""
    alt = style.altair()
    drawn: dict[str, Any] = {}
    if section.classes:
        drawn["profile"] = profile(alt, section.classes)
    if len({row.count for row in section.classes}) > 1:  # where all are equal, the dots would stand in one column
        drawn["measures"] = _measures(alt, section.classes)
    if len(section.classes) > 2 and (panels := _errors(alt, section.classes)):  # of two, rho says nothing
        drawn["errors"] = side_by_side(alt, panels)
    if sum(row.error is not None for row in section.methods) > 1:  # one dot would say nothing
        drawn["comparison"] = _comparison(alt, section.methods)
    if section.fix_report:
        drawn |= before_after_charts(alt, section.fix_report)
    return {name: chart.configure(**style.config(style.LIGHT)) for name, chart in drawn.items()}


def files(section: Section, specs: Mapping[str, Any], folder: Path) -> dict[Path, ChartRequest]:
    """What to draw into each file: every chart as SVG and as PNG. The section's name keeps several apart."""
    prefix = re.sub(r"\W+", "-", section.name).strip("-_")
    if len(prefix) > PREFIX_LENGTH:
        digest = hashlib.sha256(section.name.encode()).hexdigest()[:6]
        prefix = f"{prefix[: PREFIX_LENGTH - 7].strip('-_')}-{digest}"
    requests: dict[Path, ChartRequest] = {}
    for name, spec in specs.items():
        stem = f"{prefix}-{name}" if prefix else name
        requests |= {folder / f"{stem}.{suffix}": (suffix, spec) for suffix in ("svg", "png")}
    return requests


def _measures(alt: Any, rows: Sequence[ClassRow]) -> Any:
    """Rarity across, uncertainty up, one dot a class. On the dashed diagonal both measures agree."""
    axis = ShareAxis(alt, [value for row in rows for value in (row.cardinality, row.uncertainty)])
    above, below = "larger share of uncertainty", "larger share of rarity"
    values = [_class_values(row) | {"side": above if row.uncertainty > row.cardinality else below} for row in rows]
    dots = [(axis.position(row.cardinality), axis.position(row.uncertainty)) for row in rows]
    farthest_first = sorted(range(len(rows)), key=lambda i: -abs(dots[i][0] - dots[i][1]))
    x = alt.X("cardinality:Q", title="rarity", **axis.options)
    y = alt.Y("uncertainty:Q", title="uncertainty", **axis.options)
    colour = alt.Color("side:N", title=None, scale=alt.Scale(domain=[below, above]), legend=alt.Legend(columns=1))
    chart = style.chart_of(alt, values).encode(x, y, colour)
    width, height = ALONE
    layers = class_layers(alt, chart, x, y, values, dots, farthest_first, CLASS_TOOLTIP, height)
    chart = alt.layer(style.diagonal(alt, *axis.domain, axis.options), *layers)
    description = "Each class by rarity and by uncertainty."
    return chart.properties(width=width, height=height, description=description)


def _errors(alt: Any, rows: Sequence[ClassRow]) -> list[Any]:
    """Panels: test error up, one measure across, with Spearman's rho above it."""
    judged = [row for row in rows if row.error is not None]
    shares = {title: [getattr(row, measure) for row in judged] for measure, title in MEASURE_TITLES.items()}
    return error_panels(alt, list(map(_class_values, judged)), shares, CLASS_TOOLTIP)


def _comparison(alt: Any, rows: Sequence[MethodRow]) -> Any:
    """One line a method: a dot at its mean error, and a bar of one standard deviation to each side.

    A dashed rule marks naive's mean.
    """
    values = [_method_values(row) for row in rows if row.error is not None]
    methods = list(dict.fromkeys(row.method for row in rows))
    rates = [f"{lr:g}" for lr in sorted({row.lr for row in rows})]
    colour, offset, legend = _by_rate(alt, rates) if len(rates) > 1 else ({}, {}, {})
    lines = max(Counter(row.method for row in rows).values())
    if lines == 1:  # each method at one learning rate, which the dots tell: one line each, and one naive for all
        colour, offset = {}, {}
    title = ["class-mean error, %", "mean ± standard deviation"]
    x_options = {"title": title, "scale": alt.Scale(zero=False), "axis": alt.Axis(tickCount=6)}
    mean, low = alt.X("error:Q", **x_options), alt.X("low:Q", **x_options)
    y_axis = alt.Axis(ticks=False, domain=False, labelLimit=170)
    y = alt.Y("method:N", title=None, scale=alt.Scale(domain=methods), axis=y_axis)
    chart = style.chart_of(alt, values).encode(y, tooltip=style.tooltips(alt, METHOD_TOOLTIP), **offset)
    bars = chart.mark_rule(style="deviation").encode(low, x2="high:Q", **colour)
    dots = chart.mark_point(style="dot", filled=True, size=70).encode(mean, **legend)
    layers = [bars, dots]
    if naive := [value for value in values if value["method"] == "naive"]:
        layers.insert(0, style.chart_of(alt, naive).mark_rule(style="reference", tooltip=None).encode(mean, **colour))
    if unfinished := [{"method": name} for name in methods if all(name != value["method"] for value in values)]:
        remark = style.chart_of(alt, unfinished).mark_text(style="remark", align="left", text="no run finished")
        layers.append(remark.encode(y, x=alt.value(6)))
    # the legend shows the dots alone: merged with that of the bars it would be a blot
    chart = alt.layer(*layers).resolve_legend(color="independent", shape="independent")
    height, description = len(methods) * (12 + 12 * lines), "Mean class-mean error of each method."
    return chart.properties(width=640, height=height, description=description)


def _by_rate(alt: Any, rates: list[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Encodings that tell learning rates apart: colour, an offset within the method's line, the legend of the dots."""
    scale, shapes = alt.Scale(domain=rates), alt.Scale(domain=rates, range=style.SHAPES)
    titled = {"title": "learning rate", "legend": alt.Legend(columns=4)}
    offset = alt.YOffset("lr:N", scale=alt.Scale(domain=rates, paddingOuter=0.4))
    legend = {"color": alt.Color("lr:N", scale=scale, **titled), "shape": alt.Shape("lr:N", scale=shapes, **titled)}
    return {"color": alt.Color("lr:N", scale=scale, legend=None)}, {"yOffset": offset}, legend


def _class_values(row: ClassRow) -> dict[str, Any]:
    fields = ("count", *MEASURE_TITLES, "raw", "error", "rank_cardinality", "rank_uncertainty")
    share = None if row.epistemic_share is None else 100 * row.epistemic_share
    texts = {"error_text": style.number_text(row.error), "epistemic_text": style.number_text(share, 0)}
    return {field: getattr(row, field) for field in fields} | {"name": style.valid_unicode(row.name)} | texts


def _method_values(row: MethodRow) -> dict[str, Any]:
    mean, deviation = row.error or 0.0, row.error_sd or 0.0
    values = {field: getattr(row, field) for field in ("method", "error", "runs", "diverged")}
    bar = {"low": max(0.0, mean - deviation), "high": mean + deviation}  # no error lies below 0
    texts = {"deviation_text": style.number_text(row.error_sd), "gain_text": style.number_text(row.gain)}
    return values | bar | {"lr": f"{row.lr:g}" if row.has_rate else "–"} | texts
