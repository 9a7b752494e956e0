"""Cost matrices: what it costs to predict one class for an example of another."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data.readers.csv_file import read_rows
from class_uncertainty.data.table import LARGEST
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.io import near

Rows = Sequence[Sequence[str]]  # cells as text


def read_costs(path: str | Path, classes: Sequence[str]) -> NDArray[np.float64]:
    """(C, C) from a CSV file, a row for each true class and a column for each predicted one.

    Class names may stand above, on the left or both, in any order; without names the order is that of `classes`.
    """
    path, size = check_cost_file(path), len(classes)
    rows = [[cell.strip() for cell in row] for row in read_rows(path)[0]]
    above, left, hint = len(rows) == size + 1, len(rows[0]) == size + 1, _missing(rows, classes)
    if (len(rows) - above, len(rows[0]) - left) != (size, size):
        raise InputError(f"{path} has {len(rows)} rows of {len(rows[0])} cells{hint}: {_allowed(size)}.")
    cells = [row[left:] for row in rows[above:]]
    true = _order(path, [row[0] for row in rows[above:]], classes) if left else np.arange(size)
    predicted = _order(path, rows[0][left:], classes) if above else np.arange(size)
    costs = np.array(
        [[_number(cell, f"{path} has {cell!r} for a cost{hint}: {_allowed(size)}.") for cell in row] for row in cells]
    )
    try:
        return check_costs(costs[np.ix_(true, predicted)], size, classes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def check_cost_file(path: str | Path) -> Path:
    """The path of a file that exists."""
    path = Path(path)
    if not os.path.exists(path):  # a name may be too long for path.exists()
        allowed = "costs are a CSV file with a row for each class and a column for each prediction"
        raise InputError(f"{path} does not exist{near(path)}: {allowed}.")
    return path


def check_costs(costs: ArrayLike, size: int, classes: Sequence[str] = ()) -> NDArray[np.float64]:
    """(C, C) finite numbers from 0, of which some wrong prediction costs more than 0, and no right one the most."""
    try:
        matrix = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape != (size, size):
        raise InputError(f"costs have the shape {matrix.shape}: {_allowed(size)}.")
    names = [repr(name) for name in classes] or [str(c) for c in range(size)]
    for bad, allowed in ((~(np.abs(matrix) <= LARGEST), "finite in 32 bits"), (matrix < 0, "at least 0")):
        if bad.any():
            i, j = np.argwhere(bad)[0]
            cost = f"the cost of predicting class {names[j]} for class {names[i]} is {matrix[i, j]:g}"
            raise InputError(f"{cost}: every cost must be {allowed}.")
    wrong = matrix[~np.eye(size, dtype=bool)].reshape(size, size - 1)
    if not wrong.any():
        raise InputError("every wrong prediction costs 0: one at least must cost more.")
    if (gains := np.flatnonzero(np.diag(matrix) > wrong.max(axis=1))).size:
        c = gains[0]
        right = f"the right prediction of class {names[c]} costs {matrix[c, c]:g}, and a wrong one {wrong[c].max():g}"
        raise InputError(f"{right} at most: give what predictions cost, not what they gain.")
    return matrix


def _allowed(size: int) -> str:
    return f"the costs of {size} classes are {size} x {size} numbers, with or without class names above and on the left"


def _missing(rows: Rows, classes: Sequence[str]) -> str:
    """' and no class 'x'' where there are names of other classes above or on the left."""
    names = {*rows[0], *(row[0] for row in rows)}
    absent = [name for name in classes if name.strip() not in names]
    return f" and no class {absent[0]!r}" if 0 < len(absent) < len(classes) else ""


def _order(path: Path, names: Sequence[str], classes: Sequence[str]) -> NDArray[np.int64]:
    """Where each class stands among the names."""
    stripped = [name.strip() for name in classes]
    for name in names:
        if name not in stripped:
            raise unknown(f"class in {path}", name, classes)
        if names.count(name) > 1:
            absent = next(name for name in classes if name.strip() not in names)
            raise InputError(f"{path} has class {name!r} twice, and no class {absent!r}: give each once.")
    return np.array([names.index(name) for name in stripped])


def _number(cell: str, refusal: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(refusal) from None
