"""Words that do not fit the commands: one sentence each, with typer's own words and boxes nowhere."""

import re
import subprocess
import sys
from typing import Any

import pytest
from commands import Run
from typer.main import get_command

from class_uncertainty.cli.app import app

USAGE = {
    "no such option": (
        "clean --chache",
        "unknown option of 'cu clean' '--chache': did you mean '--cache'? "
        "There are --cache, --older-than, --yes, --json, --help.",
    ),
    "an option that is like none": (
        "clean --dry=3",
        "unknown option of 'cu clean' '--dry': there are --cache, --older-than, --yes, --json, --help.",
    ),
    "option of no command": (
        "--vresion",
        "unknown option of 'cu' '--vresion': did you mean '--version'? There are --version, --help.",
    ),
    "option of a command of results": (
        "results import a.jsonl --stor b.sqlite",
        "unknown option of 'cu results import' '--stor': did you mean '--store'? There are --store, --json, --help.",
    ),
    "no argument": (
        "fix",
        "'cu fix' needs DATA: what to train on, as 'cu list data' lists it, e.g. digits-lt:20 or folder:PATH.",
    ),
    "no second argument": (
        "predict model",
        "'cu predict' needs EXAMPLES: an image, a folder of images, or a .csv, .parquet, .npz or .npy file.",
    ),
    "none of several": ("results import", "'cu results import' needs FILE.jsonl: what 'cu results export' wrote."),
    "command of data": ("data fech", "unknown command 'fech': did you mean 'fetch'? There is only fetch."),
    "no value": (
        "train digits --budget",
        "option '--budget' requires an argument: stop at an epoch's end after 90s, 25m or 1h30m; "
        "the same command goes on.",
    ),
    "a value of a flag": (
        "list --json=yes",
        "option '--json' does not take a value: print one JSON document and nothing else.",
    ),
    "a list with a space": (
        "compare digits --methods naive, ubrs",
        "'cu compare' takes DATA, and got 'ubrs' beyond that: names in a list have commas and no spaces between them.",
    ),
    "an argument where none is": (
        "demo online",
        "'cu demo' takes no argument, and got 'online' beyond that: names in a list have commas and no spaces "
        "between them.",
    ),
    "one dash": (
        "card model -out a.md",
        "unknown option of 'cu card' '-out': did you mean '--out'? There are --out, --force, --json, --help.",
    ),
}


@pytest.mark.parametrize("case", USAGE)
def test_the_whole_answer_is_one_sentence(case: str, run: Run) -> None:
    words, sentence = USAGE[case]
    assert run(words) == (2, "", f"cu: {sentence}\n")


def test_hidden_options_are_not_offered(run: Run) -> None:
    code, _, err = run("fix digits --prio equal")
    assert code == 2
    assert "--goal" in err
    assert "--prior" not in err


def needy(group: Any, *words: str) -> list[tuple[str, ...]]:
    """The words of every command that needs an argument."""
    names = [(*words, name) for name, row in group.commands.items() if any(one.required for one in row.params)]
    groups = [(name, row) for name, row in group.commands.items() if hasattr(row, "commands")]
    return names + [found for name, row in groups for found in needy(row, *words, name)]


@pytest.mark.parametrize("words", needy(get_command(app)), ids=" ".join)
def test_every_command_says_what_it_needs(words: tuple[str, ...], run: Run) -> None:
    code, out, err = run(" ".join(words))
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"cu: 'cu {' '.join(words)}' needs [A-Z.jsonl]+: .+\.\n", err), err


def test_arguments_beyond_the_last_are_named(run: Run) -> None:
    code, out, err = run("fix digits left over")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'cu fix' takes DATA, and got 'left over' beyond that" in err


def test_a_command_is_called_cu_however_it_was_started() -> None:
    command = [sys.executable, "-m", "class_uncertainty", "fix"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cu: 'cu fix' needs DATA: ")


@pytest.mark.parametrize("group", ["", "results", "data"])
def test_a_group_without_a_command_shows_its_help(group: str, run: Run) -> None:
    _, shown, err = run(group)
    assert err == ""
    code, asked, _ = run(f"{group} --help")
    assert code == 0
    assert shown.strip() == asked.strip()
    assert "Usage: " in asked
