"""Class names and splits, as values, files and folders say them."""

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_SPLIT = re.compile(r"(?:^|[^a-z])(train|training|test|testing|val|valid|validation)(?:[^a-z]|$)")


def in_order(names: Iterable[str]) -> list[str]:
    """Numbers by their size, so that 2 comes before 10; anything else by its text."""
    names = sorted(names)  # a name may be the number nan, which has no order
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
    """'train' or 'test', 'validation' or None: what a file or folder of that name holds."""
    found = _SPLIT.search(name.lower())
    if not found:
        return None
    return "train" if found[1].startswith("train") else "test" if found[1].startswith("test") else "validation"
