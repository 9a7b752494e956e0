"""`cu reproduce` as a user types it."""

import json
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledgers import DATA, use_toys

from class_uncertainty.paper import trainer, training_time
from class_uncertainty.runs import Store
from class_uncertainty.training.networks import network_table
from class_uncertainty.training.networks.pretrained import LITE0_PACKAGE

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    use_toys(monkeypatch)


def test_an_experiment_is_planned_run_and_shown(run, forbid_training):
    code, _, err = run("reproduce table1 --stored --store mistyped.sqlite")
    assert (code, "mistyped.sqlite does not exist" in err, Path("mistyped.sqlite").exists()) == (2, True, False)
    code, out, _ = run("reproduce table1 --protocol paper --plan")
    assert (code, DATA in out, f"{DATA}?validation=10" in out) == (0, True, True)
    assert not Path("runs.sqlite").exists()
    with Store("runs.sqlite") as empty:
        empty.create_file()
    code, out, _ = run("reproduce table1 --protocol paper --stored --json")
    assert {cell["verdict"] for cell in json.loads(out)["experiments"][0]["cells"]} == {"not run"}
    code, out, _ = run("reproduce table1 --protocol paper")
    assert code == 0
    assert all(text in out for text in ("a small table", "15.00 ± 0.50", "Six naïve networks", "gains"))
    forbid_training()
    code, out, _ = run("reproduce table1 --protocol paper --json")
    document = json.loads(out)["experiments"][0]
    assert [cell["runs"] for cell in document["cells"]] == [6, 2, 2, 2]
    assert document["unfinished"] is None
    code, out, _ = run("reproduce table1 --protocol paper --plan --json")
    assert json.loads(out) == {"remaining": []}


def test_a_plan_that_is_stopped_speaks_of_no_store(run, monkeypatch):
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training_time, "images_per_second", stopped)
    assert run("reproduce table1 --protocol paper --plan") == (130, "", "\ncu: stopped.\n")


def test_a_spent_budget_shows_what_there_is_and_says_how_to_go_on(run, monkeypatch):
    """After the first lanes, which seem to take 1,000 seconds, there is no time for others."""
    monkeypatch.setattr(training_time, "images_per_second", lambda *_: 1.0)
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=count(0, 1000).__next__))
    code, out, err = run("reproduce table1 --protocol paper --budget 9s")
    assert code == 3
    assert "a small table" in out
    assert "runs.sqlite" in err
    assert "Traceback" not in err


def test_stored_results_need_no_package_of_weights(run, monkeypatch):
    monkeypatch.setitem(sys.modules, LITE0_PACKAGE, None)
    network_table._row_of.cache_clear()  # other tests may have read the weights
    assert run("results import", str(RESULTS / "architectures.jsonl"))[0] == 0
    about = "reproduce architectures --network efficientnet-lite0?size=96 --protocol paper"
    code, out, err = run(f"{about} --stored --json")
    assert (code, err) == (0, "")
    cells = json.loads(out)["experiments"][0]["cells"]
    assert {cell["runs"] for cell in cells if cell["data"] == "cifar100-lt:50"} == {3, 6}
    code, _, err = run(f"{about} --plan")
    assert (code, "is not installed" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("tabel1", ("tabel1", "table1")),
        ("places", ("places", "ResNet-152")),
        ("architectures", ("architectures", "Swin-T")),
        ("table1 --protocol equla", ("equla", "equal")),
        ("table1 --only digits-lt:8", ("digits-lt:8", DATA)),
        ("table1 --methods ubr", ("ubr", "ubrs")),
        ("table1 --seeds 0", ("seeds",)),
        ("if1a --methods naive", ("table",)),
        ("if1a --plan --stored", ("--plan and --stored are both given", "give --plan for")),
    ],
)
def test_bad_input_is_one_sentence(run, tmp_path, words, parts):
    code, out, err = run(f"reproduce {words}")
    assert (code, out) == (2, "")
    assert [part for part in parts if part not in err] == []
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "runs.sqlite").exists()
