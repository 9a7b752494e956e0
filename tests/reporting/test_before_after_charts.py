"""The charts of before and after."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from reporting.examples import HUNDRED_CLASSES, TEN_CLASSES, fix_report, fix_section

from class_uncertainty.posthoc.evaluation import evaluate_seeds
from class_uncertainty.posthoc.fix_report import FixReport
from class_uncertainty.reporting.before_after import changes
from class_uncertainty.reporting.before_after_charts import LABEL_GAP
from class_uncertainty.reporting.chart_images import draw
from class_uncertainty.reporting.chart_style import page_config
from class_uncertainty.reporting.charts import charts


def spec_of(report: FixReport, name: str) -> dict:
    return charts(fix_section(report))[name].to_dict()


def layers(spec: dict, mark: str) -> list[dict]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == mark]


@pytest.mark.parametrize("report", [TEN_CLASSES, HUNDRED_CLASSES], ids=["10 classes", "100 classes"])
def test_slopes_draw_every_class_from_before_to_after(report):
    values = [value for layer in layers(spec_of(report, "slopes"), "line") for value in layer["data"]["values"]]
    ends = {(value["name"], value["at"]): value["error"] for value in values}
    assert len(values) == len(ends) == 2 * len(report.classes)
    for row in changes(report):
        assert (ends[row.name, 0], ends[row.name, 1]) == (row.before, row.after)
    for value in values:
        if value["change"]:
            assert value["direction"] == ("error falls" if value["after"] < value["before"] else "error rises")


def test_slopes_show_directions_by_more_than_colour():
    spec = spec_of(HUNDRED_CLASSES, "slopes")
    _, faint, bold = layers(spec, "line")
    for layer in (faint, bold):
        assert {"color", "strokeDash"} <= layer["encoding"].keys()
    assert faint["mark"]["strokeWidth"] < bold["mark"]["strokeWidth"]
    assert [layer["encoding"]["color"]["legend"] is None for layer in (faint, bold)] == [True, False]
    (dots,) = layers(spec, "point")
    assert dots["encoding"]["shape"]["scale"]["range"] == ["triangle-down", "triangle-up"]


@pytest.mark.parametrize(("classes", "named"), [(100, 10), (20, 20), (21, 3)])
def test_all_of_few_classes_are_named_and_the_worst_tenths_of_many(classes, named):
    report = fix_report(classes)
    for layer, side in zip(layers(spec_of(report, "slopes"), "text"), ("before", "after"), strict=True):
        worst = sorted((getattr(row, side) for row in changes(report)), reverse=True)[:named]
        assert [value["error"] for value in layer["data"]["values"]] == worst
        heights = [value["height"] for value in layer["data"]["values"]]
        top = layer["encoding"]["y"]["scale"]["domain"][1]
        assert (-np.diff(heights)).min() >= 0.999 * LABEL_GAP * top
        assert min(heights) >= 0
        assert max(heights) < 1.1 * top


def test_reliability_has_both_sides_and_the_diagonal():
    diagonal, lines, dots = spec_of(TEN_CLASSES, "reliability")["layer"]
    assert [value["both"] for value in diagonal["data"]["values"]] == [0, 1]
    assert lines["data"] == dots["data"]
    for side in ("before", "after"):
        values = [value for value in dots["data"]["values"] if value["side"] == side]
        bins = getattr(TEN_CLASSES, side).bins
        assert [(value["share"], value["confidence"], value["accuracy"]) for value in values] == [
            (row.share, row.confidence, row.accuracy) for row in bins
        ]
    assert {"color", "shape", "size"} <= dots["encoding"].keys()
    assert dots["encoding"]["color"]["legend"]["values"] == ["before", "after"]


def test_charts_have_no_colour_of_their_own_and_compile_with_the_pages():
    names = ("ladder", "slopes", "reliability")
    specs = [spec_of(report, name) | {"config": {}} for report in (TEN_CLASSES, HUNDRED_CLASSES) for name in names]
    images = draw([("svg", spec | {"config": page_config()}) for spec in specs])
    for name, spec, image in zip(2 * names, specs, images, strict=True):
        assert not re.search(r"#[0-9a-f]{6}", json.dumps(spec))
        assert f"var(--{'c4' if name == 'reliability' else 'c1'})" in image.decode()


def test_the_ladder_has_a_dot_a_judged_step_and_says_which_were_only_tried():
    spec = spec_of(TEN_CLASSES, "ladder")
    (bars,), (dots,), (trainings, tried) = (layers(spec, mark) for mark in ("rule", "point", "text"))
    judged = [step for step in TEN_CLASSES.ladder if step.values]
    values = dots["data"]["values"]
    assert [value["value"] for value in values] == [pytest.approx(np.mean(step.values)) for step in judged]
    half = [(value["high"] - value["low"]) / 2 for value in bars["data"]["values"]]
    assert half == [pytest.approx(np.std(step.values, ddof=1)) for step in judged]
    assert [value["trainings_text"] for value in values] == [
        "1 training",
        "6.5 trainings",
        "13 trainings",
        "18.4 trainings",
    ]
    assert trainings["encoding"]["text"]["field"] == "trainings_text"
    assert [value["label"] for value in tried["data"]["values"]] == ["ensemble"]
    order = ["naive", "adjusted", "best single", "ensemble", "student (kept)"]
    assert dots["encoding"]["y"]["scale"]["domain"] == order


def test_a_ladder_of_one_seed_and_one_step_can_be_drawn():
    one = replace(TEN_CLASSES, ladder=(replace(TEN_CLASSES.ladder[0], values=(0.0,)),))
    assert draw([("svg", spec_of(one, "ladder"))])[0].startswith(b"<svg")
    assert "ladder" not in charts(fix_section(replace(TEN_CLASSES, ladder=())))


def test_no_change_and_no_error_can_be_drawn():
    right = evaluate_seeds(np.eye(3)[None, [0, 1, 2]], [0, 1, 2], [5, 5, 5])
    report = replace(TEN_CLASSES, classes=("a", "b", "c"), counts=(5, 5, 5), seeds=1, before=right, after=right)
    assert draw([("svg", spec_of(report, "slopes"))])[0].startswith(b"<svg")
