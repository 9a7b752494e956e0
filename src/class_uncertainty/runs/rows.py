"""What is measured and what has been trained, as rows of plain numbers: one a class, one a method."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import MEASURES, Stats, normalise
from class_uncertainty.methods import METHODS, parse_name
from class_uncertainty.metrics import rank_correlation
from class_uncertainty.runs.significance import aso
from class_uncertainty.training import Result


@dataclass(frozen=True)
class ClassRow:
    """One class by every measure. Ranks count from 1, the most under-represented; ties share their mean rank."""

    name: str
    count: int
    cardinality: float  # mu^C, sums to 1 over the classes
    effective: float  # sums to 1
    uncertainty: float  # mu^U, sums to 1
    raw: float  # mean uncertainty by the estimate's score, in nats where that is an entropy
    epistemic_share: float | None  # from 0 to 1; None with one member
    rank_cardinality: float
    rank_effective: float
    rank_uncertainty: float
    error: float | None  # mean error of the networks that measured, in percent

    @property
    def disagreement(self) -> float:
        """Above 0 the class is harder than its count says, below 0 easier."""
        return self.rank_cardinality - self.rank_uncertainty


def class_rows(classes: Sequence[str], counts: Sequence[int], estimate: Estimate) -> list[ClassRow]:
    raw = estimate.raw
    mu = {name: normalise(MEASURES[name](Stats(counts))) for name in ("cardinality", "effective")}
    mu["uncertainty"] = estimate.mu
    ranks = {name: _ranks(values) for name, values in mu.items()}
    errors, shares = estimate.class_errors, estimate.epistemic_share
    return [
        ClassRow(
            name=name,
            count=int(counts[c]),
            **{measure: float(values[c]) for measure, values in mu.items()},
            raw=float(raw[c]),
            epistemic_share=None if shares is None else float(shares[c]),
            **{f"rank_{measure}": float(values[c]) for measure, values in ranks.items()},
            error=None if errors is None else float(errors[c]),
        )
        for c, name in enumerate(classes)
    ]


def _ranks(values: NDArray) -> NDArray[np.float64]:
    from scipy.stats import rankdata

    return rankdata(-values)


def spearman(rows: Sequence[ClassRow], measure: str) -> float | None:
    """Spearman's rho of a measure and the class errors; None where errors are missing or one side is constant."""
    values, errors = [getattr(row, measure) for row in rows], [row.error for row in rows if row.error is not None]
    return rank_correlation(values, errors) if len(errors) == len(values) else None


@dataclass(frozen=True)
class MethodRow:
    """One method at one learning rate over its seeds. Errors in percent; None where there is nothing to say."""

    method: str
    lr: float
    runs: int  # that did not diverge
    diverged: int
    error: float | None  # mean of the class errors
    error_sd: float | None  # sample standard deviation, None under two runs
    gain: float | None  # naive's error less this one's, at the same learning rate
    top1_error: float | None  # over all test examples
    many: float | None
    medium: float | None
    few: float | None
    worst: float | None
    spread: float | None
    nll: float | None
    ece: float | None
    counterpart: str  # its row with cardinality in the place of uncertainty, "" if none
    aso: float | None  # epsilon_min against the counterpart: better when under 0.5
    aso_warning: str | None
    cost: float = 1.0  # of one network in naive trainings, with those that measured the uncertainty it uses


def method_rows(results: Sequence[Result], measuring_cost: float = 0.0) -> list[MethodRow]:
    """In the order in which methods first appear; `measuring_cost` is that of the uncertainties some of them use."""
    groups: dict[tuple[str, str, float], list[Result]] = {}
    for result in results:  # a row that was redefined differs in its plan
        groups.setdefault((result.method, repr(sorted(result.plan.items())), result.lr), []).append(result)
    errors = {  # of a redefined row, what was stored last
        (method, lr): [result.error for result in group if result.error is not None]
        for (method, _, lr), group in groups.items()
    }
    return [_method_row(method, lr, group, errors, measuring_cost) for (method, _, lr), group in groups.items()]


def _method_row(
    method: str, lr: float, group: list[Result], errors: dict[tuple[str, float], list[float]], measuring_cost: float
) -> MethodRow:
    scores = [result.scores for result in group if result.scores]
    group_errors, naive = [score.error for score in scores], errors.get(("naive", lr), [])
    counterpart = counterpart_of(method)
    counterpart_errors = errors.get((counterpart, lr), [])
    order = aso(group_errors, counterpart_errors) if group_errors and counterpart_errors else None

    def mean(name: str) -> float | None:
        values = [value for score in scores if (value := getattr(score, name)) is not None]
        return float(np.mean(values)) if values else None

    gains = naive and group_errors and method != "naive"
    means = ("error", "top1_error", "many", "medium", "few", "worst", "spread", "nll", "ece")
    return MethodRow(
        method=method,
        lr=lr,
        runs=len(scores),
        diverged=sum(result.diverged is not None for result in group),
        error_sd=float(np.std(group_errors, ddof=1)) if len(group_errors) > 1 else None,
        gain=float(np.mean(naive) - np.mean(group_errors)) if gains else None,
        **{name: mean(name) for name in means},
        counterpart=counterpart,
        aso=None if order is None else float(order),
        aso_warning=None if order is None else order.warning,
        cost=group[-1].cost + (measuring_cost if group[-1].uncertainty else 0.0),
    )


def counterpart_of(method: str) -> str:
    """The row with cardinality in the place of uncertainty, with the same augmentations; "" if there is none."""
    name = parse_name(method)
    is_row = name.row in METHODS and name.measure is None and name.networks is None
    counterpart = METHODS[name.row].counterpart if is_row else ""
    return str(replace(name, row=counterpart)) if counterpart else ""
