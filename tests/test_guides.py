"""The guides show what their commands print. Those whose data come with scikit-learn run here."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from run_guides import commands, rendered, write_scripts

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = ["tables", "training-loop", "ci-gate", "clusters"]
TIMES = re.compile(r"\d+:\d\d|\d+ s\b")


def run_script(path, words, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [path, *words])
    runpy.run_path(path, run_name="__main__")
    return capsys.readouterr().out


def numbers(text):
    """Every number, times aside."""
    return [float(number) for number in re.findall(r"(?<![\w.])[+-]?\d+(?:\.\d+)?", TIMES.sub("", text))]


def missing_numbers(shown, printed):
    """Numbers that are shown and not printed, nearly: other processors and versions train other models."""
    return [
        number
        for number in numbers(shown)
        if not any(abs(number - other) <= 2 + 0.1 * abs(number) for other in numbers(printed))
    ]


@pytest.mark.parametrize("name", GUIDES)
def test_the_commands_of_a_guide_print_what_it_shows(name, run, tmp_path, capsys, monkeypatch):
    text = (DOCS / "guides" / f"{name}.md").read_text()
    write_scripts(text, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert commands(text)
    for command, shown in commands(text):
        line, _, otherwise = command.partition(" || ")
        program, *words = line.split()
        if program == "cu":
            code, out, err = run(line.removeprefix("cu "))
            printed = out + err
            assert bool(code) == bool(otherwise), printed
            if code:
                printed += f"exit code {code}"
        elif program == "python":
            printed = run_script(words[0], words[1:], capsys, monkeypatch)
        else:
            printed = subprocess.run(line, shell=True, capture_output=True, text=True, check=True).stdout
        assert bool(shown) == bool(printed)
        assert missing_numbers(shown, printed) == []
        written = re.search(r"^Wrote  (.*)$", shown, re.MULTILINE)
        assert all(Path(file).is_file() for file in (written[1].split(", ") if written else []))


def test_a_guide_is_rendered_by_running_its_commands():
    text = '# T\n\n```console\n$ cu list data\nold\n$ head x\n```\n\n```python title="a.py"\nprint(1)\n```\n'
    again = rendered(text, lambda command: f"{len(command)}\n")
    assert again == text.replace("old", "12").replace("$ head x\n", "$ head x\n6\n")
