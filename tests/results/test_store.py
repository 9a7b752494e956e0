"""The store: what went in comes out, keys know all that matters, damage is told in one sentence, and a kill loses little."""

import dataclasses
import os
import re
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

import class_uncertainty as cu
from class_uncertainty.estimation import Asked
from class_uncertainty.results import Store
from class_uncertainty.results.runs import measured, missing, run
from class_uncertainty.results.store import VERSION, estimate_key
from class_uncertainty.training.job import Epoch
from class_uncertainty.training.keys import lane_key

RECIPE = cu.Recipe("small-conv", epochs=2, batch=32)
STATS = cu.Stats([30, 20, 10], [0.1, 0.2, 0.4])


def lanes(*seeds: int) -> list[cu.Lane]:
    return [cu.Lane("naive", seed) for seed in seeds]


def test_round_trip(store: Store, digits: cu.Dataset) -> None:
    store.add_data(digits)
    fitted = cu.fit(digits.train, [cu.Lane("ldam", 1, 0.2, (0, 4)), cu.Lane("naive", lr=1e30)], recipe=RECIPE, test=digits.test)
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
    found = cu.estimate(digits, name, 2, RECIPE, score="true-class" if name == "ensemble" else None)
    store.add_estimate("key", digits.fingerprint, found)
    back = store.get_estimate("key")
    assert back is not None
    assert (back.estimator, back.score, back.cost, back.results) == (found.estimator, found.score, found.cost, found.results)
    assert (back.probabilities.dtype, back.labels.dtype) == (np.float32, np.int64)
    for part in ("probabilities", "labels", "uncertainty", "raw", "class_errors"):
        assert np.array_equal(getattr(back, part), getattr(found, part)), part
    assert back.own.keys() == found.own.keys() == {"ensemble": set(), "online": {"aleatoric", "epistemic"}, "duq": {"kernel"}}[name]
    assert all(np.array_equal(back.own[score], values) for score, values in found.own.items())
    assert [each.estimator for each in store.estimates(digits.fingerprint)] == [name]
    assert store.get_estimate("other") is None


def test_nothing_is_trained_twice(store: Store, digits: cu.Dataset) -> None:
    """A second run finds the first's results; a larger one trains only what is new, in the order asked for."""
    told: list[Epoch] = []
    trained = lambda: sum(len(news.lanes) for news in told)  # noqa: E731
    first = run(store, digits, lanes(0, 1), RECIPE, None, progress=told.append)
    assert trained() == 4
    assert run(store, digits, lanes(0, 1), RECIPE, None, progress=told.append) == first
    assert trained() == 4
    more = run(store, digits, lanes(2, 1, 0), RECIPE, None, progress=told.append)
    assert trained() == 6
    assert [result.seed for result in more] == [2, 1, 0]
    assert more[1:] == first[::-1]


def test_members_serve_as_naive_lanes(store: Store, digits: cu.Dataset) -> None:
    (found,) = measured(store, digits, RECIPE, [Asked("ensemble", 3)])
    (again,) = measured(store, digits, RECIPE, [Asked("ensemble", 3)], progress=lambda n: pytest.fail("trained again"))
    assert np.array_equal(found.probabilities, again.probabilities)
    assert found.results == again.results
    assert missing(store, digits, lanes(0, 1, 2, 3), RECIPE, None) == lanes(3)


def test_key_knows_all_that_determines_a_result() -> None:
    """Each ingredient changes the key; a name for the default learning rate does not."""
    base = {"data": "d", "lane": cu.Lane("ubrw"), "recipe": RECIPE, "stats": STATS, "device": "cpu"}
    changed = {
        "data": {"data": "e"},
        "method": {"lane": cu.Lane("ubrs")},
        "seed": {"lane": cu.Lane("ubrw", 1)},
        "lr": {"lane": cu.Lane("ubrw", lr=0.2)},
        "fold": {"lane": cu.Lane("ubrw", fold=(0, 2))},
        "other fold": {"lane": cu.Lane("ubrw", fold=(1, 2))},
        "bootstrap": {"lane": cu.Lane("ubrw", bootstrap=True)},
        "measure": {"lane": cu.Lane("ubrw@product")},
        "augmentation": {"lane": cu.Lane("ubrw+mixup")},
        "uncertainty": {"stats": cu.Stats([30, 20, 10], [0.1, 0.2, 0.5])},
        "counts": {"stats": cu.Stats([30, 20, 11], [0.1, 0.2, 0.4])},
        "device": {"device": "cuda"},
        **{
            field.name: {"recipe": dataclasses.replace(RECIPE, **{field.name: value})}
            for field, value in zip(dataclasses.fields(RECIPE), _other(RECIPE), strict=True)
        },
    }
    keys = {name: lane_key(**(base | change)) for name, change in changed.items()}
    assert len({lane_key(**base), *keys.values()}) == len(keys) + 1
    assert lane_key(**(base | {"lane": cu.Lane("ubrw", lr=RECIPE.lr)})) == lane_key(**base)
    assert lane_key(**(base | {"lane": cu.Lane("ubrw", gather="online")})) == lane_key(**base)  # what is watched is the same training
    weighted = [cu.Method(weight=dataclasses.replace(cu.METHODS["ubrw"].knobs["weight"]), reduction=r) for r in ("mean", "weights")]
    assert len({lane_key(**(base | {"lane": cu.Lane(method)})) for method in weighted}) == 2


def _other(recipe: cu.Recipe) -> list[object]:
    """Another value for each field."""
    values = [getattr(recipe, field.name) for field in dataclasses.fields(recipe)]
    return [not v if isinstance(v, bool) else v + "x" if isinstance(v, str) else (0.5,) if isinstance(v, tuple) else v + 1 for v in values]


def test_a_measure_that_does_not_count_does_not_change_the_key() -> None:
    """A naive lane is the same whatever is known of the classes' uncertainty."""
    plain = lane_key("d", cu.Lane("naive"), RECIPE, cu.Stats([30, 20, 10]), "cpu")
    assert lane_key("d", cu.Lane("naive"), RECIPE, STATS, "cpu") == plain


def test_estimate_keys_differ() -> None:
    keys = {estimate_key(estimator, lanes) for estimator in ("ensemble", "x") for lanes in (["a"], ["a", "b"], ["b", "a"])}
    assert len(keys) == 6


@pytest.mark.parametrize("content", [b"not a database, but long enough to be read as one" * 40, b"SQLite format 3\x00" + b"\xff" * 200])
def test_not_a_store(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    path.write_bytes(content)
    with pytest.raises(cu.InputError, match=r"runs\.sqlite is not a store"):
        Store(path)
    assert path.read_bytes() == content


def test_a_newer_store_and_another_programs(tmp_path: Path) -> None:
    newer, other = tmp_path / "newer.sqlite", tmp_path / "other.sqlite"
    for path, statement in ((newer, f"PRAGMA user_version = {VERSION + 1}"), (other, "CREATE TABLE bookmarks (url)")):
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
    with pytest.raises(cu.InputError, match="written by a newer version"):
        Store(newer)
    with pytest.raises(cu.InputError, match="another program's"):
        Store(other)


def test_unwritable_and_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(cu.InputError, match="file is not a folder"):
        Store(tmp_path / "file" / "runs.sqlite")
    with pytest.raises(cu.InputError, match="is a folder: give the name of an SQLite file"):
        Store(tmp_path)
    with pytest.raises(cu.InputError, match="does not exist"):
        Store(tmp_path / "none.sqlite", create=False)
    assert not (tmp_path / "none.sqlite").exists()


def test_memory_is_a_file_name_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Store(":memory:").connection.close()
    assert (tmp_path / ":memory:").is_file()


def test_a_full_disk_loses_nothing_that_was_stored(store: Store, digits: cu.Dataset) -> None:
    """SQLite is told that it has no more pages, which is what it sees of a full disk."""
    (result,) = run(store, digits, lanes(0), RECIPE, None)
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for i in range(1000):
            store.add(str(i), digits.fingerprint, result)

    with pytest.raises(cu.MachineFault, match="full; what it held before is intact"):
        fill()
    with Store(store.path) as reopened:
        assert reopened.results(digits.fingerprint)[0] == result


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_kill_loses_only_what_was_in_flight(how: signal.Signals, tmp_path: Path, digits: cu.Dataset) -> None:
    """Killed amid thirty lanes, the same command goes on, and the end is the same bits as without the kill."""
    path = tmp_path / "runs.sqlite"
    command = [sys.executable, "-m", "class_uncertainty.cli", "compare", digits.name, "--methods", "naive,cb-rs,cb", "--seeds", "10"]
    command += ["--epochs", "6", "--store", str(path)]
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
        assert re.search(rf"keeps what has finished \({kept} results, \d+ networks?\), and the same command goes on", errors)
        assert "Traceback" not in errors
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert stored(path) == 30
    recipe = dataclasses.replace(cu.training.default_recipe(digits.train), epochs=6)
    with Store(path) as resumed, Store(tmp_path / "whole.sqlite") as whole:
        wanted = [cu.Lane(m, s) for m in ("naive", "cb-rs", "cb") for s in range(10)]
        both = [run(s, digits, wanted, recipe, None) for s in (resumed, whole)]
    assert [r.scores for r in both[0]] == [r.scores for r in both[1]]
    assert '"runs": 10' in again.stdout


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


def test_a_redefined_estimator_is_not_served_from_the_store(store: Store, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    (before,) = measured(store, digits, RECIPE, [Asked("ensemble", 2)])
    other = dataclasses.replace(
        cu.ESTIMATORS["ensemble"], lanes=lambda members, seed: [cu.Lane(cu.Method(scale=2.0), s) for s in range(members)]
    )
    monkeypatch.setitem(cu.ESTIMATORS, "ensemble", other)
    (after,) = measured(store, digits, RECIPE, [Asked("ensemble", 2)])
    assert not np.array_equal(before.probabilities, after.probabilities)
    assert after.results[0].method.startswith("custom-")
