"""Dataclasses as JSON documents: what dataclasses.asdict writes is read back by the annotations of the fields.

A null in a list is NaN, which JSON does not have.
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
        if name not in structured or value is None:
            continue
        item, depth = structured[name]
        parts = _parts(value) if depth else [value]
        if item is not None:
            parts = [from_document(item, part) for part in parts]
        elif depth > 1:
            parts = [tuple(_parts(part)) for part in parts]
        elif depth == 1:
            parts = [math.nan if part is None else part for part in parts]
        values[name] = tuple(parts) if depth else parts[0]
    return kind(**(document | values))


def _parts(document: Any) -> Any:
    if not isinstance(document, list | tuple):
        raise TypeError(f"{type(document).__name__} stands in place of a list")
    return document


@lru_cache(maxsize=64)
def _structured_fields(kind: Any) -> dict[str, tuple[Any, int]]:
    """The fields of a dataclass that JSON does not hold as they are: (dataclass or None, tuples around it)."""
    structured = {}
    for name, annotation in get_type_hints(kind).items():
        hint, depth = annotation, 0
        if get_origin(hint) is UnionType and NoneType in get_args(hint):
            hint = get_args(hint)[0]
        while get_origin(hint) is tuple:
            hint, depth = get_args(hint)[0], depth + 1
        item = hint if dataclasses.is_dataclass(hint) else None
        if item or depth:
            structured[name] = item, depth
    return structured


def finite(value: Any) -> Any:
    """A document without infinity and NaN, which JSON does not have: they become null."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and value - value != 0 else value
