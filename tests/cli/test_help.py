"""Help: every command and option once, within the screen."""

import pytest
import typer.main

from class_uncertainty.cli.app import app
from class_uncertainty.cli.help import GROUPS, SUBJECTS, WIDEST, text_lines

ROOT = typer.main.get_command(app)
COMMANDS = sorted(ROOT.commands)


def test_the_first_screen_has_every_command_once_in_its_group(run):
    code, out, _ = run("--help")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) <= 40
    for names in GROUPS.values():
        for name in set(names) & set(COMMANDS):
            assert sum(line.split()[:1] == [name] for line in lines) == 1
    assert set(COMMANDS) <= {name for names in GROUPS.values() for name in names}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_listed_and_lines_fit(command, run):
    code, out, _ = run(f"{command} --help")
    assert code == 0
    assert all(len(line) <= WIDEST for line in out.splitlines())
    typed = {word for line in out.splitlines() for word in line.replace("/", " ").split()[:2]}
    for param in ROOT.commands[command].params:
        if param.param_type_name == "option" and not param.hidden:
            assert set(param.opts) <= typed


@pytest.mark.parametrize("command", ["fix", "measure", "compare"])
def test_help_of_the_main_commands_is_short_and_few_options_come_first(command, run):
    out = run(f"{command} --help")[1]
    assert len(out.splitlines()) <= 70
    first = out.partition("\nOptions\n")[2].partition("\n\n")[0]
    assert sum(line.strip().startswith("--") for line in first.splitlines()) <= 8


def test_no_subject_names_an_option_that_no_command_has():
    commands = [*ROOT.commands.values(), *ROOT.commands["results"].commands.values()]
    known = {param.name for command in commands for param in command.params} | {"help"}
    assert {name for names in SUBJECTS.values() for name in names} <= known


def test_examples_stay_as_they_are_and_paragraphs_are_wrapped():
    text = "What it does.\n\ncu fix a\ncu fix b\n\n" + "word " * 30
    lines = text_lines(text, 40)
    assert lines[2:4] == ["  cu fix a", "  cu fix b"]
    assert max(map(len, lines)) <= 40
    assert " ".join(lines[5:]).split() == ["word"] * 30
