"""The printed tables: complete, of methods that exist, and as the paper and Bag-of-Tricks print them."""

import re
from pathlib import Path

import pytest

from class_uncertainty.methods import parse_name
from class_uncertainty.paper.printed_tables import (
    BAG_OF_TRICKS,
    READINGS,
    SIGNIFICANCE,
    TABLE_1,
    TABLES,
    PaperTable,
    Printed,
    Row,
    on_data,
)

SHARED = Path(__file__).parents[3] / "shared" / "docs"
PAPER, RECIPES = SHARED / "paper.tex", SHARED / "recipes.md"
CELLS = [(table, cell) for table in (*TABLES.values(), READINGS) for cell in table.cells()]
IS_OURS = {method: cell.is_ours for _, cell in CELLS for method in (cell.row.method, cell.method)}


@pytest.mark.parametrize(("table", "cell"), CELLS, ids=[f"{cell.method} on {cell.data}" for _, cell in CELLS])
def test_every_cell_has_a_method_and_a_printed_value(table, cell):
    assert cell.is_ours == bool(re.search("UB|γ = [^0]|γ = 0.", cell.row.label))
    assert (cell.printed is None) == (cell.row.printed == "")
    if cell.row.baseline:
        assert [row.method for row in table.rows].count(cell.row.baseline) == 1
        assert not IS_OURS[cell.baseline]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_rows_differ(table):
    rows = [(row.method, row.estimator, row.score) for row in table.rows]
    assert len(set(rows)) == len(rows)
    assert len({(row.label, row.note) for row in table.rows}) == len(rows)


def test_every_table_says_what_six_naive_networks_give():
    assert all(table.compares_cost for table in TABLES.values())


@pytest.mark.parametrize(("ours", "baseline", "printed"), SIGNIFICANCE)
def test_every_tested_row_is_one_of_table_1(ours, baseline, printed):
    assert (IS_OURS[ours], IS_OURS[baseline]) == (True, False)
    assert {ours, baseline} <= {row.method for row in TABLE_1.rows}
    assert all(0 <= float(value) <= 1 for value in TABLE_1.by_column(printed).values())


def test_uncertainty_has_16_of_the_20_best_results_as_the_paper_says():
    """Its caption: among 20 settings, 4 data sets and 5 groups of methods, 16 are best with class uncertainty."""
    groups = (
        {"cb-rs", "pb-rs", "ubrs", "pb-ubrs"},
        {"focal", "cb", "cb-focal", "ubrw", "ubrw-focal"},
        {"ldam", "ldam-rw", "dro", "ubm-ldam", "ubm-ldam-rw", "ubm-dro"},
        {"2s-cb-rs", "2s-pb-rs", "2s-cam-rs", "2s-ubrs"},
        {"2s-csce", "2s-focal", "2s-cb-focal", "2s-ubrw", "2s-ubrw-focal"},
    )
    wins = 0
    for data in TABLE_1.columns:
        for names in groups:
            cells = [cell for cell in TABLE_1.cells() if cell.data == data and parse_name(cell.method).row in names]
            wins += min(cells, key=lambda cell: cell.printed.mean if cell.printed else 100.0).is_ours
    assert wins == 16


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_row_stands_in_the_paper_s_source(table):
    """All values of a row stand in this order on one line; the epistemic table has both kinds of one row on a line."""
    text = re.sub(" ?± ?", "±", PAPER.read_text())
    lines = [re.findall(r"\d+\.\d\d(?:±\d+\.\d+)?", line) for line in text.splitlines()]
    lines += [[*line[:2], *line[4:6]] for line in lines] + [[*line[2:4], *line[6:]] for line in lines]
    for row in table.rows:
        values = row.printed.split()
        assert not values or any(line[: len(values)] == values for line in lines), (row.label, row.note, values)


@pytest.mark.parametrize(
    ("data", "name", "cross_entropy"),
    [
        ("cifar10-lt:50", "cb-focal:beta=0.9999:gamma=2", "cb:beta=0.9999"),
        ("cifar10-lt:100", "cb-focal:beta=0.9999:gamma=1", "cb:beta=0.9999"),
        ("cifar100-lt:50", "cb-focal:beta=0.99:gamma=1", "cb:beta=0.9"),
        ("cifar100-lt:100", "cb-focal:beta=0.9:gamma=1", "cb:beta=0.9"),
    ],
)
def test_constants_follow_bag_of_tricks(data, name, cross_entropy):
    assert on_data("cb-focal:beta={beta}:gamma={gamma}", data) == name
    assert on_data("cb:beta={cross}", data) == cross_entropy
    assert on_data("naive", data) == "naive"


@pytest.mark.parametrize(
    ("method", "tunes_all", "protocol", "tuned"),
    [
        ("focal", False, "paper", False),
        ("ubrw", False, "paper", True),
        ("focal", True, "paper", True),
        ("focal", False, "equal", True),
        ("ubrw", False, "equal", True),
    ],
)
def test_whose_rate_is_chosen(method, tunes_all, protocol, tuned):
    row = Row("row", method, "1.0±0.35 2.0")
    first, second = PaperTable(("svci20:250", "svci20:50"), (row,), tunes_all=tunes_all).cells()
    assert (first.data, first.printed) == ("svci20:250", Printed(1.0, 0.35))
    assert (second.data, second.printed) == ("svci20:50", Printed(2.0, None))
    assert second.is_tuned(protocol) == tuned


def test_bag_of_tricks_has_every_baseline_but_that_of_other_code():
    baselines = {row.method for row in TABLE_1.rows if not IS_OURS[row.method]}
    assert baselines - {"dro", "dro+autoaugment+cutout"} == BAG_OF_TRICKS.keys()
    assert all(TABLE_1.by_column(errors) for both in BAG_OF_TRICKS.values() for errors in both)


@pytest.mark.skipif(not RECIPES.is_file(), reason="the notes on public code are not here")
def test_bag_of_tricks_values_are_those_that_were_noted():
    """The notes have the paper's values, the older ones and the present ones of twelve baselines, one on a line."""
    lines = [re.findall(r"\d\d\.\d\d", line) for line in RECIPES.read_text().splitlines() if line.startswith("| ")]
    noted = {(" ".join(line[4:8]), " ".join(line[8:])) for line in lines if len(line) == 12}
    assert len(noted) == 12
    assert noted <= {*BAG_OF_TRICKS.values()}
