"""What a model is for: the goal that its labels are best for, and the prior that its probabilities stand for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any

from class_uncertainty.metrics import check_prior


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a model is for; stored with it.

    Attributes
    ----------
    counts : tuple of int
        Training examples of each class.
    prior : tuple of float
        How frequent classes are where the model's probabilities hold, as measured on its training examples; of sum 1.
    goal : str or None
        What its labels are best for, as `cu fix --goal` takes it; None where one method was trained.
    method : str
        How it was trained.
    label : str or None
        The column of a table that its labels come from.
    """

    counts: tuple[int, ...]
    prior: tuple[float, ...]
    goal: str | None = None
    method: str = "naive"
    label: str | None = None

    @classmethod
    def of(cls, counts: Iterable[int], prior: Iterable[float], **others: Any) -> "Purpose":
        return cls(counts=tuple(map(int, counts)), prior=tuple(map(float, prior)), **others)

    @classmethod
    def restored(cls, fields: Mapping[str, Any], classes: int) -> "Purpose":
        """From a file that anyone may have edited."""
        purpose = cls.of(**fields)
        if len(purpose.counts) != classes or min(purpose.counts) < 1:
            raise ValueError(f"counts are {brief(purpose.counts)}: they must be whole numbers above 0, one a class")
        check_prior(purpose.prior, classes)
        if not all(isinstance(text, str | None) for text in (purpose.goal, purpose.method, purpose.label)):
            raise ValueError("the goal, the method and the label of the purpose must be text")
        return purpose
