"""Data: examples with labels. Dataset: a training split and the test split that judges it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.boundary import check_place, checked, shortly
from class_uncertainty.data.class_names import factorise, in_order
from class_uncertainty.data.embedding import Embedding, Pictures
from class_uncertainty.data.table import Column
from class_uncertainty.errors import InputError
from class_uncertainty.text import printable

MAX_CLASSES = 10**6  # where labels are numbers: each class gets a name
CHUNK = 1024  # images whose pixels are counted at a time

Statistics = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation of each channel or feature


@checked
@dataclass(frozen=True, eq=False)
class Data:
    """Examples with labels: images or feature vectors.

    Parameters
    ----------
    inputs : array
        Images as uint8 (N, channels, H, W), or features as numbers (N, D), kept as float32. Arrays that are so already
        are not copied.
    labels : array
        (N,) whole numbers from 0 to C - 1, or class names.
    classes : sequence of str, optional
        The C class names; by default "0", "1", ... or the sorted names among the labels.
    columns : sequence of str, optional
        The names of the D features.
    statistics : (means, deviations), optional
        What networks standardise each channel or feature by; by default the statistics of the training examples.
    names : sequence of str, optional
        Where each example comes from: a file, or a line of one.
    encoding : sequence of Column, optional
        How the features come from the columns of a table; it replaces `columns`.
    embedding : Embedding, optional
        How the features come from images.
    pictures : Pictures, optional
        The images that the features come from, for reports.
    label : str, optional
        The column of a table that the labels come from.

    Examples
    --------
    >>> data = cu.Data([[0.1, 2.0], [0.3, 1.0], [0.2, 4.0]], ["cat", "dog", "cat"])
    >>> data.classes, data.labels.tolist(), data.counts.tolist()
    (('cat', 'dog'), [0, 1, 0], [2, 1])
    >>> data.shape, data.is_images
    ((2,), False)
    """

    inputs: NDArray[np.uint8] | NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    columns: tuple[str, ...] | None
    statistics: Statistics | None
    names: NDArray[np.object_] | None
    encoding: tuple[Column, ...] | None
    embedding: Embedding | None
    pictures: Pictures | None
    label: str | None

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
        embedding: Embedding | None = None,
        pictures: Pictures | None = None,
        label: str | None = None,
    ) -> None:
        if encoding is not None:
            columns = [feature for column in encoding for feature in column.features]
        inputs, (labels, classes) = np.asarray(inputs), _labels(np.asarray(labels), classes)
        _check_lengths(inputs, labels, names)
        fields = {
            "classes": _class_names(labels, classes),
            "inputs": _inputs(inputs, columns),
            "labels": labels.astype(np.int64),
            "columns": None if columns is None else tuple(map(printable, columns)),
            "statistics": None if statistics is None else (tuple(statistics[0]), tuple(statistics[1])),
            "names": None if names is None else np.array(names, dtype=object),
            "encoding": None if encoding is None else tuple(encoding),
            "embedding": embedding,
            "pictures": pictures,
            "label": label,
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)
        _check_widths(self.shape[0], columns, statistics)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example: (channels, H, W) or (D,)."""
        return self.inputs.shape[1:]

    @property
    def is_images(self) -> bool:
        return self.inputs.ndim == 4

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(C,) the number of examples of each class."""
        return np.bincount(self.labels, minlength=len(self.classes))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every pixel, label and class name, and of given statistics."""
        given = (self.statistics,) if self.statistics else ()
        digest = hashlib.sha256(repr((self.inputs.dtype.str, self.inputs.shape, self.classes, *given)).encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        digest.update(self.labels.data)
        return digest.hexdigest()[:16]

    @checked
    def take(self, indices: ArrayLike) -> "Data":
        """The examples at those indices, or where a mask is true."""
        indices = np.asarray(indices)
        try:
            labels = self.labels[indices]
        except (IndexError, OverflowError):
            raise InputError(f"indices are {shortly(indices)}: give 0 to {len(self) - 1}, or a mask of all.") from None
        names = None if self.names is None else self.names[indices]
        pictures = None if self.pictures is None else self.pictures.take(indices)
        return replace(self, inputs=self.inputs[indices], labels=labels, names=names, pictures=pictures)

    @checked
    def picture(self, i: int) -> NDArray[np.uint8] | None:
        """(channels, H, W) that example i is shown by, if there is any."""
        check_place("example", i, len(self))
        return self.inputs[i] if self.is_images else self.pictures[i] if self.pictures else None

    def measured_statistics(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each channel or feature; pixel values are counted, which copies no images."""
        if not self.is_images:
            return self.inputs.mean(0, dtype=np.float64), self.inputs.std(0, dtype=np.float64)
        values, counts = np.arange(256), np.zeros((self.shape[0], 256))
        for start in range(0, len(self), CHUNK):
            channels = self.inputs[start : start + CHUNK].swapaxes(0, 1)
            counts += [np.bincount(channel.ravel(), minlength=256) for channel in channels]
        shares = counts / counts.sum(axis=1, keepdims=True)
        mean = shares @ values
        return mean, np.sqrt((shares * (values - mean[:, None]) ** 2).sum(axis=1))

    @cached_property
    def digests(self) -> NDArray[np.void]:
        """(N,) a hash of each example's inputs, equal if every pixel or feature is."""
        hashes = [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in self.inputs]
        return np.frombuffer(b"".join(hashes), dtype="V16")


def _labels(labels: NDArray, classes: Sequence[str | int] | None) -> tuple[NDArray, Sequence[str | int] | None]:
    """Labels as whole numbers, and the class names if the labels were names."""
    if labels.dtype == object and all(isinstance(label, str) for label in labels.flat):  # as pandas has them
        labels = labels.astype(str)
    if classes is None and labels.ndim == 1 and labels.dtype.kind == "U":
        labels, classes = factorise(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(f"labels have shape {labels.shape} and type {labels.dtype}: give whole numbers, one each.")
    return labels, classes


def _check_lengths(inputs: NDArray, labels: NDArray, names: Sequence[str] | NDArray | None) -> None:
    if (inputs.ndim and len(inputs) != len(labels)) or not len(labels):
        raise InputError(f"there are {len(inputs)} inputs and {len(labels)} labels: give as many, and at least one.")
    if names is not None and len(names) != len(labels):
        raise InputError(f"there are {len(names)} names and {len(labels)} examples: give one name per example.")


def _class_names(labels: NDArray, classes: Sequence[str | int] | None) -> tuple[str, ...]:
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


def _check_widths(width: int, columns: Sequence[str] | None, statistics: Statistics | None) -> None:
    """One column name, mean and deviation per channel or feature."""
    means, deviations = statistics or (None, None)
    for what, values in (("columns", columns), ("means", means), ("deviations", deviations)):
        if values is not None and len(values) != width:
            raise InputError(f"there are {len(values)} {what} and {width} channels or features: give one for each.")
    if statistics is not None and not np.isfinite(statistics).all():
        raise InputError(f"statistics are {shortly(statistics)}: means and deviations must be finite.")


def _inputs(inputs: NDArray, columns: Sequence[str] | None) -> NDArray[np.uint8] | NDArray[np.float32]:
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


def check_trainable(data: Data) -> None:
    """Refuse a class that cannot be learnt, by name, before anything is trained."""
    if len(data.classes) < 2:
        raise InputError(f"there is only one class, {data.classes[0]!r}: a classifier needs at least two.")
    for c in np.flatnonzero(data.counts < 2):
        number = "no training examples" if data.counts[c] == 0 else "only one training example"
        numbered = data.classes == tuple(str(i) for i in range(len(data.classes)))
        gaps = f", and labels run from 0 to {len(data.classes) - 1} without gaps" if numbered else ""
        raise InputError(f"class {data.classes[c]!r} has {number}: every class needs at least two{gaps}.")


@checked
@dataclass(frozen=True, eq=False)
class Dataset:
    """A named training split, and the test split that judges it; without one, folds of the training split do.

    Attributes
    ----------
    name : str
        The name that `load` takes, or any other.
    train : Data
        The training examples: at least two classes, and two examples of each.
    test : Data, optional
        Test examples of the same shape and classes, at least one of each.

    Examples
    --------
    >>> data = cu.Data(np.eye(4), ["cat", "cat", "dog", "dog"])
    >>> dataset = cu.Dataset("pets", train=data, test=data)
    >>> dataset.classes, dataset.duplicates
    (('cat', 'dog'), 4)
    """

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
        train = self.train.fingerprint
        return f"{train}-{self.test.fingerprint}" if self.test else folds_fingerprint(train)

    @cached_property
    def duplicates(self) -> int:
        """The number of test examples that occur in the training split; without a test split, of repeated examples."""
        if self.test is not None:
            return int(np.isin(self.test.digests, self.train.digests).sum())
        return len(self.train) - len(np.unique(self.train.digests))


def folds_fingerprint(train: str) -> str:
    """The fingerprint of a Dataset without a test split, from that of its training split."""
    return f"{train}-folds"


def check_judge(train: Data, test: Data) -> None:
    """Refuse a test split whose inputs or classes differ from those of the training split."""
    if test.classes != train.classes:
        counts = f"{len(train.classes)} classes and test {len(test.classes)}"
        raise InputError(f"train has {counts}: their names and order must agree.")
    if test.shape != train.shape:
        raise InputError(f"training examples have shape {train.shape} and test examples {test.shape}: they must agree.")
    for c in np.flatnonzero(test.counts == 0):
        raise InputError(f"class {test.classes[c]!r} has no test examples: its error is not defined.")


def check_fits(shape: tuple[int, ...], data: Data) -> None:
    """Refuse examples of another shape than the networks take."""
    if data.shape != shape:
        raise InputError(f"examples have shape {data.shape}, and the networks take {shape}: they must agree.")


def align(train: Data, test: Data) -> tuple[Data, Data]:
    """Both splits, each with the classes of either."""
    if train.classes == test.classes:
        return train, test
    names = in_order({*train.classes, *test.classes})
    position = {name: i for i, name in enumerate(names)}

    def relabelled(data: Data) -> Data:
        new = np.array([position[name] for name in data.classes])
        return replace(data, labels=new[data.labels], classes=tuple(names))

    return relabelled(train), relabelled(test)
