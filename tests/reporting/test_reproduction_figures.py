"""Figures of reproductions: which are drawn of what, and that a digest follows their values."""

from dataclasses import replace
from pathlib import Path

import pytest
from ledgers import CLASSES, RECIPE, TABLE, choosing, ledger, measurement, result, stored

from class_uncertainty.experiments.catalogue import GROUPS, Experiment
from class_uncertainty.experiments.needs import Lookup
from class_uncertainty.experiments.reproduction import MeasuredData, Reproduction, summarise
from class_uncertainty.reporting import paper_figures
from class_uncertainty.reporting.reproduction_figures import FORMS, figures, write_figures

EMPTY = summarise("toy", Experiment(""), ("paper",), Lookup(ledger([]), RECIPE))
ONE = MeasuredData(stored(), measurement())
SCORES = {score: (0.1, 0.2, 0.3) for parts in FORMS.values() for score in parts.values()}
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
        made.data[data] = stored(data)
        made.add(stored(data).fingerprint, listed, [measurement()])
    return summarise("figure1", Experiment("", table), ("paper",), Lookup(made, RECIPE))


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
def test_what_is_drawn(name: str) -> None:
    reproduction, names = CASES[name]
    drawn = figures(reproduction)
    assert list(drawn) == names
    assert all(figure.spec()["config"] for figure in drawn.values())
    assert figures(replace(EMPTY, name=name)) == {}


def test_settings_are_read_from_the_names_of_the_data() -> None:
    (by_ratio,), (by_strength,) = (figures(CASES[name][0]).values() for name in ("if1b", "if2"))
    assert (by_ratio.arguments[0], by_ratio.arguments[1]) == (["9", "50"], list(CLASSES))
    assert by_strength.arguments[0] == ["0", "0.3"]
    assert by_strength.arguments[2]["uncertainty"][0] == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_duplicates_that_are_drawn_have_a_figure_of_their_own() -> None:
    copied, _ = CASES["if2"]
    drawn = [replace(ONE, measurement=measurement(estimator=f"ensemble:power-rs:q={q}")) for q in (0.7, 0)]
    both = figures(replace(copied, measured=(copied.measured[0], *drawn, copied.measured[1])))
    assert {name: figure.arguments[0] for name, figure in both.items()} == {
        "if2": ["0", "0.3"],
        "if2-drawn": ["0", "0.3", "1"],
    }
    naive, _, balanced = both["if2-drawn"].arguments[2]["cardinality"]
    assert naive == ONE.cardinality
    assert balanced == pytest.approx([1 / 3] * 3)
    assert list(figures(replace(copied, measured=drawn))) == []  # nothing that they differ from


def test_relative_gains_stand_beside_the_printed_ones() -> None:
    (figure,) = figures(gained()).values()
    ours, printed = figure.arguments
    assert ours[0] == ("Resampling", "Naive", 20.0, "Resampling", 15.0)
    assert printed[0][2:] == (20.0, "Resampling", 15.0)
    assert paper_figures.ErrorPair(*ours[0]).gain == pytest.approx(25.0)


def test_relative_gains_are_drawn_where_all_groups_have_run_under_a_protocol() -> None:
    made = gained()
    for outcomes in (made.outcomes[:-1], tuple(replace(one, protocol="equal") for one in made.outcomes)):
        assert figures(replace(made, outcomes=outcomes)) == {}


def test_the_halves_of_svci_20_by_runs() -> None:
    (figure,) = figures(CASES["svci20"][0]).values()
    assert figure.arguments == ([50, 100], [4.5, 4.5], [14.5, 14.5], [0.0, 0.0], [0.0, 0.0])


def test_the_digest_follows_the_values() -> None:
    """And no digit that another machine might round otherwise."""
    (figure,) = figures(CASES["if1a"][0]).values()
    names, shares, errors = figure.arguments
    nearly = replace(figure, arguments=(names, shares, [error + 1e-12 for error in errors]))
    other = replace(figure, arguments=(names, shares, [error + 0.01 for error in errors]))
    assert nearly.digest == figure.digest != other.digest


def test_figures_are_written_as_svg_and_png(tmp_path: Path) -> None:
    files = write_figures(figures(CASES["if1a"][0]), tmp_path / "figures")
    assert [file.name for file in files] == ["if1a.svg", "if1a.png"]
    assert files[0].read_bytes().startswith(b"<svg")
    assert files[1].read_bytes().startswith(b"\x89PNG")
