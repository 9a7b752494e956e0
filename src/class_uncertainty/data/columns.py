"""How the columns of a table become features: kept with a network, so that later rows are read as its training rows were."""

from collections.abc import Sequence
from dataclasses import dataclass
from reprlib import repr as brief

import numpy as np
from numpy.typing import NDArray

LARGEST = float(np.finfo(np.float32).max)  # of the numbers that a network takes


def is_number(value: object) -> bool:
    """One that is no NaN; bool is a kind of int in Python, and no number here."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of numbers, which is one feature, or one of text: a feature for each of its `categories`."""

    name: str
    categories: Sequence[str] | None = None
    median: float | None = None  # of the training rows' numbers
    fills: bool = False  # whether missing values are filled, by the median or as a category; else they are refused

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.fills, bool):
            told = f"a column has the name {brief(self.name)} and fills {brief(self.fills)}"
            raise ValueError(f"{told}: they must be text, and true or false")
        names = () if self.categories is None else self.categories
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"categories of {self.name!r} are {brief(self.categories)}: they must be texts")
        if self.median is not None and (not is_number(self.median) or abs(self.median) > LARGEST):
            raise ValueError(f"the median of {self.name!r} is {brief(self.median)}: it must be a number, and finite")

    @property
    def features(self) -> list[str]:
        return [self.name] if self.categories is None else [f"{self.name}={category}" for category in self.categories]

    def encoded(self, values: NDArray) -> NDArray[np.floating]:
        """(N,) numbers, NaN where one is missing, or texts -> (N, features); zero everywhere for a category that training had not."""
        if self.categories is None:
            return (values if self.median is None else np.where(np.isnan(values), self.median, values))[:, None]
        index = {category: i for i, category in enumerate(self.categories)}
        codes = np.array([index.get(text, -1) for text in values])
        return (codes[:, None] == np.arange(len(self.categories))).astype(np.float32)
