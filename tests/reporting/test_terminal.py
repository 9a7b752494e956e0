"""Tables that fit, names that are not markup, JSON that any program reads."""

import io
import json
import sys

import pytest
from rich.cells import cell_len
from rich.console import Console

from class_uncertainty.reporting import terminal


def test_class_names_are_not_markup(capsys):
    terminal.console().print(terminal.plain_table(["class"], [["[red]"], ["[/b]"]]))
    out = capsys.readouterr().out
    assert "[red]" in out
    assert "[/b]" in out


@pytest.mark.parametrize(("width", "dropped"), [(40, ""), (20, "second"), (12, "second, third")])
def test_columns_are_dropped_in_order_until_the_table_fits(width, dropped, monkeypatch, capsys):
    monkeypatch.setattr(terminal, "PIPE_WIDTH", width)
    terminal.print_fitting(("first", "second", "third"), [("one", "two", "three")], drop=("second", "third"))
    out = " ".join(capsys.readouterr().out.split())
    assert ("No room" in out) == bool(dropped)
    assert not dropped or f"No room for {dropped}:" in out


def test_a_small_column_comes_back_beside_those_that_are_left():
    columns, row = ("name", "small", "large", "last"), ("one", "2", "a" * 30, "4")
    table, dropped = terminal.fitting_table(Console(width=30), columns, [row], [["small"], ["large"], ["last"]])
    assert dropped == ["large"]
    assert [column.header for column in table.columns] == ["name", "small", "last"]


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


def test_the_first_column_wraps_where_nothing_more_can_be_dropped():
    """Numbers are never cut."""
    out = Console(width=40, file=io.StringIO())
    rows = [("A very long name of a row in a table", "57.10 ± 0.41", "agrees")]
    table, dropped = terminal.fitting_table(out, ("row", "ours", "verdict"), rows, [])
    out.print(table)
    assert dropped == []
    assert "57.10 ± 0.41" in out.file.getvalue()
    assert max(map(len, out.file.getvalue().splitlines())) <= 40


@pytest.mark.parametrize(
    ("width", "dropped"), [(56, []), (45, []), (44, ["against"]), (29, ["against"]), (28, ["against", "moved"])]
)
def test_columns_go_where_a_number_would_be_cut(width, dropped):
    """Until then cells are wrapped, and long words go on in the next line."""
    out = Console(width=width, file=io.StringIO())
    row = ("Two-stage resampling", "LDAM+Reweighting-later", "-0.855", "0.140")
    table, gone = terminal.fitting_table(out, ("row", "against", "ours", "moved"), [row], [], ["against"])
    out.print(table)
    assert gone == dropped
    assert "-0.855" in out.file.getvalue()
    assert ("0.140" in out.file.getvalue()) == ("moved" not in dropped)
    assert "…" not in out.file.getvalue()
    assert max(map(len, out.file.getvalue().splitlines())) <= width


@pytest.mark.parametrize("width", [23, 24, 28, 40, 80])
def test_names_of_wide_characters_are_aligned_and_whole(width):
    """Every line is as wide as the others, in cells, and no character is lost where a name is wrapped."""
    out, name = Console(width=width, file=io.StringIO()), "とても長い日本語のクラスの名前"
    rows = [("猫", "120", "0.5"), (name, "7", "12.5"), ("cat", "1,200", "3.0")]
    table, _ = terminal.fitting_table(out, ("class", "train", "error"), rows, [["error"]])
    out.print(table)
    lines = [line for line in out.file.getvalue().splitlines() if line.strip()]
    assert len(set(map(cell_len, lines))) == 1
    assert cell_len(lines[0]) <= width
    assert name in "".join(line[1:].split(" ")[0] for line in lines)
    assert all(number in out.file.getvalue() for number in ("120", "7", "1,200"))


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
