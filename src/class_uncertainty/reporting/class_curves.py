"""Curves over the classes in their order: the measures, errors below them, estimators, kinds of uncertainty."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from class_uncertainty.reporting import chart_style as style
from class_uncertainty.runs.rows import ClassRow

MOST_NAMES = 25  # classes whose names are tick labels; of more, the indices are
PLOT_WIDTH = 270  # pixels of a plot on a phone, which names side by side must fit into
CHARACTER = 6.5  # pixels of a character
MOST_SLANTED = 12  # names that are slanted; more are upright, which needs the least room
MOST_LARGE = 20  # upright names in letters as large as those of other axes
Y_EXTENT = 40  # pixels from the labels of the y axis to their title, the same in panels that share x
DASHES = [[6, 3], [1, 0], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3], [10, 4]]
WIDTH, HEIGHT, LOW_HEIGHT = 620, 240, 130


def profile(alt: Any, rows: Sequence[ClassRow]) -> Any:
    """Both measures of every class in the order of the classes; below them, sharing x, the errors."""
    names = [row.name for row in rows]
    measures = {"rarity": [row.cardinality for row in rows], "uncertainty": [row.uncertainty for row in rows]}
    facts = {
        "training examples": [f"{row.count:,}" for row in rows],
        "test error, %": [style.number_text(row.error) for row in rows],
    }
    errors = [row.error for row in rows]
    judged = any(error is not None for error in errors)
    upper = curves(alt, names, measures, "share of the measure", facts, labelled=not judged)
    panels = [upper.properties(height=HEIGHT, description="Both measures of each class.")]
    if judged:
        lower = error_bars(alt, names, errors)
        panels.append(lower.properties(height=LOW_HEIGHT, description="Test error of each class."))
    return stacked(alt, panels)


def stacked(alt: Any, panels: Sequence[Any]) -> Any:
    """Panels of one width below each other. The page draws them one by one, as wide as it is."""
    return alt.concat(*(panel.properties(width=WIDTH) for panel in panels), columns=1, spacing=12)


def curves(
    alt: Any,
    names: Sequence[str],
    shares: Mapping[str, Sequence[float]],
    y_title: str,
    facts: Mapping[str, Sequence[str]] | None = None,
    *,
    labelled: bool = True,
    legend: bool = True,
) -> Any:
    """A line for each name in `shares`, over the classes. `facts` are more lines of the tooltips: title -> texts."""
    series, facts = list(shares), facts or {}
    highest = max(max(values) for values in shares.values()) or 1.0
    x = class_axis(alt, names, labelled)
    y_axis = alt.Axis(format="~%", tickCount=5, minExtent=Y_EXTENT, maxExtent=Y_EXTENT)
    y = alt.Y("share:Q", title=y_title, scale=alt.Scale(domain=[0, 1.08 * highest], nice=False), axis=y_axis)
    points = [
        {"index": c, "series": name, "share": float(share)}
        for name, values in shares.items()
        for c, share in enumerate(values)
    ]
    chart = style.chart_of(alt, points).encode(x, y)
    colour = {"title": None, "scale": alt.Scale(domain=series)}
    shown = alt.Legend(symbolType="stroke", symbolStrokeWidth=2, symbolSize=400, columns=4) if legend else None
    dashes = alt.StrokeDash(
        "series:N", title=None, scale=alt.Scale(domain=series, range=DASHES[: len(series)]), legend=shown
    )
    layers = [
        chart.mark_line(strokeWidth=1.75, tooltip=None).encode(alt.Color("series:N", legend=shown, **colour), dashes)
    ]
    if len(names) <= MOST_NAMES:
        shape = alt.Shape("series:N", scale=alt.Scale(domain=series, range=style.SHAPES[: len(series)]), legend=None)
        dots = chart.mark_point(filled=True, size=45, opacity=1, tooltip=None)
        layers.append(dots.encode(alt.Color("series:N", legend=None, **colour), shape))
    percent = {name: [f"{share:.2%}" for share in values] for name, values in shares.items()}
    layers.append(_hover(alt, names, percent | dict(facts)).encode(x))
    # the legend shows the lines alone
    return alt.layer(*layers).resolve_legend(color="independent", shape="independent", strokeDash="independent")


def error_bars(alt: Any, names: Sequence[str], errors: Sequence[float | None]) -> Any:
    """A bar a class, in percent; classes without an error have none."""
    highest = max(error or 0 for error in errors) or 1.0
    values = [
        {"left": c - 0.35, "right": c + 0.35, "error": error, "zero": 0}
        for c, error in enumerate(errors)
        if error is not None
    ]
    x, left = class_axis(alt, names), class_axis(alt, names, field="left")
    y_axis = alt.Axis(tickCount=4, minExtent=Y_EXTENT, maxExtent=Y_EXTENT)
    y = alt.Y("error:Q", title="test error, %", scale=alt.Scale(domain=[0, 1.08 * highest], nice=False), axis=y_axis)
    bars = style.chart_of(alt, values).mark_bar(style="errors", tooltip=None).encode(left, y, x2="right:Q", y2="zero:Q")
    texts = {"test error, %": [style.number_text(error) for error in errors]}
    return alt.layer(bars, _hover(alt, names, texts).encode(x))


def class_axis(alt: Any, names: Sequence[str], labelled: bool = True, field: str = "index") -> Any:
    """The classes along x, by name where they are few; unlabelled above a panel that has the labels."""
    named = len(names) <= MOST_NAMES
    options: dict[str, Any] = {"grid": named, "values": list(range(len(names)))} if named else {"grid": False}
    if not labelled:
        options |= {"labels": False, "ticks": False}
    elif named:
        labels = [style.short_label(style.valid_unicode(name)) for name in names]
        options |= {"labelExpr": f"{json.dumps(labels)}[datum.value]", "labelOverlap": False, "labelLimit": 110}
        options |= _slant(labels)
    else:
        options |= {"format": "d", "tickMinStep": 1, "labelOverlap": "greedy"}
    title = "class index" if labelled and not named else None
    scale = alt.Scale(domain=[-0.6, len(names) - 0.4], nice=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(**options))


def _slant(labels: Sequence[str]) -> dict[str, Any]:
    """Side by side where the labels have room on a phone, else slanted or upright."""
    if max(len(label) + 1 for label in labels) * CHARACTER * len(labels) <= PLOT_WIDTH:
        return {"labelAngle": 0}
    if len(labels) <= MOST_SLANTED:
        return {"labelAngle": -45}
    return {"labelAngle": -90, "labelBaseline": "middle", "labelFontSize": 12 if len(labels) <= MOST_LARGE else 10}


def _hover(alt: Any, names: Sequence[str], texts: Mapping[str, Sequence[str]]) -> Any:
    """An invisible rule at each class, as high as the panel, whose tooltip holds the texts: title -> one a class."""
    values = [
        {"index": c, "name": style.valid_unicode(name)}
        | {f"text{i}": column[c] for i, column in enumerate(texts.values())}
        for c, name in enumerate(names)
    ]
    tooltip = style.tooltips(alt, {"name": "class"} | {f"text{i}": title for i, title in enumerate(texts)})
    return style.chart_of(alt, values).mark_rule(opacity=0, strokeWidth=10).encode(tooltip=tooltip)
