"""The paper's experiments by name: run, shown, planned, and what a spent budget leaves."""

from dataclasses import replace

import pytest
from ledgers import DATA, use_toys
from watching import no_training

from class_uncertainty.methods import METHODS
from class_uncertainty.paper import reproduce as module
from class_uncertainty.paper.experiments import EXPERIMENTS, select
from class_uncertainty.paper.reproduce import plan_reproduction, reproduce
from class_uncertainty.paper.reproduction import stored_reproductions


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    use_toys(monkeypatch)
    for name in EXPERIMENTS.keys() - {"table1", "if1a"}:
        monkeypatch.delitem(EXPERIMENTS, name)


def test_experiments_run_and_are_not_run_again(store, monkeypatch):
    """What is stored is shown, and planned, without a device."""
    everything = select("all", "paper", seeds=1)
    table, measured = reproduce(everything, store)
    assert (table.name, measured.name) == ("table1", "if1a")
    assert [len(one.errors) for one in table.outcomes] == [6, 1, 1, 1]
    assert len(measured.measured) == 1
    again = reproduce(everything, store, progress=no_training)
    assert [one.document() for one in again] == [table.document(), measured.document()]
    with monkeypatch.context() as without_device:
        without_device.setattr(module, "resolve_device", None)
        shown = stored_reproductions(everything, store)
        assert [one.document() for one in shown] == [table.document(), measured.document()]
        assert plan_reproduction(everything, store) == []
    monkeypatch.setitem(METHODS, "cb-rs", replace(METHODS["cb-rs"], revision=1))
    assert plan_reproduction(everything, store) == []
    assert [row.lanes for row in plan_reproduction(everything, store, retrain_older=True)] == [1]


def test_one_row_alone(store):
    (table,) = reproduce(select("table1", "paper", seeds=1, methods=["cb-rs"]), store)
    assert [(one.cell.method, len(one.errors)) for one in table.outcomes] == [("cb-rs", 1)]


def test_a_spent_budget_is_told_and_keeps_the_rest(store):
    """All experiments are shown, as far as they are stored."""
    everything = select("all", "paper")
    table, measured = reproduce(everything, store, budget=1e-6)
    assert table.unfinished
    assert measured.unfinished == table.unfinished
    assert [one.verdict for one in table.outcomes if one.cell.method == "ubrs"] == ["not run"]
    remaining = plan_reproduction(everything, store)
    assert f"{DATA}?validation=10" in {row.data for row in remaining}
    assert all(row.minutes > 0 for row in remaining)


def test_what_is_complete_is_not_unfinished(store):
    reproduce(select("if1a"), store)
    table, measured = reproduce(select("all", "paper"), store, budget=1e-6)
    assert table.unfinished
    assert not measured.unfinished
