"""Pure functions Data -> Data, and the one stratified split that all lanes share."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.boundary import checked
from class_uncertainty.data.core import Data, Dataset
from class_uncertainty.errors import InputError


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}: it must be a whole number from 0 to 2 ** 32 - 1.")


@checked
def long_tail(data: Data, ratio: float, seed: int = 0) -> Data:
    """N_c = N / ratio ** (c / (C - 1)), truncated (Eq. 13); class order kept.

    With seed 0 these are the examples LDAM-DRW and Bag-of-Tricks keep, so the generator is the one they use.
    """
    if not np.isfinite(ratio) or ratio < 1:
        raise InputError(f"imbalance ratio is {ratio:g}: it must be 1 (balanced) or more.")
    _check_seed(seed)
    if len(data.classes) < 2:
        raise InputError(f"there is one class only, {data.classes[0]!r}: a long tail needs at least two.")
    classes, largest = len(data.classes), int(np.min(data.counts))
    counts = [int(largest * (1 / ratio) ** (c / (classes - 1))) for c in range(classes)]
    if counts[-1] < 2:
        raise InputError(
            f"imbalance ratio {ratio:g} leaves class {data.classes[-1]!r} {counts[-1]} of {largest} examples: it needs two at least."
        )
    return data.take(_drawn(data, counts, seed))


def _drawn(data: Data, counts: Sequence[int], seed: int) -> NDArray[np.int64]:
    """Which examples stay where class c keeps counts[c] of its own, class after class."""
    random = np.random.RandomState(seed)
    kept = []
    for c, count in enumerate(counts):
        members = np.flatnonzero(data.labels == c)
        random.shuffle(members)
        kept.append(members[:count])
    return np.concatenate(kept)


def _check_per_class(data: Data, per_class: int, left: int) -> None:
    """That every class can give `per_class` examples and keep `left`."""
    c = int(np.argmin(data.counts))
    if not 1 <= per_class <= data.counts[c] - left:
        allowed = f"it must be from 1 to {data.counts[c] - left:,}"
        raise InputError(f"{per_class} examples a class are asked for, and class {data.classes[c]!r} has {data.counts[c]:,}: {allowed}.")


@checked
def validation_split(full_train: Data, per_class: int, seed: int = 0) -> tuple[Data, Data]:
    """(the rest, a balanced validation split), to be cut before the long tail is: then nothing need be tuned on test data."""
    _check_seed(seed)
    _check_per_class(full_train, per_class, left=2)
    held = _drawn(full_train, [per_class] * len(full_train.classes), seed)
    return full_train.take(np.setdiff1d(np.arange(len(full_train)), held)), full_train.take(np.sort(held))


def hold_out(data: Data, share: float, seed: int = 0) -> tuple[Data, Data]:
    """(train, test): `share` of every class set aside, to the nearest whole example, at least one."""
    kept, held = held_share(data, share, seed)
    return data.take(kept), data.take(held)


def held_share(data: Data, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The examples that stay, and those set aside."""
    if not 0 < share < 1:
        raise InputError(f"test is {share:g}: a share must lie between 0 and 1.")
    _check_seed(seed)
    few = np.flatnonzero(data.counts < 3)
    if len(few):
        name, count = data.classes[few[0]], data.counts[few[0]]
        raise InputError(f"class {name!r} has {count} examples: a test share needs three; without ?test they are judged by folds.")
    held = np.sort(_drawn(data, [int(np.clip(np.rint(share * n), 1, n - 2)) for n in data.counts], seed))
    return np.setdiff1d(np.arange(len(data)), held), held


@checked
def duplicate(data: Data, strength: float, seed: int = 0) -> Data:
    """N_c ** (1 - strength) * max N ** strength examples of each class, by repeating them: 0 is natural, 1 balanced (IF2).

    The paper's alpha = alpha_R ** lambda * alpha_N ** (1 - lambda) up to the factor that leaves the largest class as it is. Every
    example is repeated as often as any other of its class, or once more.
    """
    if not 0 <= strength <= 1:
        raise InputError(f"strength is {strength:g}: it must lie between 0 (natural) and 1 (balanced).")
    _check_seed(seed)
    counts = data.counts[data.counts > 0]
    wanted = dict(zip(np.flatnonzero(data.counts), np.rint(counts ** (1 - strength) * counts.max() ** strength).astype(int), strict=True))
    random = np.random.RandomState(seed)
    kept = [np.arange(len(data))]
    for c, count in wanted.items():
        members = np.flatnonzero(data.labels == c)
        more = count - len(members)
        kept += [np.repeat(members, more // len(members)), random.permutation(members)[: more % len(members)]]
    return data.take(np.concatenate(kept))


@checked
def mix_hardness(easy: Dataset, hard: Dataset, per_class: int, seed: int = 0) -> Dataset:
    """Equal counts, unequal hardness: `per_class` training examples of each class of both, the hard ones first; test splits whole."""
    _check_seed(seed)
    if easy.train.shape != hard.train.shape:
        raise InputError(f"{easy.name} has examples of shape {easy.train.shape} and {hard.name} of {hard.train.shape}: they must agree.")
    if easy.test is None or hard.test is None:
        raise InputError(f"{(easy if easy.test is None else hard).name} has no test split: both must have one.")
    for side in (hard, easy):
        _check_per_class(side.train, per_class, left=0)
    classes = [*hard.classes, *easy.classes]
    if set(hard.classes) & set(easy.classes):
        classes = [f"{side.name}/{name}" for side in (hard, easy) for name in side.classes]
    first, second = (side.train.take(_drawn(side.train, [per_class] * len(side.classes), seed)) for side in (hard, easy))
    train, test = _joined(first, second, classes), _joined(hard.test, easy.test, classes)
    return Dataset(f"{hard.name}+{easy.name}:{per_class}", train, test)


@checked
def svci20(cifar10: Dataset, svhn: Dataset, per_class: int, seed: int = 0) -> Dataset:
    """SVCI-20: CIFAR-10 as classes 0 to 9, SVHN as 10 to 19. Its error is the class-mean error, for SVHN's test split is not balanced."""
    return mix_hardness(svhn, cifar10, per_class, seed)


def _joined(first: Data, second: Data, classes: Sequence[str]) -> Data:
    """Standardised by what both are; where they differ, by the mean and the deviation of all together."""
    inputs, labels = np.concatenate([first.inputs, second.inputs]), np.concatenate([first.labels, second.labels + len(first.classes)])
    statistics = first.statistics if first.statistics == second.statistics else None
    names = None if first.names is None or second.names is None else np.concatenate([first.names, second.names])
    return Data(inputs, labels, classes, columns=first.columns, statistics=statistics, names=names)


def stratified(labels: ArrayLike, parts: int, seed: int = 0) -> NDArray[np.int64]:
    """(N,) which of `parts` each example belongs to, every class spread as evenly as it can be."""
    labels = np.asarray(labels)
    random = np.random.default_rng([seed, parts, 0xF01D])  # not the numbers of any lane
    part = np.empty(len(labels), dtype=np.int64)
    start = 0
    for c in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == c))
        part[members] = (start + np.arange(len(members))) % parts  # going on where the last class ended keeps the parts equal
        start += len(members)
    return part
