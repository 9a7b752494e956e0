"""cu clean: shows what is kept, and removes what is asked for once it is allowed to."""

import json
import os
import time
from pathlib import Path

import pytest
from commands import Run


@pytest.fixture
def kept(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a training under way, and an empty cache."""
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", str(tmp_path / "cache"))
    assert run("measure", "digits-lt:20", "--epochs", "100", "--members", "2", "--budget", "1s")[0] == 3
    return tmp_path


def present(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_without_a_kind_nothing_is_removed(run: Run, kept: Path) -> None:
    code, out, err = run("clean", "--yes")
    assert (code, err) == (0, "")
    assert "runs.sqlite.running   checkpoints   2 trainings under way" in out
    assert "0 results, 0 networks" in out
    assert out.endswith("removes them; --older-than 30d keeps newer ones.\n")
    assert present(kept) == {"runs.sqlite", "runs.sqlite.running"}


def test_where_nobody_can_be_asked_yes_is_needed(run: Run, kept: Path) -> None:
    code, _, err = run("clean", "--checkpoints")
    assert code == 2
    assert "--yes" in err
    assert run("clean", "--checkpoints", "--json")[:2] == (2, "")
    assert present(kept) == {"runs.sqlite", "runs.sqlite.running"}
    code, out, _ = run("clean", "--checkpoints", "--yes")
    assert code == 0
    assert "Removed 1, " in out
    assert present(kept) == {"runs.sqlite"}
    code, out, _ = run("clean", "--checkpoints")  # nothing is left to ask about
    assert (code, out[-20:]) == (0, "Removed 0, 0 bytes.\n")


def test_a_store_goes_with_its_checkpoints(run: Run, kept: Path) -> None:
    code, out, _ = run("clean", str(kept), "--stores", "--yes", "--json")
    assert code == 0
    document = json.loads(out)
    assert [(one["kind"], one["removed"]) for one in document["kept"]] == [("checkpoints", True), ("stores", True)]
    assert document["left_alone"] == []
    assert present(kept) == set()


def test_only_what_is_old(run: Run, kept: Path) -> None:
    assert "Removed 0" in run("clean", "--stores", "--older-than", "1h", "--yes")[1]
    earlier = time.time() - 31 * 86400
    os.utime(kept / "runs.sqlite", (earlier, earlier))
    assert "31 days ago" in run("clean", "--older-than", "30d")[1]
    assert "Removed 1" in run("clean", "--stores", "--older-than", "30d", "--yes")[1]
    assert present(kept) == {"runs.sqlite.running"}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_the_user_is_asked(
    run: Run, kept: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ended, _, err = run("clean", "--checkpoints")
    assert ended == code
    assert "Remove 1 of them" in err
    assert ("runs.sqlite.running" in present(kept)) is bool(code)


@pytest.mark.parametrize("age", ["soon", "30", "-3d", "1.5d", ""])
def test_an_age_that_is_none(run: Run, age: str) -> None:
    code, _, err = run("clean", "--older-than", age)
    assert code == 2
    assert f"--older-than is {age!r}" in err


def test_a_folder_that_is_not_there(run: Run) -> None:
    code, _, err = run("clean", "nosuch")
    assert (code, err) == (2, "cu: nosuch is not a folder: give one that holds stores.\n")
