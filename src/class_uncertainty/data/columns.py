"""How the columns of a table become features: kept with a network, so that later rows are read as its training rows were."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of numbers, which is one feature, or one of text: a feature for each of its `categories`."""

    name: str
    categories: Sequence[str] | None = None
    median: float | None = None  # of the training rows' numbers
    fills: bool = False  # whether missing values are filled, by the median or as a category; else they are refused

    def __post_init__(self) -> None:
        if self.categories is not None and not all(isinstance(category, str) for category in self.categories):
            raise ValueError(f"categories of {self.name!r} are {self.categories}: they must be texts")
        if self.median is not None and not isinstance(self.median, int | float):
            raise ValueError(f"the median of {self.name!r} is {self.median!r}: it must be a number")

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
