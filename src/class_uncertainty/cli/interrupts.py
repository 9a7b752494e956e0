"""Ctrl-C, once: what a command does about it is not broken off when the key is pressed again."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAME = 1.0  # seconds; a key that is held down repeats sooner
INTERRUPTED = 130  # the exit code


def _exit(number: int, _: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def exit_when_interrupted() -> None:
    """Let Ctrl-C end the process at once, without a word, until a command begins: there is nothing to keep yet.

    An exception would not do: modules in C that are being imported turn it into errors of their own.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


@contextmanager
def interrupt_once() -> Iterator[None]:
    """Let the first Ctrl-C stop the command inside, which then ends its threads and says what is kept.

    Ctrl-C within a second of the last one counts as the same. One that comes later ends the process at once. Otherwise
    it would cut off waiting for a thread of torch, which aborts a process that exits while the thread runs. The first
    one after the command ends the process at once, too: an exception would be a traceback of whatever cleans up.
    """
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, _exit):  # a shell's background ignores it
        yield
        return
    last: float | None = None

    def interrupt(number: int, _: FrameType | None) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if before is None:
            raise KeyboardInterrupt
        if last - before > SAME:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if last is None and signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, _exit)
