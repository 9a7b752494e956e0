"""?repeats=drop: training examples that repeat another, or are test examples."""

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.examples import Data
from class_uncertainty.data.left_out import LeftOut
from class_uncertainty.errors import InputError
from class_uncertainty.text import in_list

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
