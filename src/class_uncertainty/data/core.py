"""Data: examples with labels. Dataset: what is trained on and what is judged on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.boundary import checked, shortly
from class_uncertainty.data.columns import Column
from class_uncertainty.data.labels import factorise, in_order
from class_uncertainty.errors import InputError
from class_uncertainty.text import printable

MOST_CLASSES = 10**6  # of labels that are numbers: each has a name made for it

Statistics = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation of each channel or feature


@checked
@dataclass(frozen=True, eq=False)
class Data:
    """Images as uint8 (N, channels, H, W) or features as float32 (N, D); labels (N,) from 0 to C - 1, or the names themselves.

    Images are not copied: do not write into the array afterwards. `columns` names the features; `statistics` is the mean and the deviation
    of each channel or feature that networks standardise their inputs by, where they are not to be those of the training examples; `names`
    says where each example comes from: a file, or a line of one; `encoding`, how features, and their names, come from a table's columns.
    """

    inputs: NDArray[np.uint8] | NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    columns: tuple[str, ...] | None
    statistics: Statistics | None
    names: NDArray[np.object_] | None
    encoding: tuple[Column, ...] | None

    def __init__(
        self,
        inputs: ArrayLike,
        labels: ArrayLike,
        classes: Sequence[str | int] | None = None,
        *,
        columns: Sequence[str] | None = None,
        statistics: Statistics | None = None,
        names: NDArray[np.object_] | Sequence[str] | None = None,
        encoding: Sequence[Column] | None = None,
    ) -> None:
        if encoding is not None:
            columns = [feature for column in encoding for feature in column.features]
        inputs, labels = np.asarray(inputs), np.asarray(labels)
        if labels.dtype == object and all(isinstance(label, str) for label in labels.flat):  # as pandas has them
            labels = labels.astype(str)
        if classes is None and labels.ndim == 1 and labels.dtype.kind == "U":
            labels, classes = factorise(labels)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InputError(f"labels have shape {labels.shape} and type {labels.dtype}: they must be whole numbers, one an example.")
        if (inputs.ndim and len(inputs) != len(labels)) or not len(labels):
            raise InputError(f"there are {len(inputs)} inputs and {len(labels)} labels: there must be as many of both, and at least one.")
        if classes is None and labels.max() >= MOST_CLASSES:
            told = f"label of example {labels.argmax()} is {labels.max()}"
            raise InputError(f"{told}: labels run from 0 to {MOST_CLASSES - 1} where no classes are named.")
        called = tuple(str(i) for i in range(max(int(labels.max()), 0) + 1)) if classes is None else tuple(map(printable, classes))
        if len(set(called)) < len(called):
            raise InputError(f"class {next(name for name in called if called.count(name) > 1)!r} is there twice: names must differ.")
        outside = np.flatnonzero((labels < 0) | (labels >= len(called)))
        if len(outside):
            raise InputError(f"label of example {outside[0]} is {labels[outside[0]]}: labels run from 0 to {len(called) - 1}.")
        if names is not None and len(names) != len(labels):
            raise InputError(f"there are {len(names)} names and {len(labels)} examples: there must be as many of both.")
        object.__setattr__(self, "inputs", _inputs(inputs, columns))
        object.__setattr__(self, "labels", labels.astype(np.int64))
        object.__setattr__(self, "classes", called)
        object.__setattr__(self, "columns", None if columns is None else tuple(map(printable, columns)))
        object.__setattr__(self, "statistics", None if statistics is None else (tuple(statistics[0]), tuple(statistics[1])))
        object.__setattr__(self, "names", None if names is None else np.array(names, dtype=object))
        object.__setattr__(self, "encoding", None if encoding is None else tuple(encoding))
        for what, found in (
            ("columns", self.columns),
            ("means", statistics and statistics[0]),
            ("deviations", statistics and statistics[1]),
        ):
            if found is not None and len(found) != self.shape[0]:
                raise InputError(f"there are {len(found)} {what} and {self.shape[0]} channels or features: there must be as many.")
        if statistics is not None and not np.isfinite(statistics).all():
            raise InputError(f"statistics are {shortly(statistics)}: means and deviations must be finite.")

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
        """A hash of every pixel, label and class name, and of the statistics if they are given."""
        given = (self.statistics,) if self.statistics else ()
        digest = hashlib.sha256(repr((self.inputs.dtype.str, self.inputs.shape, self.classes, *given)).encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        digest.update(self.labels.data)
        return digest.hexdigest()[:16]

    @checked
    def take(self, indices: ArrayLike) -> "Data":
        """The examples at those places, or where a mask says so."""
        indices = np.asarray(indices)
        try:
            labels = self.labels[indices]
        except (IndexError, OverflowError):
            allowed = f"whole numbers from 0 to {len(self) - 1}, or a mask of all examples"
            raise InputError(f"indices are {shortly(indices)}: they must be {allowed}.") from None
        names = None if self.names is None else self.names[indices]
        return replace(self, inputs=self.inputs[indices], labels=labels, names=names)

    def measured_statistics(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each channel or feature; of pixels by counting values, so that no large copy is made."""
        if not self.is_images:
            return self.inputs.mean(0, dtype=np.float64), self.inputs.std(0, dtype=np.float64)
        values, times = np.arange(256), np.zeros((self.shape[0], 256))
        for start in range(0, len(self), 1024):
            times += [np.bincount(channel.ravel(), minlength=256) for channel in self.inputs[start : start + 1024].swapaxes(0, 1)]
        shares = times / times.sum(axis=1, keepdims=True)
        mean = shares @ values
        return mean, np.sqrt((shares * (values - mean[:, None]) ** 2).sum(axis=1))

    @cached_property
    def digests(self) -> NDArray[np.void]:
        """(N,) a hash of each example's inputs: equal where every pixel or feature is."""
        hashes = [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in self.inputs]
        return np.frombuffer(b"".join(hashes), dtype="V16")


def _inputs(inputs: NDArray, columns: Sequence[str] | None) -> NDArray[np.uint8] | NDArray[np.float32]:
    if not all(inputs.shape[1:]):
        raise InputError(f"inputs have shape {inputs.shape}: there is nothing in them to tell classes apart by.")
    if inputs.ndim == 4 and inputs.dtype == np.uint8:
        if inputs.shape[3] in (1, 3, 4) and inputs.shape[1] > 4:
            raise InputError(f"images have shape {inputs.shape}: channels come second, so give images.transpose(0, 3, 1, 2).")
        return inputs
    if inputs.ndim == 2 and inputs.dtype.kind in "fiub":
        return _features(inputs, _names(columns, inputs.shape[1]))
    raise InputError(
        f"inputs have shape {inputs.shape} and type {inputs.dtype}: images are uint8 (N, channels, H, W), features are numbers (N, D)."
    )


def _names(columns: Sequence[str] | None, count: int) -> list[str]:
    """What features are called in a message."""
    return [f"column {printable(name)!r}" for name in columns] if columns else [f"feature {i}" for i in range(count)]


def _features(inputs: NDArray, names: Sequence[str]) -> NDArray[np.float32]:
    """Refused where float32 would not do: what is too large for it, or too far from 0 to be told apart."""
    with np.errstate(over="ignore"):
        features = inputs.astype(np.float32)
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        example, feature = (int(i) for i in bad[0])
        raise InputError(f"{names[feature]} of example {example} is {inputs[example, feature]}: features must be finite, as float32 too.")
    if inputs.dtype.itemsize > 4 and inputs.dtype.kind in "iu":
        # float64 does not hold every whole number from 2 ** 53 on: distances from the lowest are taken before, exact modulo 2 ** 64
        offsets = inputs.astype(np.uint64) - inputs.min(axis=0).astype(np.uint64)
        check_apart(names, features, offsets, "subtract its mean first, or leave it out if it only numbers the examples")
    elif inputs.dtype.itemsize > 4:
        check_apart(names, features, inputs, "subtract its mean first")
    return features


def check_apart(names: Sequence[str], features: NDArray[np.float32], offsets: NDArray, advice: str) -> None:
    """That float32 tells values (N, D) apart; `offsets` are these values, exact, less any constant in each column."""
    with np.errstate(over="ignore"):
        spread, rounding = offsets.std(axis=0), np.spacing(np.abs(features).max(axis=0)).astype(np.float64)
    for column in map(int, np.flatnonzero((spread > 0) & (rounding > spread / 100))):
        raise InputError(
            f"{names[column]} has values near {features[0, column]:g} that deviate by {spread[column]:.2g}, and float32 rounds them "
            f"to {rounding[column]:.2g}: {advice}."
        )


def check_trainable(data: Data) -> None:
    """A class nobody can learn is refused by name before anything is trained."""
    if len(data.classes) < 2:
        raise InputError(f"there is one class only, {data.classes[0]!r}: a classifier needs at least two.")
    few = np.flatnonzero(data.counts < 2)
    if len(few):
        name, count = data.classes[few[0]], data.counts[few[0]]
        number = "no training examples" if count == 0 else "one training example only"
        numbered = data.classes == tuple(str(i) for i in range(len(data.classes)))
        gaps = f", and labels run from 0 to {len(data.classes) - 1} without gaps" if numbered else ""
        raise InputError(f"class {name!r} has {number}: every class needs two at least{gaps}.")


@checked
@dataclass(frozen=True, eq=False)
class Dataset:
    """A named train split, and the test split that it is judged on; without one, training examples are judged by folds."""

    name: str
    train: Data
    test: Data | None = None

    def __post_init__(self) -> None:
        check_trainable(self.train)
        if self.test is not None:
            check_judge(self.train, self.test)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @cached_property
    def fingerprint(self) -> str:
        return f"{self.train.fingerprint}-{self.test.fingerprint if self.test else 'folds'}"

    @cached_property
    def duplicates(self) -> int:
        """Test examples that are in the train split too, or training examples seen before: a network may know these by heart."""
        if self.test is not None:
            return int(np.isin(self.test.digests, self.train.digests).sum())
        return len(self.train) - len(np.unique(self.train.digests))


def check_judge(train: Data, test: Data) -> None:
    """The test split must speak of the same inputs and classes as the train split."""
    if test.classes != train.classes:
        raise InputError(f"train has {len(train.classes)} classes and test {len(test.classes)}, or they are named or ordered otherwise.")
    if test.shape != train.shape:
        raise InputError(f"training examples have shape {train.shape} and test examples {test.shape}: they must agree.")
    missing = np.flatnonzero(test.counts == 0)
    if len(missing):
        raise InputError(f"class {test.classes[missing[0]]!r} has no test examples: its error is not defined.")


def check_fits(shape: tuple[int, ...], data: Data) -> None:
    """That networks which take examples of that shape can be asked about these."""
    if data.shape != shape:
        raise InputError(f"examples have shape {data.shape}, and the networks take {shape}: they must agree.")


def align(train: Data, test: Data) -> tuple[Data, Data]:
    """Both with the classes that either has."""
    if train.classes == test.classes:
        return train, test
    names = in_order({*train.classes, *test.classes})
    position = {name: i for i, name in enumerate(names)}

    def relabelled(data: Data) -> Data:
        new = np.array([position[name] for name in data.classes])
        return replace(data, labels=new[data.labels], classes=tuple(names))

    return relabelled(train), relabelled(test)
