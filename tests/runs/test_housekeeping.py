"""What may be removed is found and removed, and nothing else: no store, nothing in use, no file of the user."""

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
from class_uncertainty.runs.housekeeping import Item, find_beside_stores, find_cached, remove

RECIPE = cu.Recipe("small-conv", epochs=3, batch=32)
HOUR = 3600


@pytest.fixture
def place(tmp_path, monkeypatch):
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


def age(path: Path, seconds: float) -> None:
    """Date a file, or the files of a folder, back."""
    earlier = time.time() - seconds
    for file in path.iterdir() if path.is_dir() else [path]:
        os.utime(file, (earlier, earlier))


def found(place: Path) -> list[Item]:
    return [*find_beside_stores(place), *find_cached()]


def written(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_the_cache(place):
    decode()
    decode(number=40, other=1)
    small, large = sorted(find_cached(), key=lambda item: item.size)
    assert large.size > small.size > 4 * 64
    assert 0 <= large.age < 60
    assert not large.is_left_behind
    assert remove(large) == ""
    assert [item.path for item in find_cached()] == [small.path]
    decode(number=40, other=1)  # it is decoded again
    assert len(list(find_cached())) == 2


def test_checkpoints_are_found_but_no_store_and_none_of_its_results(place, digits):
    store = measure(place, digits, budget=1e-6)
    (running,) = found(place)
    assert (running.path, running.store, running.is_left_behind) == (place / "runs.sqlite.running", store, False)
    assert running.size == sum(path.stat().st_size for path in running.path.iterdir())
    assert remove(running) == ""
    assert written(place) == ["runs.sqlite"]
    measure(place, digits)
    assert (place / "runs.sqlite.estimates").is_dir()
    assert found(place) == []


def test_what_a_store_that_is_gone_has_left(place, digits):
    measure(place, digits)
    (place / "runs.sqlite.running").mkdir()
    (place / "runs.sqlite.running" / f"{'a' * 32}.safetensors").write_bytes(b"x")
    (place / "runs.sqlite").unlink()
    left = found(place)
    assert [item.path.name for item in left] == ["runs.sqlite.estimates", "runs.sqlite.running"]
    assert all(item.is_left_behind for item in left)
    assert all("less than 10 minutes ago" in remove(item) for item in left)  # by a process that may go on
    for item in left:
        age(item.path, 601)
    assert [remove(item) for item in left] == ["", ""]
    assert written(place) == []


def test_what_others_made_is_neither_found_nor_removed(place, digits):
    store = measure(place, digits, budget=1e-6)
    (place / "notes.running").mkdir()
    (place / "notes.running" / "mine.safetensors").write_bytes(b"x")
    (place / "linked.running").symlink_to(place / "runs.sqlite.running")
    (place / "runs.sqlite.running" / "mine.txt").write_text("x")
    decode()
    entry = next((place / "cache").iterdir())
    (place / "cache" / "photos").mkdir()
    (place / "cache" / f"{'a' * 32}.cache").mkdir()
    (place / "cache" / "mine.cache").write_bytes(b"x")
    (place / "cache" / f"{'b' * 32}.cache").symlink_to(place / "cache" / "mine.cache")
    items = found(place)
    assert [item.path for item in items] == [place / "runs.sqlite.running", entry]
    assert [remove(item) for item in items] == ["", ""]
    left = {"notes.running/mine.safetensors", "linked.running", "runs.sqlite.running/mine.txt"}
    left |= {"cache/photos", "cache/mine.cache", f"cache/{'a' * 32}.cache", f"cache/{'b' * 32}.cache"}
    assert left <= set(written(place))
    assert store.exists()
    assert not entry.exists()


def test_checkpoints_of_a_store_that_another_process_has_open_are_left_alone(place, digits):
    store = measure(place, digits, budget=1e-6)
    before = written(place)
    code = "import sys; from class_uncertainty.runs import Store\nwith Store(sys.argv[1]): print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        (running,) = found(place)
        assert str(store) in remove(running)  # open there, or written just now
        process.stdin.close()
    assert written(place) == before
    assert not housekeeping.PROCESSES.is_dir() or remove(running) == ""


def test_where_the_system_does_not_tell_what_is_new_counts_as_in_use(place, digits, monkeypatch):
    measure(place, digits, budget=1e-6)
    monkeypatch.setattr(housekeeping, "PROCESSES", place / "nowhere")
    (running,) = found(place)
    assert "less than 10 minutes ago" in remove(running)
    age(running.path, 601)
    journal = place / "runs.sqlite-journal"
    journal.touch()
    assert "in the middle of a transaction" in remove(running)
    journal.unlink()
    assert remove(running) == ""


def test_what_a_killed_process_left_in_the_cache_goes_after_a_day(place):
    partial = place / "cache" / f"{'a' * 32}.cache.1-2.partial"
    partial.parent.mkdir()
    partial.write_bytes(bytes(100))
    age(partial, 23 * HOUR)
    assert found(place) == []
    age(partial, 25 * HOUR)
    (item,) = found(place)
    assert item.is_left_behind
    assert remove(item) == ""
    assert written(place / "cache") == []


def test_a_folder_that_is_none(place):
    with pytest.raises(cu.InputError, match="is not a folder"):
        found(place / "nosuch")
    assert found(place) == []  # no cache yet
