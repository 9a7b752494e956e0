"""Stores of older versions are read, converted and counted."""

import dataclasses
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from example_results import DATA, make_measurement
from runs.filled_stores import estimated, evaluated, everything

import class_uncertainty as cu
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.files import checksum
from class_uncertainty.runs import Store
from class_uncertainty.runs.store import VERSION


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
    with Store(store.path, create=False) as converted:
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
