"""Columns that tell rows apart and nothing else: identifiers, which a model would learn by heart."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.table import Table
from class_uncertainty.errors import notice
from class_uncertainty.text import listed

ENOUGH = 20  # rows: with fewer, numbers may all differ by chance
WORDS = {"guid", "id", "index", "key", "nr", "number", "uuid"}  # that the names of identifiers end in
LISTED = 20  # columns that a sentence names


def notice_identifiers(table: Table, names: Sequence[str]) -> None:
    """Say once which columns look like identifiers, and how to drop them.

    They stay features: a table may have a column whose values all differ and mean something.
    """
    if names:
        one = len(names) == 1
        have, are = ("has", "is used as a feature") if one else ("have", "are used as features")
        advice = f"if {'it only names' if one else 'they only name'} the rows, add {table.option('drop', *names)}"
        notice(f"{table.file}: {listed(names, LISTED)} {have} another value in every row and {are}: {advice}.")


def is_identifier(name: str, values: NDArray, rows: NDArray[np.int64], test: NDArray | None = None) -> bool:
    """Whether no value repeats, and they are text, or whole numbers that count the rows or are called an id.

    `rows` are the places of the values in the file, of which they may be a share. Numbers in any order may count the
    rows of training and test together.
    """
    if len(values) < ENOUGH:
        return False
    if values.dtype != object and not _may_number(name, values, rows, test):
        return False
    return _all_differ(values)


def _all_differ(values: NDArray) -> bool:
    return len(set(values.tolist())) == len(values)


def _may_number(name: str, values: NDArray, rows: NDArray[np.int64], test: NDArray | None) -> bool:
    words = re.findall(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*", name)
    is_called_so = bool(words) and words[-1].lower() in WORDS
    every = values if test is None else np.concatenate([values, test])
    counts_all = np.ptp(every) == len(every) - 1 and _all_differ(every)
    counts_rows = np.ptp(values) == len(values) - 1 or 0 in (np.ptp(values - rows), np.ptp(values + rows))
    return (is_called_so or bool(counts_rows or counts_all)) and bool((values == np.rint(values)).all())
