"""File names that a terminal would obey: none of their control characters reaches it, on any path."""

import ast
import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import SHORT, told
from example_results import DATA, export_text, fill
from fuzz.targets import TABLE, model, npy, zipped
from PIL import Image
from rich.console import Console
from test_design import PACKAGE

from class_uncertainty.cli import app
from class_uncertainty.reporting import terminal
from class_uncertainty.runs import Store
from class_uncertainty.workflows.predict import Predicted

# clears a screen, names a window, fakes a line, colours, turns text around
ODD = "x\x1b[2J\x1b]0;title\x07\r\n\x9b31m\u202ey"


def seen(text: str) -> list[str]:
    """What a terminal would obey, the ends of our own lines aside."""
    return [character for character in text if character != "\n" and not character.isprintable()]


@pytest.fixture
def files(run):
    """An odd name for every kind of file."""
    for name, content in model().items():
        Path(ODD + name[1:]).write_bytes(content)
    Path(f"{ODD}.csv").write_bytes(TABLE)
    Path(f"{ODD}.npz").write_bytes(
        zipped("probabilities", labels=np.arange(12) % 2, counts=[9, 3])(npy(np.full((12, 2), 0.5)))
    )
    for folder in (f"{ODD}p/a", f"{ODD}p/{ODD}"):
        os.makedirs(folder)
        for i in range(6):
            Image.fromarray(np.random.default_rng(i).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
                f"{folder}/{ODD}{i}.png"
            )
    Path(f"{ODD}.jsonl").write_bytes(export_text())
    with Store(f"{ODD}full.sqlite") as store:
        fill(store, replace(DATA, name=ODD + ODD))
    os.mkfifo(f"{ODD}pipe")
    return run


COMMANDS = {
    "measured": (0, ("measure", f"folder:{ODD}p?size=8", *SHORT.split())),
    "trained": (0, ("train", f"folder:{ODD}p?size=8", "--epochs", "1", "--save", f"{ODD}new")),
    "a table": (0, ("train", f"csv:{ODD}.csv", "--epochs", "1", "--save", f"{ODD}new", "--store", f"{ODD}.sqlite")),
    "a budget": (3, ("compare", f"csv:{ODD}.csv", "--epochs", "3000", "--budget", "1s", "--store", f"{ODD}.sqlite")),
    "a report": (2, ("report", "--out", f"{ODD}.html")),
    "imported": (0, ("results", "import", f"{ODD}.jsonl", "--store", f"{ODD}.sqlite")),
    "no export": (2, ("results", "import", f"{ODD}.csv")),
    "no export there": (2, ("results", "import", f"{ODD}none")),
    "exported": (2, ("results", "export", f"{ODD}e.jsonl", "--store", f"{ODD}.sqlite")),
    "exported data": (2, ("results", "export", "e.jsonl", "--data", ODD, "--store", f"{ODD}full.sqlite")),
    "predicted": (0, ("predict", ODD, f"{ODD}.csv", "--out", f"{ODD}p.csv")),
    "as JSON": (0, ("predict", ODD, f"{ODD}.csv", "--out", f"{ODD}p.csv", "--json")),
    "adjusted": (0, ("adjust", f"{ODD}.npz", "--out", f"{ODD}a.npz")),
    "adjusted to a prior": (2, ("adjust", f"{ODD}.npz", "--prior", f"{ODD}none")),
    "no data": (2, ("measure", f"csv:{ODD}none.csv")),
    "no source": (2, ("measure", ODD)),
    "no column": (2, ("measure", f"csv:{ODD}.csv?label={ODD}")),
    "no model": (2, ("predict", f"{ODD}none", f"{ODD}.csv")),
    "no examples": (2, ("predict", ODD, f"{ODD}none")),
    "a pipe": (2, ("predict", ODD, f"{ODD}pipe")),
    "a pipe of data": (2, ("measure", f"csv:{ODD}pipe")),
    "no method": (2, ("compare", f"csv:{ODD}.csv", "--methods", ODD)),
    "no command": (2, (ODD,)),
    "below a file": (2, ("predict", ODD, f"{ODD}.csv", "--out", f"{ODD}.csv/{ODD}")),
    "too long": (2, ("measure", f"csv:{ODD * 40}")),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_obeys_a_name(files, name):
    expected, args = COMMANDS[name]
    code, out, err = files(*args)
    assert (seen(out), seen(err)) == ([], [])
    if expected != 0 and name != "no command":
        assert len(told(err)) == 1
    assert code == expected, err
    if "--json" in args:
        assert json.loads(out)["file"] == f"{ODD}p.csv"


def test_predictions_have_a_line_for_each_example(run, monkeypatch):
    """Whatever a file or a class is called; what begins as a formula does is data, and stays."""
    names, classes = [ODD, "=1+1", "-2", "a,b"], (ODD, "@x")
    predicted = Predicted(names, classes, np.array([[0.75, 0.25]] * 4), [classes[0]] * 4)
    monkeypatch.setattr("class_uncertainty.workflows.predict.predict", lambda *_, **__: predicted)
    assert run("predict model examples")[0] == 0
    lines = Path("examples-predictions.csv").read_text()
    assert seen(lines) == []
    header, *rows = csv.reader(io.StringIO(lines, newline=""))
    escaped = "x\\x1b[2J\\x1b]0;title\\x07\\r\\n\\x9b31m\\u202ey"
    assert header == ["example", "class", "probability", f"p({escaped})", "p(@x)"]
    assert [row[0] for row in rows] == [escaped, *names[1:]]
    assert {row[1] for row in rows} == {escaped}


def test_a_progress_bar_and_a_table_show_escapes(monkeypatch):
    """On a terminal, where the codes that are there are rich's own."""
    stream = io.StringIO()
    shown = Console(file=stream, force_terminal=True, width=300, color_system=None)
    monkeypatch.setattr(terminal, "Console", lambda *args, **options: shown)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with terminal.progress_bars("images") as progress:
        progress(f"decoding {ODD}", 1, 2)
    terminal.print_table(("class", "n"), [(ODD, "1")])
    terminal.say(ODD, "[bold]not markup[/bold]")
    written = stream.getvalue()
    assert written.count("x\\x1b[2J") >= 3
    assert "[bold]not markup[/bold]" in written
    for code in ("\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\u202e", "\r\n"):
        assert code not in written


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (OSError(5, "Input/output error", ODD), 1, "x\\x1b[2J"),
        (OSError(5, "Input/output error", ODD.encode()), 1, "x\\x1b[2J"),
        (OSError(), 1, "cu: output: OSError."),
        (OSError("only this"), 1, "cu: output: only this."),
        (OSError(28, None), 1, "cu: output: [Errno 28] None."),
        (UnicodeEncodeError("utf-8", "a\udce4", 1, 2, "surrogates not allowed"), 2, "'a\\udce4' is not text"),
    ],
)
def test_an_error_of_the_machine_is_one_sentence(run, monkeypatch, error, code, sentence):
    def fail() -> None:
        raise error

    monkeypatch.setattr(app, "app", fail)
    ended, out, err = run("list")
    assert (ended, out, seen(err), err.count("\n")) == (code, "", [], 1)
    assert sentence in err
    assert err.endswith(".\n")


PRINTING = {"text.py", "cli/list_commands.py", "reporting/terminal.py", "reporting/progress.py"}


@pytest.mark.parametrize("file", sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")))
def test_only_these_print(file):
    """So that a name is made printable at one place for each stream."""
    calls = [node.func for node in ast.walk(ast.parse((PACKAGE / file).read_text())) if isinstance(node, ast.Call)]
    called = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
    assert not called & {"print", "secho", "print_exc"} or file in PRINTING
