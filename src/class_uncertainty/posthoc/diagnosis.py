"""Which classes are wrong, and why, in plain words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError

APART = 5.0  # percentage points by which a class must be worse than the better quarter to be spoken of
SCARCE = 0.5  # of the median count: a class with no more has few examples
MAJORITY = 0.5  # of a class's errors: more than that say where they go


@dataclass(frozen=True)
class Finding:
    """One sentence on one class: 'few', 'hard' or 'confused'; 'even', of no class, where there is nothing to find."""

    label: str
    kind: str
    text: str


def findings(
    classes: Sequence[str],
    counts: ArrayLike,
    class_errors: ArrayLike,
    confusion: ArrayLike,
    uncertainty: ArrayLike,
    most: int = 5,
) -> list[Finding]:
    """A sentence on each class that is APART points worse than the better quarter, the worst first.

    Counts, class errors in percent and raw class uncertainties are (C,), the confusion matrix (C, C) in percent.
    Of equally bad classes the most uncertain comes first.
    """
    number = len(classes)
    inputs = {"counts": counts, "class errors": class_errors, "uncertainty": uncertainty, "confusion": confusion}
    for name, values in inputs.items():
        shape = (number, number) if name == "confusion" else (number,)
        if np.shape(values) != shape or not number or not np.isfinite(np.asarray(values, dtype=np.float64)).all():
            raise InputError(f"{name} must be finite numbers of the shape {shape}, for {number} classes.")
    n, errors, unsure, matrix = (np.asarray(values, dtype=np.float64) for values in inputs.values())
    apart = errors >= np.percentile(errors, 25) + APART
    worst = [int(c) for c in np.lexsort((-unsure, -errors)) if apart[c]][:most]
    if not worst:
        extent = f"{errors.min():.0f} to {errors.max():.0f} % are wrong"
        return [Finding("", "even", f"No class is much worse than the others: {extent}.")]
    sure = unsure < np.median(unsure)
    return [Finding(classes[c], *_finding(c, classes, n, errors, matrix[c], bool(sure[c]))) for c in worst]


def _finding(
    c: int, classes: Sequence[str], n: NDArray, errors: NDArray, predicted: NDArray, sure: bool
) -> tuple[str, str]:
    """(kind, sentence) on class c, of which `predicted` (C,) percent are predicted as each class.

    Few: a scarce class whose errors go to larger ones. Confused: most errors go to one class. Hard: all else.
    """
    wrong = predicted * (np.arange(len(n)) != c)
    scarce, rival = n[c] <= SCARCE * np.median(n), int(wrong.argmax())
    error = f"{classes[c]}: {errors[c]:.0f} % wrong"
    examples = f"{n[c]:,.0f} example{'' if n[c] == 1 else 's'}"
    if scarce and wrong[n > n[c]].sum() > MAJORITY * wrong.sum():
        usual = f"the other class has {n.max():,.0f}" if len(n) == 2 else f"the median class has {np.median(n):,.0f}"
        return "few", f"{error}, with {examples}; {usual}"
    if len(n) > 2 and wrong[rival] > MAJORITY * wrong.sum():  # of two classes there is only one other
        return "confused", f"{error}; {wrong[rival]:.0f} % are predicted as {classes[rival]}"
    if scarce:
        return "hard", f"{error}, with {examples}; most of its errors go to classes that have no more"
    spite, sureness = (
        "in spite of" if n[c] >= np.median(n) else "with",
        " that the networks are sure of" if sure else "",
    )
    return "hard", f"{error} {spite} {examples}{sureness}"


def costly(confusion: ArrayLike, classes: Sequence[str], most: int = 8) -> list[tuple[str, str, float]]:
    """(label, prediction, percent of the class): the confusions that cost the class-mean error most."""
    matrix, number = np.array(confusion, dtype=np.float64), len(classes)
    if matrix.shape != (number, number):
        raise InputError(
            f"confusion has shape {matrix.shape}: it needs a row and a column for each of {number} classes."
        )
    np.fill_diagonal(matrix, 0.0)
    pairs = [divmod(int(i), number) for i in np.argsort(-matrix, axis=None, kind="stable")[:most]]
    return [(classes[c], classes[k], float(matrix[c, k])) for c, k in pairs if matrix[c, k] > 0]
