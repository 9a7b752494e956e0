"""Columns of new rows that are no features: what is kept beside predictions, and labels."""

import numpy as np

from class_uncertainty.data.cells import as_texts
from class_uncertainty.data.table import Table
from class_uncertainty.data.tabular import no_column
from class_uncertainty.errors import InputError

Cells = list[str | int | float | None]


def row_cells(table: Table, name: str, role: str) -> Cells:
    """The column as it was written: text, numbers, or None where a number is missing."""
    if name not in table.names:
        raise no_column(role, name, table.file, table.names)
    if name in table.unusable:
        kind = f"has type {table.unusable[name]}, not numbers or text"
        raise InputError(f"{table.file}: column {name!r} {kind}: name another {role}.")
    column = table.columns[name]
    if column.dtype == object:
        return column.tolist()
    return [None if missing else cell for cell, missing in zip(column.tolist(), table.missing[name], strict=True)]


def row_labels(table: Table, name: str) -> list[str]:
    """The column as names of classes, as training reads them; "" where there is none."""
    missing = [cell is None for cell in row_cells(table, name, "label")]
    return np.where(missing, "", as_texts(table.columns[name])).tolist()
