"""Spec: how data, backbones, networks, recipes, goals and estimators are named, `name:argument?key=value&key=value`."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from class_uncertainty.data.cache import Progress, home
from class_uncertainty.data.dataset import LeftOut
from class_uncertainty.data.examples import Data
from class_uncertainty.data.finding import Finding
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.io import near

Splits = tuple[Data, Data | None]  # train, test
Reader = Callable[[str, str], Any]  # turns the text of an option into its value, or refuses it by the option's name

STEM_LENGTH = 40  # characters of four bytes leave room for endings
LITE0 = "efficientnet-lite0"
BY = " by "  # in a full name, between the data and the backbone that made features of them


@dataclass(frozen=True)
class Spec:
    """A name, what follows its colon, and the options behind its question mark, as they were typed."""

    name: str
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The one form of all specs that mean the same. Results are stored under it."""
        pairs = [f"{key}={_escaped(value)}" for key, value in sorted(self.options.items())]
        text = f"{self.name}:{self.argument}" if self.argument else self.name
        return f"{text}?{'&'.join(pairs)}" if pairs else text


@dataclass(frozen=True)
class DataSpec(Spec):
    """A name of data, with the values of its options, and how to read them."""

    values: Mapping[str, Any] = field(default_factory=dict)  # of `options`
    root: Path = field(default_factory=Path)
    seed: int = 0
    progress: Progress | None = None
    left_out: list[LeftOut] = field(default_factory=list)  # filled as the data are read
    noticed: list[Finding] = field(default_factory=list)  # likewise

    @property
    def path(self) -> Path:
        """The argument as a path: as given, or else in the data folder."""
        return self.file(self.argument)

    def file(self, name: str) -> Path:
        """An existing path: as given, or else in the data folder."""
        if path := find(name, self.root):
            return path
        where = f"{self.root} (--root, in Python root=, or CLASS_UNCERTAINTY_DATA)"
        raise InputError(f"{name!r} is neither here nor in the data folder {where}{near(Path(name))}.")

    @property
    def size(self) -> tuple[int, int] | None:
        """(H, W) of images, if the option is given."""
        side = self.values.get("size")
        return (side, side) if side else None


def find(name: str, root: Path) -> Path | None:
    """A path that exists: as given, or else in the data folder."""
    return next((place for place in (Path(name), root / name) if os.path.exists(place)), None)


def split_query(text: str) -> tuple[str, str]:
    """What stands before the options, and the options.

    A path may have question marks of its own: the last one begins the options, unless no KEY= follows it.
    """
    head, mark, query = text.rpartition("?")
    return (head, query) if mark and "=" in query.partition("&")[0] else (text, "")


def parse_spec(kind: str, text: str) -> Spec:
    """The parts of a name that may be a path. Percent signs in values stand for characters: %26 for &."""
    head, query = split_query(text)
    name, _, argument = head.partition(":")
    options = parse_options(kind, text, query) if query else {}
    return Spec(name, argument, {key: unquote(value) for key, value in options.items()})


def with_options(text: str, options: Mapping[str, Any]) -> str:
    """A name of data with more options behind its own, before its backbone."""
    data, backbone = split_backbone(text)
    for key, value in options.items():
        data += f"{'&' if split_query(data)[1] else '?'}{key}={_escaped(str(value))}"
    return f"{data}{BY}{backbone}" if backbone else data


def _escaped(value: str) -> str:
    """The value of an option without the characters that options are told apart by."""
    return value.replace("%", "%25").replace("&", "%26").replace("?", "%3F")


def parse_options(kind: str, text: str, query: str) -> dict[str, str]:
    """'key=value&key=value', the part of a text behind its question mark."""
    options: dict[str, str] = {}
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        if not key or not value:
            raise InputError(f"{kind} {text!r} has an option without a value: write {key or 'KEY'}=VALUE.")
        if key in options:
            raise InputError(f"{kind} {text!r} has the option {key!r} twice: give it once.")
        options[key] = value
    return options


def read_options(owner: str, options: Mapping[str, str], readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The values of options; refuses an option that its owner does not have."""
    values = {}
    for key, text in options.items():
        if key not in readers:
            raise unknown(f"option of {owner}", key, readers)
        values[key] = readers[key](key, text)
    return values


def reader(read: Callable[[str], Any], allowed: str) -> Reader:
    """Reads an option by a function that raises ValueError, or KeyError, for all but what is allowed."""

    def read_option(key: str, text: str) -> Any:
        try:
            return read(text)
        except (ValueError, KeyError):
            raise InputError(f"option {key!r} is {text!r}: it must be {allowed}.") from None

    return read_option


def number(kind: Callable[[str], float], what: str, least: float, most: float) -> Reader:
    """Reads a number of that kind, from the least to the most."""

    def read(text: str) -> float:
        value = kind(text)
        if not least <= value <= most:
            raise ValueError
        return value

    return reader(read, f"{what} from {least} to {most}")


def whole(least: int, most: int) -> Reader:
    """Reads a whole number from the least to the most, written in plain digits."""
    return number(_digits, "a whole number", least, most)


def _digits(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ValueError
    return int(text)


def one_of(words: Collection[str]) -> Reader:
    """Reads one of some words."""

    def read_word(key: str, text: str) -> str:
        if text not in words:
            raise unknown(key, text, words)
        return text

    return read_word


def read_text(key: str, text: str) -> str:
    """Reads anything."""
    return text


def read_share_or_file(key: str, text: str) -> float | str:
    """Reads a number, or the name of a file."""
    try:
        return float(text)
    except ValueError:
        return text


def read_names(key: str, text: str) -> list[str]:
    """Reads 'a,b'."""
    return [name.strip() for name in text.split(",") if name.strip()]


def split_argument(kind: str, text: str, forms: Collection[str]) -> tuple[str, str]:
    """The name and the argument of a text that has one of these forms, such as 'mean' and 'cost:FILE.csv'."""
    name, colon, argument = text.partition(":")
    named = [form for form in forms if form.partition(":")[0] == name]
    takes_argument = any(":" in form for form in named)
    if not named or (colon and not takes_argument):
        raise unknown(kind, text, forms)
    if not argument and text not in named:
        raise InputError(f"{kind} {text!r} is not complete: write {named[-1]}.")
    return name, argument


def names_backbone(name: str) -> bool:
    """Whether a text is the name of a backbone, which may not be there."""
    head = split_query(name)[0]
    return head == LITE0 or head.startswith(("timm:", "hf:")) or ".py:" in head


def split_backbone(name: str) -> tuple[str, str]:
    """The data of a full name, and the backbone that made features of them; "" where there is none."""
    data, _, backbone = name.rpartition(BY)
    return (data, backbone) if data and names_backbone(backbone) else (name, "")


def without_options(name: str) -> str:
    """A full name without the options of the data, with the backbone."""
    data, backbone = split_backbone(name)
    head = split_query(data)[0]
    return f"{head}{BY}{backbone}" if backbone else head


def paths_named(*names: str | None, root: str | Path | None = None) -> list[Path]:
    """The full paths that names of data, backbones, networks and goals speak of, with the files of an hf:FOLDER."""
    paths = list[Path]()
    for name in filter(None, names):
        for text in split_backbone(name):
            head, query = split_query(text)
            words = [head.partition(":")[2], *(unquote(option.partition("=")[2]) for option in query.split("&"))]
            if ".py:" in head:
                words.append(head.rpartition(":")[0])
            paths += [place for word in filter(None, words) for place in (Path(word), data_folder(root) / word)]
            if head.startswith("hf:") and words[0]:
                paths += Path(words[0]).glob("*")
    return [path.resolve() for path in paths if os.path.exists(path)]


def argument_of(name: str) -> str:
    """'tables/churn.csv' of 'csv:tables/churn.csv?label=kind'."""
    return _head(name).partition(":")[2]


def file_stem(name: str) -> str:
    """A name for files about data: 'churn' of csv:tables/churn.csv, 'digits-lt-20' of digits-lt:20."""
    head = _head(name)
    stem = Path(argument_of(name) or head).name.lstrip(".").partition(".")[0]
    if not stem.strip("0123456789"):
        stem = head
    return re.sub(r"\W+", "-", stem)[:STEM_LENGTH].strip("-") or "data"


def short_name(name: str) -> str:
    """The data as people call them: 'churn.csv' of csv:churn.csv?label=kind, 'digits-lt:20' of digits-lt:20."""
    head = _head(name)
    path = head.partition(":")[2]
    return path if path.strip("0123456789.") else head


def _head(name: str) -> str:
    """The data of a full name, without their options."""
    return split_query(split_backbone(name)[0])[0]


def data_folder(root: str | Path | None) -> Path:
    """`root`, or CLASS_UNCERTAINTY_DATA, or a folder in the user's cache."""
    return Path(root or os.environ.get("CLASS_UNCERTAINTY_DATA") or home() / "data").expanduser()
