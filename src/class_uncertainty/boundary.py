"""Public calls check their arguments against their own annotations and refuse others in one sentence.

Accepted arguments arrive in one form: NumPy numbers as Python numbers, lists as tuples where a tuple is annotated.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, wraps
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import numpy as np
from numpy.typing import ArrayLike

from class_uncertainty.errors import InputError, means_too_little_memory, unknown
from class_uncertainty.values import is_frame
from class_uncertainty.values import shortly as shortly  # offered here too

F = TypeVar("F", bound=Callable[..., Any])

WRONG = object()  # what a kind makes of a value that it refuses
LARGEST = 2**63  # the first whole number that 64 bits do not hold
# how to get an object of these classes
EXAMPLES = {"Data": "Data(inputs, labels)", "Dataset": "load('digits')", "Estimate": "estimate(data)"}
EXAMPLES |= {"Fit": "fit(data, lanes)", "Lane": "Lane('naive')", "Measure": "MEASURES['surprisal']"}
EXAMPLES |= {"Method": "METHODS['ubrs']", "Recipe": "Recipe('mlp', epochs=40, batch=32)", "Stats": "Stats(counts)"}


class Kind(NamedTuple):
    """A kind of values: `take` gives the value in its one form, or WRONG; `words` say what is allowed."""

    take: Callable[[Any], Any]
    words: str


def _plain(value: Any) -> Any:
    """A NumPy number as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _whole(value: Any) -> Any:
    value = _plain(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and -LARGEST <= value < LARGEST else WRONG


def _number(value: Any) -> Any:
    value = _plain(value)
    return value if isinstance(value, float) else _whole(value)


def _array(value: Any) -> Any:
    """Whatever NumPy turns into numbers or texts, unchanged; of a masked array, NumPy would read masked values too."""
    if isinstance(value, str | bytes | Mapping) or np.ma.is_masked(value):
        return WRONG
    try:
        array = np.asarray(value)
    except Exception as error:  # uneven lists, a tensor on a GPU: each class raises errors of its own
        if means_too_little_memory(error):
            raise
        return WRONG
    if array.dtype.kind != "O":
        return value if array.dtype.kind in "biufU" else WRONG
    items = array.ravel().tolist() if array.ndim else [WRONG]
    alike = all(isinstance(item, str) for item in items) or all(_number(item) is not WRONG for item in items)
    return value if alike else WRONG


def _array_or_tensor(value: Any) -> Any:
    return value if type(value).__module__.startswith("torch") and hasattr(value, "detach") else _array(value)


def _path(value: Any) -> Any:
    """Text or a Path that can name a file: for others, system calls raise errors of their own."""
    try:
        name = os.fsencode(value) if isinstance(value, str | Path) else b"\0"
    except UnicodeError:
        return WRONG
    longest = max(map(len, name.replace(os.sep.encode(), b"/").split(b"/")))
    return WRONG if b"\0" in name or longest > 255 else value


def _instance(allowed: type) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        value = _plain(value)
        return value if isinstance(value, allowed) else WRONG

    return take


ARRAY_OR_TENSOR, FRAME, MODEL, PATH = "array or tensor", "frame", "model", "path"
Frame = Annotated[Any, FRAME]  # an annotation for DataFrames
Tensorlike = Annotated[Any, ARRAY_OR_TENSOR]  # an annotation for arrays, and tensors on any device
LETTERS = {np.floating: "biuf", np.integer: "biu", np.object_: "OU"}  # array kinds accepted for such scalars
ARRAYS = set(get_args(ArrayLike)) or {ArrayLike}
KINDS: dict[Any, Kind] = {
    Any: Kind(lambda value: value, "anything"),
    ARRAY_OR_TENSOR: Kind(_array_or_tensor, "an array, a tensor or a list of numbers"),
    ArrayLike: Kind(_array, "an array or a list of numbers or of names"),
    FRAME: Kind(lambda value: value if is_frame(value) else WRONG, "a DataFrame"),
    NoneType: Kind(_instance(NoneType), "None"),
    MODEL: Kind(
        lambda value: WRONG if isinstance(value, str | Path) else value, "a Fix, a Trained, a Model or a module"
    ),
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
    origin, args = get_origin(hint), get_args(hint)
    if hasattr(origin or hint, "__value__"):  # an alias of Python 3.12, which NumPy 2.5 has: its target
        target = (origin or hint).__value__
        return kind_of(target[args] if args else target)
    if origin is Annotated:
        return kind_of(args[1]) if args[1] in KINDS else kind_of(args[0])
    if origin in (Union, UnionType):
        return _one_of([kind_of(choice) for choice in _choices(args)])
    if origin is Literal:
        return _literal(args)
    if origin is Callable:
        return Kind(lambda value: value if callable(value) else WRONG, "a function")
    if origin in (dict, Mapping):
        return _mapping(*map(kind_of, args))
    if origin is tuple and args[-1] is not Ellipsis:
        return _fixed([kind_of(arg) for arg in args])
    if origin in (tuple, list, Sequence):
        return _several(tuple if origin is tuple else list, kind_of(args[0]))
    allowed = origin or hint
    if allowed is np.ndarray:
        return _array_of(*get_args(args[1]))
    assert isinstance(allowed, type), f"no kind stands for the annotation {hint}"
    name = allowed.__name__
    example = f", as {EXAMPLES[name]}" if name in EXAMPLES else ""
    return Kind(_instance(allowed), f"{'an' if name[0] in 'AEIOU' else 'a'} {name} object{example}")


def _choices(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The members of a union, those of ArrayLike (a union in a union comes flat) and str | Path as one each."""
    if set(args) >= ARRAYS:
        args = (ArrayLike, *(arg for arg in args if arg not in ARRAYS))
    return (PATH, *(arg for arg in args if arg not in (str, Path))) if {str, Path} <= set(args) else args


def _literal(allowed: tuple[Any, ...]) -> Kind:
    def take(value: Any) -> Any:
        return value if any(type(value) is type(item) and value == item for item in allowed) else WRONG

    return Kind(take, " or ".join(map(repr, allowed)))


def _array_of(scalar: Any) -> Kind:
    allowed = [kinds for base, kinds in LETTERS.items() if isinstance(scalar, type) and issubclass(scalar, base)]
    letters = next(iter(allowed), "biufUO")

    def take(value: Any) -> Any:
        if _array(value) is WRONG:
            return WRONG
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        return array if array.ndim and array.dtype.kind in letters else WRONG

    return Kind(take, "an array of names" if letters == "OU" else "an array of numbers")


def _one_of(kinds: Sequence[Kind]) -> Kind:
    def take(value: Any) -> Any:
        # None is for None alone: other kinds may accept it by accident
        forms = (kind.take(value) for kind in kinds if value is not None or kind is KINDS[NoneType])
        return next((form for form in forms if form is not WRONG), WRONG)

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
        is_column = hasattr(value, "tolist") and np.ndim(value) == 1  # an array, or a column of pandas
        if isinstance(value, str | bytes | bytearray | memoryview) or not (isinstance(value, Sequence) or is_column):
            return WRONG
        taken = form(map(kind.take, value))
        return WRONG if any(item is WRONG for item in taken) else taken

    return Kind(take, f"a {form.__name__}, each item {kind.words}")


def _mapping(key: Kind, item: Kind) -> Kind:
    def take(value: Any) -> Any:
        entries = value.items() if isinstance(value, Mapping) else [(WRONG, WRONG)]
        return value if all(key.take(k) is not WRONG and item.take(v) is not WRONG for k, v in entries) else WRONG

    return Kind(take, "a dictionary")


class Expected:
    """The arguments that a function takes, resolved at its first call, when all names in its annotations exist."""

    def __init__(self, function: Callable[..., Any], passes_on: str = "", without: Sequence[str] = ()) -> None:
        self.function, self.passes_on, self.without = function, passes_on, without
        self.call = function.__qualname__.removesuffix(".__init__").removesuffix(".__call__") + "()"

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        return dict(signature(self.function).parameters)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The annotation of every argument by its name, those that are passed on included."""
        given = get_type_hints(self.function, include_extras=True)
        named = [name for name, parameter in self.parameters.items() if parameter.kind is not Parameter.VAR_KEYWORD]
        hints = {name: given.get(name, Any) for name in named}
        if self.passes_on:
            module, _, name = self.passes_on.rpartition(".")
            others = Expected(getattr(import_module(module), name)).hints
            hints |= {name: hint for name, hint in others.items() if name not in self.without and name not in hints}
        return hints

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        return {name: kind_of(hint) for name, hint in self.hints.items()}

    def _names(self, *kinds: Any) -> list[str]:
        return [name for name, parameter in self.parameters.items() if parameter.kind in kinds]

    @cached_property
    def positional(self) -> list[str]:
        """The names of arguments that may be given by position."""
        return self._names(Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)

    @cached_property
    def rest(self) -> str:
        """The name of *arguments, or ""."""
        return "".join(self._names(Parameter.VAR_POSITIONAL))

    @cached_property
    def required(self) -> list[str]:
        named = [*self.positional, *self._names(Parameter.KEYWORD_ONLY)]
        return [name for name in named if self.parameters[name].default is Parameter.empty]

    def take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, each in its one form."""
        if len(args) > len(self.positional) and not self.rest:
            bound = self.positional[:1] in (["self"], ["cls"])
            given, most = len(args) - bound, len(self.positional) - bound
            raise InputError(f"{self.call} is given {given} arguments by position: it takes {most}, others by name.")
        names = self.positional[: len(args)] + [self.rest] * (len(args) - len(self.positional))
        by_position = [self._take(name, value) for name, value in zip(names, args, strict=True)]
        for name in kwargs:
            if name not in self.kinds or name == self.rest:
                raise self._unknown(name)
            if name in names:
                raise InputError(f"{self.call} is given {name!r} twice: by position and by name.")
        by_name = {name: self._take(name, value) for name, value in kwargs.items()}
        for name in self.required:
            if name not in by_name and name not in names:
                raise InputError(f"{self.call} is given no {name!r}: it must be {self.kinds[name].words}.")
        return by_position, by_name

    def _unknown(self, name: str) -> InputError:
        """Of a field of what an argument takes, such as the epochs of a recipe, that argument is named."""
        for argument, hint in self.hints.items():
            for choice in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
                if name in getattr(choice, "__dataclass_fields__", ()) and choice.__name__ in EXAMPLES:
                    given = f"{argument}={EXAMPLES[choice.__name__]}"
                    return InputError(f"{self.call} has no argument {name!r}: it is part of {argument}, as in {given}.")
        allowed = [name for name in self.kinds if name not in ("self", "cls", self.rest)]
        return unknown(f"argument of {self.call}", name, allowed)

    def _take(self, name: str, value: Any) -> Any:
        taken, allowed = self.kinds[name].take(value), self.kinds[name].words
        if taken is not WRONG:
            return taken
        if np.ma.is_masked(value):
            place = np.argwhere(np.atleast_1d(np.ma.getmaskarray(np.ma.asarray(value))))[0].tolist()
            raise InputError(f"{name} is masked at {tuple(place)}: no value may be missing.")
        if isinstance(value, int) and abs(value) >= LARGEST and "number" in allowed:
            allowed = "a number that 64 bits hold"
        if is_frame(value) and ("Data" in allowed or "array" in allowed):
            allowed += "; load(frame, label='COLUMN') and Data.from_frame make data of a DataFrame"
        if isinstance(value, str) and EXAMPLES["Dataset"] in allowed:
            allowed += f"; load({shortly(value)}) reads data by their name"
        raise InputError(f"{name} is {shortly(value)}: it must be {allowed}.")


@overload
def checked(function: F) -> F: ...
@overload
def checked(*, passes_on: str, without: Sequence[str]) -> Callable[[F], F]: ...
def checked(function: Any = None, *, passes_on: str = "", without: Sequence[str] = ()) -> Any:
    """Check the arguments of a public function, method or class.

    `passes_on` is the full name of the function that its **options go to; `without` are options that it sets itself.
    """
    if function is None:
        return partial(checked, passes_on=passes_on, without=without)
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)  # type: ignore[misc]
        return function
    expected = Expected(function, passes_on, without)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        by_position, by_name = expected.take(args, kwargs)
        return function(*by_position, **by_name)

    return call


def check_field(record: object, field: str, allowed: str, fine: Callable[[Any], bool]) -> None:
    """Refuse a field whose number is outside its range; NaN is in none."""
    check_number(field, getattr(record, field), allowed, fine)


def check_number(name: str, value: Any, allowed: str, fine: Callable[[Any], bool]) -> None:
    """Refuse a number outside its range; NaN is in none."""
    if not fine(value):
        raise InputError(f"{name} is {shortly(value)}: it must be {allowed}.")


def check_least(name: str, value: int, least: int) -> None:
    """Refuse a whole number below the least one allowed."""
    if value < least:
        raise InputError(f"{name} is {value}: it must be a whole number from {least}.")


def check_distinct(kind: str, values: Sequence[Any]) -> None:
    """Refuse a list that is empty or in which something repeats."""
    if not len(values):
        raise InputError(f"no {kind} is given: there must be one at least.")
    if repeated := [value for i, value in enumerate(values) if value in values[:i]]:
        raise InputError(f"{kind} {repeated[0]} is given twice: each must be there once.")


def check_place(what: str, place: int, number: int) -> None:
    """Refuse an index outside of so many; negative ones count from the end."""
    if not -number <= place < number:
        raise InputError(f"{what} {place} does not exist: there are {number}, counted from 0.")
