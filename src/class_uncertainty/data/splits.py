"""Splits, subsets and copies of data: pure functions Data -> Data."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import check, take
from class_uncertainty.data.dataset import LEAVES_OUT, Dataset, LeftOut, few_words, independent_counts
from class_uncertainty.data.examples import Data
from class_uncertainty.data.finding import DataProblem
from class_uncertainty.data.folding import held_groups
from class_uncertainty.errors import InputError
from class_uncertainty.text import in_list


def _check_seed(seed: int) -> None:
    check(int, seed=seed)
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}: it must be a whole number from 0 to 2 ** 32 - 1.")


def long_tail(data: Data, ratio: float, seed: int = 0) -> Data:
    """Keep N / ratio ** (c / (C - 1)) examples of class c, rounded down (Eq. 13), in the order of the classes.

    With seed 0 these are the examples that LDAM-DRW and Bag-of-Tricks keep, since the generator is theirs.

    Parameters
    ----------
    data : Data
        Examples of at least two classes; N is the size of the smallest.
    ratio : float
        The largest class divided by the smallest, 1 or more.
    seed : int
        Draws the examples.

    Returns
    -------
    Data

    Examples
    --------
    >>> balanced = cu.Data(np.arange(300.0).reshape(300, 1), np.arange(300) % 3)
    >>> cu.long_tail(balanced, ratio=10).counts.tolist()
    [100, 31, 10]
    """
    check(Data, data=data)
    ratio = take(float, ratio=ratio)
    if not np.isfinite(ratio) or ratio < 1:
        raise InputError(f"imbalance ratio is {ratio:g}: it must be 1 (balanced) or more.")
    _check_seed(seed)
    if len(data.classes) < 2:
        raise InputError(f"there is only one class, {data.classes[0]!r}: a long tail needs at least two.")
    classes, largest = len(data.classes), int(np.min(data.counts))
    counts = [int(largest * (1 / ratio) ** (c / (classes - 1))) for c in range(classes)]
    if counts[-1] < 2:
        left = f"leaves class {data.classes[-1]!r} {counts[-1]} of {largest} examples"
        raise InputError(f"imbalance ratio {ratio:g} {left}: it needs at least two.")
    return data.take(_drawn(data, counts, seed))


def _drawn(data: Data, counts: Sequence[int], seed: int) -> NDArray[np.int64]:
    """The indices of counts[c] random examples of each class c, class after class."""
    random = np.random.RandomState(seed)
    kept = []
    for c, count in enumerate(counts):
        members = np.flatnonzero(data.labels == c)
        random.shuffle(members)
        kept.append(members[:count])
    return np.concatenate(kept)


def _check_per_class(data: Data, per_class: int, left: int) -> None:
    """Refuse a number of examples that leaves some class fewer than `left`."""
    check(int, per_class=per_class)
    c = int(np.argmin(data.counts))
    if not 1 <= per_class <= data.counts[c] - left:
        smallest, most = f"class {data.classes[c]!r} has {data.counts[c]:,}", data.counts[c] - left
        raise InputError(f"{per_class} examples per class cannot be taken, since {smallest}: give 1 to {most:,}.")


def validation_split(full_train: Data, per_class: int, seed: int = 0) -> tuple[Data, Data]:
    """Split off a balanced validation set, before the long tail is cut, so that nothing is tuned on test data.

    Parameters
    ----------
    full_train : Data
        The training examples.
    per_class : int
        Validation examples of each class; at least two of each stay for training.
    seed : int
        Draws the examples.

    Returns
    -------
    (Data, Data)
        The other examples, and the validation set.

    Examples
    --------
    >>> data = cu.Data(np.arange(10.0).reshape(10, 1), np.arange(10) % 2)
    >>> train, validation = cu.validation_split(data, per_class=2)
    >>> train.counts.tolist(), validation.counts.tolist()
    ([3, 3], [2, 2])
    """
    check(Data, full_train=full_train)
    _check_seed(seed)
    if full_train.groups is not None:
        raise InputError("full_train has groups, which a balanced draw would part: split off a share by load().")
    _check_per_class(full_train, per_class, left=2)
    held = _drawn(full_train, [per_class] * len(full_train.classes), seed)
    return full_train.take(np.setdiff1d(np.arange(len(full_train)), held)), full_train.take(np.sort(held))


def split_off(data: Data, share: float, seed: int = 0) -> tuple[Data, Data]:
    """(train, test): split off a share of every class, rounded to whole examples, at least one."""
    kept, held = split_indices(data, share, seed)
    return data.take(kept), data.take(held)


def split_indices(data: Data, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of the examples that stay, and of those split off."""
    if not 0 < share < 1:
        raise InputError(f"test is {share:g}: a share must lie between 0 and 1.")
    _check_seed(seed)
    units, numbers = ("examples", data.counts) if data.groups is None else ("groups", independent_counts(data))
    if len(few := np.flatnonzero(numbers < 3)):
        one = {number: f"{number} {units}" for number in range(3)}
        given = few_words(data.classes, numbers, few, one, f"fewer than three {units}")
        raise DataProblem(f"{given}: --test needs three, folds need two; {LEAVES_OUT.format(3)}.", {"min": "3"})
    if data.group_codes is not None:
        is_held = held_groups(data.labels, data.group_codes, share, seed)
        return np.flatnonzero(~is_held), np.flatnonzero(is_held)
    held = np.sort(_drawn(data, [int(np.clip(np.rint(share * n), 1, n - 2)) for n in data.counts], seed))
    return np.setdiff1d(np.arange(len(data)), held), held


def common_classes(train: Data, least: int, option: str, left_out: list[LeftOut]) -> NDArray[np.bool_]:
    """(C,) the classes with so many training examples or, with groups, groups; others go into `left_out`."""
    numbers = independent_counts(train)
    common = numbers >= least
    if not common.any():
        most = f"the largest class, {train.classes[numbers.argmax()]!r}, has {numbers.max():,}"
        raise InputError(f"{option} leaves out every class: {most}.")
    if len(rare := np.flatnonzero(~common)):
        units = ["" if train.groups is None else " group" if n == 1 else " groups" for n in numbers]
        names = tuple(f"{in_list(train.classes[c])} ({numbers[c]:,}{units[c]})" for c in rare)
        left_out.append(LeftOut(option, "classes", len(rare), len(common), names))
    return common


def without_classes(data: Data, kept: NDArray[np.bool_]) -> Data:
    """The examples of the classes that are kept (C,), which are numbered anew."""
    data = data.take(np.flatnonzero(kept[data.labels]))
    classes = tuple(name for name, stays in zip(data.classes, kept, strict=True) if stays)
    return replace(data, labels=(np.cumsum(kept) - 1)[data.labels], classes=classes)


def duplicate(data: Data, strength: float, seed: int = 0) -> Data:
    """Repeat examples until class c has N_c ** (1 - strength) * max(N) ** strength of them (IF2).

    This is the paper's alpha = alpha_R ** lambda * alpha_N ** (1 - lambda), up to a factor that keeps the largest class
    unchanged. Examples of one class are repeated equally often, or once more.

    Parameters
    ----------
    data : Data
        The examples.
    strength : float
        From 0, which changes nothing, to 1, which balances the classes.
    seed : int
        Draws the examples that are repeated once more.

    Returns
    -------
    Data

    Examples
    --------
    >>> data = cu.Data(np.arange(6.0).reshape(6, 1), [0, 0, 0, 0, 1, 1])
    >>> cu.duplicate(data, strength=1).counts.tolist()
    [4, 4]
    """
    check(Data, data=data)
    strength = take(float, strength=strength)
    if not 0 <= strength <= 1:
        raise InputError(f"strength is {strength:g}: it must lie between 0 (natural) and 1 (balanced).")
    _check_seed(seed)
    counts = data.counts[data.counts > 0]
    targets = np.rint(counts ** (1 - strength) * counts.max() ** strength).astype(int)
    random = np.random.RandomState(seed)
    kept = [np.arange(len(data))]
    for c, count in zip(np.flatnonzero(data.counts), targets, strict=True):
        members = np.flatnonzero(data.labels == c)
        more = count - len(members)
        kept += [np.repeat(members, more // len(members)), random.permutation(members)[: more % len(members)]]
    return data.take(np.concatenate(kept))


def mix_hardness(easy: Dataset, hard: Dataset, per_class: int, seed: int = 0) -> Dataset:
    """Join two data sets into one with equal counts and unequal hardness; the classes of `hard` come first.

    Parameters
    ----------
    easy, hard : Dataset
        Data sets with test splits, whose examples have one shape.
    per_class : int
        Training examples of each class; the test splits are kept whole.
    seed : int
        Draws the training examples.

    Returns
    -------
    Dataset
        Class names that both have are prefixed with the names of the data sets.

    Examples
    --------
    >>> clean = cu.load("digits")
    >>> inverted = [cu.Data(255 - split.inputs, split.labels) for split in (clean.train, clean.test)]
    >>> mixed = cu.mix_hardness(clean, cu.Dataset("inverted", *inverted), per_class=5)
    >>> mixed.name, len(mixed.train), mixed.classes[0], mixed.classes[-1]
    ('inverted+digits:5', 100, 'inverted/0', 'digits/9')
    """
    check(Dataset, easy=easy, hard=hard)
    _check_seed(seed)
    if easy.train.shape != hard.train.shape:
        raise InputError(f"{easy.name} has shape {easy.train.shape}, {hard.name} {hard.train.shape}: they must agree.")
    if easy.test is None or hard.test is None:
        raise InputError(f"{(easy if easy.test is None else hard).name} has no test split: both must have one.")
    for side in (hard, easy):
        _check_per_class(side.train, per_class, left=0)
    classes = [*hard.classes, *easy.classes]
    if set(hard.classes) & set(easy.classes):
        classes = [f"{side.name}/{name}" for side in (hard, easy) for name in side.classes]
    chosen = [_drawn(side.train, [per_class] * len(side.classes), seed) for side in (hard, easy)]
    train = _joined(hard.train.take(chosen[0]), easy.train.take(chosen[1]), classes)
    return Dataset(f"{hard.name}+{easy.name}:{per_class}", train, _joined(hard.test, easy.test, classes))


def svci20(cifar10: Dataset, svhn: Dataset, per_class: int, seed: int = 0) -> Dataset:
    """SVCI-20: CIFAR-10 as classes 0 to 9, SVHN as classes 10 to 19, with equal counts.

    Its error is the class-mean error, since SVHN's test split is not balanced.

    Parameters
    ----------
    cifar10, svhn : Dataset
        As `load("cifar10")` and `load("svhn")` give them, standardised alike.
    per_class : int
        Training examples of each class.
    seed : int
        Draws the training examples.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> objects = cu.Dataset("cifar10", *[cu.Data(np.eye(6), np.arange(6) % 2, ["cat", "ship"])] * 2)
    >>> numbers = cu.Dataset("svhn", *[cu.Data(np.eye(6), np.arange(6) % 2, ["0", "1"])] * 2)
    >>> mixed = cu.svci20(objects, numbers, per_class=2)
    >>> mixed.classes, mixed.train.counts.tolist()
    (('cat', 'ship', '0', '1'), [2, 2, 2, 2])
    """
    check(Dataset, cifar10=cifar10, svhn=svhn)
    return mix_hardness(svhn, cifar10, per_class, seed)


def _joined(first: Data, second: Data, classes: Sequence[str]) -> Data:
    """Both together; statistics that differ are dropped, so that those of all training examples are used."""
    inputs = np.concatenate([first.inputs, second.inputs])
    labels = np.concatenate([first.labels, second.labels + len(first.classes)])
    statistics = first.statistics if first.statistics == second.statistics else None
    names, groups = (
        None if one is None or other is None else np.concatenate([one, other])
        for one, other in ((first.names, second.names), (first.groups, second.groups))
    )
    return Data(inputs, labels, classes, columns=first.columns, statistics=statistics, names=names, groups=groups)


REPEATS_POLICIES = ("drop",)


def distinct_examples(
    train: Data, digests: NDArray[np.void], test_digests: NDArray[np.void] | None, option: str, left_out: list[LeftOut]
) -> NDArray[np.int64]:
    """The first of training examples whose digests (N,) are equal, and none of a test example; others are counted."""
    _, first, distinct = np.unique(digests, return_index=True, return_inverse=True)
    in_test = np.zeros(len(train), bool) if test_digests is None else np.isin(digests, test_digests)
    is_first = first[distinct] == np.arange(len(train))
    gone = np.flatnonzero(in_test | ~is_first)
    if in_test.all():
        raise InputError(f"{option} leaves no training example: all of them are test examples.")
    contrary = np.sum(~in_test & (train.labels != train.labels[first[distinct]]))
    if len(gone):
        facts = ((in_test.sum(), "test examples"), (contrary, "of another class than the one that stays"))
        what = "".join(f", {number:,} of them {which}" for number, which in facts if number)
        names = tuple(in_list(train.name_of(i)) for i in gone.tolist())
        left_out.append(LeftOut(option, f"training examples{what}", len(gone), len(train), names))
    return np.flatnonzero(~in_test & is_first)
