"""Ctrl-C that is pressed again neither cuts off the way out of a command nor leaves anything behind the sentence."""

import signal
import subprocess
import sys

import pytest

from class_uncertainty.cli import interrupts

# a command whose thread goes on for a while, as a step of torch does
COMMAND = """
import signal, sys, threading, time
from class_uncertainty.cli.interrupts import interrupt_once

interrupt_once()
worker = threading.Thread(target=time.sleep, args=(1.0,))
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


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_of_someone_else_stays(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        interrupts.interrupt_once()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
