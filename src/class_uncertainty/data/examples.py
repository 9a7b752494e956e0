"""Data: examples with labels."""

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.checks import Array, Frame, check, check_place, shortly, take
from class_uncertainty.data.class_names import factorise
from class_uncertainty.data.folding import Folds, numbered
from class_uncertainty.data.table import Column
from class_uncertainty.errors import InputError
from class_uncertainty.text import printable

Triple = tuple[float, float, float]
VIEWS = (1, 10)  # the fewest and the most that features are means over


@dataclass(frozen=True)
class Embedding:
    """A backbone by its name, a hash of its code and weights, and what it does to images before they pass through.

    Images are scaled so that the shorter side has `size` pixels, cropped at the centre, divided by 255, and
    standardised by `mean` and `std`. Features are means over so many `views`.
    """

    backbone: str
    weights: str
    size: int
    images: tuple[int, int] = (0, 0)  # (H, W) that images are read at
    mean: Triple = (0.485, 0.456, 0.406)  # of ImageNet
    std: Triple = (0.229, 0.224, 0.225)
    views: int = 1
    transform: str = ""  # a hash of the code that replaces all of this preprocessing


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images that examples are shown by, read from a memory-mapped file when they are shown."""

    images: NDArray[np.uint8]  # (M, channels, H, W)
    rows: NDArray[np.int64]  # (N,) the image of each example

    @classmethod
    def of(cls, images: NDArray) -> "Pictures":
        return cls(images, np.arange(len(images)))

    def __getitem__(self, i: int) -> NDArray[np.uint8]:
        return self.images[self.rows[i]]

    def take(self, indices: NDArray) -> "Pictures":
        return Pictures(self.images, self.rows[indices])


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
    if values.dtype == object and set(map(type, values.tolist())) == {str}:
        return values.copy()
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


CHUNK = 1024  # images whose pixels are counted at a time


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
    groups : sequence, optional
        What each example belongs to, as the patient or video that it is of: folds never part a group.
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
    groups: NDArray[np.object_] | None
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
        groups: ArrayLike | None = None,
        label: str | None = None,
    ) -> None:
        check(Array, inputs=inputs, labels=labels)
        classes = take(list[str | int] | None, classes=classes)
        columns = take(list[str] | None, columns=columns)
        statistics = take(Statistics | None, statistics=statistics)
        check(Array | None, names=names, groups=groups)
        check(list[Column] | None, encoding=encoding)
        check(Embedding | None, embedding=embedding)
        check(Pictures | None, pictures=pictures)
        check(str | None, label=label)
        if encoding is not None:
            columns = [feature for column in encoding for feature in column.features]
        inputs, (labels, classes) = np.asarray(inputs), as_labels(np.asarray(labels), classes)
        groups = None if groups is None else as_texts("groups", np.asarray(groups))
        names = None if names is None else as_texts("names", np.asarray(names, dtype=object))
        check_lengths(inputs, labels, names=names, groups=groups)
        fields = {
            "classes": name_classes(labels, classes),
            "inputs": as_inputs(inputs, columns),
            "labels": labels.astype(np.int64),
            "columns": None if columns is None else tuple(map(printable, columns)),
            "statistics": None if statistics is None else (tuple(statistics[0]), tuple(statistics[1])),
            "names": names,
            "encoding": None if encoding is None else tuple(encoding),
            "embedding": embedding,
            "pictures": pictures,
            "groups": groups,
            "label": label,
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)
        check_widths(self.shape[0], columns, statistics)

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        label: str | int | None = None,
        group: str | int | None = None,
        categorical: str | Sequence[str] = (),
        drop: str | Sequence[str] = (),
        missing: str | None = None,
    ) -> "Data":
        """The rows of a DataFrame, encoded as `load` encodes them; the encoding is kept for new rows.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, polars or Arrow.
        label, group, categorical, drop, missing
            As in `load`.

        Returns
        -------
        Data

        Examples
        --------
        >>> import pandas
        >>> frame = pandas.DataFrame({"age": [31, 45], "city": ["Oslo", "Rome"], "churn": ["no", "yes"]})
        >>> cu.Data.from_frame(frame, label="churn").inputs.tolist()
        [[31.0, 1.0, 0.0], [45.0, 0.0, 1.0]]
        """
        check(Frame, frame=frame)
        sources = import_module("class_uncertainty.data.frame_sources")  # late, since it makes Data
        columns = {"label": label, "group": group, "categorical": categorical, "drop": drop, "missing": missing}
        return sources.data_of(frame, **columns)

    @classmethod
    def from_hf(cls, ds: Any, image: str | None = None, label: str | None = None, **options: Any) -> "Data":
        """The rows of a split of the Hugging Face library `datasets`: images, decoded into memory, or a table.

        Parameters
        ----------
        ds : datasets.Dataset
        image : str, optional
            The column of images, by default the one with the feature Image. Without any, all columns but the label are
            features; lists of equally many numbers become one each.
        label : str, optional
            The column of classes, by default 'label' or another usual name. ClassLabel names the classes.
        **options
            `group` as in `load`; `size` and `channels` of images; `categorical`, `drop` and `missing` of tables.

        Returns
        -------
        Data
        """
        sources = import_module("class_uncertainty.data.hf_sources")  # late, since it makes Data
        return sources.data_of(sources.check_split(ds), None, image, label, **options)[0][0]

    def __repr__(self) -> str:
        inputs = f"inputs {self.inputs.dtype} {self.shape}"
        return f"Data({len(self):,} examples, {len(self.classes):,} classes, {inputs})"

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example: (channels, H, W) or (D,)."""
        return self.inputs.shape[1:]

    @property
    def is_images(self) -> bool:
        return self.inputs.ndim == 4

    @property
    def shows_pictures(self) -> bool:
        """Whether examples are images, or come from images."""
        return self.is_images or self.embedding is not None or self.pictures is not None

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(C,) the number of examples of each class."""
        return np.bincount(self.labels, minlength=len(self.classes))

    @cached_property
    def group_codes(self) -> NDArray[np.int64] | None:
        """(N,) the groups, numbered from 0 in the order in which they first occur."""
        return None if self.groups is None else numbered(self.groups)

    @cached_property
    def folds(self) -> Folds:
        """`folds[5]` is the fold, of five, that each example is in: the same split for all lanes."""
        return Folds(self.labels, self.group_codes)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every pixel, label and class name, of given statistics, and of who is in a group with whom."""
        given = (self.statistics,) if self.statistics else ()
        digest = hashlib.sha256(repr((self.inputs.dtype.str, self.inputs.shape, self.classes, *given)).encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        digest.update(self.labels.data)
        if self.group_codes is not None:
            digest.update(self.group_codes.data)
        return digest.hexdigest()[:16]

    def take(self, indices: ArrayLike) -> "Data":
        """The examples at those indices, or where a mask is true."""
        check(Array, indices=indices)
        indices = np.asarray(indices)
        try:
            labels = self.labels[indices]
        except (IndexError, OverflowError):
            raise InputError(f"indices are {shortly(indices)}: give 0 to {len(self) - 1}, or a mask of all.") from None
        names, groups = (None if texts is None else texts[indices] for texts in (self.names, self.groups))
        pictures = None if self.pictures is None else self.pictures.take(indices)
        return replace(self, inputs=self.inputs[indices], labels=labels, names=names, pictures=pictures, groups=groups)

    def picture(self, i: int) -> NDArray[np.uint8] | None:
        """(channels, H, W) that example i is shown by, if there is any."""
        check_place("example", i, len(self))
        return self.inputs[i] if self.is_images else self.pictures[i] if self.pictures else None

    def name_of(self, i: int) -> str:
        """Where example i comes from, or its number."""
        return f"example {i}" if self.names is None else str(self.names[i])

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
        return row_digests(self.inputs)

    @property
    def repeats(self) -> int:
        """How many examples repeat another, to the last pixel or feature."""
        return len(self.digests) - len(np.unique(self.digests))


def row_digests(inputs: NDArray) -> NDArray[np.void]:
    """(N,) a hash of each row."""
    hashes = [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in inputs]
    return np.frombuffer(b"".join(hashes), dtype="V16")


def label_conflicts(contents: Sequence[Hashable], labels: Sequence[int]) -> list[tuple[int, ...]]:
    """Of each content under several labels, the place of the first example of each label."""
    first_of: dict[Hashable, dict[int, int]] = {}
    for place, (content, label) in enumerate(zip(contents, labels, strict=True)):
        first_of.setdefault(content, {}).setdefault(label, place)
    return [tuple(places.values()) for places in first_of.values() if len(places) > 1]


def inputs_digest(digests: NDArray[np.void]) -> str:
    """One hash of examples in any order, from that of each."""
    return hashlib.sha256(np.sort(digests).tobytes()).hexdigest()[:16]
