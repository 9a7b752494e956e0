"""RateChoice: the learning rate that suits a method, chosen on examples that judge nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass

CHOOSING_SEED = 1000  # of the networks that choose; those that are judged have others


@dataclass(frozen=True)
class RateChoice:
    """The learning rate of a method, and the class-mean errors in percent that it was chosen by."""

    method: str
    lr: float
    errors: dict[float, float | None]  # by learning rate; None where the training diverged

    @classmethod
    def of(cls, method: str, errors: dict[float, float | None]) -> "RateChoice":
        return cls(method, best_rate(errors), errors)


def chosen_where(data: str | None) -> str:
    """What learning rates were chosen by, in words: these data, or where there are none folds."""
    return "by folds of the training split" if data is None else f"on what judges {data}"


def best_rate(errors: Mapping[float, float | None]) -> float:
    """The rate with the lowest error, of several the lowest one; the lowest of all where every training diverged."""
    ranked = [(error, lr) for lr, error in errors.items() if error is not None]
    return min(ranked)[1] if ranked else min(errors)
