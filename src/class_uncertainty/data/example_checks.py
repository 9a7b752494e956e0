"""What the parts of Data must be: labels, class names, inputs and their number."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import shortly
from class_uncertainty.data.class_names import factorise
from class_uncertainty.errors import InputError
from class_uncertainty.text import printable

MAX_CLASSES = 10**6  # where labels are numbers: each class gets a name

Statistics = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation of each channel or feature


def as_labels(labels: NDArray, classes: Sequence[str | int] | None) -> tuple[NDArray, Sequence[str | int] | None]:
    """Labels as whole numbers, and the class names if the labels were names."""
    if labels.dtype == object and all(isinstance(label, str) for label in labels.flat):  # as pandas has them
        labels = labels.astype(str)
    if classes is None and labels.ndim == 1 and labels.dtype.kind == "U":
        labels, classes = factorise(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(f"labels have shape {labels.shape} and type {labels.dtype}: give whole numbers, one each.")
    return labels, classes


def as_texts(what: str, values: NDArray) -> NDArray[np.object_]:
    """(N,) as text."""
    if values.ndim != 1:
        raise InputError(f"{what} have shape {values.shape}: give one name or number per example.")
    return np.array([*map(str, values.tolist())], dtype=object)


def check_lengths(inputs: NDArray, labels: NDArray, **others: Sequence[str] | NDArray | None) -> None:
    """As many of each as there are examples."""
    if (inputs.ndim and len(inputs) != len(labels)) or not len(labels):
        raise InputError(f"there are {len(inputs)} inputs and {len(labels)} labels: give as many, and at least one.")
    for what, texts in others.items():
        if texts is not None and len(texts) != len(labels):
            raise InputError(f"there are {len(texts)} {what} and {len(labels)} examples: give one per example.")


def name_classes(labels: NDArray, classes: Sequence[str | int] | None) -> tuple[str, ...]:
    """The names of the classes, if they differ and every label has one."""
    if classes is None:
        classes = range(min(max(int(labels.max()), 0) + 1, MAX_CLASSES))
    names = tuple(map(printable, classes))
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"class {repeated!r} appears twice: names must differ.")
    for example in np.flatnonzero((labels < 0) | (labels >= len(names))):
        raise InputError(f"label of example {example} is {labels[example]}: labels run from 0 to {len(names) - 1}.")
    return names


def check_widths(width: int, columns: Sequence[str] | None, statistics: Statistics | None) -> None:
    """One column name, mean and deviation per channel or feature."""
    means, deviations = statistics or (None, None)
    for what, values in (("columns", columns), ("means", means), ("deviations", deviations)):
        if values is not None and len(values) != width:
            raise InputError(f"there are {len(values)} {what} and {width} channels or features: give one for each.")
    if statistics is not None and not np.isfinite(statistics).all():
        raise InputError(f"statistics are {shortly(statistics)}: means and deviations must be finite.")


def as_inputs(inputs: NDArray, columns: Sequence[str] | None) -> NDArray[np.uint8] | NDArray[np.float32]:
    """Images as uint8, features as float32."""
    given = f"inputs have shape {inputs.shape} and type {inputs.dtype}"
    if not all(inputs.shape[1:]):
        raise InputError(f"{given}: there is nothing in them to tell classes apart by.")
    if inputs.ndim == 4 and inputs.dtype == np.uint8:
        if inputs.shape[3] in (1, 3, 4) and inputs.shape[1] > 4:
            raise InputError(f"{given}: channels come second, so give inputs.transpose(0, 3, 1, 2).")
        return inputs
    if inputs.ndim == 2 and inputs.dtype.kind in "fiub":
        names = [f"column {printable(name)!r}" for name in columns or ()]
        return _features(inputs, names or [f"feature {i}" for i in range(inputs.shape[1])])
    raise InputError(f"{given}: images are uint8 (N, channels, H, W), features are numbers (N, D).")


def _features(inputs: NDArray, names: Sequence[str]) -> NDArray[np.float32]:
    """Features as float32; values too large for it, or too far from 0 to be told apart, are refused."""
    with np.errstate(over="ignore"):
        features = inputs.astype(np.float32, copy=False)
    for example, feature in np.argwhere(~np.isfinite(features)):
        value = inputs[example, feature]
        raise InputError(f"{names[feature]} of example {example} is {value}: it must be finite, as float32 too.")
    if inputs.dtype.itemsize > 4 and inputs.dtype.kind in "iu":
        # float64 does not hold every whole number from 2 ** 53 on: subtract the lowest first, exact modulo 2 ** 64
        offsets = inputs.astype(np.uint64) - inputs.min(axis=0).astype(np.uint64)
        advice = "subtract its mean first, or leave it out if it only numbers the examples"
        check_apart(names, features, offsets, advice)
    elif inputs.dtype.itemsize > 4:
        check_apart(names, features, inputs, "subtract its mean first")
    return features


def check_apart(names: Sequence[str], features: NDArray[np.float32], offsets: NDArray, advice: str) -> None:
    """Refuse values (N, D) that float32 cannot tell apart; `offsets` are exact values less a constant per column."""
    with np.errstate(over="ignore"):
        spread, rounding = offsets.std(axis=0), np.spacing(np.abs(features).max(axis=0)).astype(np.float64)
    for column in map(int, np.flatnonzero((spread > 0) & (rounding > spread / 100))):
        values = f"values near {features[0, column]:g} that deviate by {spread[column]:.2g}"
        raise InputError(f"{names[column]} has {values}; float32 rounds them to {rounding[column]:.2g}: {advice}.")
