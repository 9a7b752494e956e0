"""A store that another connection has locked: a wait is reported, ends well where the lock does, and has a limit."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from example_results import DATA, make_result

import class_uncertainty as cu
from class_uncertainty.runs import Store, sqlite_faults

LIMITS = sqlite_faults.PATIENCE, sqlite_faults.LIMIT
PATIENCE, LIMIT = 0.05, 0.4


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(sqlite_faults, "PATIENCE", PATIENCE)
    monkeypatch.setattr(sqlite_faults, "LIMIT", LIMIT)


@contextmanager
def locked(path: Path, how: str = "EXCLUSIVE") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute(f"BEGIN {how}")
        yield other
        if other.in_transaction:
            other.execute("ROLLBACK")


@pytest.fixture
def filled(tmp_path):
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        store.add("first", DATA.fingerprint, make_result(cu.Lane()))
    return path


def test_the_limits_are_two_and_thirty_seconds():
    assert LIMITS == (2, 30)


@pytest.mark.parametrize("how", ["EXCLUSIVE", "IMMEDIATE", "reader"])
def test_a_wait_that_ends_well_is_reported_once_and_stores_the_result(filled, notices, how):
    """A writer that holds the file, one that is about to, and a reader, who is in the way of a commit."""
    with Store(filled) as store, locked(filled, "DEFERRED" if how == "reader" else how) as other:
        if how == "reader":
            other.execute("SELECT count(*) FROM results").fetchone()
        waiting = threading.Timer(4 * PATIENCE, other.execute, ["ROLLBACK"])
        waiting.start()
        store.add("second", DATA.fingerprint, make_result(cu.Lane(seed=1)))
        waiting.join()
        assert store.keys("results") == {"first", "second"}
    (notice,) = notices
    assert str(filled) in notice
    assert "locked by another process" in notice


def test_a_short_lock_is_waited_for_without_a_word(filled, notices, monkeypatch):
    monkeypatch.setattr(sqlite_faults, "PATIENCE", 5)
    with Store(filled) as store, locked(filled) as other:
        threading.Timer(0.1, other.execute, ["ROLLBACK"]).start()
        assert store.has("results", "first")
    assert notices == []


@pytest.mark.parametrize("statement", ["add", "get", "open"])
def test_a_lock_that_stays_ends_in_one_sentence_and_loses_nothing(filled, notices, statement):
    result = make_result(cu.Lane(seed=1))
    with Store(filled) as store:
        with locked(filled):
            began = time.monotonic()
            with pytest.raises(cu.MachineFault, match=f"another process has locked it for {LIMIT:g} s"):
                {
                    "add": lambda: store.add("second", DATA.fingerprint, result),
                    "get": lambda: store.get("first"),
                    "open": lambda: Store(filled),
                }[statement]()
            assert LIMIT <= time.monotonic() - began < 3 * LIMIT
        assert len(notices) == 1
        store.add("second", DATA.fingerprint, result)
        assert store.keys("results") == {"first", "second"}


def test_writers_take_turns(filled, notices, monkeypatch):
    """As shards do: none fails, and none overwrites another's rows."""
    monkeypatch.setattr(sqlite_faults, "LIMIT", 30)

    def write(writer: int) -> None:
        with Store(filled) as store:
            for i in range(5):
                store.add(f"{writer}-{i}", DATA.fingerprint, make_result(cu.Lane(seed=i)))

    writers = [threading.Thread(target=write, args=[writer]) for writer in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    with Store(filled) as store:
        assert store.keys("results") == {"first", *(f"{writer}-{i}" for writer in range(4) for i in range(5))}


def test_a_command_ends_with_exit_code_1(filled, run):
    with locked(filled):
        code, _, err = run("results", "export", "out.jsonl", "--store", str(filled))
    assert code == 1
    assert "locked by another process" in err
    assert f"{LIMIT:g} s" in err.splitlines()[-1]
    assert not Path("out.jsonl").exists()
