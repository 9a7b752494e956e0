"""The errors and warnings that a user should read: a wrong input, a failing machine, a spent budget."""

import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from errno import EISDIR, ENOENT, ENOMEM, ENOTDIR

# what Python, the loader, torch, oneDNN and C++ say when memory or address space runs short
OUT_OF_MEMORY = re.compile("(?i)alloc|(out of|insufficient) memory|map segment|create a (primitive|memory)|new thread")

MOST_NAMES, SOME_NAMES = 40, 6  # how many allowed names a sentence lists, and how many of more than that


def printable(name: object) -> str:
    """Text on one line: characters that break a line, move the cursor or cannot be encoded become escapes."""
    text = str(name).encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _OneLine(Exception):
    def __init__(self, sentence: str = "") -> None:
        super().__init__(printable(sentence))


class InputError(_OneLine, ValueError):
    """An input cannot be used. The exit code of `cu` is 2.

    Parameters
    ----------
    sentence : str
        What was given, what is allowed, and the nearest match, in one sentence.

    Examples
    --------
    >>> try:
    ...     cu.Data([[1.0], [2.0]], labels=[0])
    ... except cu.InputError as error:
    ...     print(error)
    there are 2 inputs and 1 labels: give as many, and at least one.
    """


class MachineFault(_OneLine, RuntimeError):
    """The machine failed: a full disk, a missing permission, too little memory. The exit code of `cu` is 1.

    Parameters
    ----------
    sentence : str
        What failed and why, in one sentence.

    Examples
    --------
    >>> raise cu.MachineFault("results.sqlite could not be written: No space left on device.")
    Traceback (most recent call last):
    class_uncertainty.errors.MachineFault: results.sqlite could not be written: No space left on device.
    """


class Unfinished(Exception):
    """The time budget ran out; the work so far is stored, and the same call resumes it. The exit code of `cu` is 3.

    Parameters
    ----------
    *args
        What is stored and how to resume it.

    Examples
    --------
    >>> raise cu.Unfinished("40 of 60 epochs are stored: the same call resumes them.")
    Traceback (most recent call last):
    class_uncertainty.errors.Unfinished: 40 of 60 epochs are stored: the same call resumes them.
    """


class ShardEnded(Unfinished):
    """All that one shard trains is stored; the rest is for others. The exit code of `cu` is 0."""


def nearest(given: str, names: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The closest name, whatever its case; of several, one with the same letters wins (for 'ubsr' it is 'ubrs')."""
    letters = sorted(given.lower())
    return max(_alike(given, names, cutoff), key=lambda name: sorted(name.lower()) == letters, default=None)


def _alike(given: str, names: Iterable[str], cutoff: float) -> list[str]:
    by_lower_case = {name.lower(): name for name in names}
    return [by_lower_case[name] for name in get_close_matches(given.lower(), by_lower_case, SOME_NAMES, cutoff)]


def unknown(kind: str, given: str, allowed: Iterable[str], cutoff: float = 0.5, listing: str = "") -> InputError:
    """'unknown goal 'tial': did you mean 'tail'? There are balanced, tail, ...'; of many names six, alike first."""
    names = list(allowed)
    hint = f"did you mean {near!r}? There" if (near := nearest(given, names, cutoff)) else "there"
    verb, listed = "is only" if len(names) == 1 else "are", ", ".join(names) or "none"
    if len(names) > MOST_NAMES:
        some = list(dict.fromkeys([*_alike(given, names, cutoff), *names]))[:SOME_NAMES]
        listed = f"{len(names):,}, among them {', '.join(some)}" + (f"; {listing}" if listing else "")
    return InputError(f"unknown {kind} {given!r}: {hint} {verb} {listed}.")


def missing(package: str, *, extra: str = "", needed_by: str = "") -> InputError:
    """'the page needs jinja2, which is not installed: run 'pip install jinja2'.' An extra installs all it needs."""
    subject = f"{needed_by} {package}, which" if needed_by else package
    command = f"pip install 'class-uncertainty[{extra}]'" if extra else f"'pip install {package.lower()}'"
    return InputError(f"{subject} is not installed: run {command}.")


# log that something was redone or left out, and go on: `cu` prints it, elsewhere Python's logging handles it
notice = logging.getLogger("class_uncertainty").warning


def means_too_little_memory(error: BaseException) -> bool:
    """Whether memory ran short: torch raises a RuntimeError, a library that does not fit an ImportError or OSError."""
    if isinstance(error, OSError) and error.errno is not None:  # its message may hold any file name
        return error.errno == ENOMEM
    by_message = isinstance(error, RuntimeError | ImportError | OSError) and OUT_OF_MEMORY.search(str(error))
    return isinstance(error, MemoryError) or bool(by_message)


def blame_machine(path: object, error: BaseException) -> None:
    """Raise an error that a file's content did not cause: too little memory, or a disk that cannot be read."""
    if means_too_little_memory(error):
        raise error
    # a path that is not there or not a file is the user's mistake, not a failing disk
    if isinstance(error, OSError) and error.errno not in (None, EISDIR, ENOENT, ENOTDIR):
        raise MachineFault(f"{path} could not be read: {error.strerror}.") from error


@contextmanager
def memory_faults(stored: Callable[[], str] = str) -> Iterator[None]:
    """Turn an error that means too little memory into a MachineFault, which ends in what `stored` says."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError, ImportError) as error:
        if isinstance(error, MachineFault) or not means_too_little_memory(error):
            raise
        raise MachineFault(f"there is too little memory for this, or a limit is set (ulimit -v){stored()}.") from error


def fallback(what: str, why: object) -> None:
    """Warn that something faster does not work here."""
    reason = (str(why) or type(why).__name__).splitlines()[0]
    warnings.warn(f"{what} ({reason}): training goes on without, more slowly", RuntimeWarning, stacklevel=2)
