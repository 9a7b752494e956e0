"""Curves over the classes: their values, their order, and names that fit on a phone."""

import json
import re

import pytest
from reporting.examples import EQUAL, FULL, HUNDRED, NASTY, TWENTY, class_row_examples

from class_uncertainty.reporting.chart_style import altair
from class_uncertainty.reporting.class_curves import MOST_NAMES, PLOT_WIDTH, class_axis, curves, error_bars, profile


def layers_of(panel, mark):
    return [layer for layer in panel["layer"] if layer["mark"]["type"] == mark]


def values_of(layer, panel, spec):
    data = layer.get("data") or panel.get("data") or spec["data"]
    return data["values"] if "values" in data else spec["datasets"][data["name"]]


def axis_of(names, **options):
    return class_axis(altair(), names, **options).to_dict()


@pytest.mark.parametrize("section", [FULL, EQUAL, HUNDRED], ids=lambda section: section.name)
def test_a_profile_has_both_measures_and_the_errors_in_the_order_of_the_classes(section):
    spec = profile(altair(), section.classes).to_dict()
    upper, lower = spec["concat"]
    (line,) = layers_of(upper, "line")
    points = values_of(line, upper, spec)
    for series, measure in {"rarity": "cardinality", "uncertainty": "uncertainty"}.items():
        shares = [(point["index"], point["share"]) for point in points if point["series"] == series]
        assert shares == [(c, getattr(row, measure)) for c, row in enumerate(section.classes)]
    (bars,) = layers_of(lower, "bar")
    drawn = values_of(bars, lower, spec)
    assert [value["error"] for value in drawn] == [row.error for row in section.classes]
    centres = [(value["left"] + value["right"]) / 2 for value in drawn]
    assert centres == pytest.approx(range(len(section.classes)))
    scales = [layer["encoding"]["x"]["scale"] for panel in (upper, lower) for layer in panel["layer"]]
    assert scales == [scales[0]] * len(scales)


def test_equal_counts_are_a_flat_line_inside_the_panel():
    spec = profile(altair(), EQUAL.classes).to_dict()
    (line,) = layers_of(spec["concat"][0], "line")
    low, high = line["encoding"]["y"]["scale"]["domain"]
    points = values_of(line, spec["concat"][0], spec)
    assert {point["share"] for point in points if point["series"] == "rarity"} == {0.05}
    assert low == 0
    assert high > max(point["share"] for point in points)


def test_without_errors_the_curves_have_the_labels():
    (panel,) = profile(altair(), class_row_examples(10, judged=False)).to_dict()["concat"]
    assert "labelExpr" in panel["layer"][0]["encoding"]["x"]["axis"]
    both = profile(altair(), class_row_examples(10)).to_dict()["concat"]
    assert [panel["layer"][0]["encoding"]["x"]["axis"].get("labels", True) for panel in both] == [False, True]


def test_a_class_without_an_error_has_no_bar():
    (bars,) = layers_of(spec := error_bars(altair(), ["a", "b", "c"], [1.0, None, 3.0]).to_dict(), "bar")
    assert [value["error"] for value in values_of(bars, spec, spec)] == [1.0, 3.0]


def test_tooltips_have_the_shares_in_percent_and_the_facts():
    spec = curves(altair(), ["cat", "dog"], {"by count": [0.25, 0.75]}, "share", {"examples": ["3", "1"]}).to_dict()
    (rule,) = layers_of(spec, "rule")
    assert [line["title"] for line in rule["encoding"]["tooltip"]] == ["class", "by count", "examples"]
    fields = [line["field"] for line in rule["encoding"]["tooltip"]]
    assert [[value[field] for field in fields] for value in values_of(rule, spec, spec)] == [
        ["cat", "25.00%", "3"],
        ["dog", "75.00%", "1"],
    ]


def test_names_are_tick_labels_where_they_are_few():
    axis = axis_of([NASTY, *TWENTY[1:]])["axis"]
    labels = json.loads(re.fullmatch(r"(\[.*\])\[datum\.value\]", axis["labelExpr"])[1])
    assert labels[0] == NASTY[:13] + "…"
    assert labels[1:] == TWENTY[1:]
    assert axis["values"] == list(range(20))
    many = axis_of([f"class {c}" for c in range(MOST_NAMES + 1)])
    assert "labelExpr" not in many["axis"]
    assert many["title"] == "class index"


@pytest.mark.parametrize(
    ("names", "angle"),
    [(list("0123456789"), 0), (["cat", "dog"], 0), (TWENTY[:10], -45), (TWENTY, -90), (["name"] * MOST_NAMES, -90)],
    ids=["digits", "two", "ten", "twenty", "most"],
)
def test_labels_do_not_overlap_on_a_phone(names, angle):
    axis = axis_of(names)["axis"]
    assert axis["labelAngle"] == angle
    between = PLOT_WIDTH / len(names)
    across = {0: 6.5 * max(map(len, names)), -45: 12 * 2**0.5, -90: axis.get("labelFontSize", 12)}[angle]
    assert across <= between
