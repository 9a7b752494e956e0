"""What public calls refuse, in one sentence: a value of another kind, or one that is out of range.

`check(int, seed=seed)` reads as isinstance does: a kind is a type, several types joined by |, or a list of a type.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from itertools import repeat
from operator import call
from pathlib import Path
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from class_uncertainty.errors import InputError, means_too_little_memory, printable

LARGEST = 2**63  # the first whole number that 64 bits do not hold
WIDTH = 60  # characters of a value in a sentence
PYTHONS = {bool, float, int, str, NoneType}  # types of values that are in Python's form

Frame = Annotated[Any, "a DataFrame of pandas, polars or Arrow"]  # as an annotation it stands for anything
Tensorlike = Annotated[Any, "an array, or a tensor on any device"]


class Array:
    """Stands for whatever NumPy turns into numbers or names, where an argument is checked."""


# how to get an object of these classes
EXAMPLES = {
    "Data": "Data(inputs, labels)",
    "Dataset": "load('digits')",
    "Fit": "fit(data, lanes)",
    "Lane": "Lane('naive')",
    "Measure": "MEASURES['surprisal']",
    "Method": "METHODS['ubrs']",
    "Recipe": "Recipe('mlp', epochs=40, batch=32)",
    "Stats": "Stats(counts)",
}


def check(kind: Any, /, **values: Any) -> None:
    """Refuse values of another kind.

    A number of NumPy counts as Python's, a whole number as a float too, and a bool as neither. A Path may be text, and
    a list a tuple, an array or a column.
    """
    allowed = kind_of(kind)
    for name, value in values.items():
        if not allowed.takes(value):
            raise _refusal(name, value, allowed.words)


def take(kind: Any, /, **given: Any) -> Any:
    """The one value that is given, in Python's own types: lists, arrays and columns become tuples. Others are refused.

    Unlike a number of NumPy it is computed with in double precision, and is printed and stored as everyone's.
    """
    check(kind, **given)
    (value,) = given.values()
    return _in_python(value)


def check_fields(record: Any, *names: str) -> None:
    """Refuse values of other types than these fields of a dataclass have, or all its fields.

    NumPy's numbers become Python's, and lists tuples: equal records are printed, stored and hashed alike.
    """
    cls: Any = type(record)
    types = field_types(cls)
    for name in names or types:
        value = getattr(record, name)
        kind = kind_of(types[name])
        if not kind.takes(value):
            raise _refusal(name, value, kind.words)
        if type(value) not in PYTHONS:
            object.__setattr__(record, name, _in_python(value))


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields that its __init__ takes."""
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in fields(kind) if field.init}


def check_field(record: object, field: str, allowed: str, fine: Callable[[Any], bool]) -> None:
    """Refuse a number, of a field that is one, outside its range; NaN is in none."""
    value = getattr(record, field)
    if not fine(value):
        raise _refusal(field, value, allowed)


def check_number(name: str, value: Any, allowed: str, fine: Callable[[Any], bool]) -> None:
    """Refuse anything but a number in its range; NaN is in none."""
    if not _is_number(value) or not fine(value):
        raise _refusal(name, value, allowed)


def check_least(name: str, value: int, least: int) -> None:
    """Refuse anything but a whole number from the least one allowed."""
    if not _is_whole(value) or value < least:
        raise _refusal(name, value, f"a whole number from {least}")


def check_distinct(kind: str, values: Sequence[Any]) -> None:
    """Refuse a list that is empty or in which something repeats."""
    if not len(values):
        raise InputError(f"no {kind} is given: there must be one at least.")
    if repeated := [value for i, value in enumerate(values) if value in values[:i]]:
        raise InputError(f"{kind} {repeated[0]} is given twice: each must be there once.")


def check_place(what: str, place: int, number: int) -> None:
    """Refuse anything but an index of so many; negative ones count from the end."""
    check(int, **{what: place})
    if not -number <= place < number:
        raise InputError(f"{what} {place} does not exist: there are {number}, counted from 0.")


def shortly(value: object) -> str:
    """A value on one short line, without memory addresses."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and type {printable(value.dtype)}"
    if is_frame(value):
        return f"a DataFrame of {type(value).__module__.partition('.')[0]}"
    if isinstance(value, type):
        return f"the class {printable(value.__qualname__)}"
    limits = Repr()
    limits.maxstring = limits.maxlong = WIDTH
    limits.maxother = 10**4  # cut below, once addresses are removed
    try:
        text = re.sub(r" at 0x[0-9A-Fa-f]+", "", limits.repr(value))
    except Exception:  # a failing repr, or a number of too many digits
        text = f"<{type(value).__name__}>"
    text = printable(" ".join(text.split()))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame, of pandas, polars or Arrow: it has columns, and hands them to other libraries."""
    kind = type(value)
    return hasattr(kind, "columns") and any(hasattr(kind, way) for way in ("__arrow_c_stream__", "__dataframe__"))


Test = Callable[[Any], bool]


class Kind(NamedTuple):
    """What a type stands for where it is checked: whether it takes a value, and the words for what it takes."""

    takes: Test
    words: str


@cache
def kind_of(given: Any) -> Kind:
    """The kind that a type, a union or a list of a type stands for."""
    if given in KINDS:
        return KINDS[given]
    origin = get_origin(given)
    if origin in KINDS:
        return KINDS[origin]
    if origin is None:
        return Kind(lambda value: isinstance(value, given), _words(given.__name__))
    arguments = [argument for argument in get_args(given) if argument is not Ellipsis]
    tests, words = zip(*map(kind_of, arguments), strict=True)
    if origin in (Union, UnionType):
        return Kind(partial(_passes_one, tests), " or ".join(words))
    if origin is tuple and Ellipsis not in get_args(given):
        return Kind(partial(_is_row, tests), f"({', '.join(words)})")
    form = "tuple" if origin is tuple else "list"
    return Kind(partial(_is_list_of, tests[0]), f"a {form}, each item {words[0]}")


def _words(name: str) -> str:
    """'a Data object, as Data(inputs, labels)'."""
    example = f", as {EXAMPLES[name]}" if name in EXAMPLES else ""
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name} object{example}"


def _passes_one(tests: Sequence[Test], value: Any) -> bool:
    return any(map(call, tests, repeat(value)))


def _is_row(tests: Sequence[Test], value: Any) -> bool:
    """Whether each item passes the test in its place."""
    return _is_list(value) and len(value) == len(tests) and all(map(call, tests, value))


def _is_list_of(test: Test, value: Any) -> bool:
    return _is_list(value) and all(map(test, value))


def _is_list(value: Any) -> bool:
    """Whether it is a list, a tuple, an array or a column of pandas."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return False
    return isinstance(value, Sequence) or (hasattr(value, "tolist") and np.ndim(value) == 1)


def _in_python(value: Any) -> Any:
    if type(value) in PYTHONS:
        return value
    if isinstance(value, np.generic):
        return value.item()
    is_named_tuple = isinstance(value, tuple) and type(value) is not tuple
    if type(value) is tuple or (not is_named_tuple and _is_list(value)):
        return tuple(map(_in_python, value))
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and -LARGEST <= int(value) < LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, float | np.float32 | np.float16) or _is_whole(value)


def _is_array(value: Any) -> bool:
    """Whether NumPy turns it into numbers or texts; of a masked array, NumPy would read masked values too."""
    if isinstance(value, str | bytes | Mapping) or np.ma.is_masked(value):
        return False
    try:
        array = np.asarray(value)
    except Exception as error:  # uneven lists, a tensor on a GPU: each class raises errors of its own
        if means_too_little_memory(error):
            raise
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in "biufU"
    items = array.ravel().tolist() if array.ndim else [None]
    return all(issubclass(kind, str) for kind in set(map(type, items))) or all(map(_is_number, items))


def _is_tensorlike(value: Any) -> bool:
    return (type(value).__module__.startswith("torch") and hasattr(value, "detach")) or _is_array(value)


def _names_file(value: Any) -> bool:
    """Whether it is text or a Path that can name a file: for others, system calls raise errors of their own."""
    if not isinstance(value, str | Path):
        return False
    try:
        name = os.fsencode(value)
    except UnicodeError:
        return False
    parts = name.replace(os.sep.encode(), b"/").split(b"/")
    return b"\0" not in name and all(len(part) <= 255 for part in parts)


# types that stand for more than their own objects, or have words of their own
KINDS: dict[Any, Kind] = {
    Any: Kind(lambda value: True, "anything"),
    Array: Kind(_is_array, "an array or a list of numbers or of names"),
    Callable: Kind(callable, "a function"),
    Frame: Kind(is_frame, "a DataFrame"),
    NoneType: Kind(lambda value: value is None, "None"),
    Path: Kind(_names_file, "a path"),
    Tensorlike: Kind(_is_tensorlike, "an array, a tensor or a list of numbers"),
    bool: Kind(lambda value: isinstance(value, bool | np.bool_), "True or False"),
    dict: Kind(lambda value: isinstance(value, Mapping), "a dictionary"),
    float: Kind(_is_number, "a number"),
    int: Kind(_is_whole, "a whole number"),
    str: Kind(lambda value: isinstance(value, str), "text"),
}


def _refusal(name: str, value: Any, allowed: str) -> InputError:
    if np.ma.is_masked(value):
        place = np.argwhere(np.atleast_1d(np.ma.getmaskarray(np.ma.asarray(value))))[0].tolist()
        return InputError(f"{name} is masked at {tuple(place)}: no value may be missing.")
    if isinstance(value, int) and abs(value) >= LARGEST and "number" in allowed:
        allowed = "a number that 64 bits hold"
    if is_frame(value) and ("Data" in allowed or "array" in allowed):
        allowed += "; load(frame, label='COLUMN') and Data.from_frame make data of a DataFrame"
    if isinstance(value, str) and EXAMPLES["Dataset"] in allowed:
        allowed += f"; load({shortly(value)}) reads data by their name"
    return InputError(f"{name} is {shortly(value)}: it must be {allowed}.")
