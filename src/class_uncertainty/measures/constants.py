"""Constants in names: `row:constant=value` is a row with other constants than its defaults.

A row with constants is made by a function. Its signature says which constants there are, and their defaults.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TypeVar

from class_uncertainty.errors import InputError, unknown
from class_uncertainty.text import short

Row = TypeVar("Row")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def split_constants(text: str) -> tuple[str, tuple[str, ...]]:
    """'cb-focal:beta=0.99:gamma=1' as 'cb-focal' and ('beta=0.99', 'gamma=1'), which need not exist."""
    row, *constants = text.split(":")
    return row, tuple(constants)


def constants_of(row: str, makers: Mapping[str, Callable[..., object]]) -> dict[str, float]:
    """The constants of a row with their defaults; none where no function makes it."""
    parameters = signature(makers[row]).parameters if row in makers else {}
    return {name: parameter.default for name, parameter in parameters.items()}


def row_with(
    kind: str, row: str, constants: Sequence[str], rows: Mapping[str, Row], makers: Mapping[str, Callable[..., Row]]
) -> Row:
    """The row of a table, made with these constants, each 'name=value', where there are any."""
    if row not in rows:
        raise unknown(kind, row, rows, listing=f"'cu list {kind}s' lists all")
    if not constants:
        return rows[row]
    text = ":".join([row, *constants])
    defaults = constants_of(row, makers)
    if not defaults:
        raise InputError(f"{kind} {text!r}: {row!r} takes no constants, so leave out {text[len(row) :]!r}.")
    values: dict[str, float] = {}
    for constant in constants:
        name, _, value = constant.partition("=")
        if name not in defaults:
            raise InputError(f"{kind} {text!r}: {unknown('constant', name, defaults)}")
        if name in values:
            raise InputError(f"{kind} {text!r}: the constant {name!r} is given twice.")
        values[name] = _number(value, f"{kind} {text!r}", name, defaults[name])
    try:
        return makers[row](**values)
    except InputError as error:  # out of range
        raise InputError(f"{kind} {text!r}: {error}") from None


def _number(text: str, where: str, name: str, default: float) -> float:
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise InputError(
            f"{where}: {name} is {text!r}, which is no finite number: give one, as in {name}={short(default)}."
        )
    return int(value) if isinstance(default, int) and value.is_integer() else value
