"""Charts: well-formed, every mark at the place of its value, within the drawing, and from 0."""

import re
from itertools import pairwise
from xml.dom.minidom import Element, parseString

import numpy as np
import pytest
from reporting.examples import NASTY

from class_uncertainty.reporting.charts import (
    MOST_ROWS,
    Axis,
    Chart,
    Row,
    Series,
    axis_from_zero,
    curve_chart,
    file_stem,
    row_chart,
    standalone,
)

ROWS = [
    Row("trash", 26.0, "41 → 26", start=41.0, low=12.0, high=38.0, tone="good"),
    Row(NASTY, 12.9, "12 → 13", start=12.3, low=11.6, high=14.2),
    Row("a" * 90, 0.0, "0"),
]
CURVES = [
    Series("before", [(0.1, 0.2, "one"), (0.5, 0.7, "two")]),
    Series("<after>", [(0.1, 0.1, NASTY), (0.9, 0.75, "last")]),
]


def row_example() -> Chart:
    return row_chart("rows", ROWS, "error, %", "Errors & more", legend="○ before  ● after", reference=20.0)


def curve_example() -> Chart:
    across = axis_from_zero("confidence", 1.0)
    return curve_chart("curves", CURVES, across, axis_from_zero("accuracy", 1.0), "Curves", diagonal=True)


def elements(chart: Chart, tag: str) -> list[Element]:
    return list(parseString(standalone(chart)).getElementsByTagName(tag))


def of_class(chart: Chart, tag: str, kind: str) -> list[Element]:
    return [element for element in elements(chart, tag) if kind in element.getAttribute("class").split()]


def percent(element: Element, attribute: str) -> float:
    value = element.getAttribute(attribute)
    assert value.endswith("%")
    return float(value.removesuffix("%"))


@pytest.mark.parametrize("chart", [row_example(), curve_example()], ids=["rows", "curves"])
def test_a_chart_is_xml_and_lies_within_its_size(chart):
    root = parseString(standalone(chart)).documentElement
    height = float(root.getAttribute("height"))
    for element in root.getElementsByTagName("*"):
        for attribute in ("x", "x1", "x2", "cx", "width"):
            if element.getAttribute(attribute).endswith("%"):
                assert 0 <= percent(element, attribute) <= 100
        for attribute in ("y", "y1", "y2", "cy"):
            if element.hasAttribute(attribute):
                assert 0 <= float(element.getAttribute(attribute)) <= height
    (inner,) = root.getElementsByTagName("svg")
    assert percent(inner, "x") + percent(inner, "width") <= 100


def test_marks_of_rows_stand_at_their_values():
    """Places are found again from the ticks alone, by a straight line through them."""
    chart = row_example()
    ticks = [text for text in of_class(chart, "text", "tick") if re.fullmatch(r"[\d.]+", text.firstChild.data)]
    values = [float(text.firstChild.data) for text in ticks]
    places = [percent(text, "x") for text in ticks]
    slope, offset = np.polyfit(places, values, 1)
    assert values[0] == 0
    assert len(set(np.round(np.diff(values), 9))) == 1

    def value(place: float) -> float:
        return float(slope * place + offset)

    dots = [value(percent(dot, "cx")) for dot in of_class(chart, "circle", "dot")]
    starts = [value(percent(ring, "cx")) for ring in of_class(chart, "circle", "start")]
    bars = [[value(percent(bar, end)) for end in ("x1", "x2")] for bar in of_class(chart, "line", "interval")]
    (reference,) = of_class(chart, "line", "reference")
    assert dots == pytest.approx([row.value for row in ROWS], abs=0.01)
    assert starts == pytest.approx([41.0, 12.3], abs=0.01)
    np.testing.assert_allclose(bars, [[12.0, 38.0], [11.6, 14.2]], atol=0.01)
    assert value(percent(reference, "x1")) == pytest.approx(20.0, abs=0.01)
    heights = [float(dot.getAttribute("cy")) for dot in of_class(chart, "circle", "dot")]
    assert heights == sorted(heights)


def test_marks_of_curves_stand_at_their_values():
    chart = curve_example()
    grid = of_class(chart, "line", "grid")
    levels = sorted(float(line.getAttribute("y1")) for line in grid if percent(line, "x1") != percent(line, "x2"))
    bottom, top = levels[-1], levels[0]
    dots = of_class(chart, "circle", "point")
    points = [(x, y) for one in CURVES for x, y, _ in one.points]
    assert [percent(dot, "cx") / 100 for dot in dots] == pytest.approx([x for x, _ in points])
    heights = [(bottom - float(dot.getAttribute("cy"))) / (bottom - top) for dot in dots]
    assert heights == pytest.approx([y for _, y in points], abs=1e-3)
    (diagonal,) = of_class(chart, "line", "reference")
    assert [float(diagonal.getAttribute(end)) for end in ("y1", "y2")] == [bottom, top]
    assert len(of_class(chart, "line", "curve")) == 2


def test_names_are_text_and_every_mark_has_a_title():
    for chart in (row_example(), curve_example()):
        assert "<script" not in chart.svg
        for mark in elements(chart, "circle"):
            (title,) = mark.parentNode.getElementsByTagName("title")
            assert title.firstChild.data
    titles = [title.firstChild.data for title in elements(row_example(), "title")]
    assert any(title.startswith(f"{NASTY}: ") for title in titles)
    assert any("a" * 90 in title for title in titles)  # though the name beside the line is cut


def test_at_most_so_many_rows():
    rows = [Row(f"class {c}", float(c), "") for c in range(40)]
    chart = row_chart("many", rows, "error", "Errors.")
    assert len(of_class(chart, "circle", "dot")) == MOST_ROWS
    assert chart.caption == f"Errors. {40 - MOST_ROWS} more are in the table alone."
    assert row_chart("few", rows[:MOST_ROWS], "error", "Errors.").caption == "Errors."


@pytest.mark.parametrize("highest", [0.0, 1e-4, 0.7, 1.0, 5.0, 9.99, 12.3, 100.0, 15_003.0, float("nan")])
def test_an_axis_begins_at_zero_and_ends_behind_the_highest(highest):
    axis = axis_from_zero("x", highest)
    values = [value for value, _ in axis.ticks]
    assert (axis.low, values[0], values[-1]) == (0, 0, axis.high)
    assert len(values) <= 6
    if highest > 0:
        assert highest <= axis.high * (1 + 1e-9) < 2.6 * highest * (1 + 1e-9)
    steps = [b - a for a, b in pairwise(values)]
    assert steps == pytest.approx([steps[0]] * len(steps))


def test_an_axis_need_not_begin_at_zero():
    axis = Axis("log", -2.0, 0.0, [(-2.0, "1 %"), (0.0, "100 %")])
    assert [axis.place(value) for value in (-2.0, -1.0, 0.0)] == [0, 50, 100]


def test_files_of_data_with_long_names_are_told_apart():
    chart = row_example()
    names = [f"folder:{'x' * 60}{end}" for end in "ab"]
    assert len({file_stem(name, chart) for name in names}) == 2
    assert file_stem("digits-lt:20", chart) == "digits-lt-20-rows"
