"""Public calls check what they are given against their own annotations: what is of another kind is refused in one sentence.

What is of the right kind arrives in one form: NumPy's numbers as Python's, lists as tuples where a tuple is annotated.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, wraps
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import numpy as np
from numpy.typing import ArrayLike

from class_uncertainty.errors import InputError, means_too_little_memory, unknown
from class_uncertainty.text import printable

F = TypeVar("F", bound=Callable[..., Any])

WRONG = object()  # what a kind makes of a value that it refuses
LARGEST = 2**63  # of whole numbers: the first that 64 bits do not hold
WIDTH = 60  # characters of a value in a sentence
EXAMPLES = {
    "Data": "Data (Data(inputs, labels) makes them)",
    "Dataset": "a Dataset (load() gives one)",
    "Estimate": "an Estimate (estimate() gives one)",
    "Fit": "a Fit (fit() gives one)",
    "Lane": "a Lane (as Lane('naive'))",
    "Measure": "a Measure (as MEASURES['surprisal'])",
    "Method": "a Method (as METHODS['ubrs'])",
    "Recipe": "a Recipe (as Recipe('mlp', epochs=40, batch=32))",
    "Stats": "Stats (as Stats(counts), or estimate(data).stats)",
}  # what to write where one of these is wanted


class Kind(NamedTuple):
    """A kind of values: `take` gives the value in its one form, or WRONG; `words` say what is allowed."""

    take: Callable[[Any], Any]
    words: str


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _whole(value: Any) -> Any:
    value = _plain(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and -LARGEST <= value < LARGEST else WRONG


def _number(value: Any) -> Any:
    if type(value) is float:  # nearly always
        return value
    value = _plain(value)
    return value if isinstance(value, float) else _whole(value)


def _array(value: Any) -> Any:
    """Whatever NumPy makes numbers or texts of, as it was given."""
    if isinstance(value, str | bytes | Mapping) or np.ma.is_masked(value):  # NumPy would take what lies under a mask for values
        return WRONG
    try:
        array = np.asarray(value)
    except Exception as error:  # a list of lists of different lengths, a tensor on a GPU: each class has errors of its own
        if means_too_little_memory(error):
            raise
        return WRONG
    if array.dtype.kind != "O":
        return value if array.dtype.kind in "biufU" else WRONG
    parts = array.ravel().tolist() if array.ndim else [WRONG]
    alike = all(isinstance(part, str) for part in parts) or all(_number(part) is not WRONG for part in parts)
    return value if alike else WRONG


def _array_or_tensor(value: Any) -> Any:
    return value if type(value).__module__.startswith("torch") and hasattr(value, "detach") else _array(value)


def _path(value: Any) -> Any:
    """Text or a Path that can name a file: the system's calls raise errors of their own for others."""
    try:
        name = os.fsencode(value) if isinstance(value, str | Path) else b"\0"
    except UnicodeError:
        return WRONG
    return WRONG if b"\0" in name or any(len(part) > 255 for part in name.replace(os.sep.encode(), b"/").split(b"/")) else value


def _instance(allowed: type) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        if type(value) is allowed:  # nearly always
            return value
        value = _plain(value)
        return value if isinstance(value, allowed) else WRONG

    return take


ARRAY_OR_TENSOR, PATH = "array or tensor", "path"
Tensorlike = Annotated[Any, ARRAY_OR_TENSOR]  # an annotation for what may be a tensor of any device too
LETTERS = {np.floating: "biuf", np.integer: "biu", np.object_: "OU"}  # kinds of arrays that are taken for those of such scalars
ARRAYS = set(get_args(ArrayLike)) or {ArrayLike}
KINDS: dict[Any, Kind] = {
    Any: Kind(lambda value: value, "anything"),
    ARRAY_OR_TENSOR: Kind(_array_or_tensor, "an array, a tensor or a list of numbers"),
    ArrayLike: Kind(_array, "an array or a list of numbers or of names"),
    NoneType: Kind(_instance(NoneType), "None"),
    PATH: Kind(_path, "a path"),
    bool: Kind(_instance(bool), "True or False"),
    float: Kind(_number, "a number"),
    int: Kind(_whole, "a whole number"),
    str: Kind(_instance(str), "text"),
}


def kind_of(hint: Any) -> Kind:
    """The kind that an annotation stands for."""
    if hint in KINDS:
        return KINDS[hint]
    origin, parts = get_origin(hint), get_args(hint)
    if hasattr(origin or hint, "__value__"):  # an alias of Python 3.12, as NumPy 2.5 has them, for what it stands for
        stands_for = (origin or hint).__value__
        return kind_of(stands_for[parts] if parts else stands_for)
    if origin is Annotated:
        return kind_of(parts[1]) if parts[1] in KINDS else kind_of(parts[0])
    if origin in (Union, UnionType):
        if set(parts) >= ARRAYS:  # a union in a union comes flat
            parts = (ArrayLike, *(part for part in parts if part not in ARRAYS))
        if {str, Path} <= set(parts):
            parts = (PATH, *(part for part in parts if part not in (str, Path)))
        return _one_of([kind_of(part) for part in parts])
    if origin is Literal:
        words = " or ".join(map(repr, parts))
        return Kind(lambda value: value if any(type(value) is type(part) and value == part for part in parts) else WRONG, words)
    if origin is tuple and parts[-1] is not Ellipsis:
        return _fixed([kind_of(part) for part in parts])
    if origin in (tuple, list, Sequence):
        return _several(origin if origin is tuple else list, kind_of(parts[0]))
    if origin in (dict, Mapping):
        return _mapping(kind_of(parts[0]), kind_of(parts[1]))
    if origin is Callable:
        return Kind(lambda value: value if callable(value) else WRONG, "a function")
    allowed = origin or hint
    if allowed is np.ndarray:
        return _array_of(*get_args(parts[1]))
    assert isinstance(allowed, type), f"no kind stands for the annotation {hint}"
    article = "an" if allowed.__name__[0] in "AEIOU" else "a"
    return Kind(_instance(allowed), EXAMPLES.get(allowed.__name__, f"{article} {allowed.__name__}"))


def _array_of(scalar: Any) -> Kind:
    letters = next((letters for base, letters in LETTERS.items() if isinstance(scalar, type) and issubclass(scalar, base)), "biufUO")

    def take(value: Any) -> Any:
        if _array(value) is WRONG:
            return WRONG
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        return array if array.ndim and array.dtype.kind in letters else WRONG

    return Kind(take, "an array of names" if letters == "OU" else "an array of numbers")


def _one_of(kinds: Sequence[Kind]) -> Kind:
    optional = KINDS[NoneType] in kinds

    def take(value: Any) -> Any:
        if value is None:
            return None if optional else WRONG
        for kind in kinds:
            if (taken := kind.take(value)) is not WRONG:
                return taken
        return WRONG

    return Kind(take, " or ".join(kind.words for kind in kinds))


def _fixed(kinds: Sequence[Kind]) -> Kind:
    def take(value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(kinds):
            return WRONG
        taken = tuple(kind.take(item) for kind, item in zip(kinds, value, strict=True))
        return WRONG if any(item is WRONG for item in taken) else taken

    return Kind(take, f"({', '.join(kind.words for kind in kinds)})")


def _several(form: type, kind: Kind) -> Kind:
    def take(value: Any) -> Any:
        if not isinstance(value, Sequence) and not (hasattr(value, "tolist") and np.ndim(value) == 1):  # arrays, columns of pandas
            return WRONG
        if isinstance(value, str | bytes | bytearray | memoryview):
            return WRONG
        taken = form(map(kind.take, value))
        return WRONG if any(item is WRONG for item in taken) else taken

    return Kind(take, f"a {form.__name__}, each item {kind.words}")


def _mapping(key: Kind, item: Kind) -> Kind:
    def take(value: Any) -> Any:
        fine = isinstance(value, Mapping) and all(key.take(k) is not WRONG and item.take(v) is not WRONG for k, v in value.items())
        return value if fine else WRONG

    return Kind(take, "a dictionary")


class Expected:
    """What a function takes. Resolved at its first call, when everything that its annotations name is there."""

    def __init__(self, function: Callable[..., Any], passes_on: str = "", without: Sequence[str] = ()) -> None:
        self.function, self.passes_on, self.without = function, passes_on, without
        self.call = function.__qualname__.removesuffix(".__init__").removesuffix(".__call__") + "()"

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        return dict(signature(self.function).parameters)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """Of every argument by its name, those that are passed on included."""
        hints = get_type_hints(self.function, include_extras=True)
        kinds = {name: kind_of(hints.get(name, Any)) for name, row in self.parameters.items() if row.kind is not Parameter.VAR_KEYWORD}
        if self.passes_on:
            module, _, name = self.passes_on.rpartition(".")
            others = Expected(getattr(import_module(module), name)).kinds
            kinds |= {name: kind for name, kind in others.items() if name not in self.without and name not in kinds}
        return kinds

    @cached_property
    def places(self) -> list[str]:
        """The names of arguments that may be given by their places."""
        by_place = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        return [name for name, row in self.parameters.items() if row.kind in by_place]

    @cached_property
    def rest(self) -> str | None:
        """The name of *arguments."""
        return next((name for name, row in self.parameters.items() if row.kind is Parameter.VAR_POSITIONAL), None)

    @cached_property
    def needed(self) -> list[str]:
        named = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        return [name for name, row in self.parameters.items() if row.default is Parameter.empty and row.kind in named]

    def take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, each in its one form."""
        places, kinds = self.places, self.kinds
        if len(args) > len(places) and not self.rest:
            bound = places[:1] in (["self"], ["cls"])
            number, most = len(args) - bound, len(places) - bound
            raise InputError(f"{self.call} is given {number} arguments by their places: it takes {most} so, and any other by its name.")
        names = places[: len(args)] + [self.rest or ""] * (len(args) - len(places))
        by_place, by_name = [], {}
        for name, value in zip(names, args, strict=True):
            if (taken := kinds[name].take(value)) is WRONG:
                raise self._refusal(name, value)
            by_place.append(taken)
        for name, value in kwargs.items():
            if name not in kinds or name == self.rest:
                raise unknown(f"argument of {self.call}", name, [name for name in kinds if name not in ("self", "cls", self.rest)])
            if name in names:
                raise InputError(f"{self.call} is given {name!r} twice: by its place and by its name.")
            if (taken := kinds[name].take(value)) is WRONG:
                raise self._refusal(name, value)
            by_name[name] = taken
        for name in self.needed:
            if name not in by_name and name not in names:
                raise InputError(f"{self.call} is given no {name!r}: it must be {kinds[name].words}.")
        return by_place, by_name

    def _refusal(self, name: str, value: Any) -> InputError:
        allowed = self.kinds[name].words
        if np.ma.is_masked(value):
            place = np.argwhere(np.atleast_1d(np.ma.getmaskarray(np.ma.asarray(value))))[0].tolist()
            return InputError(f"{name} is masked at {tuple(place)}: no value may be missing.")
        if isinstance(value, int) and abs(value) >= LARGEST and "number" in allowed:
            allowed = "a number that 64 bits hold"
        return InputError(f"{name} is {shortly(value)}: it must be {allowed}.")


@overload
def checked(function: F) -> F: ...
@overload
def checked(*, passes_on: str, without: Sequence[str]) -> Callable[[F], F]: ...
def checked(function: Any = None, *, passes_on: str = "", without: Sequence[str] = ()) -> Any:
    """A public function, method or class whose arguments are checked.

    Where it takes **options for another function, `passes_on` is that one's full name, and `without` are those that it gives itself.
    """
    if function is None:
        return partial(checked, passes_on=passes_on, without=without)
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)  # type: ignore[misc]
        return function
    expected = Expected(function, passes_on, without)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        by_place, by_name = expected.take(args, kwargs)
        return function(*by_place, **by_name)

    return call


def check_field(record: object, field: str, allowed: str, fine: Callable[[Any], bool]) -> None:
    """That a number is in its range; NaN is in none."""
    if not fine(value := getattr(record, field)):
        raise InputError(f"{field} is {shortly(value)}: it must be {allowed}.")


def check_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name} is {value}: it must be a whole number from {least}.")


def check_place(what: str, place: int, number: int) -> None:
    """That there is one at that place of so many, from the end too."""
    if not -number <= place < number:
        raise InputError(f"{what} {place} is asked for, and there are {number}: they count from 0.")


def shortly(value: object) -> str:
    """A value on one short line, without the address of anything."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and type {printable(value.dtype)}"
    if isinstance(value, type):
        return f"the class {printable(value.__qualname__)}"
    limits = Repr()
    limits.maxstring = limits.maxlong = WIDTH
    limits.maxother = 10**4  # cut below, once addresses are out
    try:
        text = re.sub(r" at 0x[0-9A-Fa-f]+", "", limits.repr(value))
    except Exception:  # a repr of the caller's, or a number of too many digits
        text = f"<{type(value).__name__}>"
    text = printable(" ".join(text.split()))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
