"""The paper's figures: which of them a reproduction has results for, and how each is drawn."""

import hashlib
import json
import math
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
from class_uncertainty.reporting.charts import (
    WIDTH,
    Axis,
    Chart,
    Row,
    Series,
    axis_from_zero,
    curve_chart,
    row_chart,
    standalone,
)

FORMS = {  # of uncertainty, and the scores of its parts
    "entropy": {"aleatoric": "aleatoric", "epistemic": "epistemic", "predictive": "predictive"},
    "Kwon et al.": {"aleatoric": "kwon-aleatoric", "epistemic": "kwon-epistemic", "predictive": "kwon-predictive"},
}
MOST_LINES = 12  # with dots
MOST_NAMES, MOST_LETTERS = 12, 10  # classes that are named along an axis, and letters of a name
LEAST = -5  # power of ten of the smallest share that is told apart
MARGIN = 0.08  # powers of ten around the shares
GAP = 16  # pixels between panels


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

    @property
    def svg(self) -> str:
        """The drawing as a file."""
        drawn: str = self.function(*self.arguments)
        return drawn


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
) -> str:
    """Both measures by class (Fig. 2a, b; SVCI-20, b)."""
    shares = {"cardinality": mu_cardinality, "uncertainty": mu_uncertainty}
    about = [f"{name}, {count:,} training examples" for name, count in zip(classes, counts, strict=True)]
    return standalone(_class_curves(classes, shares, "share of the measure", about))


def estimator_curves(classes: Sequence[str], mu_by_estimator: Mapping[str, Sequence[float]]) -> str:
    """Class uncertainty by each estimator, by class (DE against DUQ)."""
    return standalone(_class_curves(classes, mu_by_estimator, "share of the uncertainty", classes))


def uncertainty_kinds(classes: Sequence[str], parts_by_form: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """A panel for each kind of uncertainty, a line for each form: form -> kind -> (C,). Each line sums to 1."""
    panels = []
    for kind in next(iter(parts_by_form.values())):
        shares = {form: _shares(parts[kind]) for form, parts in parts_by_form.items()}
        title = f"share of the {kind} uncertainty"
        if len(shares) == 2:
            title += f", {rho_text(rank_correlation(*shares.values()))}"
        panels.append(_class_curves(classes, shares, title, classes))
    return stacked(panels)


def error_scatter(names: Sequence[str], mu_by_measure: Mapping[str, Sequence[float]], errors: Sequence[float]) -> str:
    """The error of each class against each measure, with Spearman's rho (IF1a).

    A measure that is the same for all classes has no panel.
    """
    panels = []
    for measure, shares in mu_by_measure.items():
        if len(set(shares)) == 1:
            continue
        points = [
            (place(share), error, f"{name}: {error:.1f} %, {share:.2%}")
            for name, share, error in zip(names, shares, errors, strict=True)
        ]
        up = axis_from_zero(f"test error, %; {rho_text(rank_correlation(shares, errors))}", max(errors))
        across = share_axis(f"share by {measure}", shares)
        panels.append(curve_chart(measure, [Series("", points, is_joined=False)], across, up, measure))
    return stacked(panels)


def class_changes(
    settings: Sequence[str],
    classes: Sequence[str],
    values_by_measure: Mapping[str, Sequence[Sequence[float]]],
    x_title: str,
) -> str:
    """A line a class over the settings, one panel a measure (IF1b, IF2): measure -> setting -> (C,).

    All panels have one axis, so that changes can be compared.
    """
    everything = [share for rows in values_by_measure.values() for row in rows for share in row]
    across = Axis(x_title, 0, max(1, len(settings) - 1), list(enumerate(settings)))
    panels = []
    for measure, rows in values_by_measure.items():
        lines = []
        for c, name in enumerate(classes):
            points = [(at, place(row[c]), f"{name}, {settings[at]}: {row[c]:.2%}") for at, row in enumerate(rows)]
            lines.append(Series(name, points, has_dots=len(classes) <= MOST_LINES))
        panels.append(curve_chart(measure, lines, across, share_axis(f"{measure}:", everything), measure))
    return stacked(panels)


def relative_gains(
    groups: Sequence[tuple[str, str, float, str, float]],
    printed: Sequence[tuple[str, str, float, str, float]] | None = None,
) -> str:
    """From the error by cardinality to that by uncertainty, and the relative gain (Fig. 1a).

    Each group is (label, baseline, its error, the row by uncertainty, its error), as in ErrorPair. What the paper
    prints stands below what was measured, if given.
    """
    panels = {"measured here": groups} if printed is None else {"measured here": groups, "printed": printed}
    charts = []
    for title, panel in panels.items():
        rows = []
        for group in panel:
            pair = ErrorPair(*group)
            about = f"{pair.baseline} {pair.baseline_error:.1f} %, {pair.uncertainty} {pair.uncertainty_error:.1f} %"
            text = f"{pair.gain:+.1f} %".replace("-", "−")
            rows.append(Row(pair.label, pair.uncertainty_error, text, start=pair.baseline_error, about=about))
        legend = "○ by cardinality  ● by uncertainty"
        charts.append(row_chart(title, rows, f"test error, %, {title}", title, legend=legend))
    return stacked(charts)


def gap_by_count(
    counts: Sequence[int],
    hard_errors: Sequence[float],
    easy_errors: Sequence[float],
    hard_deviations: Sequence[float] | None = None,
    easy_deviations: Sequence[float] | None = None,
    names: tuple[str, str] = ("CIFAR-10 classes", "SVHN classes"),
) -> str:
    """Mean errors of the hard and of the easy classes against the examples a class (SVCI-20, a)."""
    order = sorted(range(len(counts)), key=lambda i: counts[i])
    across = Axis("training examples per class", -0.5, len(counts) - 0.5, _ticks([f"{counts[i]:,}" for i in order]))
    sides = []
    for name, errors, deviations in zip(
        names, (hard_errors, easy_errors), (hard_deviations, easy_deviations), strict=True
    ):
        points = []
        for at, i in enumerate(order):
            spread = f" ± {deviations[i]:.1f}" if deviations else ""
            points.append((at, errors[i], f"{name}, {counts[i]:,} examples: {errors[i]:.1f}{spread} %"))
        sides.append(Series(name, points))
    up = axis_from_zero("mean test error, %", max(*hard_errors, *easy_errors))
    return standalone(curve_chart("gap", sides, across, up, "Mean errors by examples a class"))


def _class_curves(
    classes: Sequence[str], shares: Mapping[str, Sequence[float]], title: str, about: Sequence[str]
) -> Chart:
    """A line for each name in `shares`, over the classes in their order."""
    labels = list(classes) if len(classes) <= MOST_NAMES else [str(c) for c in range(len(classes))]
    ticks = [tick for tick in _ticks(labels) if len(classes) <= 2 * MOST_NAMES or tick[0] % 10 == 0]
    across = Axis("class", -0.5, len(classes) - 0.5, ticks)
    series = []
    for name, values in shares.items():
        points = [(c, value, f"{about[c]}: {value:.2%} by {name}") for c, value in enumerate(values)]
        series.append(Series(name, points, has_dots=len(classes) <= 2 * MOST_NAMES))
    highest = max(max(values) for values in shares.values())
    return curve_chart("classes", series, across, axis_from_zero(title, highest, percent), title)


def _ticks(labels: Sequence[str]) -> list[tuple[float, str]]:
    return [(float(at), label[:MOST_LETTERS]) for at, label in enumerate(labels)]


def share_axis(title: str, shares: Sequence[float]) -> Axis:
    """Powers of ten, as the shares of a long tail lie far apart; `place` says where a share stands."""
    low, high = place(min(shares)), place(max(shares))
    every = [math.log10(digit * 10.0**power) for power in range(LEAST, 1) for digit in (1, 3)]
    ticks = [(at, percent(10**at)) for at in every if low - MARGIN <= at <= high + MARGIN]
    return Axis(title, low - MARGIN, high + MARGIN, ticks)


def place(share: float) -> float:
    return math.log10(max(share, 10.0**LEAST))


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def stacked(charts: Sequence[Chart]) -> str:
    """Charts below each other in one file."""
    parts, top = [], 0.0
    for chart in charts:
        height = float(chart.svg.split('height="', 1)[1].split('"', 1)[0])
        parts.append(chart.svg.replace("<svg ", f'<svg y="{top:g}" ', 1).replace(f'width="{WIDTH}"', 'width="100%"', 1))
        top += height + GAP
    whole = f'<svg class="chart" width="{WIDTH}" height="{top:g}">{"".join(parts)}</svg>'
    return standalone(Chart("stacked", whole, ", ".join(chart.caption for chart in charts)))


def rho_text(rho: float | None) -> str:
    return "rho not defined" if rho is None else f"Spearman’s rho {rho:.2f}".replace("-", "−")


def _shares(values: Sequence[float]) -> list[float]:
    raw = np.asarray(values, dtype=float)
    return (raw / raw.sum()).tolist()
