"""Dots for classes, by a measure and the test error: axes of shares, names beside dots, panels with Spearman's rho."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from class_uncertainty.metrics import rank_correlation
from class_uncertainty.reporting import chart_style as style

Dots = Sequence[tuple[float, float]]  # (x, y) from 0 to 1
ClassValues = Sequence[Mapping[str, Any]]  # of each class, with its name
PANEL, ALONE = (250, 230), (440, 380)  # width and height of one of several panels, and of a single one


class ShareAxis:
    """An axis of shares: logarithmic where they lie far apart, as counts of a long tail do, and none is 0."""

    def __init__(self, alt: Any, values: Sequence[float]) -> None:
        low, high = min(values), max(values)
        self.log = low > 0 and high / low > 4
        self.domain = (low / 1.2, high * 1.2) if self.log else (0.0, high * 1.08 or 1.0)
        scale = alt.Scale(type="log" if self.log else "linear", domain=list(self.domain), nice=False)
        ticks = {"values": style.log_ticks(*self.domain)} if self.log else {"tickCount": 5}
        self.options = {"scale": scale, "axis": alt.Axis(format="~%", labelOverlap="greedy", **ticks)}

    def position(self, value: float) -> float:
        """Where a value stands on the axis, from 0 to 1."""
        low, high = self.domain
        return math.log(value / low) / math.log(high / low) if self.log else (value - low) / (high - low)

    def value(self, position: float) -> float:
        """The value that stands at a position from 0 to 1."""
        low, high = self.domain
        return low * (high / low) ** position if self.log else low + (high - low) * position


def error_panels(
    alt: Any,
    values: ClassValues,
    shares_by_measure: Mapping[str, Sequence[float]],
    tooltip: Mapping[str, str],
    y_title: str = "test error, %",
) -> list[Any]:
    """A panel for each measure that tells classes apart: by one that is the same for all, they would be a column."""
    telling = {title: shares for title, shares in shares_by_measure.items() if len(set(shares)) > 1}
    size = ALONE if len(telling) == 1 else PANEL
    return [_error_panel(alt, values, shares, title, tooltip, y_title, size) for title, shares in telling.items()]


def _error_panel(
    alt: Any,
    values: ClassValues,
    shares: Sequence[float],
    title: str,
    tooltip: Mapping[str, str],
    y_title: str,
    size: tuple[int, int],
) -> Any:
    """The `error` among the values up, the shares by one measure across; the title has the measure and rho."""
    width, height = size
    placed = [{**value, "share": float(share)} for value, share in zip(values, shares, strict=True)]
    errors = [value["error"] for value in values]
    highest = max(errors) or 1.0
    worst_first = sorted(range(len(errors)), key=lambda i: -errors[i])
    axis = ShareAxis(alt, shares)
    x = alt.X("share:Q", title=f"share by {title[:1].lower()}{title[1:]}", **axis.options)
    y = alt.Y("error:Q", title=y_title, scale=alt.Scale(domain=[0, 1.06 * highest]), axis=alt.Axis(tickCount=5))
    dots = [(axis.position(share), error / highest) for share, error in zip(shares, errors, strict=True)]
    chart = style.chart_of(alt, placed).encode(x, y)
    panel = alt.layer(*class_layers(alt, chart, x, y, placed, dots, worst_first, tooltip, height))
    heading = alt.TitleParams(title, subtitle=rho_text(rank_correlation(shares, errors)))
    return panel.properties(width=width, height=height, title=heading, description=f"Each class by {title.lower()}.")


def side_by_side(alt: Any, panels: Sequence[Any]) -> Any:
    """Panels in rows of three. The page draws them one by one, below each other on a phone."""
    return alt.concat(*panels, columns=3, spacing=28)


def rho_text(rho: float | None) -> str:
    return "rho not defined" if rho is None else f"Spearman’s rho {style.number_text(rho)}"


def class_layers(
    alt: Any,
    chart: Any,
    x: Any,
    y: Any,
    values: ClassValues,
    dots: Dots,
    order: Sequence[int],
    tooltip: Mapping[str, str],
    height: int,
) -> list[Any]:
    """A dot for each class, and names beside those dots that have room for one; the others are named on hover."""
    labels = [style.short_label(value["name"]) for value in values]
    placed = style.free_labels(labels, dots, order, height)
    layers = [chart.encode(tooltip=style.tooltips(alt, tooltip)).mark_point(style="dot", filled=True)]
    for to_left, align, dx in ((True, "right", -7), (False, "left", 7)):
        named = [{**values[i], "label": labels[i]} for i, left in placed.items() if left == to_left]
        if named:
            names = style.chart_of(alt, named).encode(x, y, text="label:N")
            layers.append(names.mark_text(style="name", align=align, dx=dx, baseline="middle", tooltip=None))
    return layers
