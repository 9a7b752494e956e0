"""Full disks, kills, damaged rows and random bits: what is lost is told of and counts as missing."""

import dataclasses
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from runs.filled_stores import estimated, evaluated, everything

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.runs import Store


def test_a_full_disk_loses_nothing_that_was_stored(store, digits):
    """SQLite is told that it has no more pages, which is what it sees of a full disk."""
    (result,) = evaluated(store, digits)
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for i in range(1000):
            store.add(str(i), digits.fingerprint, result)

    with pytest.raises(cu.MachineFault, match=r"full.*intact"):
        fill()
    with Store(store.path) as reopened:
        assert reopened.results(digits.fingerprint)[0] == result


TWENTY = [cu.Lane(method, seed) for method in ("naive", "cb-rs") for seed in range(10)]


@pytest.fixture(scope="module")
def twenty(digits):
    recipe = dataclasses.replace(cu.training.default_recipe(digits.train), epochs=6)
    return cu.fit(digits.train, TWENTY, recipe=recipe, test=digits.test)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_loses_only_what_was_in_flight(how, tmp_path, digits, twenty, run):
    """Killed amid twenty lanes, the same command goes on, and the end is the same bits as without the kill."""
    path = tmp_path / "runs.sqlite"
    words = ["compare", digits.name, "--methods", "naive,cb-rs", "--seeds", "10", "--epochs", "6"]
    words += ["--store", str(path)]
    command = [sys.executable, "-m", "class_uncertainty.cli.app", *words]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=os.environ | {"OMP_NUM_THREADS": "2"}
    )
    deadline = time.monotonic() + 60
    while not path.exists() or stored(path) < 5:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(how)
    errors = process.communicate(timeout=30)[1]
    kept = stored(path)
    assert 5 <= kept < 20
    if how != signal.SIGKILL:
        assert process.returncode == 128 + how
        assert re.search(
            rf"keeps what has finished \({kept} results, \d+ networks?\).*, and the same command goes on", errors
        )
        assert "Traceback" not in errors
    code, out, _ = run(*words, "--json")
    assert (code, stored(path)) == (0, 20)
    assert '"runs": 10' in out
    with Store(path) as resumed:
        results = evaluated(resumed, digits, TWENTY, twenty.recipe)
    assert [result.scores for result in results] == [result.scores for result in twenty.results]


def stored(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'results'").fetchone()[0]
        count = connection.execute("SELECT count(*) FROM results").fetchone()[0] if tables else 0
    connection.close()
    return int(count)


def test_two_commands_may_create_one_store_at_once(tmp_path):
    """Twenty files, four threads that open each for the first time together."""
    for i in range(20):
        barrier = threading.Barrier(4)

        def open_it(path: Path = tmp_path / f"{i}.sqlite", barrier: threading.Barrier = barrier) -> int:
            barrier.wait()
            with Store(path) as store:
                return len(store.data())

        with ThreadPoolExecutor(4) as pool:
            assert [end.result() for end in [pool.submit(open_it) for _ in range(4)]] == [0] * 4


def test_a_redefined_estimator_is_not_served_from_the_store(store, digits, monkeypatch):
    (before,) = estimated(store, digits, EstimateRequest("ensemble", 2))
    other = dataclasses.replace(
        cu.ESTIMATORS["ensemble"],
        lanes=lambda members, seed: [cu.Lane(cu.Method(scale=2.0), s) for s in range(members)],
    )
    monkeypatch.setitem(cu.ESTIMATORS, "ensemble", other)
    (after,) = estimated(store, digits, EstimateRequest("ensemble", 2))
    assert not np.array_equal(before.probabilities, after.probabilities)
    assert after.results[0].method.startswith("custom-")


@pytest.fixture(scope="module")
def measured(digits, tmp_path_factory):
    """A folder with a store of an ensemble's estimate, and one of two estimates by single networks."""
    folder = tmp_path_factory.mktemp("measured")
    with Store(folder / "ensemble.sqlite") as store:
        estimated(store, digits, EstimateRequest("ensemble", 2))
    with Store(folder / "single.sqlite") as store:
        for seed in range(2):  # one by one: on a GPU as later
            estimated(store, digits, EstimateRequest("single", seed=seed))
    return folder


@pytest.fixture
def copied(measured, tmp_path):
    """A copy of it, to be damaged."""
    return shutil.copytree(measured, tmp_path / "copied")


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("results", "document = '{'"),
        ("results", "document = '{}'"),
        ("results", "document = replace(document, '\"seed\": 0', '\"seed\": 1')"),
        ("results", "key = key || 'x'"),
        ("results", "checksum = NULL"),
        ("estimates", "labels_and_probabilities = x'00'"),
        ("estimates", "results = '[]'"),
        ("estimates", "results = '{}'"),
        ("estimates", "estimator = 'duq'"),
        ("networks", "state = x'00'"),
        ("networks", "result = '{}'"),
        ("data", "counts = '[1, 2]'"),
        ("data", "classes = '7'"),
        ("results", "document = CAST(x'ff' || CAST(document AS BLOB) AS TEXT)"),  # no UTF-8
    ],
)
def test_a_damaged_row_is_told_of_and_counts_as_missing(table, change, copied, digits, notices):
    store = Store(copied / "ensemble.sqlite")
    before = everything(store, digits)
    assert [len(rows) for rows in before.values()] == [1, 2, 1, 2]
    store.connection.execute(f"UPDATE {table} SET {change} WHERE rowid = 1")
    after = everything(store, digits)
    assert [len(rows) for name, rows in after.items() if name != table] == [
        len(rows) for name, rows in before.items() if name != table
    ]
    assert len(after[table]) == len(before[table]) - 1
    (notice,) = notices
    assert all(part in notice for part in (str(store.path), table, "missing"))
    assert everything(store, digits)[table] == after[table]
    assert len(notices) == 1  # dropped: there is nothing more to say
    store.connection.close()


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "another's"])
def test_damaged_probabilities_are_measured_again(damage, copied, digits, notices):
    """A file beside the store that is not as it was written: one line, and the same bits as before."""
    requests = [EstimateRequest("single"), EstimateRequest("single", seed=1)]
    with Store(copied / "single.sqlite") as store:
        before = [np.array(estimated(store, digits, request)[0].probabilities) for request in requests]
        file, other = store.estimates_folder.iterdir()
        content = bytearray(file.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 4
        elif damage == "cut":
            del content[-1]
        elif damage == "another's":
            content = bytearray(other.read_bytes())
        file.unlink()
        if damage != "gone":
            file.write_bytes(content)
    with Store(copied / "single.sqlite") as store:
        again = [estimated(store, digits, request)[0].probabilities for request in requests]
    assert all(np.array_equal(old, new) for old, new in zip(before, again, strict=True))
    assert len(notices) == 1
    assert "'estimates'" in notices[0]


def test_probabilities_stay_on_disk_until_they_are_touched(store, digits):
    estimated(store, digits, EstimateRequest("single"))
    (estimate,) = store.estimates(digits.fingerprint)
    assert isinstance(estimate.probabilities, np.memmap)


def test_estimates_wait_for_their_folder(store, digits, notices):
    """A store that was moved without it: what is right by its checksum is not removed."""
    estimated(store, digits, EstimateRequest("single"))
    away = store.path.with_name("away")
    shutil.move(store.estimates_folder, away)
    assert store.estimates(digits.fingerprint) == []
    assert len(notices) == 1
    shutil.move(away, store.estimates_folder)
    assert len(store.estimates(digits.fingerprint)) == 1


def test_what_another_process_has_put_in_a_damaged_row_s_place_stays(store, digits, monkeypatch):
    """Between the read of a damaged row and its removal, another process stores the result again."""
    (result,) = evaluated(store, digits)
    again = dataclasses.replace(result, seconds=2 * result.seconds)
    ((key,),) = store.connection.execute("SELECT key FROM results").fetchall()
    store.connection.execute("UPDATE results SET document = '{}'")
    store.connection.commit()
    with Store(store.path) as other:
        monkeypatch.setattr("class_uncertainty.runs.store.notice", lambda _: other.add(key, digits.fingerprint, again))
        assert store.results(digits.fingerprint) == []
    assert store.results(digits.fingerprint) == [again]


def test_files_of_a_killed_process_are_swept(store, digits):
    store.estimates_folder.mkdir()
    for name, age in (("old.partial", 25 * 3600), ("new.partial", 0)):
        (store.estimates_folder / name).touch()
        os.utime(store.estimates_folder / name, times=(0, (store.estimates_folder / name).stat().st_mtime - age))
    estimated(store, digits, EstimateRequest("single"))
    assert {path.name for path in store.estimates_folder.glob("*.partial")} == {"new.partial"}


def test_random_bits_of_the_file(copied, digits, notices):
    """A bit anywhere: rows are as they were or gone, or the file is refused; no value is another."""
    path, rng = copied / "ensemble.sqlite", np.random.default_rng(0)
    with Store(path) as store:
        right = everything(store, digits)
    whole = path.read_bytes()
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            with Store(path) as store:
                for table, rows in everything(store, digits).items():
                    assert all(row in right[table] for row in rows), table
        except (cu.InputError, cu.MachineFault):
            refused += 1
    assert refused < 100
    assert notices
