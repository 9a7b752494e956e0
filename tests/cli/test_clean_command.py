"""cu clean: removes what is asked for once it is allowed to, and nothing else."""

import io
import json
import os
import sys
import time
from pathlib import Path

import pytest

ENTRY = "0123456789abcdef" * 2
STORE, RUNNING, GONE = "runs.sqlite", "runs.sqlite.running", "gone.sqlite.running"
CACHED = f"cache/{ENTRY}.cache"
DAY = 86400


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A store with a training under way, another that was stopped 31 days ago and whose store is gone, and a cache."""
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "cache"))
    (tmp_path / STORE).write_bytes(b"a store")
    files = [tmp_path / CACHED, *(tmp_path / folder / f"{ENTRY}.safetensors" for folder in (RUNNING, GONE))]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(bytes(1000))
    age(tmp_path / GONE, 31)
    return tmp_path


def age(path: Path, days: float) -> None:
    """Date a file, or the files of a folder, back."""
    earlier = time.time() - days * DAY
    for file in path.iterdir() if path.is_dir() else [path]:
        os.utime(file, (earlier, earlier))


def present(folder: Path) -> set[str]:
    return {name for name in (STORE, RUNNING, GONE, CACHED) if (folder / name).exists()}


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("", {STORE, RUNNING, CACHED}),
        ("--cache", {STORE, RUNNING}),
        ("--older-than 10", {STORE, RUNNING, CACHED}),
        ("--older-than 0.5", {STORE}),
        ("--older-than 0.5 --cache", {STORE}),
    ],
)
def test_what_is_asked_for_is_removed(run, kept, words, left):
    age(kept / RUNNING, 1)
    age(kept / CACHED, 1)
    code, out, err = run(f"clean {words} --yes --json")
    assert (code, err) == (0, "")
    assert present(kept) == left
    document = json.loads(out)
    removed = {str(Path(one["path"]).absolute().relative_to(kept)) for one in document["removed"]}
    assert removed == {STORE, RUNNING, GONE, CACHED} - left
    assert {one["bytes"] for one in document["removed"]} == {1000}
    assert document["left_alone"] == []


def test_what_is_in_use_is_left_alone(run, kept):
    (kept / "gone.sqlite-journal").touch()
    code, out, _ = run("clean", str(kept), "--yes")
    assert code == 0
    assert "Left alone: " in out
    assert GONE in present(kept)


@pytest.mark.parametrize("words", ["", "--json"])
def test_where_nobody_can_be_asked_yes_is_needed(run, kept, words):
    code, _, err = run(f"clean --cache {words}")
    assert code == 2
    assert "--yes" in err
    assert present(kept) == {STORE, RUNNING, GONE, CACHED}


def test_where_there_is_nothing_to_remove_nobody_is_asked(run, kept):
    assert run("clean --yes")[0] == 0
    assert run("clean")[:2] == (0, "Nothing was removed.\n")
    assert present(kept) == {STORE, RUNNING, CACHED}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_the_user_is_asked(run, kept, monkeypatch, answer, code):
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ended, out, _ = run("clean")
    assert ended == code
    assert f"{GONE}: 1.0 kB\n" in out
    assert (GONE in present(kept)) is bool(code)
    assert {STORE, RUNNING, CACHED} <= present(kept)


@pytest.mark.parametrize("days", ["soon", "30d", "-3", "0", "nan", ""])
def test_an_age_that_is_none(run, kept, days):
    code, _, err = run("clean --older-than", days, "--yes")
    assert (code, err.count("\n")) == (2, 1)
    assert "--older-than" in err
    assert present(kept) == {STORE, RUNNING, GONE, CACHED}


def test_a_folder_that_is_not_there(run):
    code, _, err = run("clean nosuch")
    assert (code, err) == (2, "cu: nosuch is not a folder: give one that holds stores.\n")
