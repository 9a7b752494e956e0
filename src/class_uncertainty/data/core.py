"""Data: examples with labels. Dataset: what is trained on and what is judged on."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.errors import InputError


@dataclass(frozen=True, eq=False)
class Data:
    """Images as uint8 (N, channels, H, W) or features as float32 (N, D); labels (N,) from 0 to C - 1.

    Images are not copied: do not write into the array afterwards.
    """

    inputs: NDArray[np.uint8] | NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def __init__(self, inputs: ArrayLike, labels: ArrayLike, classes: "tuple[str, ...] | list[str] | None" = None) -> None:
        inputs, labels = np.asarray(inputs), np.asarray(labels)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InputError(f"labels have shape {labels.shape} and type {labels.dtype}: they must be whole numbers, one an example.")
        if (inputs.ndim and len(inputs) != len(labels)) or not len(labels):
            raise InputError(f"there are {len(inputs)} inputs and {len(labels)} labels: there must be as many of both, and at least one.")
        names = tuple(str(i) for i in range(max(int(labels.max()), 0) + 1)) if classes is None else tuple(str(c) for c in classes)
        if len(set(names)) < len(names):
            raise InputError(f"class {next(name for name in names if names.count(name) > 1)!r} is there twice: names must differ.")
        outside = np.flatnonzero((labels < 0) | (labels >= len(names)))
        if len(outside):
            raise InputError(f"label of example {outside[0]} is {labels[outside[0]]}: labels run from 0 to {len(names) - 1}.")
        object.__setattr__(self, "inputs", _inputs(inputs))
        object.__setattr__(self, "labels", labels.astype(np.int64))
        object.__setattr__(self, "classes", names)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example: (channels, H, W) or (D,)."""
        return self.inputs.shape[1:]

    @property
    def is_images(self) -> bool:
        return self.inputs.ndim == 4

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(C,) examples of each class."""
        return np.bincount(self.labels, minlength=len(self.classes))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every pixel, label and class name."""
        digest = hashlib.sha256(repr((self.inputs.dtype.str, self.inputs.shape, self.classes)).encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        digest.update(self.labels.data)
        return digest.hexdigest()[:16]

    def take(self, indices: NDArray[np.int64]) -> "Data":
        return Data(self.inputs[indices], self.labels[indices], self.classes)


def _inputs(inputs: NDArray) -> NDArray[np.uint8] | NDArray[np.float32]:
    if inputs.ndim == 4 and inputs.dtype == np.uint8:
        return inputs
    if inputs.ndim == 2 and inputs.dtype.kind in "fiub":
        with np.errstate(over="ignore"):  # what is too large is refused below
            features = inputs.astype(np.float32)
        bad = np.argwhere(~np.isfinite(features))
        if len(bad):
            raise InputError(f"feature {bad[0][1]} of example {bad[0][0]} is {features[tuple(bad[0])]}: features must be finite.")
        return features
    raise InputError(
        f"inputs have shape {inputs.shape} and type {inputs.dtype}: images are uint8 (N, channels, H, W), features are numbers (N, D)."
    )


def check_trainable(data: Data) -> None:
    """A class nobody can learn is refused by name before anything is trained."""
    if len(data.classes) < 2:
        raise InputError(f"there is one class only, {data.classes[0]!r}: a classifier needs at least two.")
    few = np.flatnonzero(data.counts < 2)
    if len(few):
        name, count = data.classes[few[0]], data.counts[few[0]]
        number = "no training examples" if count == 0 else "one training example only"
        raise InputError(
            f"class {name!r} has {number}: every class needs two at least, and labels run from 0 to {len(data.classes) - 1} without gaps."
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named train split, and the test split that it is judged on."""

    name: str
    train: Data
    test: Data

    def __post_init__(self) -> None:
        check_trainable(self.train)
        check_judge(self.train, self.test)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @cached_property
    def fingerprint(self) -> str:
        return f"{self.train.fingerprint}-{self.test.fingerprint}"


def check_judge(train: Data, test: Data) -> None:
    """The test split must speak of the same inputs and classes as the train split."""
    if test.classes != train.classes:
        raise InputError(f"train has {len(train.classes)} classes and test {len(test.classes)}, or they are named or ordered otherwise.")
    if test.shape != train.shape:
        raise InputError(f"training examples have shape {train.shape} and test examples {test.shape}: they must agree.")
    missing = np.flatnonzero(test.counts == 0)
    if len(missing):
        raise InputError(f"class {test.classes[missing[0]]!r} has no test examples: its error is not defined.")
