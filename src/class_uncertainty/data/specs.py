"""Data by name: 'digits-lt:20' is the source 'digits-lt' with the argument '20'; options follow as '?name=value&...'."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from class_uncertainty.data.cache import Progress, home
from class_uncertainty.data.core import Data
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.files import near

Splits = tuple[Data, Data | None]  # train, test

RATIO, COUNT = "an imbalance ratio", "a whole number of examples a class"


@dataclass(frozen=True)
class Spec:
    """A parsed name, source[:argument][?option=value&...], and where and how to read it."""

    source: str
    argument: str
    options: Mapping[str, str]
    root: Path
    seed: int
    progress: Progress | None = None

    @property
    def name(self) -> str:
        """The same data have the same name: 'digits-lt:20.0' is 'digits-lt:20'."""
        escaped = {option: value.replace("%", "%25").replace("&", "%26") for option, value in sorted(self.options.items())}
        query = "&".join(f"{option}={value}" for option, value in escaped.items())
        return self.source + (f":{self.argument}" if self.argument else "") + (f"?{query}" if query else "")

    @property
    def path(self) -> Path:
        """The argument as a path: as it is, or else in the data folder."""
        return self.file(self.argument)

    def file(self, name: str) -> Path:
        found = next((path for path in (Path(name), self.root / name) if os.path.exists(path)), None)
        if found is None:
            where = f"nor in the data folder {self.root} (--root or CLASS_UNCERTAINTY_DATA)"
            raise InputError(f"{name!r} is neither here {where}{near(Path(name))}.")
        return found

    def whole(self, option: str, lowest: int, highest: int) -> int | None:
        """A whole number, or None where the option is not given."""
        if option not in self.options:
            return None
        text = self.options[option]
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not lowest <= int(text) <= highest:
            raise InputError(f"option {option!r} is {text!r}: it must be a whole number from {lowest} to {highest}.")
        return int(text)

    def one_of(self, option: str, words: Iterable[str], default: str | None = None) -> str:
        """One of the words; the first, or the default, where the option is not given."""
        words = list(words)
        given = self.options.get(option, default or words[0])
        if given not in words:
            raise unknown(option, given, words)
        return given

    @property
    def size(self) -> tuple[int, int] | None:
        """Of pictures, (H, W)."""
        side = self.whole("size", 4, 1024)
        return (side, side) if side else None

    @property
    def channels(self) -> int:
        return int(self.one_of("channels", ("3", "1")))

    def several(self, option: str) -> list[str]:
        """'a,b' as a list."""
        return [part.strip() for part in self.options.get(option, "").split(",") if part.strip()]


@dataclass(frozen=True)
class Source:
    """A row of SOURCES. `argument` says what follows the colon, `options` what each option does, `expects` what must lie on disk."""

    about: str
    example: str
    read: Callable[[Spec], Splits]
    argument: str = ""  # "" where nothing may follow; RATIO and COUNT are numbers
    options: Mapping[str, str] = field(default_factory=dict)
    expects: str = ""


def parse(spec: str, sources: Mapping[str, Source], root: str | Path | None, seed: int, progress: Progress | None = None) -> Spec:
    if spec != (shown := spec.encode(errors="backslashreplace").decode()):
        raise InputError(f"{shown!r} is not text in UTF-8, and results are kept under that name: rename it.")
    head, options = _split(spec)
    name, _, argument = head.partition(":")
    if name not in sources:
        if os.path.exists(spec):
            form = "folder" if os.path.isdir(spec) else os.path.splitext(spec)[1].lstrip(".")
            raise InputError(f"{spec!r} is a path: write its form before it, as in '{form if form in sources else 'folder'}:{spec}'.")
        raise unknown("data", spec, [row.example for row in sources.values()])
    source = sources[name]
    for option in options:
        if option not in source.options:
            if not source.options:
                raise InputError(f"data {spec!r} has the option {option!r}: {name!r} takes none.")
            raise unknown(f"option of {name!r}", option, source.options)
    if argument and not source.argument:
        tail = f"; for a long tail write '{name}-lt:{argument}'" if f"{name}-lt" in sources else ""
        raise InputError(f"'{name}:{argument}': {name!r} takes no argument{tail}.")
    return Spec(name, _argument(source, name, argument), options, data_folder(root), seed, progress)


def data_folder(root: str | Path | None) -> Path:
    """`root`, or CLASS_UNCERTAINTY_DATA, or a folder of our own."""
    return Path(root or os.environ.get("CLASS_UNCERTAINTY_DATA") or home() / "data").expanduser()


def _split(spec: str) -> tuple[str, dict[str, str]]:
    """A '?' that no option follows is part of a path."""
    head, mark, query = spec.rpartition("?")
    parts = [part for part in query.split("&") if part]
    if not mark or not parts or "=" not in parts[0]:
        return spec, {}
    options: dict[str, str] = {}
    for part in parts:
        option, _, value = part.partition("=")
        value = unquote(value)  # %26 for a column with & in its name
        if option in options:
            raise InputError(f"data {spec!r} has the option {option!r} twice: each may be there once.")
        if not value:
            raise InputError(f"data {spec!r} has an option without a value: write {option}=VALUE.")
        options[option] = value
    return head, options


def _argument(source: Source, name: str, argument: str) -> str:
    if source.argument and not argument:
        raise InputError(f"{name!r} needs {source.argument} after a colon, as in {source.example!r}.")
    try:
        if source.argument == RATIO:
            return repr(float(argument)).removesuffix(".0")
        return str(int(argument)) if source.argument == COUNT else argument
    except ValueError:
        raise InputError(f"'{name}:{argument}' needs {source.argument} after the colon, as in {source.example!r}.") from None
