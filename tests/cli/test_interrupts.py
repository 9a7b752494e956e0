"""Signals that stop a command: a second one neither cuts off its way out nor leaves anything behind the sentence."""

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from class_uncertainty.cli import interrupts

STOPPING = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])

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
            signal.raise_signal({number})
        worker.join()
        sys.exit("stopped")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("waits", "is_cut_off"),
    [([0.0, 0.05, 0.05, 0.05], False), ([0.0, interrupts.SAME + 0.1], True)],
    ids=["held-down", "once-more"],
)
def test_a_repeated_interrupt(waits, is_cut_off, number):
    command = [sys.executable, "-c", COMMAND.format(waits=waits, number=int(number))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == ((-number, "") if is_cut_off else (1, "stopped\n"))


# `cu COMMAND` in a process that sends itself a signal as soon as a module of the given name is looked for
IMPORTING = """
import os, signal, sys, weakref

class Lock:
    pass

class Presses:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            lock = Lock()
            ended = weakref.ref(lock, lambda _: os.kill(os.getpid(), {number}))
            del lock

sys.argv = ["cu", {words}]
sys.meta_path.insert(0, Presses())
from class_uncertainty.cli.entry import main
main()
"""


@pytest.mark.parametrize(
    ("module", "number", "code"),
    [
        ("typer", signal.SIGINT, 130),
        ("numpy", signal.SIGTERM, 143),
        ("numpy._core.multiarray", signal.SIGINT, 130),
        ("class_uncertainty.runs", signal.SIGTERM, 143),
    ],
)
def test_an_interrupt_while_modules_are_imported(module, number, code):
    """Modules in C turn KeyboardInterrupt into errors of their own."""
    source = IMPORTING.format(module=module, number=int(number), words="'list', 'methods'")
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


@pytest.mark.parametrize(
    ("module", "number", "code"),
    [("torch", signal.SIGTERM, 143), ("torch._C", signal.SIGINT, 130), ("torch._ops", signal.SIGTERM, 143)],
)
def test_an_interrupt_while_a_command_imports(module, number, code, tmp_path):
    """The command is stopped when the module is there. What a callback raises, as one of Python's locks, is lost."""
    words = f"'measure', 'digits-lt:20', '--epochs', '1000', '--store', {str(tmp_path / 'store')!r}"
    source = IMPORTING.format(module=module, number=int(number), words=words)
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (code, "")
    said = [line for line in ended.stderr.splitlines() if line and not line.startswith("after ")]
    assert said in ([], ["cu: stopped."])


# `cu list methods` in a process that sends itself a signal where the given lines say
OUTSIDE = """
import atexit, signal, sys
import typer.main

press = lambda *_: signal.raise_signal({number})
{where}
sys.argv = ["cu", "list", "methods"]
from class_uncertainty.cli.entry import main
main()
"""


@STOPPING
@pytest.mark.parametrize(
    ("where", "is_shown"), [("typer.main.get_command = press", False), ("atexit.register(press)", True)]
)
def test_an_interrupt_before_or_after_the_command(where, is_shown, number, code):
    source = OUTSIDE.format(where=where, number=int(number))
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (ended.returncode, bool(ended.stdout), ended.stderr) == (code, is_shown, "")


# what turns KeyboardInterrupt into something else: typer, and Ray, whose C++ raises another one
CONVERTED = """
import signal, sys
from class_uncertainty.cli.interrupts import interrupt_once

with interrupt_once():
    try:
        {begins}
    except KeyboardInterrupt:
        {ends}
"""


# a command that a callback interrupts, which can raise nothing
SWALLOWED = """
import signal, sys, time
from class_uncertainty.cli.interrupts import interrupt_once

class Lock:
    def __del__(self):
        signal.raise_signal({number})

with interrupt_once():
    Lock()
    time.sleep(60)
"""


@STOPPING
def test_what_a_callback_swallows_is_raised_again(number, code):
    source = SWALLOWED.format(number=int(number))
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (code, "")


@STOPPING
@pytest.mark.parametrize("ends", ["raise KeyboardInterrupt from None", "sys.exit(130)", "sys.exit(0)"])
def test_the_exit_code_tells_which_signal_it_was(ends, number, code):
    source = CONVERTED.format(begins=f"signal.raise_signal({number:d})", ends=ends)
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0 if ends == "sys.exit(0)" else code, "")


@pytest.fixture(scope="module")
def methods():
    """What `cu list methods` prints."""
    command = [sys.executable, "-m", "class_uncertainty", "list", "methods"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_exit_code_of_a_module_that_was_interrupted_in_exec(tmp_path):
    """Dataclasses and others exec() what they make. Python would end by SIGINT here, whatever the exit code."""
    source = CONVERTED.format(begins="exec('signal.raise_signal(signal.SIGTERM)')", ends="sys.exit(130)")
    (tmp_path / "command.py").write_text(source)
    ended = subprocess.run([sys.executable, "-m", "command"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (143, "")


@pytest.mark.parametrize(
    ("seconds", "number", "code"),
    [
        (0.1, signal.SIGINT, 130),
        (0.2, signal.SIGTERM, 143),
        (0.3, signal.SIGINT, 130),
        (0.4, signal.SIGTERM, 143),
        (0.5, signal.SIGINT, 130),
    ],
)
def test_an_interrupt_at_some_moment(seconds, methods, number, code):
    command = [sys.executable, "-c", "print('begins', flush=True)\nfrom class_uncertainty.__main__ import main\nmain()"]
    with subprocess.Popen(
        [*command, "list", "methods"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    # the interpreter gives the signal back to the system while it shuts down, when everything is printed
    codes = (0, code, -number) if out == methods else (code,)
    assert (process.returncode in codes, err) == (True, "")


def test_the_command_begins_where_an_interrupt_is_heard():
    """Before NumPy, torch and the command line itself are imported."""
    code = "import sys; import class_uncertainty.cli.entry; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "torch", "typer", "class_uncertainty.cli.app", "class_uncertainty.errors"} & set(modules)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"cu": "class_uncertainty.cli.entry:main"}


@pytest.mark.parametrize(
    ("number", "handler"),
    [(signal.SIGINT, signal.SIG_IGN), (signal.SIGINT, signal.SIG_DFL), (signal.SIGTERM, signal.SIG_IGN)],
)
def test_a_handler_of_someone_else_stays(number, handler, monkeypatch):
    monkeypatch.setattr(interrupts, "STOPPING", {number: interrupts.STOPPING[number]})
    before = signal.signal(number, handler)
    try:
        interrupts.exit_when_interrupted()
        with interrupts.interrupt_once():
            assert signal.getsignal(number) is handler
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
