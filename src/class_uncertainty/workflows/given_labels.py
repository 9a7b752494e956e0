"""What is known of examples beside their inputs: labels to score predictions by, and columns to keep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data.readers.unlabelled import FOLDERS, Unlabelled
from class_uncertainty.data.tabular import Cells, row_cells, row_labels
from class_uncertainty.errors import InputError, nearest
from class_uncertainty.metrics import Outcomes, Scores, mean_cost, precisions_by_class, score
from class_uncertainty.posthoc.two_classes import TwoClasses, threshold_at, two_classes
from class_uncertainty.text import amount_of, enumerated, listed

NAMED = 5  # unknown classes in a sentence


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """The classes of examples (N,), -1 where there is no label or it is no class; where labels are from; the labels."""

    classes: NDArray[np.int64]
    source: str
    labels: Sequence[str]  # "" where none is given

    def at(self, places: Sequence[int]) -> "GivenLabels":
        return GivenLabels(self.classes[places], self.source, [self.labels[place] for place in places])

    def unscored(self, classes: Sequence[str]) -> list[str]:
        """How many examples have no label, and how many have one that is no class, in sentences."""
        without = [label for label, place in zip(self.labels, self.classes.tolist(), strict=True) if place < 0]
        unknown = [label for label in without if label]
        sentences = []
        if missing := len(without) - len(unknown):
            examples = amount_of(missing, "example has no label and is", "examples have no label and are")
            sentences.append(f"{examples} not scored.")
        if unknown:
            examples = amount_of(len(unknown), "example is", "examples are")
            they = f"by {self.source} {'it is' if len(unknown) == 1 else 'they are'} {_named(unknown, classes)}"
            sentences.append(f"{examples} not scored: {they}, which the model does not know.")
        return sentences

    def scores(
        self, p: NDArray, decisions: NDArray[np.int64], counts: ArrayLike, prior: ArrayLike | None
    ) -> Scores | None:
        """Of the labelled examples, by decisions (N,) and probabilities (N, C); calibration is for that prior."""
        rows, truth, guesses = self._labelled(decisions)
        if not len(rows):
            return None
        p_label, p_guess = (p[rows, classes].astype(np.float64) for classes in (truth, guesses))
        return score(Outcomes(truth, guesses, p_label, p_guess), counts, prior)

    def precisions(self, decisions: NDArray[np.int64], classes: int) -> tuple[float, ...] | None:
        """Of the labelled examples, in percent; NaN for a class that is never predicted."""
        rows, truth, guesses = self._labelled(decisions)
        return tuple(precisions_by_class(guesses, truth, classes).tolist()) if len(rows) else None

    def two(
        self,
        p: NDArray,
        decisions: NDArray[np.int64],
        counts: ArrayLike,
        costs: NDArray | None,
        prior: ArrayLike | None,
        made_for: ArrayLike | None,
    ) -> TwoClasses | None:
        """How well the rarer of two classes is found; None where there are others, or examples of one alone.

        Probabilities p are for a prior, and decisions were made by those for another, `made_for`.
        """
        rows, truth, guesses = self._labelled(decisions)
        two = two_classes(p[None, rows].astype(np.float64), truth, counts, decisions=guesses[None])
        return two and replace(two, threshold=threshold_at(prior, made_for, costs, two.positive))

    def mean_cost(self, decisions: NDArray[np.int64], costs: NDArray | None) -> float | None:
        """Of the labelled examples as they are; None without costs."""
        rows, truth, guesses = self._labelled(decisions)
        return mean_cost(guesses, truth, costs) if costs is not None and len(rows) else None

    def _labelled(self, decisions: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """The places of the examples that have labels, their labels, and the decisions on them."""
        rows = np.flatnonzero(self.classes >= 0)
        return rows, self.classes[rows], decisions[rows]


def find_labels(
    examples: Unlabelled, classes: Sequence[str], column: str | None, usual: str | None
) -> tuple[GivenLabels | None, list[str]]:
    """The labels of all examples, read or not: of the column that is asked for, or of what looks like them.

    That is the column that training had, the array y, or folders with the names of classes. Where all names are no
    classes, a column that was asked for is refused; otherwise nothing is scored, and a sentence says why.
    """
    labels: tuple[str, Sequence[str]]
    table = examples.table() if examples.table and (column or usual) else None
    if column is not None and table is None:
        raise InputError(f"label is {column!r}, the name of a column: these examples are not rows of a table.")
    if table and (column or usual in table.columns):
        name = column or str(usual)
        labels = f"column {name!r}", row_labels(table, name)
    elif examples.labels is not None:
        labels = examples.labels
    else:
        return None, []
    source, names = labels
    places = {name: place for place, name in enumerate(classes)}
    if source == FOLDERS and not any(name in places for name in names):
        return None, []  # they mean something else
    numbers = np.array([places.get(name, -1) for name in names], dtype=np.int64)
    if (numbers >= 0).any():
        return GivenLabels(numbers, source, names), []
    if not any(names):
        return None, [f"Not scored: {source} is empty."]
    sentence = f"{source} names {_named(names, classes)}, and the classes are {listed(classes, 2 * NAMED)}"
    if column:
        raise InputError(f"{sentence}: correct the labels, or leave out the label.")
    return None, [f"Not scored: {sentence}."]


def _named(labels: Sequence[str], classes: Sequence[str]) -> str:
    """Labels that are no classes, with the nearest class of each, where one is near."""
    names = sorted({label for label in labels if label})
    hints = (f" (did you mean {near!r}?)" if (near := nearest(name, classes)) else "" for name in names[:NAMED])
    return enumerated([f"{name!r}{hint}" for name, hint in zip(names, hints, strict=False)], NAMED, len(names))


def keep_columns(examples: Unlabelled, names: Sequence[str]) -> dict[str, Cells]:
    """The columns of these names, row by row."""
    if names and examples.table is None:
        raise InputError(f"keep names {', '.join(map(repr, names))}: these examples have no columns to keep.")
    table = examples.table() if examples.table and names else None
    return {name: row_cells(table, name, "keep") for name in names} if table else {}
