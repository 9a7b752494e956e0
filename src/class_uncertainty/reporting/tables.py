"""What the tables, the figures and the report show, as rows of plain numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Dataset
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import MEASURES, Stats, normalise
from class_uncertainty.methods import METHODS
from class_uncertainty.metrics import rank_correlation
from class_uncertainty.remedies.diagnosis import Mended
from class_uncertainty.results import aso
from class_uncertainty.training import Result


def judged(folds: int) -> str:
    """How errors came about where there is no test split."""
    return f"There is no test split: errors come from {folds} stratified folds, each example judged by a network that never saw it."


def duplicated(dataset: Dataset) -> str:
    """That a network may have seen what it is judged on; "" where it has not."""
    n, test = dataset.duplicates, dataset.test
    if not n:
        return ""
    if test is not None:
        return f"{n:,} of the {len(test):,} test examples {'is' if n == 1 else 'are'} in the training split too, to the last value."
    what = "repeats another" if n == 1 else "repeat others"
    return f"{n:,} of the {len(dataset.train):,} examples {what} to the last value: a fold may know them from the others."


@dataclass(frozen=True)
class ClassRow:
    """One class, by every measure. Ranks count from 1 = most under-represented; equal values share the mean of their ranks."""

    name: str
    count: int
    cardinality: float  # mu^C, sums to 1 over the classes
    effective: float  # sums to 1
    uncertainty: float  # mu^U, sums to 1
    raw: float  # mean uncertainty, by the estimate's score: in nats where that is an entropy
    epistemic_share: float | None  # from 0 to 1; None where there is one member
    rank_cardinality: float
    rank_effective: float
    rank_uncertainty: float
    error: float | None  # mean test error of the networks that measured, in percent

    @property
    def disagreement(self) -> float:
        """Above 0: harder than its count says. Below 0: easier."""
        return self.rank_cardinality - self.rank_uncertainty


def class_rows(classes: Sequence[str], counts: Sequence[int], estimate: Estimate) -> list[ClassRow]:
    mu = {name: normalise(MEASURES[name](Stats(counts))) for name in ("cardinality", "effective")} | {"uncertainty": estimate.mu}
    ranks = {name: _ranks(values) for name, values in mu.items()}
    errors = estimate.class_errors
    return [
        ClassRow(
            name=name,
            count=int(counts[c]),
            **{measure: float(values[c]) for measure, values in mu.items()},
            raw=float(estimate.raw[c]),
            epistemic_share=None if estimate.epistemic_share is None else float(estimate.epistemic_share[c]),
            **{f"rank_{measure}": float(values[c]) for measure, values in ranks.items()},
            error=None if errors is None else float(errors[c]),
        )
        for c, name in enumerate(classes)
    ]


def _ranks(values: NDArray) -> NDArray:
    from scipy.stats import rankdata

    return rankdata(-values)


def spearman(rows: Sequence[ClassRow], measure: str) -> float | None:
    """Spearman's rho between a measure and the class errors; None where errors are missing or one side is constant."""
    values, errors = [getattr(row, measure) for row in rows], [row.error for row in rows if row.error is not None]
    return rank_correlation(values, errors) if len(errors) == len(values) else None


@dataclass(frozen=True)
class MethodRow:
    """One method at one learning rate over its seeds. Errors in percent; None where there is nothing to say."""

    method: str
    lr: float
    runs: int  # that did not diverge
    diverged: int
    error: float | None  # class-mean: each class counts the same, however many test examples it has
    error_sd: float | None  # sample standard deviation, None under two runs
    gain: float | None  # naive's error less this one's, at the same learning rate
    top1: float | None  # error over all test examples
    many: float | None
    medium: float | None
    few: float | None
    worst: float | None
    spread: float | None
    nll: float | None
    ece: float | None
    counterpart: str  # its row with cardinality in uncertainty's place, "" if none
    aso: float | None  # epsilon_min against the counterpart: better when under 0.5
    aso_warning: str | None
    cost: float = 1.0  # of one of its networks, in naive trainings, with those that measured what it uses


Key = tuple[str, str, float]  # method, its fields in words (a row may have been redefined), learning rate


def method_rows(results: Sequence[Result], measured: float = 0.0) -> list[MethodRow]:
    """In the order the methods first appear; `measured` is what the uncertainties cost that some of them use."""
    groups: dict[Key, list[Result]] = {}
    for result in results:
        groups.setdefault((result.method, repr(sorted(result.plan.items())), result.lr), []).append(result)
    errors: dict[tuple[str, float], list[float]] = {}
    for (method, _, lr), group in groups.items():  # of a redefined row, what was stored last
        errors[method, lr] = [result.class_mean_error for result in group if result.scores]
    return [_method_row(method, lr, group, errors, measured) for (method, _, lr), group in groups.items()]


def _method_row(method: str, lr: float, group: list[Result], errors: dict[tuple[str, float], list[float]], measured: float) -> MethodRow:
    mine = [result.class_mean_error for result in group if result.scores]
    good = [result.scores for result in group if result.scores]
    naive = errors.get(("naive", lr), [])
    row, plus, augmentations = method.partition("+")
    counterpart = METHODS[row].counterpart if row in METHODS else ""
    counterpart += plus + augmentations if counterpart else ""
    theirs = errors.get((counterpart, lr), [])
    order = aso(mine, theirs) if mine and theirs else None

    def mean(name: str) -> float | None:
        values = [value for scores in good if (value := getattr(scores, name)) is not None]
        return float(np.mean(values)) if values else None

    return MethodRow(
        method=method,
        lr=lr,
        runs=len(good),
        diverged=sum(result.diverged is not None for result in group),
        error=mean("class_mean_error"),
        error_sd=float(np.std(mine, ddof=1)) if len(mine) > 1 else None,
        gain=float(np.mean(naive) - np.mean(mine)) if naive and mine and method != "naive" else None,
        top1=mean("error"),
        **{name: mean(name) for name in ("many", "medium", "few", "worst", "spread", "nll", "ece")},
        counterpart=counterpart,
        aso=None if order is None else float(order),
        aso_warning=None if order is None else order.warning,
        cost=group[-1].cost + (measured if group[-1].uncertainty else 0.0),
    )


@dataclass(frozen=True)
class Picture:
    """A training image that the networks were most, or least, uncertain about."""

    label: str
    guess: str  # the members' mean prediction
    uncertainty: float
    pixels: NDArray[np.uint8]  # (channels, H, W)


@dataclass(frozen=True)
class Gallery:
    """Pictures of one of the worst classes."""

    label: str
    most: tuple[Picture, ...]
    least: tuple[Picture, ...]


@dataclass(frozen=True)
class Section:
    """All that is stored of one data set. `note` says how it was judged and what is missing, "" if there is nothing to say."""

    name: str
    classes: tuple[ClassRow, ...]
    methods: tuple[MethodRow, ...]
    members: int  # of the estimate that measured, 0 if none did
    galleries: tuple[Gallery, ...] = ()
    note: str = ""
    estimator: str = "ensemble"
    score: str = "predictive"
    mended: Mended | None = None

    @property
    def unit(self) -> str:
        """Of the uncertainties."""
        return " nats" if self.score in ("predictive", "aleatoric", "epistemic") else ""
