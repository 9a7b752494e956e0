"""What a comparison settles before torch is imported: seeds, learning rates, the row to test against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from class_uncertainty.checks import check_distinct, take
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.runs.rows import COUNTERPART

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
    """How learning rates were chosen, in words: on these data, or by folds."""
    return "by folds of the training split" if data is None else f"on the test split of {data}"


def best_rate(errors: Mapping[float, float | None]) -> float:
    """The rate with the lowest error, of several the lowest one; the lowest of all where every training diverged."""
    ranked = [(error, lr) for lr, error in errors.items() if error is not None]
    return min(ranked)[1] if ranked else min(errors)


MAX_SEEDS = 1000


def check_seeds(seeds: int | Sequence[int], alternative: str = ", or a list of seeds") -> list[int]:
    """Which seeds: given as a list, or as a number of them."""
    seeds = take(int | list[int], seeds=seeds)
    if not isinstance(seeds, int):
        check_distinct("seed", seeds)
        return list(seeds)
    if not 1 <= seeds <= MAX_SEEDS:
        raise InputError(f"seeds is {seeds}: it must be how many, from 1 to {MAX_SEEDS:,}{alternative}.")
    return list(range(seeds))


def check_against(against: str, methods: Sequence[str]) -> None:
    """Refuse to test against a row that is not compared."""
    if against not in (COUNTERPART, *methods):
        raise unknown("row to test against", against, [COUNTERPART, *methods])


def check_choose_on(choose_on: object, choose_lr: bool) -> None:
    """Refuse data to choose on where nothing is chosen."""
    if choose_on is not None and not choose_lr:
        raise InputError("choose_on is given, and no learning rates are chosen: add choose_lr.")


def check_choosing(lrs: Sequence[float] | None, seeds: Sequence[int]) -> None:
    """Refuse a choice between fewer than two learning rates, and to judge the networks that choose."""
    if lrs is None or len(lrs) < 2:
        given = "no learning rates are" if not lrs else "one learning rate is"
        raise InputError(f"{given} given to choose from: lrs needs two at least, as 0.1,0.4.")
    if CHOOSING_SEED in seeds:
        raise InputError(f"seed {CHOOSING_SEED} is that of the networks that choose the learning rates: give others.")
