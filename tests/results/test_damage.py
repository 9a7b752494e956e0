"""Damage to a store: told of in a line, never taken for another result."""

import io
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.estimation import Asked
from class_uncertainty.results import Store
from class_uncertainty.results.runs import measured, run

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)


def lanes(*seeds: int) -> list[cu.Lane]:
    return [cu.Lane("naive", seed) for seed in seeds]


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
    store.add_data(digits)
    measured(store, digits, RECIPE, [Asked("ensemble", 2)])
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
    assert [len(rows) for name, rows in after.items() if name != table] == [len(rows) for name, rows in before.items() if name != table]
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
def test_damaged_probabilities_are_measured_again(damage: str, tmp_path: Path, digits: cu.Dataset, notices: list[str]) -> None:
    """A file beside the store that is not as it was written: one line, and the same bits as before."""
    asked = [Asked("single"), Asked("single", seed=1)]
    with Store(tmp_path / "runs.sqlite") as store:
        before = [measured(store, digits, RECIPE, [one])[0].probabilities for one in asked]  # one by one: on a GPU as later
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
        again = [measured(store, digits, RECIPE, [one])[0].probabilities for one in asked]
    assert all(np.array_equal(old, new) for old, new in zip(before, again, strict=True))
    assert len(notices) == 1
    assert "'estimates'" in notices[0]


def test_probabilities_stay_on_disk_until_they_are_touched(store: Store, digits: cu.Dataset) -> None:
    measured(store, digits, RECIPE, [Asked("single")])
    (estimate,) = store.estimates(digits.fingerprint)
    assert isinstance(estimate.probabilities, np.memmap)


def test_rows_of_older_versions_are_read_and_counted(tmp_path: Path, digits: cu.Dataset, notices: list[str]) -> None:
    """A store without checksums, whose probabilities are in the row itself."""
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        store.add_data(digits)
        (found,) = measured(store, digits, RECIPE, [Asked("ensemble", 2)])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, labels=found.labels, probabilities=found.probabilities)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE estimates SET labels_and_probabilities = ?", (buffer.getvalue(),))
        for table in ("data", "results", "estimates", "networks", "mended"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with Store(path) as store:
        (again,) = store.estimates(digits.fingerprint)
        assert np.array_equal(again.probabilities, found.probabilities)
        assert again.results == found.results
        assert len(store.results(digits.fingerprint)) == 2
        assert notices == []
    assert len(notices) == 1
    assert "3 rows" in notices[0]
    assert "no checksum" in notices[0]


def test_an_older_store_that_cannot_be_written_to_is_read(tmp_path: Path, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        run(store, digits, lanes(0), RECIPE, None)
    with sqlite3.connect(path) as connection:
        for table in ("data", "results", "estimates", "networks", "mended"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    content, connect = path.read_bytes(), sqlite3.connect

    def read_only(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with Store(path) as store:
        assert len(store.results(digits.fingerprint)) == 1
    assert path.read_bytes() == content


def test_estimates_wait_for_their_folder(store: Store, digits: cu.Dataset, notices: list[str]) -> None:
    """A store that was moved without it: what is right by its checksum is not removed."""
    measured(store, digits, RECIPE, [Asked("single")])
    away = store.path.with_name("away")
    shutil.move(store.estimates_folder, away)
    assert store.estimates(digits.fingerprint) == []
    assert len(notices) == 1
    shutil.move(away, store.estimates_folder)
    assert len(store.estimates(digits.fingerprint)) == 1


def test_what_another_process_has_put_in_a_damaged_row_s_place_stays(store: Store, digits: cu.Dataset) -> None:
    run(store, digits, lanes(0), RECIPE, None)
    damaged = {"rowid": 1, "checksum": "of before"}
    store._drop("results", damaged, "was damaged")
    assert len(store.results(digits.fingerprint)) == 1


def test_a_disk_that_does_not_keep_what_is_written(store: Store, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "get", lambda store, key: None)
    with pytest.raises(cu.MachineFault, match="does not give back"):
        run(store, digits, lanes(0), RECIPE, None)


def test_files_of_a_killed_process_are_swept(store: Store, digits: cu.Dataset) -> None:
    store.estimates_folder.mkdir()
    for name, age in (("old.partial", 25 * 3600), ("new.partial", 0)):
        (store.estimates_folder / name).touch()
        os.utime(store.estimates_folder / name, times=(0, (store.estimates_folder / name).stat().st_mtime - age))
    measured(store, digits, RECIPE, [Asked("single")])
    assert {path.name for path in store.estimates_folder.glob("*.partial")} == {"new.partial"}


def test_random_bits_of_the_file(tmp_path: Path, digits: cu.Dataset, notices: list[str]) -> None:
    """A bit anywhere: rows are as they were or gone, or the file is refused; no value is another."""
    path, rng = tmp_path / "runs.sqlite", np.random.default_rng(0)
    with Store(path) as store:
        store.add_data(digits)
        measured(store, digits, RECIPE, [Asked("ensemble", 2)])
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
