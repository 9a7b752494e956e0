"""What is counted of the paper's cells and gains, by hand-made outcomes."""

from dataclasses import replace

import pytest
from ledgers import TABLE
from verdict_tables import printed_gains, published_baselines, verdicts

from class_uncertainty.paper.outcomes import Outcome
from class_uncertainty.paper.printed_tables import TABLE_1, PaperTable, Row

ROWS = {row.label: row for row in TABLE.rows}


def made(table: PaperTable, errors: dict[str, tuple[float, ...]], protocol: str = "paper") -> list[Outcome]:
    """A row that is not named has not been run."""
    return [
        Outcome(cell, protocol, 0.1, errors.get(cell.method, ()), devices=("cpu",) if cell.method in errors else ())
        for cell in table.cells()
    ]


def test_verdicts_are_counted():
    """Printed: 20 ± 1 (naive), 18 ± 0.5 (cb-rs) and 15 ± 0.5 (ubrs)."""
    table = verdicts(made(TABLE, {"naive": (20.0, 21.0), "cb-rs": (18.0, 19.0), "ubrs": (25.0, 25.5)}))
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    counts = {name: int(count) for name, count in rows["paper"].items() if count.isdigit() and count != "0"}
    assert counts == {"cells": 3, "agrees": 2, "higher": 1, "gain: worse": 1}
    assert {*rows["equal"].values()} == {"equal", "0"}
    (naive,) = (replace(one, collapsed=1) for one in made(TABLE, {"naive": (20.0, 21.0)})[:1])
    assert verdicts([naive]).rows[0][:7] == ["paper", "1", "0", "0", "0", "0", "1"]


@pytest.mark.parametrize(
    ("ours", "word"), [((15.0, 15.5), "better"), ((18.0, 19.0), "even"), ((25.0, 25.5), "worse"), ((), None)]
)
def test_a_printed_gain_has_become_one_or_not(ours, word):
    errors = {"cb-rs": (18.0, 19.0)} | ({"ubrs": ours} if ours else {})
    table = printed_gains(made(TABLE, errors))
    counts = [dict(zip(table.columns[2:], map(int, row[2:]), strict=True)) for row in table.rows]
    wanted = {"printed gains that have been run": 1, "better": 0, "even": 0, "worse": 0, "collapsed": 0}
    assert counts == ([wanted | {word: 1}] if word else [])


def test_a_printed_gain_counts_once_and_a_printed_loss_not_at_all():
    """Of two readings of a row the first counts."""
    first, loser = ROWS["UBRs"], Row("UBRw", "ubrw", "19.0±0.5", baseline="cb-rs")
    second = replace(first, method="pb-ubrs", note="another reading")
    table = replace(TABLE, rows=(*TABLE.rows, second, loser))
    errors = {"cb-rs": (18.0, 18.5), "ubrs": (18.0, 18.5), "pb-ubrs": (10.0, 10.5), "ubrw": (10.0, 10.5)}
    row = ["digits-lt (9)", "paper", "1", "0", "1", "0", "0"]
    assert printed_gains(made(table, errors)).rows == [row]
    del errors["ubrs"]  # the second does not take its place
    assert printed_gains(made(table, errors)).rows == []
    even = replace(first, printed=ROWS["CB"].printed)  # no gain is printed
    assert printed_gains(made(replace(TABLE, rows=(*TABLE.rows[:2], even)), errors | {"ubrs": (9.0, 9.5)})).rows == []
    one_run = {"cb-rs": (18.0,), "ubrs": (15.0,)}
    assert printed_gains(made(TABLE, one_run)).rows == []  # no verdict


def test_both_protocols_count_once_they_differ():
    errors = {"cb-rs": (18.0, 18.5), "ubrs": (15.0, 15.5)}
    paper, same = made(TABLE, errors), made(TABLE, {"ubrs": errors["ubrs"]}, "equal")
    assert printed_gains(paper + same).rows == printed_gains(paper).rows
    assert verdicts(paper + same).rows == verdicts(paper).rows
    equal = made(TABLE, errors, "equal")
    assert [row[1] for row in printed_gains(paper + equal).rows] == ["paper", "equal"]
    assert [row[1] for row in verdicts(paper + equal).rows] == ["2", "2"]


def test_baselines_within_a_point_of_a_published_error_are_counted():
    """On CIFAR-10-LT (100) the nearest are 28.05, not the paper's 30.18, and its 30.33; others are far from all."""
    outcomes = made(TABLE_1, {"naive": (28.5,), "cb-rs": (30.0,), "balanced-softmax": (23.0,)})
    table = published_baselines([one for one in outcomes if one.cell.data in ("cifar10-lt:100", "cifar100-lt:50")])
    assert table.rows == [
        ["CIFAR-10-LT (100)", "3", "3", "2", "1"],
        ["CIFAR-100-LT (50)", "3", "0", "2", "0"],
        ["all", "6", "3", "4", "1"],
    ]
