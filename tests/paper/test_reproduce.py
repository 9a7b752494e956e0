"""The paper's experiments by name: what is refused, and what a spent budget leaves."""

from pathlib import Path

import pytest
from ledgers import DATA, use_toys
from refusals import refused
from watching import no_training

from class_uncertainty.paper.catalogue import EXPERIMENTS
from class_uncertainty.paper.reproduce import plan_reproduction, reproduce


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch)
    for name in EXPERIMENTS.keys() - {"table1", "if1a"}:
        monkeypatch.delitem(EXPERIMENTS, name)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("tabel1",), ("tabel1", "table1")),
        (("table1", "papper"), ("papper", "paper")),
        (("table1", None, "digits-lt:8"), ("digits-lt:8", DATA)),
        (("table1", None, None, 0), ("seeds", 0)),
        (("table1", None, None, None, ["naiv"]), ("naiv", "naive")),
    ],
)
def test_bad_requests_are_refused_before_anything_is_opened(arguments, parts, tmp_path: Path) -> None:
    for call in (reproduce, plan_reproduction):
        with refused(*parts):
            call(*arguments, store=tmp_path / "runs.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_experiments_run_and_are_not_run_again(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    table, measured = reproduce("all", "paper", seeds=1, methods=None, store=store)
    assert (table.name, measured.name) == ("table1", "if1a")
    assert [len(one.errors) for one in table.outcomes] == [6, 1, 1, 1]
    assert len(measured.measured) == 1
    again = reproduce("all", "paper", seeds=1, store=store, progress=no_training)
    assert [one.document() for one in again] == [table.document(), measured.document()]
    assert plan_reproduction("all", "paper", seeds=1, store=store) == []


def test_one_row_alone(tmp_path: Path) -> None:
    (table,) = reproduce("table1", "paper", seeds=1, methods=["cb-rs"], store=tmp_path / "runs.sqlite")
    assert [(one.cell.method, len(one.errors)) for one in table.outcomes] == [("cb-rs", 1)]


def test_a_spent_budget_is_told_and_keeps_the_rest(tmp_path: Path) -> None:
    """All experiments are shown, as far as they are stored."""
    store = tmp_path / "runs.sqlite"
    table, measured = reproduce("all", "paper", store=store, budget=1e-6)
    assert table.unfinished
    assert measured.unfinished == table.unfinished
    assert [one.verdict for one in table.outcomes if one.cell.method == "ubrs"] == ["not run"]
    remaining = plan_reproduction("all", "paper", store=store)
    assert f"{DATA}?validation=10" in {row.data for row in remaining}
    assert all(row.minutes > 0 for row in remaining)


def test_what_is_complete_is_not_unfinished(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    reproduce("if1a", store=store)
    table, measured = reproduce("all", "paper", store=store, budget=1e-6)
    assert table.unfinished
    assert not measured.unfinished
