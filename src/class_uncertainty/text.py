"""Text that any terminal can show on one line."""

import codecs
import os
import re
import sys

from class_uncertainty.errors import InputError
from class_uncertainty.errors import printable as printable  # what is said here is text too

PLAIN = {
    "μ": "mu",
    "±": "+-",
    "ρ": "rho",
    "ε": "eps",
    "–": "-",
    "−": "-",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "τ": "tau",
    "κ": "kappa",
    "─": "-",
    "…": "...",
}


def tell(sentence: object, start: str = "") -> None:
    """One line to whoever typed the command, on stderr."""
    print(f"{start}cu: {printable(sentence)}", file=sys.stderr)


def reason(error: BaseException) -> str:
    """The first line of what an error says, to stand inside a sentence; its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return printable(lines[0] if lines else type(error).__name__).rstrip(".: ")


def seconds(duration: str | None) -> float | None:
    """Of '1h30m', '25m', '90s' or '90'."""
    if duration is None:
        return None
    found = re.fullmatch(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", duration.strip(), re.ASCII)
    whole = sum(int(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else 0
    if not 0 < whole < 10**9:
        raise InputError(f"budget is {duration!r}: it must be more than 0, in hours, minutes or seconds, as in 1h30m, 25m or 90s.")
    return whole


def shown(text: str) -> str:
    """As standard output can show it: in a table the names of Greek letters must have been written before columns are measured."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "plain").decode(encoding)


def encode_plainly() -> None:
    """A terminal without Greek letters is shown their names, not a traceback."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # as long as the process
        getattr(sys, name).reconfigure(errors="plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


codecs.register_error("plain", _plain)
