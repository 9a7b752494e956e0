"""The paper's figures: which of them a reproduction has results for, and how each is drawn."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from class_uncertainty.metrics import rank_correlation
from class_uncertainty.paper.experiments import DRAWN, GROUPS
from class_uncertainty.paper.outcomes import Gain
from class_uncertainty.paper.reproduction import MeasuredData, Reproduction
from class_uncertainty.paper.tables import half_errors, title_of
from class_uncertainty.reporting import chart_style as style
from class_uncertainty.reporting.class_curves import HEIGHT, LOW_HEIGHT, curves, stacked
from class_uncertainty.reporting.class_scatter import ShareAxis, error_panels, rho_text, side_by_side

FORMS = {  # of uncertainty, and the scores of its parts
    "entropy": {"aleatoric": "aleatoric", "epistemic": "epistemic", "predictive": "predictive"},
    "Kwon et al.": {"aleatoric": "kwon-aleatoric", "epistemic": "kwon-epistemic", "predictive": "kwon-predictive"},
}
MOST_LINES = 12  # whose ends have class names beside them; of more, a gradient is the legend
NAME_GAP = 0.05  # from one name to the next, as a share of the panel's height
# shares of the lines' width, from their ends to the names, and to the end of the panel
NAME_OFFSET, NAME_ROOM = 0.08, 0.42
SIDES = ("by cardinality", "by uncertainty")
GAP_WIDTH, GAP_LABEL = 420, 55  # pixels of the panel, and from a rule to the end of the label beside it


@dataclass(frozen=True)
class Figure:
    """One of the functions below with its arguments."""

    title: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def digest(self) -> str:
        """A short hash of what is drawn, with numbers to six digits."""
        text = json.dumps([self.function.__name__, _rounded(self.arguments)], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite."""
        spec: dict[str, Any] = self.function(*self.arguments).to_dict()
        return spec


def figures(reproduction: Reproduction) -> dict[str, Figure]:
    """Those that there are results for, by the names of their files."""
    return FIGURES[reproduction.name](reproduction) if reproduction.name in FIGURES else {}


def _if1a(reproduction: Reproduction) -> dict[str, Figure]:
    drawn = {}
    for one in reproduction.measured:
        if errors := one.measurement.class_errors:
            about = (list(one.data.classes), _both(one), list(errors))
            title = f"IF1a on {title_of(one.data.name)}: test error of each class against both measures"
            drawn["if1a"] = Figure(title, error_scatter, about)
    return drawn


def _by_ratio(reproduction: Reproduction) -> dict[str, Figure]:
    """IF1b."""
    measured = {one.data.name.rpartition(":")[2]: one for one in reproduction.measured}
    return _changes("if1b", "IF1b", measured, "imbalance ratio")


def _by_strength(reproduction: Reproduction) -> dict[str, Figure]:
    """IF2, of duplicates that are copies and of those that are drawn."""
    copied, drawn = dict[str, MeasuredData](), dict[str, MeasuredData]()
    for one in reproduction.measured:
        strength = DRAWN.get(one.measurement.estimator)
        if strength is None:
            copied[one.data.name.rpartition("=")[2] if "=" in one.data.name else "0"] = one
        else:
            drawn[f"{strength:g}"] = one
    drawn = {"0": copied["0"]} | drawn if "0" in copied else {}
    by = "duplication strength"
    return _changes("if2", "IF2, copies,", copied, by) | _changes("if2-drawn", "IF2, draws,", drawn, by)


def _changes(file: str, name: str, measured: dict[str, MeasuredData], x_title: str) -> dict[str, Figure]:
    """Shares of the classes by what was changed; nothing where there is no change yet."""
    if len(measured) < 2:
        return {}
    by_setting = [_both(one) for one in measured.values()]
    values = {measure: [both[measure] for both in by_setting] for measure in ("cardinality", "uncertainty")}
    title = f"{name} on CIFAR-10-LT: share of each class by the {x_title}"
    classes = list(next(iter(measured.values())).data.classes)
    return {file: Figure(title, class_changes, (list(measured), classes, values, x_title))}


def _measures(reproduction: Reproduction) -> dict[str, Figure]:
    drawn = {}
    for one in reproduction.measured:
        slug, name = _slug(one.data.name), title_of(one.data.name)
        shares = (list(one.data.classes), list(one.data.counts), *_both(one).values())
        drawn[f"measures-{slug}"] = Figure(f"Both measures on {name}", measure_curves, shares)
        raw = one.measurement.raw
        if one.data.name.startswith("svci20") and all(
            score in raw for parts in FORMS.values() for score in parts.values()
        ):
            parts = {form: {kind: list(raw[score]) for kind, score in parts.items()} for form, parts in FORMS.items()}
            title = f"Kinds of uncertainty on {name}, by entropies and by Kwon's traces"
            drawn[f"kinds-{slug}"] = Figure(title, uncertainty_kinds, (list(one.data.classes), parts))
    return drawn


def _gains(reproduction: Reproduction) -> dict[str, Figure]:
    """Figure 1a, one for each protocol under which all groups have been run."""
    drawn = {}
    for protocol in reproduction.protocols:
        by_method = {gain.ours.cell.row.method: gain for gain in reproduction.gains if gain.ours.protocol == protocol}
        listed = {group: by_method[method] for group, method in GROUPS.items() if method in by_method}
        complete = {group: gain for group, gain in listed.items() if gain.gain is not None}
        if len(complete) == len(GROUPS):
            pairs = ([_pair(*item) for item in complete.items()], [_printed_pair(*item) for item in complete.items()])
            title = f"Figure 1a on CIFAR-100-LT (50), protocol {protocol}: relative gains"
            drawn[f"figure1-{protocol}"] = Figure(title, relative_gains, pairs)
    return drawn


def _pair(group: str, gain: Gain) -> tuple[str, str, float | None, str, float | None]:
    return group, gain.baseline.cell.row.label, gain.baseline.mean, gain.ours.cell.row.label, gain.ours.mean


def _printed_pair(group: str, gain: Gain) -> tuple[str, str, float | None, str, float | None]:
    means = [one.cell.printed.mean if one.cell.printed else None for one in (gain.baseline, gain.ours)]
    return group, gain.baseline.cell.row.label, means[0], gain.ours.cell.row.label, means[1]


def _gap(reproduction: Reproduction) -> dict[str, Figure]:
    """The error of SVCI-20's halves by the examples a class."""
    if len(reproduction.naive) < 2:
        return {}
    counts = [int(data.rpartition(":")[2]) for data in reproduction.naive]
    halves = list(zip(*map(half_errors, reproduction.naive.values()), strict=True))  # half -> count -> run
    means = [[fmean(errors) for errors in half] for half in halves]
    deviations = [[stdev(errors) if len(errors) > 1 else 0.0 for errors in half] for half in halves]
    title = "The halves of SVCI-20 by examples a class, naïve classifier"
    return {"svci20-gap": Figure(title, gap_by_count, (counts, *means, *deviations))}


def _estimators(reproduction: Reproduction) -> dict[str, Figure]:
    drawn, by_data = {}, dict[str, dict[str, MeasuredData]]()
    for one in reproduction.measured:
        by_data.setdefault(one.data.name, {})[one.measurement.estimator] = one
    for data, estimates in by_data.items():
        if len(estimates) > 1:
            classes = list(next(iter(estimates.values())).data.classes)
            shares = {name: list(one.uncertainty) for name, one in estimates.items()}
            title = f"Class uncertainty by deep ensemble and by DUQ on {title_of(data)}"
            drawn[f"duq-{_slug(data)}"] = Figure(title, estimator_curves, (classes, shares))
    return drawn


def _both(one: MeasuredData) -> dict[str, list[float]]:
    return {"cardinality": one.cardinality, "uncertainty": one.uncertainty}


def _slug(data: str) -> str:
    return data.replace(":", "-")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value


FIGURES = {  # of which experiments there are figures
    "svci20": _gap,
    "if1a": _if1a,
    "if1b": _by_ratio,
    "if2": _by_strength,
    "measures": _measures,
    "figure1": _gains,
    "duq": _estimators,
}


class ErrorPair(NamedTuple):
    """A method driven by cardinality and its row driven by uncertainty, with their errors in percent."""

    label: str  # of the pair: "resampling"
    baseline: str
    baseline_error: float
    uncertainty: str
    uncertainty_error: float

    @property
    def gain(self) -> float:
        """(baseline - ours) / baseline, in percent; below 0 where uncertainty is worse."""
        return 100 * (self.baseline_error - self.uncertainty_error) / self.baseline_error


def measure_curves(
    classes: Sequence[str], counts: Sequence[int], mu_cardinality: Sequence[float], mu_uncertainty: Sequence[float]
) -> Any:
    """Both measures by class index (Fig. 2a, b; SVCI-20, b)."""
    alt, facts = style.altair(), {"training examples": [f"{count:,}" for count in counts]}
    measures = {"cardinality": mu_cardinality, "uncertainty": mu_uncertainty}
    panel = curves(alt, classes, measures, "share of the measure", facts)
    return _finished(stacked(alt, [panel.properties(height=HEIGHT, description="Both measures of each class.")]))


def estimator_curves(classes: Sequence[str], mu_by_estimator: Mapping[str, Sequence[float]]) -> Any:
    """Class uncertainty by each estimator, by class index (DE against DUQ)."""
    alt = style.altair()
    panel = curves(alt, classes, mu_by_estimator, "share of the uncertainty")
    return _finished(stacked(alt, [panel.properties(height=HEIGHT, description="Class uncertainty by estimator.")]))


def uncertainty_kinds(classes: Sequence[str], parts_by_form: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:
    """A panel for each kind of uncertainty, a line for each form: form -> kind -> (C,). Each line sums to 1."""
    alt = style.altair()
    kinds, panels = list(next(iter(parts_by_form.values()))), []
    for kind in kinds:
        shares = {form: _shares(parts[kind]) for form, parts in parts_by_form.items()}
        panel = curves(alt, classes, shares, "share of the sum", labelled=kind == kinds[-1], legend=kind == kinds[0])
        pair = list(shares.values())
        subtitle = {"subtitle": rho_text(rank_correlation(*pair))} if len(pair) == 2 else {}
        title = alt.TitleParams(f"{kind[:1].upper()}{kind[1:]} uncertainty", **subtitle)
        panels.append(panel.properties(height=LOW_HEIGHT, title=title, description=f"The {kind} part of each class."))
    return _finished(stacked(alt, panels))


def error_scatter(
    names: Sequence[str],
    mu_by_measure: Mapping[str, Sequence[float]],
    errors: Sequence[float],
    y_title: str = "test error, %",
) -> Any:
    """The error of each class, or its accuracy, against each measure, with Spearman's rho (IF1a).

    A measure that is the same for all classes has no panel.
    """
    alt = style.altair()
    values = [
        {"name": style.valid_unicode(name), "error": float(error)} for name, error in zip(names, errors, strict=True)
    ]
    tooltip = {"name": "class", "share": "share of the measure", "error": y_title}
    by_title = {f"{name[:1].upper()}{name[1:]}": shares for name, shares in mu_by_measure.items()}
    return _finished(side_by_side(alt, error_panels(alt, values, by_title, tooltip, y_title)))


def class_changes(
    settings: Sequence[str],
    classes: Sequence[str],
    values_by_measure: Mapping[str, Sequence[Sequence[float]]],
    x_title: str,
) -> Any:
    """A line a class over the settings, one panel a measure (IF1b, IF2): measure -> setting -> (C,).

    Colours run from the first class, the head of a long tail, to the last. All panels have one y axis, so that changes
    can be compared.
    """
    alt = style.altair()
    axis = ShareAxis(alt, [v for rows in values_by_measure.values() for row in rows for v in row])
    panels = [
        _changes_panel(alt, settings, classes, name, rows, x_title, axis) for name, rows in values_by_measure.items()
    ]
    return _finished(alt.concat(*panels, columns=3, spacing=28))


def _changes_panel(
    alt: Any,
    settings: Sequence[str],
    classes: Sequence[str],
    name: str,
    rows: Sequence[Sequence[float]],
    x_title: str,
    axis: ShareAxis,
) -> Any:
    last, named = len(settings) - 1, len(classes) <= MOST_LINES
    names, ticks = [style.valid_unicode(label) for label in classes], list(range(len(settings)))
    values = [
        {"at": at, "index": c, "name": names[c], "setting": settings[at], "share": float(row[c])}
        for at, row in enumerate(rows)
        for c in range(len(names))
    ]
    x_axis = alt.Axis(values=ticks, labelExpr=f"{json.dumps(list(settings))}[datum.value]", labelAngle=0)
    x_scale = alt.Scale(domain=[-0.04 * last, (1.04 + NAME_ROOM * named) * last], nice=False)
    x_options = {"title": x_title, "axis": x_axis, "scale": x_scale}
    x, y_title = alt.X("at:Q", **x_options), "share of the measure"
    y = alt.Y("share:Q", title=y_title, **axis.options)
    colour = alt.Color("index:Q", title=None, scale=alt.Scale(domain=[0, len(names) - 1]), legend=None)
    tooltip = style.tooltips(alt, {"name": "class", "setting": x_title, "share": y_title})
    chart = style.chart_of(alt, values).encode(x, y, detail="index:N", tooltip=tooltip)
    if named:
        ends = style.chart_of(alt, _end_names(names, rows, axis)).encode(colour)
        beside = alt.X("beside:Q", **x_options), alt.Y("height:Q", title=y_title, **axis.options)
        layers = [
            chart.mark_line(strokeWidth=1.75).encode(colour),
            chart.mark_point(filled=True, size=30, opacity=1).encode(colour),
            ends.mark_rule(strokeWidth=1, opacity=0.6, tooltip=None).encode(x, y, x2="beside:Q", y2="height:Q"),
            ends.mark_text(align="left", baseline="middle", fontSize=11, dx=3).encode(*beside, text="label:N"),
        ]
    else:
        layers = [chart.mark_line(strokeWidth=1, opacity=0.8).encode(colour.legend(_gradient(alt, names)))]
    title = f"{name[:1].upper()}{name[1:]}"
    description = f"{title} of each class by {x_title}."
    return alt.layer(*layers).properties(width=340 if named else 300, height=280, title=title, description=description)


def _gradient(alt: Any, names: Sequence[str]) -> Any:
    first, last = (f"{style.short_label(name)} ({place})" for name, place in ((names[0], "first"), (names[-1], "last")))
    labels = f"datum.value ? {json.dumps(last)} : {json.dumps(first)}"
    size = {"gradientLength": 280, "gradientThickness": 8}
    return alt.Legend(type="gradient", values=[0, len(names) - 1], labelExpr=labels, labelOverlap=False, **size)


def _end_names(names: Sequence[str], rows: Sequence[Sequence[float]], axis: ShareAxis) -> list[dict[str, Any]]:
    """Names beside the ends of the lines, moved apart where they would overlap; a rule joins each to its line."""
    last = len(rows) - 1
    shares, before = rows[last], rows[max(last - 1, 0)]
    order = sorted(
        range(len(names)), key=lambda c: (-round(shares[c], 9), -before[c])
    )  # of a tie, as the lines come in
    heights = style.centred_heights([axis.position(shares[c]) for c in order], NAME_GAP)
    return [
        {
            "at": last,
            "index": c,
            "share": float(shares[c]),
            "beside": last * (1 + NAME_OFFSET),
            "height": axis.value(height),
            "label": style.short_label(names[c]),
        }
        for c, height in zip(order, heights, strict=True)
    ]


def relative_gains(
    groups: Sequence[tuple[str, str, float, str, float]],
    printed: Sequence[tuple[str, str, float, str, float]] | None = None,
) -> Any:
    """Pairs of bars, by cardinality and by uncertainty, under their relative gain (Fig. 1a).

    Each group is (label, baseline, its error, the row by uncertainty, its error), as in ErrorPair. What the paper
    prints stands beside what was measured, if given.
    """
    alt = style.altair()
    panels = {"": groups} if printed is None else {"Measured here": groups, "Printed in the paper": printed}
    pairs = {title: [ErrorPair(*group) for group in panel] for title, panel in panels.items()}
    top = 1.12 * max(max(pair.baseline_error, pair.uncertainty_error) for panel in pairs.values() for pair in panel)
    charts = [_gains_panel(alt, title, panel, top) for title, panel in pairs.items()]
    return _finished(alt.concat(*charts, columns=2, spacing=28))


def _gains_panel(alt: Any, title: str, pairs: Sequence[ErrorPair], top: float) -> Any:
    values = []
    for pair in pairs:
        sides = ((pair.baseline, pair.baseline_error), (pair.uncertainty, pair.uncertainty_error))
        values += [
            {"group": pair.label, "side": side, "method": method, "error": error, "text": f"{method}  {error:.1f}"}
            for side, (method, error) in zip(SIDES, sides, strict=True)
        ]
    gains = [
        {"group": pair.label, "error": max(pair.baseline_error, pair.uncertainty_error), "text": _signed(pair.gain)}
        for pair in pairs
    ]
    labels = alt.Axis(labelAngle=0, labelExpr="split(datum.label, ' ')", ticks=False, labelLimit=90)
    groups = [pair.label for pair in pairs]
    x = alt.X("group:N", title=None, sort=None, scale=alt.Scale(domain=groups, paddingInner=0.3), axis=labels)
    scale = alt.Scale(domain=[0, top], nice=False)
    y_options = {"title": "test error, %", "scale": scale, "axis": alt.Axis(tickCount=5)}
    y, foot = alt.Y("error:Q", **y_options), alt.Y("foot:Q", **y_options)
    offset = alt.XOffset("side:N", sort=list(SIDES), scale=alt.Scale(domain=list(SIDES), paddingInner=0.08))
    colour = alt.Color(
        "side:N", title=None, scale=alt.Scale(domain=list(SIDES)), legend=alt.Legend(symbolType="square")
    )
    tooltip = style.tooltips(alt, {"method": "method", "error": "test error, %"})
    bars = style.chart_of(alt, values).mark_bar().encode(x, y, offset, colour, tooltip=tooltip)
    feet = style.chart_of(alt, [value | {"foot": 0} for value in values])
    inside = feet.mark_text(style="inside", angle=270, align="left", dx=6, baseline="middle", tooltip=None)
    above = style.chart_of(alt, gains).mark_text(style="name", fontWeight="bold", dy=-9, tooltip=None)
    layers = [bars, inside.encode(x, foot, offset, text="text:N"), above.encode(x, y, text="text:N")]
    return alt.layer(*layers).properties(
        width=92 * len(pairs), height=280, title=title, description="Errors by cardinality and by uncertainty."
    )


def gap_by_count(
    counts: Sequence[int],
    hard_errors: Sequence[float],
    easy_errors: Sequence[float],
    hard_deviations: Sequence[float] | None = None,
    easy_deviations: Sequence[float] | None = None,
    names: tuple[str, str] = ("CIFAR-10 classes", "SVHN classes"),
) -> Any:
    """Mean errors of the hard and of the easy classes against the examples a class, with their gap (SVCI-20, a)."""
    alt, order = style.altair(), [f"{count:,}" for count in sorted(counts)]
    sides = zip(names, (hard_errors, easy_errors), (hard_deviations, easy_deviations), strict=True)
    values: list[dict[str, Any]] = [
        {"count": f"{counts[i]:,}", "side": side, "error": float(error)}
        | _bar(error, 0 if deviations is None else deviations[i])
        for side, errors, deviations in sides
        for i, error in enumerate(errors)
    ]
    points = sorted(zip(counts, hard_errors, easy_errors, strict=True))
    gaps = [
        {
            "count": f"{count:,}",
            "low": min(pair),
            "high": max(pair),
            "middle": height,
            "text": f"gap {style.number_text(pair[0] - pair[1], 1)}",
        }
        for (count, *pair), height in zip(points, _between_lines([pair for _, *pair in points]), strict=True)
    ]
    y_scale = alt.Scale(domain=[0, 1.08 * max(value["top"] for value in values)], nice=False)
    y_options = {"title": "mean test error, %", "scale": y_scale, "axis": alt.Axis(tickCount=5)}
    x_scale, x_axis = alt.Scale(domain=order, padding=0.5), alt.Axis(labelAngle=0, grid=False)
    x = alt.X("count:O", title="training examples per class", scale=x_scale, axis=x_axis)
    y = alt.Y("error:Q", **y_options)
    scale, shapes = alt.Scale(domain=list(names)), alt.Scale(domain=list(names), range=style.SHAPES[:2])
    colour, plain = (alt.Color("side:N", title=None, scale=scale, legend=legend) for legend in (alt.Legend(), None))
    tooltip = style.tooltips(alt, {"count": "training examples per class", "side": "classes", "error": "error, %"})
    chart, between = style.chart_of(alt, values).encode(x), style.chart_of(alt, gaps).encode(x)
    layers = [
        between.mark_rule(style="reference", tooltip=None).encode(alt.Y("low:Q", **y_options), y2="high:Q"),
        chart.mark_line(strokeWidth=2, tooltip=None).encode(y, plain),
        chart.mark_point(filled=True, size=70, opacity=1).encode(
            y, colour, alt.Shape("side:N", title=None, scale=shapes), tooltip=tooltip
        ),
        between.mark_text(style="name", align="left", dx=7, tooltip=None).encode(
            alt.Y("middle:Q", **y_options), text="text:N"
        ),
    ]
    if hard_deviations is not None or easy_deviations is not None:
        bars = chart.mark_rule(strokeWidth=2, tooltip=None).encode(alt.Y("bottom:Q", **y_options), plain, y2="top:Q")
        layers.insert(1, bars)
    panel = alt.layer(*layers).resolve_legend(color="independent", shape="independent")
    return _finished(panel.properties(width=GAP_WIDTH, height=300, description="Mean errors by examples per class."))


def _between_lines(pairs: Sequence[Sequence[float]]) -> list[float]:
    """The heights of labels to the right of pairs of points: the middle between the lines that join them.

    It is the middle of what both lines leave free along the whole label, whether they rise or fall.
    """
    reach = min(1.0, GAP_LABEL * len(pairs) / GAP_WIDTH)  # of the way to the next pair
    heights = []
    for pair, following in zip(pairs, [*pairs[1:], pairs[-1]], strict=True):
        end = [start + reach * (stop - start) for start, stop in zip(pair, following, strict=True)]
        heights.append((max(min(pair), min(end)) + min(max(pair), max(end))) / 2)
    return heights


def _bar(error: float, deviation: float) -> dict[str, float]:
    """One deviation to each side; no error lies below 0."""
    return {"bottom": max(0.0, float(error - deviation)), "top": float(error + deviation)}


def _signed(percent: float) -> str:
    return f"{percent:+.1f} %".replace("-", "−")


def _shares(values: Sequence[float]) -> list[float]:
    raw = np.asarray(values, dtype=float)
    return (raw / raw.sum()).tolist()


def _finished(chart: Any) -> Any:
    return chart.configure(**style.config(style.LIGHT))
