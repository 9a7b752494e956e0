"""The paper's figures in the documentation: which are drawn of what, and with which values."""

import re
from dataclasses import replace
from xml.dom.minidom import parseString

import figures
import numpy as np
import pytest
from ledgers import CLASSES, TABLE, choosing, ledger, measurement, result, stored
from reporting.examples import NASTY
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
    assert all(figure.svg.startswith("<svg") for figure in drawn.values())
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
TWENTY = [f"object {c}" for c in range(20)]
TEN = [NASTY, *(f"class {c}" for c in range(1, 10))]
HUNDRED = [f"class {c}" for c in range(100)]
PAIRS = [("resampling", "CB-RS", 50.0, "UBRS", 40.0), ("margin adjustment", "LDAM", 40.0, "UBM-LDAM", 42.0)]


def shares(*shape):
    values = RNG.uniform(0.1, 1, shape)
    return values / values.sum(axis=-1, keepdims=True)


def titles(svg: str, kind: str = "circle") -> list[str]:
    """What the marks of a drawing say of themselves."""
    marks = parseString(svg).getElementsByTagName(kind)
    return [mark.parentNode.getElementsByTagName("title")[0].firstChild.data for mark in marks]


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


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_is_drawn(name):
    root = parseString(DRAWN[name]()).documentElement
    assert root.tagName == "svg"
    assert float(root.getAttribute("height")) > 0


def test_measure_curves_have_both_measures():
    cardinality, uncertainty = shares(10), shares(10)
    told = titles(figures.measure_curves(TEN, list(range(1000, 1010)), cardinality, uncertainty))
    expected = [
        f"{TEN[c]}, {1000 + c:,} training examples: {values[c]:.2%} by {measure}"
        for measure, values in (("cardinality", cardinality), ("uncertainty", uncertainty))
        for c in range(10)
    ]
    assert told == expected


def test_kinds_of_uncertainty_are_normalised_and_compared():
    parts = {form: {kind: RNG.uniform(0, 3, 20) for kind in ("aleatoric", "epistemic")} for form in "ab"}
    svg = figures.uncertainty_kinds(TWENTY, parts)
    told = titles(svg)
    for kind in parts["a"]:
        rho = spearmanr(parts["a"][kind], parts["b"][kind]).statistic
        assert f"{kind} uncertainty, Spearman’s rho {rho:.2f}".replace("-", "−") in svg
        for form in parts:
            drawn = parts[form][kind] / parts[form][kind].sum()
            assert all(f"{name}: {value:.2%} by {form}" in told for name, value in zip(TWENTY, drawn, strict=True))


def test_error_scatter_has_the_rho_of_scipy():
    errors, mu = RNG.uniform(0, 100, 10), {"cardinality": shares(10), "uncertainty": shares(10)}
    svg = figures.error_scatter(TEN, mu | {"alike": [0.1] * 10}, errors)
    rhos = [float(rho.replace("−", "-")) for rho in re.findall("Spearman’s rho ([−0-9.]+)", svg)]
    assert rhos == pytest.approx([spearmanr(measure, errors).statistic for measure in mu.values()], abs=0.0051)
    assert len(titles(svg)) == 20


@pytest.mark.parametrize("classes", [TEN, HUNDRED], ids=len)
def test_class_changes_draw_a_line_a_class_over_the_settings(classes):
    mu = {"cardinality": shares(3, len(classes)), "uncertainty": shares(3, len(classes))}
    svg = figures.class_changes(["1", "2", "50"], classes, mu, "imbalance ratio")
    lines = [one for one in parseString(svg).getElementsByTagName("line") if "curve" in one.getAttribute("class")]
    assert len(lines) == 2 * 2 * len(classes)
    assert len(titles(svg)) == (2 * 3 * 10 if classes is TEN else 0)


def test_relative_gains_are_in_percent_of_the_baseline_and_may_be_negative():
    svg = figures.relative_gains(PAIRS)
    assert "+20.0 %" in svg
    assert "−5.0 %" in svg
    assert titles(svg)[0] == "resampling: CB-RS 50.0 %, UBRS 40.0 %"


def test_the_gap_is_drawn_in_the_order_of_the_counts():
    told = titles(figures.gap_by_count([100, 50], [60.0, 70.0], [20.0, 50.0], [1.0, 2.0]))
    assert told == [
        "CIFAR-10 classes, 50 examples: 70.0 ± 2.0 %",
        "CIFAR-10 classes, 100 examples: 60.0 ± 1.0 %",
        "SVHN classes, 50 examples: 50.0 %",
        "SVHN classes, 100 examples: 20.0 %",
    ]
