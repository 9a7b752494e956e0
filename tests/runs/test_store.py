"""The store: what went in comes out, damage is told in one sentence, and a kill loses little."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from example_results import DATA, RECIPE, add_data, fill, make_measurement, make_result
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.runs import Store
from class_uncertainty.runs.store import SEALED, VERSION, dataset_row, document_row, result_row
from class_uncertainty.training.keys import ENGINE


def test_round_trip(store, digits):
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
def test_estimates_come_back_as_they_were(name, store, digits):
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
def test_not_a_store(content, tmp_path):
    path = tmp_path / "runs.sqlite"
    path.write_bytes(content)
    with refused("runs.sqlite", "not a store"):
        Store(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("layout", [1, VERSION - 1, VERSION + 1])
def test_a_store_of_another_layout_is_refused_and_stays_as_it_is(layout, tmp_path):
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        store.create_file()
        store.connection.execute(f"PRAGMA user_version = {layout}")
    content = path.read_bytes()
    for create in (True, False):
        with refused("runs.sqlite", f"layout {layout}", VERSION):
            Store(path, create)
    assert path.read_bytes() == content


def test_another_programs_file_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    with refused("other.sqlite", "another program's"):
        Store(path)


def test_every_table_has_what_its_checksum_covers_and_the_checksum(store):
    tables = [name for (name,) in store.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert sorted(tables) == sorted(SEALED)
    for table, sealed in SEALED.items():
        columns = {column[1] for column in store.connection.execute(f"PRAGMA table_info({table})")}
        assert {*sealed, "checksum"} <= columns


def test_unwritable_and_missing(tmp_path):
    (tmp_path / "file").write_text("")
    with refused("file", "not a folder"):
        Store(tmp_path / "file" / "runs.sqlite")
    with refused(tmp_path, "is a folder"):
        Store(tmp_path)
    with refused("none.sqlite", "does not exist"):
        Store(tmp_path / "none.sqlite", create=False)
    assert not (tmp_path / "none.sqlite").exists()


def test_a_read_only_folder_takes_no_new_store_and_keeps_its_stores_readable(tmp_path, monkeypatch):
    with Store(tmp_path / "old.sqlite") as old:
        old.create_file()
    monkeypatch.setattr("os.access", lambda *_: False)
    with refused("runs.sqlite could not be written: its folder is read-only", kind=cu.MachineFault):
        Store(tmp_path / "runs.sqlite")
    with Store(tmp_path / "old.sqlite") as old:
        assert old.finished == 0


def test_memory_is_a_file_name_like_any_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store(":memory:") as store:
        store.create_file()
    assert (tmp_path / ":memory:").is_file()


# what is exchanged


def test_measurements_come_back_as_they_were(store):
    measured = [make_measurement(), make_measurement(lr=0.3, class_errors=None)]
    for i, one in enumerate(measured):
        store.add_measurement(str(i), DATA.fingerprint, one)
    assert store.measurements(DATA.fingerprint) == measured
    assert store.by_key("measurements", DATA.fingerprint) == dict(zip("01", measured, strict=True))
    assert store.measurements("other") == []


def test_keys_are_those_of_sound_rows_of_every_data_set(store, notices):
    fill(store)
    add_data(store, fingerprint="0" * 32)
    store.add("elsewhere", "0" * 32, make_result(cu.Lane()))
    assert store.keys("data") == {DATA.fingerprint, "0" * 32}
    assert (store.keys("estimates"), store.keys("measurements")) == ({f"e{DATA.name}"}, {f"m{DATA.name}"})
    assert len(keys := store.keys("results")) == 10
    store.connection.execute("UPDATE results SET document = '{}' WHERE key = 'elsewhere'")
    assert store.keys("results") == keys - {"elsewhere"}
    assert len(notices) == 1


def test_values_by_key_are_of_one_data_set_and_of_this_engine(store):
    result = make_result(cu.Lane())
    for key, data in (("a", "x"), ("b", "y"), ("c", "x")):
        store.add(key, data, result)
    store.add_rows([("results", result_row("old", "x", result) | {"engine": ENGINE - 1})])
    assert store.by_key("results", "x") == {"a": result, "c": result}


def test_rows_are_added_together_or_not_at_all(store):
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


def test_a_full_disk_leaves_no_part_of_many_rows(store):
    store.create_file()
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    rows = [("results", result_row(str(i), "x", make_result(cu.Lane()))) for i in range(100)]
    with pytest.raises(cu.MachineFault, match=r"full.*intact"):
        store.add_rows(rows)
    assert store.keys("results") == set()


def test_a_store_with_results_of_another_engine_is_told(store):
    store.check_engine()
    store.add("a", "x", make_result(cu.Lane()))
    store.check_engine()
    store.add_rows([("results", result_row("b", "x", make_result(cu.Lane())) | {"engine": ENGINE - 1})])
    with refused(store.path, f"engine {ENGINE - 1}", ENGINE):
        store.check_engine()
