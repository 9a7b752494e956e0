"""The charts of a section: what they draw, name and title, and which files they go to."""

from dataclasses import replace

import pytest
from reporting.examples import BETTER, FULL, HUNDRED, LOST, NAIVE, WORSE

from class_uncertainty.reporting.chart_style import LABEL_LENGTH, MOST_LABELS
from class_uncertainty.reporting.charts import MEASURE_TITLES, charts, files
from class_uncertainty.reporting.section import Section
from class_uncertainty.runs.rows import spearman


def test_errors_are_titled_with_rho():
    titles = [panel["title"] for panel in charts(FULL)["errors"].to_dict()["concat"]]
    assert [title["text"] for title in titles] == list(MEASURE_TITLES.values())
    rhos = [float(title["subtitle"].removeprefix("Spearman’s rho ").replace("−", "-")) for title in titles]
    assert rhos == pytest.approx([spearman(FULL.classes, measure) for measure in MEASURE_TITLES], abs=0.005)
    assert any(rho < 0 for rho in rhos)
    alike = charts(replace(FULL, classes=tuple(replace(row, error=1.0) for row in FULL.classes)))["errors"].to_dict()
    assert {panel["title"]["subtitle"] for panel in alike["concat"]} == {"rho not defined"}


def test_where_all_counts_are_equal_errors_are_against_uncertainty_alone():
    equal = tuple(replace(row, count=50, cardinality=0.1, effective=0.1) for row in FULL.classes)
    drawn = charts(replace(FULL, classes=equal))
    (panel,) = drawn["errors"].to_dict()["concat"]
    assert panel["title"]["text"] == "Uncertainty"
    assert "measures" not in drawn
    assert "errors" not in charts(replace(FULL, classes=tuple(replace(row, uncertainty=0.1) for row in equal)))


def test_hundred_classes_are_all_drawn_and_few_are_named():
    spec = charts(HUNDRED)["measures"].to_dict()
    dots = next(layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == "point")
    assert {value["name"] for value in dots} == {row.name for row in HUNDRED.classes}
    names = [value for layer in spec["layer"] if layer["mark"]["type"] == "text" for value in layer["data"]["values"]]
    assert 0 < len(names) <= MOST_LABELS
    assert all(len(value["label"]) <= LABEL_LENGTH for value in names)


def test_comparison_keeps_the_order_and_tells_learning_rates_apart():
    spec = charts(replace(HUNDRED, methods=(*HUNDRED.methods, LOST)))["comparison"].to_dict()
    dots = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    assert dots["encoding"]["y"]["scale"]["domain"] == ["naive", "ubrs", "dro"]
    assert {"color", "shape", "yOffset"} <= dots["encoding"].keys()
    assert len([layer for layer in spec["layer"] if layer["mark"].get("text") == "no run finished"]) == 1
    first = dots["data"]["values"][0]
    assert (first["low"], first["error"], first["high"]) == (9.5, 10.0, 10.5)
    assert first["lr"] == f"{NAIVE.lr:g}"
    trees = tuple(replace(row, has_rate=False) for row in (NAIVE, BETTER))
    forests = charts(replace(FULL, methods=trees))["comparison"].to_dict()["layer"]
    assert {value["lr"] for layer in forests for value in layer["data"]["values"]} == {"–"}
    alone = charts(FULL)["comparison"].to_dict()["layer"]
    assert all("color" not in layer["encoding"] for layer in alone)


def test_methods_at_one_rate_each_have_one_line_and_one_naive():
    chosen = (replace(NAIVE, lr=0.4), replace(BETTER, naive_lr=0.4), replace(WORSE, lr=0.2, naive_lr=0.4))
    spec, alike = (
        charts(Section("", (), rows, 0))["comparison"].to_dict() for rows in (chosen, (NAIVE, BETTER, WORSE))
    )
    assert not [layer for layer in spec["layer"] if "yOffset" in layer["encoding"]]
    assert spec["height"] == alike["height"]
    (rule,) = [layer for layer in spec["layer"] if layer["mark"].get("style") == "reference"]
    assert "color" not in rule["encoding"]
    (dots,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert dots["encoding"]["color"]["scale"]["domain"] == ["0.1", "0.2", "0.4"]


@pytest.mark.parametrize(
    ("name", "file"),
    [("", "comparison.svg"), ("../../etc", "etc-comparison.svg"), ("犬" * 200, "犬" * 33 + "-7de621-comparison.svg")],
)
def test_figures_stay_in_their_folder(tmp_path, name, file):
    assert next(iter(files(Section(name, (), (NAIVE,), 0), {"comparison": {}}, tmp_path))) == tmp_path / file
