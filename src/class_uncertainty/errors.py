"""The ways a call can end early for a reason its user should read: a wrong input, a fault of the machine, a budget that is spent."""

import errno
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

# what Python, the loader, torch, oneDNN and C++ say where memory or address space is short
SHORT = re.compile(
    "alloc|out of memory|insufficient memory|failed to map segment|could not create a (primitive|memory)|can't start new thread",
    re.IGNORECASE,
)


def printable(name: object) -> str:
    """Names come from folders and tables too: what would break a line, move a cursor or not encode is written as its escape."""
    text = str(name).encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class InputError(ValueError):
    """What was given cannot be used; the message is one sentence that says what is allowed. Exit code 2."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(printable(sentence))


class MachineFault(RuntimeError):
    """The machine failed us (a full disk, no permission); the message is one sentence. Exit code 1."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(printable(sentence))


class Unfinished(Exception):
    """The budget is spent and what runs is kept: the same call goes on from there. Exit code 3."""


def unknown(kind: str, given: str, allowed: Iterable[str]) -> InputError:
    """'unknown method 'ubrz': did you mean 'ubrs'? There are naive, cb-rs, ...'"""
    names = list(allowed)
    near = get_close_matches(given.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {kind} {given!r}: {hint}There are {', '.join(names)}.")


def notice(sentence: str) -> None:
    """Tell whoever watches that something was done again or left out, and go on: `cu` prints it, Python's logging handles it elsewhere."""
    logging.getLogger("class_uncertainty").warning(sentence)


def means_too_little_memory(error: BaseException) -> bool:
    """Whether memory ran short. torch.OutOfMemoryError is a RuntimeError; a library that does not fit is an ImportError or an OSError."""
    if isinstance(error, OSError) and error.errno is not None:  # what it says may be a file's name
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError | ImportError | OSError) and bool(SHORT.search(str(error))))


def blame_machine(path: object, error: BaseException) -> None:
    """Raise what is not the fault of a file's content: too little memory, or a disk that cannot be read."""
    if means_too_little_memory(error):
        raise error
    if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        raise MachineFault(f"{path} could not be read: {error.strerror}.") from error


@contextmanager
def memory_faults(kept: Callable[[], str] = str) -> Iterator[None]:
    """An error that means too little memory becomes a MachineFault that ends in what is kept; every other goes on as it is."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError, ImportError) as error:
        if isinstance(error, MachineFault) or not means_too_little_memory(error):
            raise
        raise MachineFault(f"the machine has too little memory for this, or a limit is set (ulimit -v){kept()}.") from error
