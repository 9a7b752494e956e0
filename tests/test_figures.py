"""The paper's figures in the documentation: which are drawn of what, and with which values."""

import json
import re
from dataclasses import replace

import figures
import numpy as np
import pytest
from class_uncertainty.reporting.chart_images import draw
from ledgers import CLASSES, TABLE, choosing, ledger, measurement, result, stored
from reporting.examples import NASTY, TWENTY
from scipy.stats import spearmanr

from class_uncertainty.paper.experiments import GROUPS, Experiment
from class_uncertainty.paper.reproduction import MeasuredData, Reproduction, summarise

EMPTY = summarise("toy", Experiment(""), ("paper",), ledger([]))
ONE = MeasuredData(stored(), measurement())
SCORES = {score: (0.1, 0.2, 0.3) for parts in figures.FORMS.values() for score in parts.values()}
HALVES = replace(
    result("naive", 9.5), scores=replace(result("naive", 9.5).scores, class_errors=tuple(map(float, range(20))))
)


def gained() -> Reproduction:
    """The four groups of Figure 1, each a row of its own against naive."""
    rows = tuple(
        replace(TABLE.rows[2], label=group, method=method, baseline="naive") for group, method in GROUPS.items()
    )
    table = replace(TABLE, rows=(TABLE.rows[0], *rows), columns=("cifar100-lt:50",))
    names = [cell.method for cell in table.cells()[1:]]
    made = ledger([])
    for data, listed in (
        ("cifar100-lt:50", [result("naive", 20.0)] + [result(name, 15.0, lr=0.1) for name in names]),
        ("cifar100-lt:50?validation=50", [one for name in names for one in choosing(name, 1, 2, 3, 4)]),
    ):
        made.add(stored(data), listed, [measurement()])
    return summarise("figure1", Experiment("", table), ("paper",), made)


CASES = {
    "if1a": (replace(EMPTY, name="if1a", measured=(ONE,)), ["if1a"]),
    "if1b": (replace(EMPTY, name="if1b", measured=(ONE, replace(ONE, data=stored("cifar10-lt:50")))), ["if1b"]),
    "if2": (
        replace(EMPTY, name="if2", measured=(ONE, replace(ONE, data=stored("cifar10-lt:50?duplicate=0.3")))),
        ["if2"],
    ),
    "measures": (
        replace(
            EMPTY,
            name="measures",
            measured=(ONE, MeasuredData(stored("svci20:100"), replace(measurement(), raw=SCORES))),
        ),
        ["measures-digits-lt-9", "measures-svci20-100", "kinds-svci20-100"],
    ),
    "figure1": (gained(), ["figure1-paper"]),
    "svci20": (
        replace(EMPTY, name="svci20", naive={"svci20:50": (HALVES,), "svci20:100": (HALVES, HALVES)}),
        ["svci20-gap"],
    ),
    "duq": (
        replace(EMPTY, name="duq", measured=(ONE, replace(ONE, measurement=measurement(estimator="duq", members=1)))),
        ["duq-digits-lt-9"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_drawn(name):
    reproduction, names = CASES[name]
    drawn = figures.figures(reproduction)
    assert list(drawn) == names
    assert all(figure.spec()["config"] for figure in drawn.values())
    assert figures.figures(replace(EMPTY, name=name)) == {}


def test_settings_are_read_from_the_names_of_the_data():
    (by_ratio,), (by_strength,) = (figures.figures(CASES[name][0]).values() for name in ("if1b", "if2"))
    assert (by_ratio.arguments[0], by_ratio.arguments[1]) == (["9", "50"], list(CLASSES))
    assert by_strength.arguments[0] == ["0", "0.3"]
    assert by_strength.arguments[2]["uncertainty"][0] == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_duplicates_that_are_drawn_have_a_figure_of_their_own():
    copied, _ = CASES["if2"]
    drawn = [replace(ONE, measurement=measurement(estimator=f"ensemble:power-rs:q={q}")) for q in (0.7, 0)]
    both = figures.figures(replace(copied, measured=(copied.measured[0], *drawn, copied.measured[1])))
    assert {name: figure.arguments[0] for name, figure in both.items()} == {
        "if2": ["0", "0.3"],
        "if2-drawn": ["0", "0.3", "1"],
    }
    naive, _, balanced = both["if2-drawn"].arguments[2]["cardinality"]
    assert naive == ONE.cardinality
    assert balanced == pytest.approx([1 / 3] * 3)
    assert list(figures.figures(replace(copied, measured=drawn))) == []  # nothing that they differ from


def test_relative_gains_stand_beside_the_printed_ones():
    (figure,) = figures.figures(gained()).values()
    ours, printed = figure.arguments
    assert ours[0] == ("Resampling", "Naive", 20.0, "Resampling", 15.0)
    assert printed[0][2:] == (20.0, "Resampling", 15.0)
    assert figures.ErrorPair(*ours[0]).gain == pytest.approx(25.0)


def test_relative_gains_are_drawn_where_all_groups_have_run_under_a_protocol():
    made = gained()
    for outcomes in (made.outcomes[:-1], tuple(replace(one, protocol="equal") for one in made.outcomes)):
        assert figures.figures(replace(made, outcomes=outcomes)) == {}


def test_the_halves_of_svci_20_by_runs():
    (figure,) = figures.figures(CASES["svci20"][0]).values()
    assert figure.arguments == ([50, 100], [4.5, 4.5], [14.5, 14.5], [0.0, 0.0], [0.0, 0.0])


def test_the_digest_follows_the_values():
    """And no digit that another machine might round otherwise."""
    (figure,) = figures.figures(CASES["if1a"][0]).values()
    names, shares, errors = figure.arguments
    nearly = replace(figure, arguments=(names, shares, [error + 1e-12 for error in errors]))
    other = replace(figure, arguments=(names, shares, [error + 0.01 for error in errors]))
    assert nearly.digest == figure.digest != other.digest


RNG = np.random.default_rng(0)
TEN = [NASTY, *(f"class {c}" for c in range(1, 10))]
HUNDRED = [f"class {c}" for c in range(100)]
PAIRS = [("resampling", "CB-RS", 50.0, "UBRS", 40.0), ("margin adjustment", "LDAM", 40.0, "UBM-LDAM", 42.0)]


def shares(*shape):
    values = RNG.uniform(0.1, 1, shape)
    return values / values.sum(axis=-1, keepdims=True)


def layers(panel, mark):
    return [layer for layer in panel["layer"] if layer["mark"]["type"] == mark]


def values(layer, *outer):
    return next(holder["data"]["values"] for holder in (layer, *outer) if "data" in holder)


def by_series(panel):
    (line,) = layers(panel, "line")
    series = {}
    for point in values(line, panel):
        series.setdefault(point["series"], []).append(point["share"])
    return series


DRAWN = {
    "measures": lambda: figures.measure_curves(TEN, [5] * 10, shares(10), shares(10)),
    "estimators": lambda: figures.estimator_curves(HUNDRED, {"DE": shares(100), "DUQ": shares(100)}),
    "kinds": lambda: figures.uncertainty_kinds(
        TWENTY, {form: {"aleatoric": shares(20), "epistemic": shares(20)} for form in ("entropy", "Kwon’s traces")}
    ),
    "errors": lambda: figures.error_scatter(TEN, {"cardinality": shares(10)}, RNG.uniform(0, 100, 10)),
    "changes of ten": lambda: figures.class_changes("123", TEN, {"uncertainty": shares(3, 10)}, "ratio"),
    "changes of hundred": lambda: figures.class_changes("123", HUNDRED, {"uncertainty": shares(3, 100)}, "ratio"),
    "gains": lambda: figures.relative_gains(PAIRS, PAIRS),
    "gap": lambda: figures.gap_by_count([50, 100], [70.0, 60.0], [50.0, 20.0], [1.0, 1.0], [2.0, 2.0]),
}


def test_every_figure_is_drawn():
    images = draw([("svg", make().to_dict()) for make in DRAWN.values()])
    assert [image[:4] for image in images] == [b"<svg"] * len(DRAWN)


def test_measure_curves_have_both_measures():
    cardinality, uncertainty = shares(10), shares(10)
    spec = figures.measure_curves(TEN, list(range(1000, 1010)), cardinality, uncertainty).to_dict()
    (panel,) = spec["concat"]
    assert by_series(panel) == {"cardinality": cardinality.tolist(), "uncertainty": uncertainty.tolist()}
    (rule,) = layers(panel, "rule")
    assert [list(value.values())[-1] for value in values(rule)] == [f"{count:,}" for count in range(1000, 1010)]


def test_estimator_curves_keep_the_order_of_the_estimators():
    mu = {"DUQ": shares(100), "DE": shares(100)}
    (panel,) = figures.estimator_curves(HUNDRED, mu).to_dict()["concat"]
    assert by_series(panel) == {name: values.tolist() for name, values in mu.items()}
    (line,) = layers(panel, "line")
    assert line["encoding"]["color"]["scale"]["domain"] == ["DUQ", "DE"]


def test_kinds_of_uncertainty_are_normalised_and_compared():
    parts = {form: {kind: RNG.uniform(0, 3, 20) for kind in ("aleatoric", "epistemic", "predictive")} for form in "ab"}
    panels = figures.uncertainty_kinds(TWENTY, parts).to_dict()["concat"]
    for panel, kind in zip(panels, parts["a"], strict=True):
        assert panel["title"]["text"] == f"{kind.capitalize()} uncertainty"
        assert panel["title"]["subtitle"].endswith(
            f" {spearmanr(parts['a'][kind], parts['b'][kind]).statistic:.2f}".replace("-", "−")
        )
        for form, drawn in by_series(panel).items():
            np.testing.assert_allclose(drawn, parts[form][kind] / parts[form][kind].sum())
    labelled = ["labelExpr" in panel["layer"][0]["encoding"]["x"]["axis"] for panel in panels]
    assert labelled == [False, False, True]


def test_error_scatter_has_the_rho_of_scipy():
    errors, mu = RNG.uniform(0, 100, 10), {"cardinality": shares(10), "uncertainty": shares(10)}
    panels = figures.error_scatter(TEN, mu, errors, "test accuracy, %").to_dict()["concat"]
    for panel, (name, measure) in zip(panels, mu.items(), strict=True):
        rho = float(panel["title"]["subtitle"].removeprefix("Spearman’s rho ").replace("−", "-"))
        assert rho == pytest.approx(spearmanr(measure, errors).statistic, abs=0.005)
        assert panel["title"]["text"] == name.capitalize()
        dots = layers(panel, "point")[0]
        drawn = [(value["share"], value["error"]) for value in values(dots, panel)]
        assert drawn == list(zip(measure, errors, strict=True))
        assert dots["encoding"]["y"]["title"] == "test accuracy, %"


@pytest.mark.parametrize("classes", [TEN, HUNDRED], ids=len)
def test_class_changes_draw_a_line_a_class_over_the_settings_in_order(classes):
    settings, mu = ["1", "2", "50"], {"cardinality": shares(3, len(classes)), "uncertainty": shares(3, len(classes))}
    panels = figures.class_changes(settings, classes, mu, "imbalance ratio").to_dict()["concat"]
    for panel, measure in zip(panels, mu.values(), strict=True):
        (line,) = layers(panel, "line")
        drawn = values(line, panel)
        assert [value["share"] for value in drawn] == measure.ravel().tolist()
        assert [value["at"] for value in drawn] == np.repeat(range(3), len(classes)).tolist()
        assert line["encoding"]["x"]["axis"]["labelExpr"] == '["1", "2", "50"][datum.value]'
        assert line["encoding"]["color"]["scale"]["domain"] == [0, len(classes) - 1]
    heights = [layer["encoding"]["y"]["scale"] for panel in panels for layer in panel["layer"]]
    assert heights == [heights[0]] * len(heights)  # so that panels can be compared


def test_few_classes_are_named_beside_their_lines_and_many_by_a_gradient():
    (few,) = figures.class_changes("12", TEN, {"uncertainty": shares(2, 10)}, "ratio").to_dict()["concat"]
    (text,) = layers(few, "text")
    ends = values(text, few)
    assert {end["index"] for end in ends} == set(range(10))
    assert [end["share"] for end in ends] == sorted((end["share"] for end in ends), reverse=True)
    heights = [end["height"] for end in ends]
    assert (np.diff(heights) < 0).all()
    (many,) = figures.class_changes("12", HUNDRED, {"uncertainty": shares(2, 100)}, "ratio").to_dict()["concat"]
    assert not layers(many, "text")
    legend = layers(many, "line")[0]["encoding"]["color"]["legend"]
    assert re.findall(r'"([^"]+)"', legend["labelExpr"]) == ["class 99 (last)", "class 0 (first)"]


def test_names_of_lines_that_meet_come_in_the_order_of_the_lines():
    rows = [[0.2, 0.3, 0.5], [1 / 3 + 1e-12, 1 / 3, 1 / 3]]
    (panel,) = figures.class_changes("12", ["a", "b", "c"], {"cardinality": rows}, "strength").to_dict()["concat"]
    assert [end["label"] for end in values(layers(panel, "text")[0], panel)] == ["c", "b", "a"]


def test_relative_gains_are_in_percent_of_the_baseline_and_may_be_negative():
    (panel,) = figures.relative_gains(PAIRS).to_dict()["concat"]
    (bars,), (inside, above) = layers(panel, "bar"), layers(panel, "text")
    assert [(value["group"], value["side"], value["error"]) for value in values(bars)] == [
        ("resampling", "by cardinality", 50.0),
        ("resampling", "by uncertainty", 40.0),
        ("margin adjustment", "by cardinality", 40.0),
        ("margin adjustment", "by uncertainty", 42.0),
    ]
    assert [(value["text"], value["error"]) for value in values(above)] == [("+20.0 %", 50.0), ("−5.0 %", 42.0)]
    assert values(inside)[1]["text"].split() == ["UBRS", "40.0"]
    assert bars["encoding"]["x"]["scale"]["domain"] == ["resampling", "margin adjustment"]
    assert bars["encoding"]["y"]["scale"]["domain"][0] == 0


def test_printed_gains_stand_beside_ours_on_one_scale():
    printed = [(label, baseline, 30.0, ours, 20.0) for label, baseline, _, ours, _ in PAIRS]
    panels = figures.relative_gains(PAIRS, printed).to_dict()["concat"]
    assert [panel["title"] for panel in panels] == ["Measured here", "Printed in the paper"]
    assert [value["text"] for value in values(layers(panels[1], "text")[1])] == ["+33.3 %"] * 2
    domains = [layers(panel, "bar")[0]["encoding"]["y"]["scale"]["domain"] for panel in panels]
    assert domains[0] == domains[1]


def test_the_gap_is_labelled_and_counts_rise():
    spec = figures.gap_by_count([250, 50, 1000], [50.0, 70.0, 30.0], [20.0, 55.0, 31.0]).to_dict()
    (text,), (dots,) = layers(spec, "text"), layers(spec, "point")
    gaps = {value["count"]: value["text"] for value in values(text)}
    assert gaps == {"250": "gap 30.0", "50": "gap 15.0", "1,000": "gap −1.0"}
    assert dots["encoding"]["x"]["scale"]["domain"] == ["50", "250", "1,000"]
    assert len(layers(spec, "rule")) == 1


@pytest.mark.parametrize("rising", [False, True])
def test_no_line_crosses_the_label_of_a_gap(rising):
    """Two lines as steep as those of SVCI-20, and the labels as wide as they are drawn: two thirds of the way."""
    hard, easy = np.array([56.0, 44.0, 29.0, 22.0, 16.0]), np.array([40.0, 25.0, 15.0, 11.0, 8.0])
    if rising:
        hard, easy = hard[::-1], easy[::-1]
    spec = figures.gap_by_count([50, 100, 250, 500, 1000], hard, easy).to_dict()
    heights = np.array([value["middle"] for value in values(layers(spec, "text")[0])])
    for way in (0.0, 2 / 3):
        upper, lower = (np.interp(np.arange(5) + way, range(5), side) for side in (hard, easy))
        assert (heights < upper - 1).all()
        assert (heights > lower + 1).all()


def test_deviations_are_bars_that_do_not_fall_below_zero():
    spec = figures.gap_by_count([50, 100], [70.0, 60.0], [50.0, 1.0], np.array([1.0, 2.0]), [3.0, 4.0]).to_dict()
    _, bars = layers(spec, "rule")
    ends = [(value["side"], value["bottom"], value["top"]) for value in values(bars, spec)]
    assert ends == [
        ("CIFAR-10 classes", 69.0, 71.0),
        ("CIFAR-10 classes", 58.0, 62.0),
        ("SVHN classes", 47.0, 53.0),
        ("SVHN classes", 0.0, 5.0),
    ]


def test_names_are_text_in_expressions():
    spec = figures.class_changes(['"]', "2"], TEN, {"uncertainty": shares(2, 10)}, "ratio").to_dict()
    expression = spec["concat"][0]["layer"][0]["encoding"]["x"]["axis"]["labelExpr"]
    assert json.loads(expression.removesuffix("[datum.value]")) == ['"]', "2"]
