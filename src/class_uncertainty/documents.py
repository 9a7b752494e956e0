"""Dataclasses as JSON documents: what dataclasses.asdict writes is read back by the annotations of the fields.

Where a number must stand, null is NaN, which JSON does not have.
"""

import dataclasses
import math
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def from_document(kind: Any, document: Any) -> Any:
    """The value of a dataclass; None, for an optional one, stays None."""
    if document is None:
        return None
    structured, values = _structured_fields(kind), dict[str, Any]()
    for name, value in document.items():
        if name in structured:
            values[name] = _parse(*structured[name], value)
    return kind(**(document | values))


def _parse(item: Any, depth: int, value: Any) -> Any:
    """The value of a field: `depth` tuples around items of a kind, or None for an optional one."""
    if depth == 0 and item is float:
        return math.nan if value is None else value
    if value is None:
        return None
    if depth == 0:
        return from_document(item, value)
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} stands in place of a list")
    if depth == 1 and item is None:
        return tuple(value)
    if depth == 1 and item is float:  # a loop of its own, since confusions are long
        return tuple(math.nan if part is None else part for part in value)
    return tuple(_parse(item, depth - 1, part) for part in value)


@lru_cache(maxsize=64)
def _structured_fields(kind: Any) -> dict[str, tuple[Any, int]]:
    """The fields of a dataclass that JSON does not hold as they are: (a dataclass, float or None; tuples around it)."""
    structured = {}
    for name, annotation in get_type_hints(kind).items():
        hint, depth = annotation, 0
        if get_origin(hint) is UnionType and NoneType in get_args(hint):
            hint = get_args(hint)[0]
        while get_origin(hint) is tuple:
            hint, depth = get_args(hint)[0], depth + 1
        item = hint if dataclasses.is_dataclass(hint) or hint is float else None
        is_optional_number = item is float and depth == 0 and annotation is not float
        if (item or depth) and not is_optional_number:
            structured[name] = item, depth
    return structured


def finite(value: Any) -> Any:
    """A document without infinity and NaN, which JSON does not have: they become null."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and value - value != 0 else value
