"""Dataset: a training split and the test split that judges it, and what both must have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import check, check_fields
from class_uncertainty.data.class_names import in_order, twins_found
from class_uncertainty.data.examples import Data
from class_uncertainty.data.finding import DataProblem, Finding
from class_uncertainty.data.folding import FOLDS
from class_uncertainty.errors import InputError, notice
from class_uncertainty.text import enumerated, in_list, listed

FEW = 5  # names in a sentence


@dataclass(frozen=True)
class LeftOut:
    """'?skip=unreadable left out 3 of 2,527 images: a.txt, b.png and c.png.'"""

    option: str
    what: str  # images, rows or classes
    number: int
    of: int
    names: tuple[str, ...] = ()  # of all, or of the first few, as they are listed

    def __str__(self) -> str:
        named = f": {enumerated(self.names, FEW, self.number)}" if self.names else ""
        return f"{self.option} left out {self.number:,} of {self.of:,} {self.what}{named}."


LEAVES_OUT = "?min={} leaves out classes with fewer"  # in a refusal


def check_trainable(data: Data) -> None:
    """Refuse classes that cannot be learnt, by name, before anything is trained."""
    if len(data.classes) < 2:
        raise InputError(f"there is only one class, {data.classes[0]!r}: a classifier needs at least two.")
    if len(few := np.flatnonzero(data.counts < 2)):
        numbers = {0: "no training examples", 1: "only one training example"}
        given = few_words(data.classes, data.counts, few, numbers, "fewer than two training examples")
        is_numbered = data.classes == tuple(str(i) for i in range(len(data.classes)))
        gaps = f", and labels run from 0 to {len(data.classes) - 1} without gaps" if is_numbered else ""
        raise DataProblem(f"{given}: every class needs at least two{gaps}; {LEAVES_OUT.format(2)}.", {"min": "2"})
    if len(few := np.flatnonzero(independent_counts(data) < 2)):
        given = few_words(data.classes, independent_counts(data), few, {1: "one group alone"}, "one group alone")
        needed = "every class needs two groups, since each lies on one side of a split"
        raise DataProblem(f"{given}: {needed}; {LEAVES_OUT.format(2)}.", {"min": "2"})


def few_words(
    classes: Sequence[str], counts: NDArray[np.int64], few: NDArray[np.int64], one: Mapping[int, str], several: str
) -> str:
    """'class 'cat' has only one example', or '2 classes have fewer than two: cat (1), dog (0)'."""
    if len(few) == 1:
        return f"class {classes[few[0]]!r} has {one[int(counts[few[0]])]}"
    named = enumerated([f"{in_list(classes[c])} ({counts[c]})" for c in few], 5)
    return f"{len(few):,} classes have {several}, {named}"


def independent_counts(data: Data) -> NDArray[np.int64]:
    """(C,) the groups that each class occurs in; without groups, its examples."""
    if data.group_codes is None:
        return data.counts
    pairs = np.unique(data.group_codes * len(data.classes) + data.labels)
    return np.bincount(pairs % len(data.classes), minlength=len(data.classes))


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
        Test examples of the same shape and classes. A class without any has the error NaN, and means leave it out.
    left_out : sequence of LeftOut
        What reading left out, because an option allowed it.
    folder : Path, optional
        Where the examples are files, the folder that their names are paths from.
    noticed : sequence of Finding
        Problems found in columns while reading, such as missing values and identifiers.

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
    left_out: tuple[LeftOut, ...] = ()
    folder: Path | None = None
    noticed: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        check_trainable(self.train)
        if self.test is not None:
            check_judge(self.train, self.test)
        elif self.train.groups is not None:
            self.train.folds[FOLDS]  # refuses too few groups before anything is trained

    @classmethod
    def from_hf(cls, ds: Any, image: str | None = None, label: str | None = None, **options: Any) -> "Dataset":
        """The splits `train` and `test` of a DatasetDict of the Hugging Face library `datasets`.

        A `datasets.Dataset` alone is a training split, which folds judge.

        Parameters
        ----------
        ds : datasets.DatasetDict or datasets.Dataset
        image, label, **options
            As in `Data.from_hf`.

        Returns
        -------
        Dataset
        """
        sources = import_module("class_uncertainty.data.hf_sources")  # late, since it makes Data
        (train, *test), left_out, noticed = sources.data_of(*sources.splits_of(ds), image, label, **options)
        dataset = cls("hf", train, test[0] if test else None, tuple(left_out), noticed=tuple(noticed))
        notice_reading(dataset)
        return dataset

    def __repr__(self) -> str:
        judged = f"{len(self.test):,} for test" if self.test else "judged by folds"
        return f"Dataset({self.name!r}, {len(self.classes):,} classes, {len(self.train):,} for training, {judged})"

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @cached_property
    def fingerprint(self) -> str:
        train = self.train.fingerprint
        return f"{train}-{self.test.fingerprint}" if self.test else folds_fingerprint(train)

    @cached_property
    def duplicates(self) -> int:
        """The number of test examples that occur in the training split; without a test split, of repeated ones.

        Repetitions within a group do not count: folds never part them.
        """
        digests = self.train.digests
        if self.test is not None:
            return int(np.isin(self.test.digests, digests).sum())
        _, distinct = np.unique(digests, return_inverse=True)
        if self.train.group_codes is None:
            return self.train.repeats
        within = np.unique(distinct * len(digests) + self.train.group_codes)  # (content, group) pairs that occur
        return len(within) - int(distinct.max()) - 1


def folds_fingerprint(fingerprint: str) -> str:
    """The fingerprint of a Dataset without a test split, from its training split's or from one's with a test split."""
    return f"{fingerprint.partition('-')[0]}-folds"


def shared_groups(one: Data, other: Data) -> NDArray:
    """The groups that are in both; none where either has no groups."""
    if one.groups is None or other.groups is None:
        return np.empty(0)
    return np.intersect1d(one.groups, other.groups)


def check_judge(train: Data, test: Data) -> None:
    """Refuse a test split whose inputs or classes differ from those of the training split."""
    if test.classes != train.classes:
        counts = f"{len(train.classes)} classes and test {len(test.classes)}"
        raise InputError(f"train has {counts}: their names and order must agree.")
    if test.shape != train.shape:
        raise InputError(f"training examples have shape {train.shape} and test examples {test.shape}: they must agree.")
    if len(both := shared_groups(train, test)):
        names = tuple(map(str, both.tolist()))
        are = "group is" if len(names) == 1 else "groups are"
        given = f"{len(names):,} {are} in both splits"
        advice = "each must lie on one side"
        finding = Finding("shared-groups", given, advice, len(names), names)
        raise DataProblem(f"{given}, {listed(names, 5)}: {advice}.", {"group": None}, (finding,))
    judged = np.flatnonzero(test.counts)
    if len(judged) < 2:
        needed = "give some of another class, or no test split, so that folds judge all classes"
        raise InputError(f"all test examples are of class {test.classes[judged[0]]!r}: {needed}.")


def unjudged_found(dataset: Dataset) -> Finding | None:
    """Name the classes without test examples, and say what that means; None where every class has some."""
    judge = dataset.test or dataset.train
    absent = tuple(dataset.classes[c] for c in np.flatnonzero(judge.counts == 0))
    if not absent:
        return None
    have = "has" if len(absent) == 1 else "have"
    lacking = f"{len(absent):,} of {len(dataset.classes):,} classes {have} no test examples, and so no error"
    means = "means are over the others; without a test split, folds judge all classes"
    return Finding("no-test", f"{lacking} ({listed(absent, 5)})", means, len(absent), absent)


def notice_reading(dataset: Dataset) -> None:
    """Log the problems found while reading, and those of class names and counts."""
    found = [*dataset.noticed, twins_found(dataset.classes), unjudged_found(dataset)]
    for finding in filter(None, found):
        notice(str(finding))


def check_fits(shape: tuple[int, ...], data: Data) -> None:
    """Refuse examples of another shape than the networks take."""
    check(Data, data=data)
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
