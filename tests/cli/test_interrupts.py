"""Ctrl-C that is pressed again neither cuts off the way out of a command nor leaves anything behind the sentence."""

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from class_uncertainty.cli import interrupts

# a command whose thread goes on for a while, as a step of torch does
COMMAND = """
import signal, sys, threading, time
from class_uncertainty.cli.interrupts import interrupt_once

worker = threading.Thread(target=time.sleep, args=(1.0,))
with interrupt_once():
    try:
        worker.start()
        print("ready", flush=True)
        worker.join()
    except KeyboardInterrupt:
        for wait in {waits}:
            time.sleep(wait)
            signal.raise_signal(signal.SIGINT)
        worker.join()
        sys.exit("stopped")
"""


@pytest.mark.parametrize(
    ("waits", "code", "sentence"),
    [([0.0, 0.05, 0.05, 0.05], 1, "stopped\n"), ([0.0, interrupts.SAME + 0.1], -signal.SIGINT, "")],
    ids=["held-down", "once-more"],
)
def test_a_repeated_interrupt(waits: list[float], code: int, sentence: str) -> None:
    command = [sys.executable, "-c", COMMAND.format(waits=waits)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, sentence)


# `cu list methods` in a process that sends itself Ctrl-C as soon as a module of the given name is looked for
IMPORTING = """
import os, signal, sys

class Presses:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.argv = ["cu", "list", "methods"]
sys.meta_path.insert(0, Presses())
from class_uncertainty.cli.entry import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "numpy", "numpy._core.multiarray", "class_uncertainty.runs"])
def test_an_interrupt_while_modules_are_imported(module: str) -> None:
    """Modules in C turn KeyboardInterrupt into errors of their own."""
    ended = subprocess.run([sys.executable, "-c", IMPORTING.format(module=module)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


# `cu list methods` in a process that sends itself Ctrl-C where the given lines say
OUTSIDE = """
import atexit, signal, sys
import typer.main

press = lambda *_: signal.raise_signal(signal.SIGINT)
{where}
sys.argv = ["cu", "list", "methods"]
from class_uncertainty.cli.entry import main
main()
"""


@pytest.mark.parametrize(
    ("where", "is_shown"), [("typer.main.get_command = press", False), ("atexit.register(press)", True)]
)
def test_an_interrupt_before_or_after_the_command(where: str, is_shown: bool) -> None:
    ended = subprocess.run([sys.executable, "-c", OUTSIDE.format(where=where)], capture_output=True, text=True)
    assert (ended.returncode, bool(ended.stdout), ended.stderr) == (130, is_shown, "")


@pytest.fixture(scope="module")
def methods() -> str:
    """What `cu list methods` prints."""
    command = [sys.executable, "-m", "class_uncertainty", "list", "methods"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.3, 0.4, 0.5])
def test_an_interrupt_at_some_moment(seconds: float, methods: str) -> None:
    command = [sys.executable, "-c", "print('begins', flush=True)\nfrom class_uncertainty.__main__ import main\nmain()"]
    with subprocess.Popen(
        [*command, "list", "methods"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    # the interpreter gives the signal back to the system while it shuts down, when everything is printed
    codes = (0, 130, -signal.SIGINT) if out == methods else (130,)
    assert (process.returncode in codes, err) == (True, "")


def test_the_command_begins_where_an_interrupt_is_heard() -> None:
    """Before NumPy, torch and the command line itself are imported."""
    code = "import sys; import class_uncertainty.cli.entry; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "torch", "typer", "class_uncertainty.cli.app", "class_uncertainty.errors"} & set(modules)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"cu": "class_uncertainty.cli.entry:main"}


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_of_someone_else_stays(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        interrupts.exit_when_interrupted()
        with interrupts.interrupt_once():
            assert signal.getsignal(signal.SIGINT) is handler
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
