"""Sizes, ages and paths as people read and type them."""

from pathlib import Path

import pytest

from class_uncertainty.reporting.kept_table import age_text, print_kept, size_text, typed
from class_uncertainty.runs.housekeeping import Kept


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (512, "512 bytes"), (1000, "1.0 kB"), (9949, "9.9 kB"), (9951, "10 kB"), (999_600, "1.0 MB"),
     (12 * 10**9, "12 GB"), (5 * 10**15, "5000 TB")],
)  # fmt: skip
def test_sizes(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59, "just now"), (61, "1 minute ago"), (7300, "2 hours ago"), (86400 * 45, "45 days ago")],
)
def test_ages(seconds, text):
    assert age_text(seconds) == text


def test_paths_are_short_and_quoted(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert typed(Path("runs.sqlite")) == "runs.sqlite"
    assert typed(tmp_path / "work" / "my runs.sqlite") == "'my runs.sqlite'"
    assert typed(tmp_path / ".cache" / "a b") == "~/'.cache/a b'"
    assert typed(Path("/elsewhere/x")) == "/elsewhere/x"


@pytest.mark.parametrize("columns", [80, 110])
def test_a_narrow_terminal_keeps_the_contents(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    entry = Path("/home/someone/.cache/class-uncertainty/decoded/6d30219ad81c0c27d5b01dd61bf02914")
    print_kept([Kept("cache", entry, "decoded images of photos", (), 12 * 10**9, 86400.0 * 45, "")])
    out = capsys.readouterr().out
    assert "decoded images of photos" in out
    assert "12 GB" in out
    assert max(map(len, out.splitlines())) <= columns


def test_a_long_list_is_cut_and_counted(capsys):
    print_kept(
        [Kept("cache", Path(f"/cache/{i}"), "images", (), 1000, 0.0, "it is open" * (i == 0)) for i in range(33)]
    )
    out = capsys.readouterr().out
    assert "images, in use" in out
    assert "/cache/29 " in out
    assert "/cache/30 " not in out
    assert "And 3 more, 3.0 kB: --json lists all." in out
    assert out.endswith("33 kB in all.\n")
