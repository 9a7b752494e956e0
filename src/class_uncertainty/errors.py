"""The ways a call can end early for a reason its user should read: a wrong input, a fault of the machine, a budget that is spent."""

import logging
from collections.abc import Iterable
from difflib import get_close_matches


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
