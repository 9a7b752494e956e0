"""Tables of the paper as data: printed values, constants by data set, protocols."""

import pytest

from class_uncertainty.paper.paper_table import Cell, PaperTable, Printed, Row, judge_of, on_data


@pytest.mark.parametrize(("text", "printed"), [("24.26±0.35", Printed(24.26, 0.35)), ("20.73", Printed(20.73, None))])
def test_a_printed_value(text: str, printed: Printed) -> None:
    assert Printed.parse(text) == printed


@pytest.mark.parametrize(
    ("data", "name", "cross_entropy"),
    [
        ("cifar10-lt:50", "cb-focal:beta=0.9999:gamma=2", "cb:beta=0.9999"),
        ("cifar10-lt:100", "cb-focal:beta=0.9999:gamma=1", "cb:beta=0.9999"),
        ("cifar100-lt:50", "cb-focal:beta=0.99:gamma=1", "cb:beta=0.9"),
        ("cifar100-lt:100", "cb-focal:beta=0.9:gamma=1", "cb:beta=0.9"),
    ],
)
def test_constants_follow_bag_of_tricks(data: str, name: str, cross_entropy: str) -> None:
    assert on_data("cb-focal:beta={beta}:gamma={gamma}", data) == name
    assert on_data("cb:beta={cross}", data) == cross_entropy
    assert on_data("naive", data) == "naive"


@pytest.mark.parametrize(
    ("data", "judge"),
    [
        ("cifar10-lt:100", "cifar10-lt:100?validation=500"),
        ("cifar100-lt:50", "cifar100-lt:50?validation=50"),
        ("svci20:250", "svci20:250?validation=250"),
    ],
)
def test_rates_are_chosen_on_images_set_aside(data: str, judge: str) -> None:
    assert judge_of(data) == judge


@pytest.mark.parametrize(
    ("ours", "tunes_all", "protocol", "tuned"),
    [
        (False, False, "paper", False),
        (True, False, "paper", True),
        (False, True, "paper", True),
        (False, False, "equal", True),
        (True, False, "equal", True),
    ],
)
def test_whose_rate_is_chosen(ours: bool, tunes_all: bool, protocol: str, tuned: bool) -> None:
    row = Row("row", "naive", "1.0 2.0", ours=ours)
    table = PaperTable(("svci20:250", "svci20:50"), (row,), tunes_all=tunes_all)
    cell = table.cells()[1]
    assert (cell, cell.data, cell.printed) == (Cell(table, row, 1), "svci20:50", Printed(2.0))
    assert cell.is_tuned(protocol) == tuned
