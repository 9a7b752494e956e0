"""The figures of a reproduction: which function of paper_figures draws what, with the values that were measured."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from class_uncertainty.experiments.catalogue import DRAWN, GROUPS
from class_uncertainty.experiments.outcomes import Gain
from class_uncertainty.experiments.reproduction import MeasuredData, Reproduction
from class_uncertainty.reporting import paper_figures
from class_uncertainty.reporting.chart_images import check_figures, draw, write_figures
from class_uncertainty.reporting.reproduction_tables import half_errors, title_of

FORMS = {  # of uncertainty, and the scores of its parts
    "entropy": {"aleatoric": "aleatoric", "epistemic": "epistemic", "predictive": "predictive"},
    "Kwon et al.": {"aleatoric": "kwon-aleatoric", "epistemic": "kwon-epistemic", "predictive": "kwon-predictive"},
}


@dataclass(frozen=True)
class Figure:
    """A function of paper_figures with its arguments."""

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


def draw_figures(wanted: dict[str, Figure], folder: Path, force: bool = False) -> list[Path]:
    """Every figure as SVG and as PNG."""
    requests = {
        folder / f"{name}.{suffix}": (suffix, one.spec()) for name, one in wanted.items() for suffix in ("svg", "png")
    }
    check_figures(requests, force)
    return write_figures(dict(zip(requests, draw(list(requests.values())), strict=True)))


def _if1a(reproduction: Reproduction) -> dict[str, Figure]:
    drawn = {}
    for one in reproduction.measured:
        if errors := one.measurement.class_errors:
            about = (list(one.data.classes), _both(one), list(errors))
            title = f"IF1a on {title_of(one.data.name)}: test error of each class against both measures"
            drawn["if1a"] = Figure(title, paper_figures.error_scatter, about)
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
    return {file: Figure(title, paper_figures.class_changes, (list(measured), classes, values, x_title))}


def _measures(reproduction: Reproduction) -> dict[str, Figure]:
    drawn = {}
    for one in reproduction.measured:
        slug, name = _slug(one.data.name), title_of(one.data.name)
        shares = (list(one.data.classes), list(one.data.counts), *_both(one).values())
        drawn[f"measures-{slug}"] = Figure(f"Both measures on {name}", paper_figures.measure_curves, shares)
        raw = one.measurement.raw
        if one.data.name.startswith("svci20") and all(
            score in raw for parts in FORMS.values() for score in parts.values()
        ):
            parts = {form: {kind: list(raw[score]) for kind, score in parts.items()} for form, parts in FORMS.items()}
            title = f"Kinds of uncertainty on {name}, by entropies and by Kwon's traces"
            drawn[f"kinds-{slug}"] = Figure(title, paper_figures.uncertainty_kinds, (list(one.data.classes), parts))
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
            drawn[f"figure1-{protocol}"] = Figure(title, paper_figures.relative_gains, pairs)
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
    return {"svci20-gap": Figure(title, paper_figures.gap_by_count, (counts, *means, *deviations))}


def _estimators(reproduction: Reproduction) -> dict[str, Figure]:
    drawn, by_data = {}, dict[str, dict[str, MeasuredData]]()
    for one in reproduction.measured:
        by_data.setdefault(one.data.name, {})[one.measurement.estimator] = one
    for data, estimates in by_data.items():
        if len(estimates) > 1:
            classes = list(next(iter(estimates.values())).data.classes)
            shares = {name: list(one.uncertainty) for name, one in estimates.items()}
            title = f"Class uncertainty by deep ensemble and by DUQ on {title_of(data)}"
            drawn[f"duq-{_slug(data)}"] = Figure(title, paper_figures.estimator_curves, (classes, shares))
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
NO_FIGURE = f"No figure is drawn: there are figures of {', '.join(FIGURES)}, as soon as they have been run."
