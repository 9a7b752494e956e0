"""Signals that stop a command, Ctrl-C and SIGTERM: what it does about one is not broken off by a second."""

import _thread
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAME = 1.0  # seconds; a key that is held down repeats sooner
STOPPING = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}  # by Python's own handlers
IMPORTING = "<frozen importlib._bootstrap>"  # where a frame of Python's is while a module is imported
RETRY = 0.02  # seconds until a signal that could not be heard is sent again


class Interrupted(KeyboardInterrupt):
    """What a signal raises.

    Where KeyboardInterrupt itself passes through exec(), `python -m` ends by SIGINT in place of its exit code.
    """


def exit_code(number: int = signal.SIGINT) -> int:
    """Return the exit code of a command that a signal stopped: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + number


def _exit(number: int, _: FrameType | None) -> None:
    os._exit(exit_code(number))


def exit_when_interrupted() -> None:
    """Let a signal end the process at once, without a word, until a command begins: there is nothing to keep yet.

    An exception would not do: modules in C that are being imported turn it into errors of their own.
    """
    for number, default in STOPPING.items():
        if signal.getsignal(number) == default:
            signal.signal(number, _exit)


@contextmanager
def interrupt_once() -> Iterator[None]:
    """Let the first signal stop the command inside, which then ends its threads and says what is kept.

    The exit code tells which signal it was. The first one after the command ends the process at once: an exception
    would be a traceback of whatever cleans up.
    """
    stop = _Stop()
    # a shell's background ignores Ctrl-C, and a handler of someone else stays
    heard = [number for number, default in STOPPING.items() if signal.getsignal(number) in (default, _exit)]
    for number in heard:
        signal.signal(number, stop.interrupt)
    report_unraisable = sys.unraisablehook
    sys.unraisablehook = stop.interrupt_again
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(exit_code(stop.number)) from None
    except SystemExit as ended:  # typer, and commands that have said what is kept, turn Interrupted into it
        if ended.code == exit_code():
            raise SystemExit(exit_code(stop.number)) from None
        raise
    finally:
        sys.unraisablehook = report_unraisable
        for number in heard:
            if stop.raised_at is None and signal.getsignal(number) == stop.interrupt:
                signal.signal(number, _exit)


class _Stop:
    """Raises Interrupted for the first signal.

    A signal within a second of the last one counts as the same. One that comes later ends the process at once.
    Otherwise it would cut off waiting for a thread of torch, which aborts a process that exits while the thread runs.
    """

    def __init__(self) -> None:
        self.number: int = signal.SIGINT  # the signal that stopped the command, if any did
        self.raised_at: float | None = None

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.raised_at is None:
            self.number = number
            if _is_importing(frame):
                _send_soon(number)
                return
            self.raised_at = time.monotonic()
            raise Interrupted
        seconds = time.monotonic() - self.raised_at
        self.raised_at = time.monotonic()
        if seconds > SAME:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def interrupt_again(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Raise once more what a callback has swallowed, such as __del__."""
        if isinstance(unraisable.exc_value, Interrupted):
            self.raised_at = None
            _send_soon(self.number)
        else:
            sys.__unraisablehook__(unraisable)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: its code in C might turn an exception into another one."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


def _send_soon(number: int) -> None:
    """Send the signal to this process again."""

    def send() -> None:
        time.sleep(RETRY)
        os.kill(os.getpid(), number)  # unlike interrupt_main(), it also ends what waits, as time.sleep()

    _thread.start_new_thread(send, ())
