"""Tables that fit, names that are not markup, JSON that any program reads."""

import io
import json
import sys

import pytest
from rich.cells import cell_len

from class_uncertainty.reporting import terminal


def test_class_names_are_not_markup(capsys):
    terminal.print_table(["class"], [["[red]"], ["[/b]"]])
    out = capsys.readouterr().out
    assert "[red]" in out
    assert "[/b]" in out


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        ("short", 20, ["short"]),
        ("one two three four", 9, ["one two", "three", "four"]),  # narrower lines would be more
        ("one two three four", 14, ["one two", "three four"]),
        ("an interval of 95 % or so", 18, ["an interval of", "95 % or so"]),
        ("the error is 7.25 ± 1.38", 20, ["the error is", "7.25 ± 1.38"]),
        ("  and more of these", 12, ["  and more", "of these"]),
        ("a /very/long/path/that/has/no/spaces", 12, ["a", "/very/long/path/that/has/no/spaces"]),
        ("", 12, [""]),
        ("猫 is taken for 日本語クラス", 16, ["猫 is taken for", "日本語クラス"]),  # of two cells a character
    ],
)
def test_lines_keep_units_and_leave_no_word_alone(line, width, lines):
    assert terminal.wrapped(line, width).split("\n") == lines


def test_json_has_no_infinity_and_no_control_characters(capsys):
    document = {"a": [float("inf"), float("nan"), 1.5], "b": ("x\x1b[2J", "größe 犬"), "c": None}
    terminal.print_json(document)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "größe 犬" in out
    assert json.loads(out) == {"a": [None, None, 1.5], "b": ["x\x1b[2J", "größe 犬"], "c": None}


@pytest.mark.parametrize("width", [12, 40])
def test_a_wide_table_is_whole_on_a_narrow_terminal(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    terminal.print_table(("row", "against", "ours"), [("Two-stage resampling", "LDAM+Reweighting-later", "-0.855")])
    lines = capsys.readouterr().out.splitlines()
    assert any("Two-stage" in line and "LDAM+Reweighting-later" in line and "-0.855" in line for line in lines)


@pytest.mark.parametrize("width", [20, 24, 28, 40, 80])
def test_names_of_wide_characters_are_aligned_and_whole(width):
    """The last column ends where the others do, in cells, and no character is lost where a name is wrapped."""
    name = "とても長い日本語のクラスの名前"
    rows = [("猫", "120", "0.5"), (name, "7", "12.5"), ("cat", "1,200", "3.0")]
    lines = terminal.table_lines(("class", "train", "error"), rows, width)
    with_numbers = [line for line in lines if line[-1].isdigit() or line.endswith("error")]
    assert len(with_numbers) == 4
    assert len(set(map(cell_len, with_numbers))) == 1
    assert all(character in "".join(lines) for character in name)
    if width >= 40:
        assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("", terminal.PIPE_WIDTH), ("wide", terminal.PIPE_WIDTH)])
def test_a_pipe_is_as_wide_as_columns_says(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.console().width == width


@pytest.mark.parametrize(("term", "shows"), [("xterm", True), ("dumb", False)])
def test_a_bar_is_shown_where_it_can_be_drawn(monkeypatch, term, shows):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term)
    with terminal.progress_bars("images") as progress:
        progress("decoding", 1, 2)
    assert ("decoding" in stream.getvalue()) == shows
    assert bool(stream.getvalue()) == shows
