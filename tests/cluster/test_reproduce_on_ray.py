"""`reproduce(…, on="ray")`: an experiment with chosen rates and a measurement, to the same bits as in one process."""

import pytest
from ledgers import use_toys
from same_stores import contents

from class_uncertainty.paper.experiments import select
from class_uncertainty.paper.reproduce import reproduce
from class_uncertainty.runs import Store

pytest.importorskip("ray")
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]


def test_an_experiment_gives_the_same_bits(tmp_path, monkeypatch):
    use_toys(monkeypatch)
    here, there = tmp_path / "here.sqlite", tmp_path / "there.sqlite"
    for name in ("table1", "if1a"):
        with Store(here) as store:
            (alone,) = reproduce(select(name, "paper"), store, device="cpu")
        with Store(there) as store:
            (spread,) = reproduce(select(name, "paper"), store, device="cpu", on="ray")
        assert not spread.unfinished
        assert [one.errors for one in spread.outcomes] == [one.errors for one in alone.outcomes]
    assert contents(there) == contents(here)
    assert not list(tmp_path.glob("*.running"))
