"""Streams: a full disk, a closed pipe, a terminal without Greek letters; and what a light command imports."""

import os
import subprocess
import sys

import pytest
from commands import run_in_turn


def test_a_full_disk_behind_stdout():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "class_uncertainty.cli.app", "list", "methods"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


PRINTS_THEN_WRITES = """
import sys
import typer
from class_uncertainty.cli import app
from class_uncertainty.reporting.terminal import say
from class_uncertainty.text import tell

def command():
    for _ in range(100):  # more than a pipe holds
        say("a table" * 100)
        typer.echo("a line" * 100)
        tell("progress" * 100)
    with open("page", "w") as page:
        page.write("whole")
    sys.exit(4)

app.app = command
app.main()
"""


@pytest.mark.parametrize(("streams", "unbuffered"), [("", ""), ("2>&1", ""), ("2>&1", "1")])
def test_a_closed_pipe_loses_no_file(streams, unbuffered, tmp_path):
    (tmp_path / "command.py").write_text(PRINTS_THEN_WRITES)
    done = subprocess.run(
        ["bash", "-c", f'"$0" command.py {streams} | head -1; exit "${{PIPESTATUS[0]}}"', sys.executable],
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert done.stdout.count("\n") == 1
    assert not streams or not done.stderr
    assert "Broken" not in done.stderr
    assert (tmp_path / "page").read_text() == "whole"


LIGHT = [
    "--help",
    "--version",
    "list",
    "list methods",
    "list measures",
    "list estimators",
    "list data",
    "compare --help",
    "results export --help",
]


def test_light_commands_import_nothing_heavy():
    assert run_in_turn(LIGHT) == [(0, set())] * len(LIGHT)


@pytest.mark.parametrize("command", ["list", "list methods", "--version"])
def test_a_closed_output_is_no_traceback(command):
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m class_uncertainty.cli.app {command} >&-"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_terminal_without_greek_prints_is_ascii(tmp_path):
    """Letters of Greek have their names, and columns are aligned by these."""
    plain = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    words = "-m class_uncertainty.cli.app measure digits-lt:20 --epochs 1 --members 2 --verbose --explain"
    command = [sys.executable, *words.split(" ")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=plain, check=True)
    assert done.stdout.isascii()
    assert "mu^U" in done.stdout
