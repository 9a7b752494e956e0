"""Data by name: 'digits-lt:20' is the source 'digits-lt' with the argument '20'; then options, '?name=value&...'."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from class_uncertainty.data.cache import Progress, home
from class_uncertainty.data.dataset import LeftOut
from class_uncertainty.data.examples import Data
from class_uncertainty.data.splits import REPEATS_POLICIES
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.io import near

Splits = tuple[Data, Data | None]  # train, test

RATIO, COUNT = "an imbalance ratio (largest class to smallest)", "a whole number of examples per class"


@dataclass(frozen=True)
class Spec:
    """A parsed name, source[:argument][?option=value&...], and where and how to read it."""

    source: str
    argument: str
    options: Mapping[str, str]
    root: Path
    seed: int
    progress: Progress | None = None
    left_out: list[LeftOut] = field(default_factory=list)  # filled as the data are read

    @property
    def name(self) -> str:
        """The name in its one form, the same for the same data: 'digits-lt:20.0' is 'digits-lt:20'."""
        options = sorted(self.options.items())
        query = "&".join(f"{option}={value.replace('%', '%25').replace('&', '%26')}" for option, value in options)
        return self.source + (f":{self.argument}" if self.argument else "") + (f"?{query}" if query else "")

    @property
    def path(self) -> Path:
        """The argument as a path: as given, or else in the data folder."""
        return self.file(self.argument)

    def file(self, name: str) -> Path:
        """An existing path: as given, or else in the data folder."""
        for path in (Path(name), self.root / name):
            if os.path.exists(path):
                return path
        where = f"{self.root} (--root, in Python root=, or CLASS_UNCERTAINTY_DATA)"
        raise InputError(f"{name!r} is neither here nor in the data folder {where}{near(Path(name))}.")

    def whole(self, option: str, lowest: int, highest: int) -> int | None:
        """A whole number, or None if the option is not given."""
        if option not in self.options:
            return None
        text = self.options[option]
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not lowest <= int(text) <= highest:
            raise InputError(f"option {option!r} is {text!r}: it must be a whole number from {lowest} to {highest}.")
        return int(text)

    def share(self, option: str) -> float | None:
        """A number from 0 to 1, or None if the option is not given."""
        if option not in self.options:
            return None
        text = self.options[option]
        with suppress(ValueError):
            if 0 <= (share := float(text)) <= 1:
                return share
        raise InputError(f"option {option!r} is {text!r}: it must be a number from 0 to 1.")

    def one_of(self, option: str, words: Collection[str], default: str | None = None) -> str:
        """One of the words; the default, or else the first, if the option is not given."""
        given = self.options.get(option, default or next(iter(words)))
        if given not in words:
            raise unknown(option, given, words)
        return given

    @property
    def size(self) -> tuple[int, int] | None:
        """(H, W) of images, if the option is given."""
        side = self.whole("size", *SIZES)
        return (side, side) if side else None

    @property
    def channels(self) -> int:
        return int(self.one_of("channels", ("3", "1")))

    @property
    def least(self) -> int:
        """The examples that a class must have, or 0."""
        return self.whole("min", 1, 10**9) or 0

    @property
    def skips(self) -> bool:
        """Whether images that cannot be read are left out."""
        return bool(self.options.get("skip")) and self.one_of("skip", (UNREADABLE,)) == UNREADABLE

    @property
    def drops_repeats(self) -> bool:
        """Whether training examples that repeat another, or are test examples, are left out."""
        return "repeats" in self.options and self.one_of("repeats", REPEATS_POLICIES) == "drop"

    def several(self, option: str) -> list[str]:
        """'a,b' as a list."""
        return [name.strip() for name in self.options.get(option, "").split(",") if name.strip()]


UNREADABLE = "unreadable"  # what ?skip leaves out
SIZES = (4, 1024)  # pixels a side that images are read at
STEM_LENGTH = 40  # characters of four bytes leave room for endings
BY = " by "  # in a full name, between the data and the backbone that made features of them


def without_options(name: str) -> str:
    """A full name without the options of the data, with the backbone."""
    data, by, backbone = name.partition(BY)
    return data.partition("?")[0] + by + backbone


def place_of(name: str, otherwise: str = "") -> str:
    """The full path of data that are files here: what tells them from others of their name."""
    argument = name.partition(BY)[0].partition("?")[0].partition(":")[2]
    return os.path.realpath(argument) if argument and os.path.exists(argument) else otherwise


def file_stem(name: str) -> str:
    """A name for files about data: 'churn' of csv:tables/churn.csv, 'digits-lt-20' of digits-lt:20."""
    head = name.partition(BY)[0].partition("?")[0]
    stem = Path(head.partition(":")[2]).name.lstrip(".").partition(".")[0]
    if not stem.strip("0123456789"):
        stem = head
    return re.sub(r"\W+", "-", stem)[:STEM_LENGTH].strip("-") or "data"


@dataclass(frozen=True)
class Source:
    """A row of SOURCES: `argument` says what follows the colon, `expects` which files must exist."""

    about: str
    example: str
    read: Callable[[Spec], Splits]
    argument: str = ""  # "" if nothing may follow; RATIO and COUNT are numbers
    options: Mapping[str, str] = field(default_factory=dict)  # what each one does
    expects: str = ""


def parse(
    spec: str, sources: Mapping[str, Source], root: str | Path | None, seed: int, progress: Progress | None = None
) -> Spec:
    """The parts of a name, if there is such a source and it takes these options and this argument."""
    if spec != (escaped := spec.encode(errors="backslashreplace").decode()):
        raise InputError(f"{escaped!r} is not UTF-8, and results are stored under that name: rename it.")
    head, options = split_options(spec)
    name, _, argument = head.partition(":")
    if name not in sources:
        raise _unknown_source(spec, sources)
    source = sources[name]
    for option in options:
        if option not in source.options:
            raise unknown(f"option of {name!r}", option, source.options)
    if argument and not source.argument:
        tail = f"; for a long tail write '{name}-lt:{argument}'" if f"{name}-lt" in sources else ""
        raise InputError(f"'{name}:{argument}': {name!r} takes no argument{tail}.")
    return Spec(name, _argument(source, name, argument), options, data_folder(root), seed, progress)


def _unknown_source(spec: str, sources: Mapping[str, Source]) -> InputError:
    if (sourced := with_source(spec, sources)) == spec:
        return unknown("data", spec, [row.example for row in sources.values()])
    return InputError(f"{spec!r} is a path: write its source before it, as in {sourced!r}.")


def with_source(spec: str, sources: Mapping[str, Source]) -> str:
    """A path with the source that reads it before it; anything else as it is."""
    path = spec if os.path.exists(spec) else spec.rpartition("?")[0]
    if not os.path.exists(path) or path in sources:
        return spec
    ending = os.path.splitext(path.removesuffix(".gz"))[1].lstrip(".")
    return f"{ending if ending in sources and not os.path.isdir(path) else 'folder'}:{spec}"


def data_folder(root: str | Path | None) -> Path:
    """`root`, or CLASS_UNCERTAINTY_DATA, or a folder in the user's cache."""
    return Path(root or os.environ.get("CLASS_UNCERTAINTY_DATA") or home() / "data").expanduser()


def split_options(spec: str, kind: str = "data") -> tuple[str, dict[str, str]]:
    """The name before the options, and the options; a '?' without an option after it is part of a path."""
    head, mark, query = spec.rpartition("?")
    pairs = [pair for pair in query.split("&") if pair]
    if not mark or not pairs or "=" not in pairs[0]:
        return spec, {}
    options: dict[str, str] = {}
    for pair in pairs:
        option, _, value = pair.partition("=")
        value = unquote(value)  # %26 for a column with & in its name
        if option in options:
            raise InputError(f"{kind} {spec!r} has the option {option!r} twice: give it once.")
        if not value:
            raise InputError(f"{kind} {spec!r} has an option without a value: write {option}=VALUE.")
        options[option] = value
    return head, options


def _argument(source: Source, name: str, argument: str) -> str:
    try:
        if source.argument == RATIO:
            return repr(float(argument)).removesuffix(".0")
        if source.argument == COUNT:
            return str(int(argument))
        if source.argument and not argument:
            raise ValueError
    except ValueError:
        given = f"{name}:{argument}" if argument else name
        raise InputError(f"{given!r} needs {source.argument} after the colon, as in {source.example!r}.") from None
    return argument
