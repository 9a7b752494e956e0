"""The paper's numbers: complete, of methods that exist, and as the paper prints them."""

import re
from pathlib import Path

import pytest

from class_uncertainty.methods import named, parse_name
from class_uncertainty.paper.paper_table import Cell, PaperTable
from class_uncertainty.paper.printed_tables import SIGNIFICANCE, TABLE_1, TABLES

CELLS = [cell for table in TABLES.values() for cell in table.cells()]
PAPER = Path(__file__).parents[3] / "shared" / "docs" / "paper.tex"


def identify(cell: Cell) -> str:
    return f"{cell.method} on {cell.data}"


@pytest.mark.parametrize("cell", CELLS, ids=identify)
def test_every_cell_has_a_method_and_a_printed_value(cell: Cell) -> None:
    assert named(cell.method).uses_uncertainty == cell.row.ours
    assert (cell.printed is None) == (cell.row.printed == "")
    assert cell.row.printed == "" or len(cell.row.printed.split()) == len(cell.table.columns)
    if cell.row.baseline:
        baselines = [row for row in cell.table.rows if row.method == cell.row.baseline]
        assert [row.ours for row in baselines] == [False]
        assert not named(cell.row.baseline_on(cell.data)).uses_uncertainty


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_rows_differ(table: PaperTable) -> None:
    rows = [(row.method, row.estimator, row.score) for row in table.rows]
    assert len(set(rows)) == len(rows)
    assert len({(row.label, row.note) for row in table.rows}) == len(rows)


def test_every_table_says_what_six_naive_networks_give() -> None:
    assert all(table.compares_cost for table in TABLES.values())


@pytest.mark.parametrize(("ours", "baseline", "printed"), SIGNIFICANCE)
def test_every_tested_row_is_one_of_table_1(ours: str, baseline: str, printed: str) -> None:
    methods = {row.method: row.ours for row in TABLE_1.rows}
    assert (methods[ours], methods[baseline]) == (True, False)
    assert all(0 <= float(value) <= 1 for value in printed.split())
    assert len(printed.split()) == len(TABLE_1.columns)


def test_uncertainty_has_16_of_the_20_best_results_as_the_paper_says() -> None:
    """Its caption: among 20 settings, 4 data sets and 5 groups of methods, 16 are best with class uncertainty."""
    groups = (
        {"cb-rs", "pb-rs", "ubrs", "pb-ubrs"},
        {"focal", "cb", "cb-focal", "ubrw", "ubrw-focal"},
        {"ldam", "ldam-rw", "dro", "ubm-ldam", "ubm-ldam-rw", "ubm-dro"},
        {"2s-cb-rs", "2s-pb-rs", "2s-cam-rs", "2s-ubrs"},
        {"2s-csce", "2s-focal", "2s-cb-focal", "2s-ubrw", "2s-ubrw-focal"},
    )
    wins = 0
    for column in range(4):
        for names in groups:
            rows = [row for row in TABLE_1.rows if parse_name(row.method).row in names]
            wins += min(rows, key=lambda row: float(row.printed.split()[column].partition("±")[0])).ours
    assert wins == 16


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_row_stands_in_the_paper_s_source(table: PaperTable) -> None:
    """All values of a row stand in this order on one line; the epistemic table has both kinds of one row on a line."""
    text = re.sub(" ?± ?", "±", PAPER.read_text())
    lines = [re.findall(r"\d+\.\d\d(?:±\d+\.\d+)?", line) for line in text.splitlines()]
    lines += [[*line[:2], *line[4:6]] for line in lines] + [[*line[2:4], *line[6:]] for line in lines]
    for row in table.rows:
        values = row.printed.split()
        assert not values or any(line[: len(values)] == values for line in lines), (row.label, row.note, values)
