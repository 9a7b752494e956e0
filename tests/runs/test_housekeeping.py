"""What is kept on disk is found and removed, and nothing that class-uncertainty did not make."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.data.cache import Decoding, cached
from class_uncertainty.runs import housekeeping
from class_uncertainty.runs.housekeeping import CACHE, CHECKPOINTS, STORES, find_kept, remove

RECIPE = cu.Recipe("small-conv", epochs=3, batch=32)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def decode(number: int = 4, **options: int) -> None:
    images = np.zeros((number, 1, 8, 8), dtype=np.uint8)
    cached("photos", [], lambda: Decoding(np.zeros(number, int), ["a"], (1, 8, 8), iter([images])), **options)


def measure(place: Path, digits: cu.Dataset, budget: float | None = None) -> Path:
    store = place / "runs.sqlite"
    try:
        cu.measure(digits, members=2, recipe=RECIPE, store=store, budget=budget)
    except cu.Unfinished:
        assert budget
    return store


def written(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_the_cache(place: Path) -> None:
    decode()
    decode(number=40, other=1)
    large, small = find_kept(place, [CACHE])
    assert large.size > small.size > 4 * 64
    assert {large.about, small.about} == {"decoded images of photos"}
    assert 0 <= large.age < 60
    assert remove(large) == ""
    assert find_kept(place) == [small]
    decode(number=40, other=1)  # it is decoded again
    assert len(find_kept(place)) == 2


def test_a_store_and_its_checkpoints(place: Path, digits: cu.Dataset) -> None:
    store = measure(place, digits, budget=1e-6)
    running, stored = find_kept(place, [CHECKPOINTS, STORES])
    assert (running.path, stored.path) == (place / "runs.sqlite.running", store)
    assert running.about == "2 trainings under way"
    assert stored.about == "0 results, 0 networks"
    assert remove(running) == ""
    assert written(place) == ["runs.sqlite"]
    measure(place, digits)
    (stored,) = find_kept(place, [CHECKPOINTS, STORES])
    assert stored.about == "2 results, 2 networks"
    assert len(stored.files) == 2  # the probabilities too
    assert stored.size == sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    assert remove(stored) == ""
    assert written(place) == []


def test_probabilities_whose_store_is_gone(place: Path, digits: cu.Dataset) -> None:
    measure(place, digits).unlink()
    (left,) = find_kept(place)
    assert (left.kind, left.about) == (STORES, "probabilities whose store is gone")
    assert remove(left) == ""
    assert written(place) == []


def test_what_others_made_is_neither_listed_nor_removed(place: Path, digits: cu.Dataset) -> None:
    import sqlite3

    store = measure(place, digits, budget=1e-6)
    other = sqlite3.connect(place / "other.sqlite")
    other.execute("CREATE TABLE results (a)")
    other.commit()
    other.close()
    (place / "notes.running").mkdir()
    (place / "notes.running" / "mine.safetensors").write_bytes(b"x")
    (place / "runs.sqlite.running" / "mine.txt").write_text("x")
    decode()
    entry = next((place / "cache").iterdir())
    (place / "cache" / "photos").mkdir()
    (place / "cache" / ("a" * 32)).mkdir()
    (place / "cache" / ("a" * 32) / "mine.npy").write_bytes(b"x")
    (place / "cache" / ("b" * 32)).symlink_to(place / "cache" / "photos")
    (place / "linked.sqlite").symlink_to(store)
    kept = find_kept(place)
    assert [one.path for one in kept] == [entry, place / "runs.sqlite.running", store]
    assert [remove(one) for one in kept] == ["", "", ""]
    left = {"other.sqlite", "notes.running/mine.safetensors", "runs.sqlite.running/mine.txt", "linked.sqlite"}
    left |= {"cache/photos", f"cache/{'a' * 32}/mine.npy", f"cache/{'b' * 32}"}
    assert left <= set(written(place))
    assert not store.exists()


def test_a_store_that_another_process_has_open_is_left_alone(place: Path, digits: cu.Dataset) -> None:
    store = measure(place, digits, budget=1e-6)
    code = "import sys; from class_uncertainty.runs import Store\nwith Store(sys.argv[1]): print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        kept = find_kept(place, [CHECKPOINTS, STORES])
        if housekeeping.PROCESSES.is_dir():
            assert [remove(one) for one in kept] == [f"{store} is open in another process"] * 2
        process.stdin.close()
    assert len(written(place)) == 4
    assert [one.in_use for one in find_kept(place, [CHECKPOINTS, STORES])] == ["", ""]
    assert "open in another process" in remove(kept[0])  # as it was listed


def test_where_the_system_does_not_tell_what_is_new_counts_as_in_use(
    place: Path, digits: cu.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = measure(place, digits, budget=1e-6)
    monkeypatch.setattr(housekeeping, "PROCESSES", place / "nowhere")
    (stored,) = find_kept(place, [STORES])
    assert remove(stored) == f"{store} was written less than 10 minutes ago, and may be in use"
    earlier = time.time() - 601
    os.utime(store, (earlier, earlier))
    (stored,) = find_kept(place, [STORES])
    Path(f"{store}-journal").touch()
    assert remove(stored) == f"{store} is in the middle of a transaction"
    Path(f"{store}-journal").unlink()
    assert remove(stored) == ""


def test_what_a_killed_process_left_goes_after_a_day(place: Path) -> None:
    partial = place / "cache" / "partial-abc123"
    partial.mkdir(parents=True)
    (partial / "inputs.npy").write_bytes(bytes(100))
    (kept,) = find_kept(place)
    assert remove(kept) == f"{partial} is being written"
    earlier = time.time() - 25 * 3600
    os.utime(partial / "inputs.npy", (earlier, earlier))
    (kept,) = find_kept(place)
    assert (kept.about, remove(kept)) == ("left by a process that was killed", "")
    assert written(place / "cache") == []


def test_a_folder_that_is_none(place: Path) -> None:
    with pytest.raises(cu.InputError, match="is not a folder"):
        find_kept(place / "nosuch")
    assert find_kept(place) == []  # no cache yet
