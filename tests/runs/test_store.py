"""The store: what went in comes out, damage is told in one sentence, and a kill loses little."""

import dataclasses
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from commands import Run
from example_results import DATA, RECIPE, add_data, fill, make_measurement, make_result
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.files import checksum
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import open_context
from class_uncertainty.runs.load_or_train import load_or_estimate, load_or_evaluate
from class_uncertainty.runs.store import VERSION
from class_uncertainty.runs.stored_rows import dataset_row, document_row, result_row
from class_uncertainty.training.keys import ENGINE


def evaluated(
    store: Store, dataset: cu.Dataset, lanes: Sequence[cu.Lane] = (cu.Lane("naive"),), recipe: cu.Recipe = RECIPE
) -> list[cu.Result]:
    with open_context(dataset, recipe, store) as context:
        return load_or_evaluate(context, lanes)


def estimated(store: Store, dataset: cu.Dataset, *requests: EstimateRequest) -> list[cu.Estimate]:
    with open_context(dataset, RECIPE, store) as context:
        return load_or_estimate(context, requests)


def test_round_trip(store: Store, digits: cu.Dataset) -> None:
    store.add_data(digits)
    fitted = cu.fit(
        digits.train, [cu.Lane("ldam", 1, 0.2, (0, 4)), cu.Lane("naive", lr=1e30)], recipe=RECIPE, test=digits.test
    )
    for i, result in enumerate(fitted.results):
        store.add(str(i), digits.fingerprint, result)
    assert store.get("0") == fitted.results[0]
    gone = store.get("1")
    assert gone is not None
    assert (gone.diverged, gone.scores) == (0, None)
    assert store.results(digits.fingerprint)[0] == fitted.results[0]
    assert store.get("2") is None
    assert [data.name for data in store.data()] == ["digits-lt:20"]
    assert store.data()[0].counts == tuple(digits.train.counts)


@pytest.mark.parametrize("name", ["ensemble", "online", "duq"])
def test_estimates_come_back_as_they_were(name: str, store: Store, digits: cu.Dataset) -> None:
    """Bit for bit, with the scores of their own, the one they are read by, and the cost."""
    estimate = cu.estimate(digits, name, 2, RECIPE, score="true-class" if name == "ensemble" else None)
    store.add_estimate("key", digits.fingerprint, estimate)
    back = store.get_estimate("key")
    assert back is not None
    assert (back.estimator, back.score, back.cost, back.results) == (
        estimate.estimator,
        estimate.score,
        estimate.cost,
        estimate.results,
    )
    assert (back.probabilities.dtype, back.labels.dtype) == (np.float32, np.int64)
    for part in ("probabilities", "labels", "uncertainty", "raw", "class_errors"):
        assert np.array_equal(getattr(back, part), getattr(estimate, part)), part
    assert (
        back.extra_scores.keys()
        == estimate.extra_scores.keys()
        == {"ensemble": set(), "online": {"aleatoric", "epistemic"}, "duq": {"kernel"}}[name]
    )
    assert all(np.array_equal(back.extra_scores[score], values) for score, values in estimate.extra_scores.items())
    assert [estimate.estimator for estimate in store.estimates(digits.fingerprint)] == [name]
    assert store.get_estimate("other") is None


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be read as one" * 40, b"SQLite format 3\x00" + b"\xff" * 200]
)
def test_not_a_store(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    path.write_bytes(content)
    with refused("runs.sqlite", "not a store"):
        Store(path)
    assert path.read_bytes() == content


def test_a_newer_store_and_another_programs(tmp_path: Path) -> None:
    newer, other = tmp_path / "newer.sqlite", tmp_path / "other.sqlite"
    for path, statement in ((newer, f"PRAGMA user_version = {VERSION + 1}"), (other, "CREATE TABLE bookmarks (url)")):
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
    with refused("newer.sqlite", f"layout {VERSION + 1}", VERSION):
        Store(newer)
    with refused("other.sqlite", "another program's"):
        Store(other)


def test_unwritable_and_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused("file", "not a folder"):
        Store(tmp_path / "file" / "runs.sqlite")
    with refused(tmp_path, "is a folder"):
        Store(tmp_path)
    with refused("none.sqlite", "does not exist"):
        Store(tmp_path / "none.sqlite", create=False)
    assert not (tmp_path / "none.sqlite").exists()


def test_a_read_only_folder_takes_no_new_store_and_keeps_its_stores_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path / "old.sqlite"):
        pass
    monkeypatch.setattr("os.access", lambda *_: False)
    with refused("runs.sqlite could not be written: its folder is read-only", kind=cu.MachineFault):
        Store(tmp_path / "runs.sqlite")
    with Store(tmp_path / "old.sqlite") as old:
        assert old.finished == 0


def test_memory_is_a_file_name_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Store(":memory:").connection.close()
    assert (tmp_path / ":memory:").is_file()


def test_a_full_disk_loses_nothing_that_was_stored(store: Store, digits: cu.Dataset) -> None:
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


THIRTY = [cu.Lane(method, seed) for method in ("naive", "cb-rs", "cb") for seed in range(10)]


@pytest.fixture(scope="module")
def thirty(digits: cu.Dataset) -> cu.Fit:
    recipe = dataclasses.replace(cu.training.default_recipe(digits.train), epochs=6)
    return cu.fit(digits.train, THIRTY, recipe=recipe, test=digits.test)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_kill_loses_only_what_was_in_flight(
    how: signal.Signals, tmp_path: Path, digits: cu.Dataset, thirty: cu.Fit, run: Run
) -> None:
    """Killed amid thirty lanes, the same command goes on, and the end is the same bits as without the kill."""
    path = tmp_path / "runs.sqlite"
    words = ["compare", digits.name, "--methods", "naive,cb-rs,cb", "--seeds", "10", "--epochs", "6"]
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
    assert 5 <= kept < 30
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert re.search(
            rf"keeps what has finished \({kept} results, \d+ networks?\).*, and the same command goes on", errors
        )
        assert "Traceback" not in errors
    code, out, _ = run(*words, "--json")
    assert (code, stored(path)) == (0, 30)
    assert '"runs": 10' in out
    with Store(path) as resumed:
        results = evaluated(resumed, digits, THIRTY, thirty.recipe)
    assert [result.scores for result in results] == [result.scores for result in thirty.results]


def stored(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'results'").fetchone()[0]
        count = connection.execute("SELECT count(*) FROM results").fetchone()[0] if tables else 0
    connection.close()
    return int(count)


def test_two_commands_may_create_one_store_at_once(tmp_path: Path) -> None:
    """Twenty files, four threads that open each for the first time together."""
    for i in range(20):
        barrier = threading.Barrier(4)

        def open_it(path: Path = tmp_path / f"{i}.sqlite", barrier: threading.Barrier = barrier) -> int:
            barrier.wait()
            with Store(path) as store:
                return len(store.data())

        with ThreadPoolExecutor(4) as pool:
            assert [end.result() for end in [pool.submit(open_it) for _ in range(4)]] == [0] * 4


def test_a_redefined_estimator_is_not_served_from_the_store(
    store: Store, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = estimated(store, digits, EstimateRequest("ensemble", 2))
    other = dataclasses.replace(
        cu.ESTIMATORS["ensemble"],
        lanes=lambda members, seed: [cu.Lane(cu.Method(scale=2.0), s) for s in range(members)],
    )
    monkeypatch.setitem(cu.ESTIMATORS, "ensemble", other)
    (after,) = estimated(store, digits, EstimateRequest("ensemble", 2))
    assert not np.array_equal(before.probabilities, after.probabilities)
    assert after.results[0].method.startswith("custom-")


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("results", "document = '{'"),
        ("results", "document = '{}'"),
        ("results", "document = replace(document, '\"seed\": 0', '\"seed\": 1')"),
        ("results", "key = key || 'x'"),
        ("results", "data = data || ''"),
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
def test_a_damaged_row_is_told_of_and_counts_as_missing(
    table: str, change: str, sealed: bool, store: Store, digits: cu.Dataset, notices: list[str]
) -> None:
    """Whatever was changed where there is a checksum; what cannot be read where an older version wrote none."""
    estimated(store, digits, EstimateRequest("ensemble", 2))
    before = everything(store, digits)
    assert [len(rows) for rows in before.values()] == [1, 2, 1, 2]
    if not sealed:
        store.connection.execute(f"UPDATE {table} SET checksum = NULL")
    store.connection.execute(f"UPDATE {table} SET {change} WHERE rowid = 1")
    after = everything(store, digits)
    unchanged = change == "data = data || ''"
    visible = not sealed and not any(
        mark in change for mark in ("x'ff'", "'{", "'[]'", "x'00'", "'7'")
    )  # another value, and nothing to tell it by
    assert len(notices) == (not unchanged and not visible)
    assert [len(rows) for name, rows in after.items() if name != table] == [
        len(rows) for name, rows in before.items() if name != table
    ]
    if not unchanged and not visible:
        assert len(after[table]) == len(before[table]) - 1
        assert all(part in notices[0] for part in (str(store.path), table, "missing"))
        assert everything(store, digits)[table] == after[table]
        assert len(notices) == 1  # dropped: there is nothing more to say


def everything(store: Store, digits: cu.Dataset) -> dict[str, list]:
    keys = [key for (key,) in store.connection.execute("SELECT key FROM networks")]
    return {
        "data": store.data(),
        "results": store.results(digits.fingerprint),
        "estimates": [estimate.results for estimate in store.estimates(digits.fingerprint)],
        "networks": [network[0] for key in keys if (network := store.get_network(key))],
    }


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "another's"])
def test_damaged_probabilities_are_measured_again(
    damage: str, tmp_path: Path, digits: cu.Dataset, notices: list[str]
) -> None:
    """A file beside the store that is not as it was written: one line, and the same bits as before."""
    requests = [EstimateRequest("single"), EstimateRequest("single", seed=1)]
    with Store(tmp_path / "runs.sqlite") as store:
        before = [
            estimated(store, digits, request)[0].probabilities for request in requests
        ]  # one by one: on a GPU as later
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
    with Store(tmp_path / "runs.sqlite") as store:
        again = [estimated(store, digits, request)[0].probabilities for request in requests]
    assert all(np.array_equal(old, new) for old, new in zip(before, again, strict=True))
    assert len(notices) == 1
    assert "'estimates'" in notices[0]


def test_probabilities_stay_on_disk_until_they_are_touched(store: Store, digits: cu.Dataset) -> None:
    estimated(store, digits, EstimateRequest("single"))
    (estimate,) = store.estimates(digits.fingerprint)
    assert isinstance(estimate.probabilities, np.memmap)


def make_older(path: Path, layout: int) -> None:
    """Write a store as layout 2 or 3 had it: the column `error` is the top-1 error, and layout 2 has no checksums."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for key, engine, data, text in connection.execute("SELECT key, engine, data, document FROM results").fetchall():
            document = json.loads(text)
            scores = document["scores"]
            class_mean, scores["error"] = scores["error"], scores.pop("top1_error")
            document["scores"] = scores | {"class_mean_error": class_mean}
            older = json.dumps(document)
            values = (older, scores["error"], checksum("results", key, str(engine), data, older), key)
            connection.execute("UPDATE results SET document = ?, error = ?, checksum = ? WHERE key = ?", values)
        if layout == 2:
            for table in ("data", "results", "estimates", "networks", "mended"):
                connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        connection.execute("DROP TABLE measurements")
        connection.execute(f"PRAGMA user_version = {layout}")


def test_rows_of_older_versions_are_read_and_counted(tmp_path: Path, digits: cu.Dataset, notices: list[str]) -> None:
    """A store without checksums, whose probabilities are in the row itself."""
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        (estimate,) = estimated(store, digits, EstimateRequest("ensemble", 2))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, labels=estimate.labels, probabilities=estimate.probabilities)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE estimates SET labels_and_probabilities = ?", (buffer.getvalue(),))
    make_older(path, 2)
    with Store(path) as store:
        (again,) = store.estimates(digits.fingerprint)
        assert np.array_equal(again.probabilities, estimate.probabilities)
        assert again.results == estimate.results
        assert len(store.results(digits.fingerprint)) == 2
        assert notices == []
    assert len(notices) == 1
    assert "3 rows" in notices[0]
    assert "no checksum" in notices[0]


@pytest.mark.parametrize("layout", [2, 3])
def test_an_older_store_is_converted(layout: int, store: Store, digits: cu.Dataset) -> None:
    """The column `error` becomes the mean of the class errors; results that diverged have none."""
    lanes = [cu.Lane("naive"), cu.Lane("cb"), cu.Lane("naive", lr=1e30)]
    good, other, diverged = evaluated(store, digits, lanes)
    store.connection.execute("DELETE FROM results WHERE lr = 1e30")  # it has no scores to write as they were
    store.connection.commit()
    make_older(store.path, layout)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        document = json.dumps(dataclasses.asdict(diverged))
        values = (good.data, document, checksum("results", "d", "1", good.data, document))
        columns = "key, engine, data, document, checksum" if layout == 3 else "key, engine, data, document"
        row = ("d", 1, *values)[: columns.count(",") + 1]
        connection.execute(f"INSERT INTO results ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    with Store(store.path) as converted:
        assert converted.results(digits.fingerprint) == [good, other]
        assert converted.get("d") == diverged
        (version,) = converted.connection.execute("PRAGMA user_version").fetchone()
        errors = [error for (error,) in converted.connection.execute("SELECT error FROM results ORDER BY rowid")]
    assert version == VERSION
    assert errors == [pytest.approx(good.error), pytest.approx(other.error), None]
    assert good.error != pytest.approx(good.top1_error)  # or this would not tell them apart


def test_a_store_of_layout_4_is_converted_and_keeps_everything(store: Store, digits: cu.Dataset) -> None:
    """All that is new is a table of measurements."""
    estimated(store, digits, EstimateRequest("ensemble", 2))
    before = everything(store, digits)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("DROP TABLE measurements")
        connection.execute("PRAGMA user_version = 4")
        rows = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in before}
    with Store(store.path) as converted:
        assert everything(converted, digits) == before
        assert {table: converted.connection.execute(f"SELECT * FROM {table}").fetchall() for table in before} == rows
        assert converted.connection.execute("PRAGMA user_version").fetchone() == (5,)
        assert converted.measurements(DATA.fingerprint) == []
        converted.add_measurement("m", DATA.fingerprint, make_measurement())
    with Store(store.path) as again:
        assert again.measurements(DATA.fingerprint) == [make_measurement()]


def test_a_damaged_row_of_an_older_store_does_not_keep_it_from_opening(
    store: Store, digits: cu.Dataset, notices: list[str]
) -> None:
    good, _ = evaluated(store, digits, [cu.Lane("naive"), cu.Lane("cb")])
    make_older(store.path, 3)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE results SET document = substr(document, 9) WHERE method = 'cb'")
    with Store(store.path) as converted:
        assert converted.results(digits.fingerprint) == [good]
    assert len(notices) == 1


@pytest.mark.parametrize("layout", [2, 3])
def test_an_older_store_that_cannot_be_written_to_is_read(
    layout: int, tmp_path: Path, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        (result,) = evaluated(store, digits)
    make_older(path, layout)
    content, connect = path.read_bytes(), sqlite3.connect

    def read_only(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with Store(path) as store:
        assert store.results(digits.fingerprint) == [result]
        assert store.measurements(digits.fingerprint) == []
    assert path.read_bytes() == content


def test_estimates_wait_for_their_folder(store: Store, digits: cu.Dataset, notices: list[str]) -> None:
    """A store that was moved without it: what is right by its checksum is not removed."""
    estimated(store, digits, EstimateRequest("single"))
    away = store.path.with_name("away")
    shutil.move(store.estimates_folder, away)
    assert store.estimates(digits.fingerprint) == []
    assert len(notices) == 1
    shutil.move(away, store.estimates_folder)
    assert len(store.estimates(digits.fingerprint)) == 1


def test_what_another_process_has_put_in_a_damaged_row_s_place_stays(
    store: Store, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_files_of_a_killed_process_are_swept(store: Store, digits: cu.Dataset) -> None:
    store.estimates_folder.mkdir()
    for name, age in (("old.partial", 25 * 3600), ("new.partial", 0)):
        (store.estimates_folder / name).touch()
        os.utime(store.estimates_folder / name, times=(0, (store.estimates_folder / name).stat().st_mtime - age))
    estimated(store, digits, EstimateRequest("single"))
    assert {path.name for path in store.estimates_folder.glob("*.partial")} == {"new.partial"}


def test_random_bits_of_the_file(tmp_path: Path, digits: cu.Dataset, notices: list[str]) -> None:
    """A bit anywhere: rows are as they were or gone, or the file is refused; no value is another."""
    path, rng = tmp_path / "runs.sqlite", np.random.default_rng(0)
    with Store(path) as store:
        estimated(store, digits, EstimateRequest("ensemble", 2))
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


# what is exchanged


def test_measurements_come_back_as_they_were(store: Store) -> None:
    measured = [make_measurement(), make_measurement(lr=0.3, class_errors=None)]
    for i, one in enumerate(measured):
        store.add_measurement(str(i), DATA.fingerprint, one)
    assert store.measurements(DATA.fingerprint) == measured
    assert store.by_key("measurements", DATA.fingerprint) == dict(zip("01", measured, strict=True))
    assert store.measurements("other") == []


def test_keys_are_those_of_sound_rows_of_every_data_set(store: Store, notices: list[str]) -> None:
    fill(store)
    add_data(store, fingerprint="0" * 32)
    store.add("elsewhere", "0" * 32, make_result(cu.Lane()))
    assert store.keys("data") == {DATA.fingerprint, "0" * 32}
    assert (store.keys("estimates"), store.keys("measurements")) == ({f"e{DATA.name}"}, {f"m{DATA.name}"})
    assert len(keys := store.keys("results")) == 10
    store.connection.execute("UPDATE results SET document = '{}' WHERE key = 'elsewhere'")
    assert store.keys("results") == keys - {"elsewhere"}
    assert len(notices) == 1


def test_values_by_key_are_of_one_data_set_and_of_this_engine(store: Store) -> None:
    result = make_result(cu.Lane())
    for key, data in (("a", "x"), ("b", "y"), ("c", "x")):
        store.add(key, data, result)
    store.add_rows([("results", result_row("old", "x", result) | {"engine": ENGINE - 1})])
    assert store.by_key("results", "x") == {"a": result, "c": result}


def test_rows_are_added_together_or_not_at_all(store: Store) -> None:
    good = [
        ("data", dataset_row(DATA)),
        ("results", result_row("r", DATA.fingerprint, make_result(cu.Lane()))),
        ("measurements", document_row("m", DATA.fingerprint, make_measurement())),
    ]
    too_large = ("results", result_row("s", DATA.fingerprint, make_result(cu.Lane())) | {"seed": 2**70})
    with pytest.raises(OverflowError):
        store.add_rows([*good, too_large])
    with Store(store.path) as other:
        assert [other.keys(table) for table, _ in good] == [set()] * 3
    store.add_rows(good)
    with Store(store.path) as other:
        assert (other.data(), other.get("r")) == ([DATA], make_result(cu.Lane()))
        assert other.measurements(DATA.fingerprint) == [make_measurement()]


def test_a_full_disk_leaves_no_part_of_many_rows(store: Store) -> None:
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    rows = [("results", result_row(str(i), "x", make_result(cu.Lane()))) for i in range(100)]
    with pytest.raises(cu.MachineFault, match=r"full.*intact"):
        store.add_rows(rows)
    assert store.keys("results") == set()


def test_a_store_with_results_of_another_engine_is_told(store: Store) -> None:
    store.check_engine()
    store.add("a", "x", make_result(cu.Lane()))
    store.check_engine()
    store.add_rows([("results", result_row("b", "x", make_result(cu.Lane())) | {"engine": ENGINE - 1})])
    with refused(store.path, f"engine {ENGINE - 1}", ENGINE):
        store.check_engine()
