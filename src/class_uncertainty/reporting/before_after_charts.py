"""The charts of before and after: each step, the error of each class, and how reliable the confidence is."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from class_uncertainty.posthoc.evaluation import TwoClasses
from class_uncertainty.posthoc.fix_report import FixReport, Step
from class_uncertainty.reporting import chart_style as style
from class_uncertainty.reporting.before_after import NAME_ALL, Change, changes
from class_uncertainty.reporting.ladder_view import aim_digits, aim_label, mean_text

LABEL_GAP = 0.035  # from one name to the next, as a share of the chart's height
# as shares of the way from before to after: from a line's end to its name, and to the chart's side
LABEL_OFFSET, MARGIN = 0.08, 1.2
FALLS, RISES = "error falls", "error rises"
SIDES = ("before", "after")
CHANGE_TOOLTIP = {"name": "class", "count": "training examples"}
CHANGE_TOOLTIP |= {"before": "error before, %", "after": "error after, %", "change": "change"}


STEP_TOOLTIP = {"label": "step", "candidate": "how it trains", "value_text": "mean", "trainings_text": "trainings"}
STEP_HEIGHT, ROOM = 30, 0.5  # of a step's line in pixels; for its trainings, as a share of the values' range


def before_after_charts(alt: Any, report: FixReport) -> dict[str, Any]:
    ladder = {"ladder": _ladder(alt, report)} if any(step.values for step in report.ladder) else {}
    judged = [row for row in changes(report) if not np.isnan(row.before)]
    threshold = {"threshold": _threshold(alt, report.after.two)} if report.after.two else {}
    return ladder | {"slopes": _slopes(alt, judged)} | threshold | {"reliability": _reliability(alt, report)}


def _ladder(alt: Any, report: FixReport) -> Any:
    """One line a step: a dot at its mean, a bar of one standard deviation to each side, and the trainings it took."""
    values = [_step_values(report, step) for step in report.ladder]
    judged, tried = ([one for one in values if (one["value"] is None) == missing] for missing in (False, True))
    low, high = min(one["low"] for one in judged), max(one["high"] for one in judged)
    room = ROOM * (high - low) or 1.0
    x_scale = alt.Scale(domain=[max(0.0, low - 0.1 * room), high + room], nice=False)
    x_title = [aim_label(report), "mean ± standard deviation"]
    x_options = {"title": x_title, "scale": x_scale, "axis": alt.Axis(tickCount=6)}
    y_axis = alt.Axis(ticks=False, domain=False, labelLimit=170)
    labels = alt.Scale(domain=[one["label"] for one in values])
    y = alt.Y("label:N", title=None, scale=labels, axis=y_axis)
    chart = style.chart_of(alt, judged).encode(y, tooltip=style.tooltips(alt, STEP_TOOLTIP))
    layers = [
        chart.mark_rule(style="deviation").encode(alt.X("low:Q", **x_options), x2="high:Q"),
        chart.mark_point(style="dot", filled=True, size=70).encode(alt.X("value:Q", **x_options)),
        chart.mark_text(style="remark", align="left", dx=8).encode(
            alt.X("high:Q", **x_options), text="trainings_text:N"
        ),
    ]
    if tried:
        remark = style.chart_of(alt, tried).mark_text(style="remark", align="left", text="only tried")
        layers.append(remark.encode(y, x=alt.value(6)))
    height, description = STEP_HEIGHT * len(values), f"{report.aim} of each step."
    return alt.layer(*layers).properties(width=560, height=height, description=style.valid_unicode(description))


def _step_values(report: FixReport, step: Step) -> dict[str, Any]:
    mean = float(np.mean(step.values)) if step.values else None
    deviation = float(np.std(step.values, ddof=1)) if len(step.values) > 1 else 0.0
    label = f"{step.name} (kept)" if step.kept else step.name
    trainings = f"{step.trainings:.3g} training{'' if step.trainings == 1 else 's'}"
    values = {"label": label, "candidate": step.candidate, "trainings_text": trainings, "value": mean}
    bar = {} if mean is None else {"low": max(0.0, mean - deviation), "high": mean + deviation}
    return values | bar | {"value_text": mean_text(step.values, aim_digits(report))}


def _slopes(alt: Any, rows: Sequence[Change]) -> Any:
    """A line a class, from its error before to that after. Colour, dashes and triangles all show the direction."""
    named = len(rows) if len(rows) <= NAME_ALL else -(-len(rows) // 10)
    worst = {side: sorted(rows, key=lambda row: -getattr(row, side))[:named] for side in SIDES}
    changed = [row for row in rows if row.change]
    bold = [row for row in changed if row in worst["before"] or row in worst["after"]]
    top = 1.04 * max(1.0, *(max(row.before, row.after) for row in rows))
    x_axis = alt.Axis(values=[0, 1], labelExpr=f"{list(SIDES)}[datum.value]", grid=False, ticks=False, domain=False)
    x_options = {"title": None, "scale": alt.Scale(domain=[-MARGIN, 1 + MARGIN], nice=False), "axis": x_axis}
    y_scale = alt.Scale(domain=[0, top], nice=False)
    y_options = {"title": "error of the class, %", "scale": y_scale, "axis": alt.Axis(tickCount=5)}
    x, y = alt.X("at:Q", **x_options), alt.Y("error:Q", **y_options)

    def ends(chosen: Sequence[Change]) -> Any:
        pairs = ((row, at, side) for row in chosen for at, side in enumerate(SIDES))
        values = [_values(row) | {"at": at, "error": getattr(row, side)} for row, at, side in pairs]
        return style.chart_of(alt, values).encode(x, y, detail="name:N", tooltip=style.tooltips(alt, CHANGE_TOOLTIP))

    unchanged, faint = [row for row in rows if not row.change], [row for row in changed if row not in bold]
    colour, dashes, shape = _directions(alt)
    strokes = alt.Legend(symbolType="stroke", symbolStrokeWidth=2, symbolSize=300)
    layers = [
        ends(unchanged).mark_line(style="remark", strokeWidth=1, opacity=0.5),
        ends(faint).mark_line(strokeWidth=1, opacity=0.4).encode(colour, dashes),
        ends(bold).mark_line(strokeWidth=2).encode(*_directions(alt, strokes)[:2]),
        ends(bold).mark_point(filled=True, size=45, opacity=1).encode(colour, shape),
    ]
    room = alt.ExprRef(f"{(MARGIN - LABEL_OFFSET) / (1 + 2 * MARGIN):.3f} * width - 6")  # a phone cuts long names
    for at, side in enumerate(SIDES):
        names = style.chart_of(alt, _names(worst[side], at, side, top))
        rules = names.mark_rule(style="remark", strokeWidth=1, opacity=0.6, tooltip=None)
        align = {"align": "left" if at else "right", "dx": 6 * at - 3, "baseline": "middle"}
        text = names.mark_text(style="name", tooltip=None, limit=room, **align)
        beside, height = alt.X("beside:Q", **x_options), alt.Y("height:Q", **y_options)
        layers.append(rules.encode(x, y, x2="beside:Q", y2="height:Q"))
        layers.append(text.encode(beside, height, text="label:N"))
    # the legend shows the bold lines alone
    chart = alt.layer(*layers).resolve_legend(color="independent", shape="independent", strokeDash="independent")
    return chart.properties(width=560, height=420, description="Error of each class before and after.")


def _names(rows: Sequence[Change], at: int, side: str, top: float) -> list[dict[str, Any]]:
    """Labels beside the lines' ends, moved apart where they would overlap; a rule joins each to its line."""
    errors = [getattr(row, side) for row in rows]
    values = []
    for row, error, height in zip(rows, errors, style.spread_heights(errors, LABEL_GAP * top), strict=True):
        label = f"{style.short_label(style.valid_unicode(row.name))}: {error:.0f} %"
        beside = at + LABEL_OFFSET * (2 * at - 1)
        values.append({"label": label, "at": at, "error": error, "beside": beside, "height": height})
    return values


def _directions(alt: Any, legend: Any = None) -> tuple[Any, Any, Any]:
    """Colour, dashes and shape, each of which tells falling errors from rising ones."""
    domain, options = [FALLS, RISES], {"title": None, "legend": legend}
    dashes = alt.Scale(domain=domain, range=[[1, 0], [5, 3]])
    triangles = alt.Scale(domain=domain, range=["triangle-down", "triangle-up"])
    colour = alt.Color("direction:N", scale=alt.Scale(domain=domain), **options)
    dash = alt.StrokeDash("direction:N", scale=dashes, **options)
    return colour, dash, alt.Shape("direction:N", scale=triangles, **options)


def _threshold(alt: Any, two: TwoClasses) -> Any:
    """Precision and recall over the probability from which the positive class is predicted, with the one in use."""
    measures = ("precision", "recall")
    values = [
        {"probability": point.probability, "percent": getattr(point, name), "measure": name}
        for name in measures
        for point in two.curve
    ]
    x_axis, percent = alt.Axis(format=".1f", tickCount=5), alt.Scale(domain=[0, 100])
    x_options = {"title": "threshold", "scale": alt.Scale(domain=[0, 1]), "axis": x_axis}
    x, y = alt.X("probability:Q", **x_options), alt.Y("percent:Q", title="percent", scale=percent)
    options = {"title": None, "legend": alt.Legend(symbolType="stroke", symbolStrokeWidth=2, symbolSize=400)}
    colour = alt.Color("measure:N", scale=alt.Scale(domain=measures), **options)
    dashes = alt.StrokeDash("measure:N", scale=alt.Scale(domain=measures, range=[[1, 0], [5, 3]]), **options)
    tooltip = style.tooltips(alt, {"measure": "measure", "probability": "threshold", "percent": "percent"})
    lines = style.chart_of(alt, values).mark_line(strokeWidth=2).encode(x, y, colour, dashes, tooltip=tooltip)
    chosen = style.chart_of(alt, [{"probability": two.threshold}]).mark_rule(style="reference", tooltip=None).encode(x)
    return alt.layer(chosen, lines).properties(width=560, height=280, description="Precision and recall by threshold.")


def _reliability(alt: Any, report: FixReport) -> Any:
    """Confidence across, accuracy up, a dot a bin, larger where it holds more. On the diagonal they agree."""
    axis = {"scale": alt.Scale(domain=[0, 1]), "axis": alt.Axis(format="~%", tickCount=5)}
    x, y = alt.X("confidence:Q", title="confidence", **axis), alt.Y("accuracy:Q", title="accuracy", **axis)
    fields = {"share": "share of all", "confidence": "mean confidence", "accuracy": "accuracy"}
    bins = ((side, row) for side in SIDES for row in getattr(report, side).bins)
    values = [{"side": side} | {field: getattr(row, field) for field in fields} for side, row in bins]
    domain = [FALLS, RISES, *SIDES]  # so that colours mean the same as in the slopes
    scale, shapes = alt.Scale(domain=domain), alt.Scale(domain=domain, range=style.SHAPES[-2:] + style.SHAPES[:2])
    titled = {"title": None, "legend": alt.Legend(values=list(SIDES))}
    colour, shape = alt.Color("side:N", scale=scale, **titled), alt.Shape("side:N", scale=shapes, **titled)
    size = alt.Size("share:Q", scale=alt.Scale(range=[25, 260]), legend=None)
    tooltip = style.tooltips(alt, {"side": "side"} | fields)
    chart = style.chart_of(alt, values).encode(x, y)
    lines = chart.mark_line(strokeWidth=1.5, tooltip=None).encode(alt.Color("side:N", scale=scale, legend=None))
    dots = chart.mark_point(filled=True, opacity=0.9).encode(colour, shape, size, tooltip=tooltip)
    chart = alt.layer(style.diagonal(alt, 0, 1, axis), lines, dots).resolve_legend(
        color="independent", shape="independent"
    )
    return chart.properties(width=400, height=360, description="Accuracy by confidence, before and after.")


def _values(row: Change) -> dict[str, Any]:
    numbers = {field: getattr(row, field) for field in ("count", *SIDES, "change")}
    return numbers | {"name": style.valid_unicode(row.name), "direction": FALLS if row.change < 0 else RISES}
