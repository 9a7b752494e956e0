"""Labels of an audit: names become numbers of classes, and examples without one are left out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from class_uncertainty.errors import InputError, nearest
from class_uncertainty.posthoc.diagnosis import NAMED
from class_uncertainty.text import amount_of, listed, printable

NO_LABELS = "no example has a label: an audit needs true classes, as `truth` of cu.predict where examples have them."


def left_out_note(number: int) -> str:
    """How many examples an audit leaves out, in a sentence."""
    return f"{amount_of(number, 'example has no label and is', 'examples have no label and are')} not judged."


def labelled_only(labels: Any, **of_examples: Any) -> tuple[dict[str, Any], int]:
    """What is given of each example, for those with a label alone, and how many others there are.

    The label "" stands for none, as in `Predicted.truth`.
    """
    given = {"labels": labels} | {name: values for name, values in of_examples.items() if values is not None}
    if labels is None:
        raise InputError(NO_LABELS)
    names = np.array([]) if hasattr(labels, "detach") else np.asarray(labels)
    unlabelled = int((names == "").sum()) if names.dtype.kind in "UO" and names.ndim == 1 else 0
    if not unlabelled:
        return given, 0
    if unlabelled == len(names):
        raise InputError(NO_LABELS)
    for name, values in given.items():
        if (shape := np.shape(values))[:1] != names.shape:
            raise InputError(f"there are {len(names)} labels, and {name} have the shape {shape}: give as many.")
    rows = np.flatnonzero(names != "")
    given.setdefault("names", [f"no. {i}" for i in range(len(names))])  # their numbers stay
    return {name: _at(values, rows) for name, values in given.items()}, unlabelled


def _at(values: Any, rows: Any) -> Any:
    return values[rows] if hasattr(values, "detach") else np.asarray(values)[rows]


def numbered(labels: Any, classes: Sequence[str], named: bool) -> Any:
    """Names of classes as their places; numbers as they are."""
    if hasattr(labels, "detach") or np.asarray(labels).dtype.kind not in "UO":
        return labels
    texts = [printable(name) for name in np.asarray(labels).ravel().tolist()]
    if not named:
        example = f", as {texts[0]!r}" if texts else ""
        raise InputError(f"labels are names{example}: give classes, their names in the order of probabilities.")
    places = {name: place for place, name in enumerate(classes)}
    if absent := [name for name in texts if name not in places]:
        near = nearest(absent[0], places)
        hint = f" (did you mean {near!r}?)" if near else ""
        raise InputError(f"label {absent[0]!r}{hint} is no class: the classes are {listed(classes, 2 * NAMED)}.")
    return np.array([places[name] for name in texts]).reshape(np.shape(labels))
