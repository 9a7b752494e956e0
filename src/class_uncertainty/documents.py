"""Dataclasses as JSON documents: what dataclasses.asdict writes is read back by the annotations of the fields."""

import dataclasses
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def from_document(kind: Any, document: Any) -> Any:
    """The value of a dataclass, or of a tuple; None, for an optional one, stays None."""
    if document is None:
        return None
    if get_origin(kind) is tuple:
        if not isinstance(document, list | tuple):
            raise TypeError(f"{type(document).__name__} stands in place of a list")
        item = get_args(kind)[0]
        has_structure = dataclasses.is_dataclass(item) or get_origin(item) is tuple
        return tuple([from_document(item, part) for part in document] if has_structure else document)
    kinds = _structured_fields(kind)
    values = {name: from_document(kinds[name], value) for name, value in document.items() if name in kinds}
    return kind(**(document | values))


@lru_cache(maxsize=64)
def _structured_fields(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass that JSON does not hold as they are."""
    hints = get_type_hints(kind)
    optional = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is UnionType}
    kinds = hints | {name: arguments[0] for name, arguments in optional.items() if NoneType in arguments}
    return {name: hint for name, hint in kinds.items() if dataclasses.is_dataclass(hint) or get_origin(hint) is tuple}
