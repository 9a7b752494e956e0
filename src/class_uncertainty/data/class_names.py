"""Class names from values, and splits from the names of files and folders."""

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_SPLIT = re.compile(r"(?:^|[^a-z])(train|training|test|testing|val|valid|validation)(?:[^a-z]|$)")


def in_order(names: Iterable[str]) -> list[str]:
    """Names that are all numbers by value, so that 2 comes before 10; others alphabetically."""
    names = sorted(names)  # nan, which may be a name, has no order
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def factorise(values: NDArray) -> tuple[NDArray[np.int64], list[str]]:
    """Values of any kind (N,) -> labels (N,) and class names in order."""
    distinct, inverse = np.unique(values, return_inverse=True)
    texts = [str(value) for value in distinct.tolist()]
    names = in_order(set(texts))
    position = {name: i for i, name in enumerate(names)}
    return np.array([position[text] for text in texts], dtype=np.int64)[inverse], names


def split_of(name: str) -> str | None:
    """'train', 'test', 'validation' or None: the split that a file or folder of that name holds."""
    match = _SPLIT.search(name.lower())
    return {"tr": "train", "te": "test", "va": "validation"}[match[1][:2]] if match else None
