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
NUMBER = re.compile(r"(?<![\w.])[+-]?\d+(?:\.\d+)?")
TIMES = re.compile(r"\d+:\d\d|[\d.]+ (?:s|min|h)\b")


def run_script(path, words, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [path, *words])
    runpy.run_path(path, run_name="__main__")
    return capsys.readouterr().out


def numbered_lines(text):
    """(first words, numbers) of each line that has numbers, times aside; the words are those before the first number.

    Where a line begins with a number, as a row of a table does, that is its first word.
    """
    lines = []
    for line in TIMES.sub("", text).splitlines():
        numbers = NUMBER.findall(line)
        if numbers:
            words = NUMBER.split(line)[0].split() or numbers[:1]
            lines.append((words, [float(number) for number in numbers]))
    return lines


def is_near(shown, printed):
    """Other processors and versions train other models, nearly."""
    return abs(shown - printed) <= 0.1 * abs(shown) + (2 if abs(shown) >= 1 else 0.1)


def missing_lines(shown, printed):
    """Lines with numbers that are shown, but not printed with the same first words and nearly the same numbers."""
    printed_lines = numbered_lines(printed)

    def is_printed(words, numbers):
        same = [others for first, others in printed_lines if first == words and len(others) == len(numbers)]
        return any(all(map(is_near, numbers, others)) for others in same)

    return [line for line in numbered_lines(shown) if not is_printed(*line)]


def test_a_number_that_is_not_printed_in_its_place_is_missed():
    printed = "  class  error %\n  8      28.7  40\n  9      14.4  90\nKept  2 of 5 (5.8 s)\n"
    assert missing_lines(printed.replace("28.7", "27.9").replace("5.8 s", "1.2 min"), printed) == []
    for wrong in (("28.7", "14.4"), ("28.7  40", "40  28.7"), ("  9 ", "  90 "), ("Kept", "Lost"), ("  90", "")):
        assert len(missing_lines(printed.replace(*wrong), printed)) == 1


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
        assert missing_lines(shown, printed) == []
        written = re.search(r"^Wrote  (.*)$", shown, re.MULTILINE)
        assert all(Path(file).is_file() for file in (written[1].split(", ") if written else []))


def test_a_guide_is_rendered_by_running_its_commands():
    text = '# T\n\n```console\n$ cu list data\nold\n$ head x\n```\n\n```python title="a.py"\nprint(1)\n```\n'
    again = rendered(text, lambda command: f"{len(command)}\n")
    assert again == text.replace("old", "12").replace("$ head x\n", "$ head x\n6\n")
