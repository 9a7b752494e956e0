"""Text for people: sentences on one line, numbers, tables in a notebook; all of it on any terminal."""

import codecs
import io
import math
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from html import escape
from importlib import import_module
from typing import Any

from class_uncertainty.errors import InputError, MachineFault, blame_machine, missing
from class_uncertainty.errors import printable as printable  # offered here too

GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "ε": "eps", "κ": "kappa", "μ": "mu", "ρ": "rho", "τ": "tau"}
ASCII = GREEK | {"±": "+-", "×": "x", "–": "-", "−": "-", "─": "-", "…": "..."}
LONGEST = 2**12  # characters of a name in a file
REASON = 300  # characters of a foreign error in a sentence
CELL = "padding:.2em .6em;text-align:{}"
TORN = re.compile(r"(?<=\d) (?=[%±])|(?<=±) (?=\d)")  # where a line must not break: '95 %', '7.2 ± 1.4'


def tell(sentence: object, start: str = "") -> None:
    """Print one line on stderr."""
    print(f"{start}cu: {printable(sentence)}", file=sys.stderr)


def reason(error: BaseException) -> str:
    """The first line of an error's message, to stand inside a sentence; its type where the message is empty."""
    lines = str(error).strip().splitlines()
    text = printable(lines[0] if lines else type(error).__name__).rstrip(".: ")
    return text if len(text) <= REASON else f"{text[:REASON]}..."


def short(number: float) -> str:
    """A number in few digits, but enough to tell 0.9999999 from 1."""
    return f"{number:.12g}"


def in_list(name: str) -> str:
    """A name between commas: one that has a comma itself is quoted, so that 'a, b' are two names."""
    return repr(name) if "," in name else name


def listed(names: Sequence[str], most: int, number: int | None = None) -> str:
    """'age, city and 4 more', of so many in all; a name with a comma is quoted."""
    return enumerated([in_list(name) for name in names], most, number)


def enumerated(phrases: Sequence[str], most: int, number: int | None = None) -> str:
    """'cat (1), dog (0) and 4 more', of so many in all. Names within phrases go through `in_list`."""
    more = (len(phrases) if number is None else number) - min(len(phrases), most)
    return ", ".join(map(printable, phrases[:most])) + (f" and {more:,} more" if more else "")


def amount_of(number: int, one: str, several: str) -> str:
    """'1 label is', '2 labels are'."""
    return f"{number:,} {one if number == 1 else several}"


def decimal(number: float, digits: int, sign: str = "") -> str:
    """A number with so many decimals, and a dash for NaN.

    With the sign '+' a gain shows it; zero, and what rounds to it, has none.
    """
    if math.isnan(number):
        return "–"
    rounded = round(number, digits) + 0.0  # turns -0.0 into 0.0
    return f"{rounded:{sign if rounded else ''},.{digits}f}"


def number(value: float | None, digits: int = 1, sign: str = "") -> str:
    """A number of a table; a dash where there is none."""
    return "–" if value is None else decimal(value, digits, sign)


def interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None or low != low else f"{low:.0f} to {high:.0f}"


def unbroken(text: str) -> str:
    """The same text, or markup, whose numbers stay on one line with their unit and their deviation."""
    return type(text)(TORN.sub("\N{NO-BREAK SPACE}", text))


def amount(number: int) -> str:
    """A count in two or three digits: '650', '7.4 k', '0.46 M', '11.2 M'."""
    if number < 1000:
        return str(number)
    if number < 99_950:
        return f"{number / 1e3:.1f} k"
    return f"{number / 1e6:.2f} M" if number < 995_000 else f"{number / 1e6:.1f} M"


@contextmanager
def read_faults(path: object, failure: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Turn an error of those kinds into an InputError, 'PATH FAILURE: reason.', unless the machine is at fault.

    A damaged file raises nearly anything, so every error counts unless some kinds are named.
    """
    try:
        yield
    except (InputError, MachineFault):
        raise
    except kinds as error:
        blame_machine(path, error)
        raise InputError(f"{path} {failure}: {reason(error)}.") from error


def seconds(duration: str | None) -> float | None:
    """Seconds of a budget written as '1h30m', '25m', '90s' or '90'."""
    if duration is None:
        return None
    fields = re.fullmatch(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", duration.strip(), re.ASCII)
    hours, minutes, rest = (int(digits or 0) for digits in fields.groups()) if fields else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + rest
    if not 0 < total < 10**9:
        raise InputError(f"budget is {duration!r}: write hours, minutes or seconds above 0, as in 1h30m, 25m or 90s.")
    return total


def to_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A DataFrame with a column for each key; pandas is needed for that alone."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError:
        raise missing("pandas", needed_by="to_frame() needs") from None
    return pandas.DataFrame(list(rows))


def html_lines(view: str, value: Any) -> str:
    """What a command prints of a value, for a notebook; `view` is 'module.function' of the folder reporting."""
    module, _, function = view.partition(".")
    terminal = import_module("class_uncertainty.reporting.terminal")  # late: it is of a later stage
    lines_of = getattr(import_module(f"class_uncertainty.reporting.{module}"), function)
    lines = lines_of(value, terminal.Verbosity.NORMAL, terminal.WIDEST_LINE)
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def shown(text: str) -> str:
    """Text as standard output can show it, so that columns of a table are measured as they will be printed."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "plain").decode(encoding)


def encode_plainly() -> None:
    """Print names of Greek letters on a terminal that cannot show them, instead of a traceback."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # stays open as long as the process
        getattr(sys, name).reconfigure(errors="plain")


class _Pipe(io.FileIO):
    """What is written after the reader has closed the pipe is dropped."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def outlive_readers() -> None:
    """Let a command write its files although nobody reads its output to the end, as in 'cu fix DATA | head -1'."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        with suppress(io.UnsupportedOperation):  # it is no file
            if stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
                pipe = io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False))
                by_line = stream.line_buffering or stream.write_through
                setattr(sys, name, io.TextIOWrapper(pipe, stream.encoding, stream.errors, line_buffering=by_line))


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(c, "?") for c in error.object[error.start : error.end]), error.end


codecs.register_error("plain", _plain)
