"""What is measured and what has been trained, as rows of plain numbers: one a class, one a method."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from class_uncertainty.data import Dataset
from class_uncertainty.estimation import Estimate
from class_uncertainty.measures import MEASURES, Stats, constants_of, normalise
from class_uncertainty.methods import MAKERS, METHODS, parse_name
from class_uncertainty.metrics import rank_correlation
from class_uncertainty.posthoc.intervals import error_intervals
from class_uncertainty.runs.measurement import Measurement, class_vector
from class_uncertainty.runs.significance import (
    aso,
    corrected_confidence,
    gain_interval,
    paired_differences,
    tells_chance,
)
from class_uncertainty.training import Result

RANKS_APART = 2  # of rarity and uncertainty, at least, for a class to be harder or easier than its count suggests
IMPORTED = "imported"  # as a mark of results, and so is OLDER
OLDER = "older revision"
COUNTERPART = "counterpart"  # to test each uncertainty row against its row with cardinality


@dataclass(frozen=True)
class ClassRow:
    """One class by every measure. Ranks count from 1, the most under-represented; ties share their mean rank."""

    name: str
    count: int
    cardinality: float  # mu^C, sums to 1 over the classes
    effective: float  # sums to 1
    uncertainty: float  # mu^U, sums to 1
    raw: float  # mean uncertainty by the estimate's score, in nats where that is an entropy
    epistemic_share: float | None  # from 0 to 1; None where nothing disagrees
    rank_cardinality: float
    rank_effective: float
    rank_uncertainty: float
    error: float | None  # mean error of the networks that measured, in percent; None without test examples
    examples: int | None = None  # test examples that the error is of; None where they are not known
    low: float | None = None  # of the error's 95 % interval, by Clopper and Pearson, with groups by Korn and Graubard
    high: float | None = None

    @property
    def disagreement(self) -> float:
        """Above 0 the class is more uncertain than its count says, below 0 less."""
        return self.rank_cardinality - self.rank_uncertainty


def harder_and_easier(rows: Sequence[ClassRow]) -> dict[str, list[ClassRow]]:
    """The classes that are harder, and easier, than their counts suggest, those that are most so first.

    Uncertainty must rank them so, RANKS_APART from rarity, and the error must agree: its interval, or itself where that
    is not known, lies above the mean and the median class error, or below the mean. Of two classes, or equal counts,
    ranks say nothing.
    """
    judged = [row for row in rows if row.error is not None]
    if len(rows) < 3 or len({row.count for row in rows}) < 2 or not judged:
        return {"harder": [], "easier": []}
    errors = [row.error for row in judged if row.error is not None]
    mean, median = np.mean(errors), np.median(errors)
    ordered = sorted(judged, key=lambda row: -abs(row.disagreement))

    def bound(value: float | None, row: ClassRow) -> float:
        return (row.error or 0.0) if value is None else value

    return {
        "harder": [
            row for row in ordered if row.disagreement >= RANKS_APART and bound(row.low, row) > max(mean, median)
        ],
        "easier": [row for row in ordered if row.disagreement <= -RANKS_APART and bound(row.high, row) < mean],
    }


def class_rows(
    classes: Sequence[str], counts: Sequence[int], estimate: Estimate | Measurement, dataset: Dataset | None = None
) -> list[ClassRow]:
    """One a class, in their order; `dataset` is what the errors are of, where it can still be read."""
    raw = class_vector(estimate)
    mu = {name: normalise(MEASURES[name](Stats(counts))) for name in ("cardinality", "effective")}
    mu["uncertainty"] = estimate.mu
    ranks = {name: _ranks(values) for name, values in mu.items()}
    errors, shares = estimate.class_errors, estimate.epistemic_share
    class_errors: Sequence[float | None] = [None] * len(classes)
    intervals: Sequence[tuple[float | None, float | None]] = [(None, None)] * len(classes)
    examples = None
    if errors is not None:
        class_errors = [None if np.isnan(error) else float(error) for error in errors]
    if errors is not None and dataset is not None:
        examples = (dataset.test or dataset.train).counts
        ends = _intervals(dataset, estimate, errors)
        intervals = [ends[c] if examples[c] else (None, None) for c in range(len(classes))]
    return [
        ClassRow(
            name=name,
            count=int(counts[c]),
            **{measure: float(values[c]) for measure, values in mu.items()},
            raw=float(raw[c]),
            epistemic_share=None if shares is None else float(shares[c]),
            **{f"rank_{measure}": float(values[c]) for measure, values in ranks.items()},
            error=class_errors[c],
            examples=None if examples is None else int(examples[c]),
            low=intervals[c][0],
            high=intervals[c][1],
        )
        for c, name in enumerate(classes)
    ]


def knows_examples(dataset: Dataset, estimate: Estimate) -> bool:
    """Whether the networks of an estimate are those that judge the classes, example by example."""
    return dataset.test is None and estimate.estimator == "out-of-fold"


def _intervals(
    dataset: Dataset, estimate: Estimate | Measurement, errors: ArrayLike
) -> tuple[tuple[float, float], ...]:
    """(C,) of the errors. Where the estimate is not what judged the examples, nothing is known of single ones."""
    judged, wrong = dataset.test or dataset.train, None
    if isinstance(estimate, Estimate) and knows_examples(dataset, estimate):
        wrong = (estimate.probabilities.mean(axis=0).argmax(axis=1) != judged.labels).astype(np.float64)
    return error_intervals(errors, wrong, judged.labels, len(judged.classes), judged.group_codes)


def _ranks(values: NDArray) -> NDArray[np.float64]:
    from scipy.stats import rankdata

    return rankdata(-values)


def spearman(rows: Sequence[ClassRow], measure: str) -> float | None:
    """Spearman's rho of a measure and the class errors; None where errors are missing or one side is constant."""
    errors = [row.error for row in rows if row.error is not None]
    values = [getattr(row, measure) for row in rows if row.error is not None]
    return rank_correlation(values, errors) if errors else None


@dataclass(frozen=True)
class MethodRow:
    """One method at one learning rate over its seeds. Errors in percent; None where there is nothing to say."""

    method: str
    lr: float
    runs: int  # that did not diverge
    diverged: int
    collapsed: int  # that predict one class only
    error: float | None  # mean of the class errors
    error_sd: float | None  # sample standard deviation, None under two runs
    gain: float | None  # naive's error less this one's
    naive_lr: float | None  # learning rate of the naive runs behind `gain`
    top1_error: float | None  # over all test examples
    many: float | None
    medium: float | None
    few: float | None
    worst: float | None
    spread: float | None
    nll: float | None
    ece: float | None
    counterpart: str  # its row with cardinality in the place of uncertainty, "" if none
    aso: float | None  # epsilon_min against the row `aso_against`: better when under 0.5
    aso_against: str | None
    aso_warning: str | None
    cost: float = 1.0  # of one network in naive trainings, with those that measured the uncertainty it uses
    seedless: bool = False  # all seeds gave the same scores to the last digit: nothing is drawn
    has_rate: bool = True  # whether `lr` changes anything
    marks: tuple[str, ...] = ()  # what sets its runs apart, in a word or two
    compared_with: str | None = None  # the row that it was tested against, its counterpart or else naive
    compared_gain: float | None = None  # that row's error less this one's
    compared_low: float | None = None  # its paired t interval over the seeds, corrected for the number of tests
    compared_high: float | None = None

    @property
    def is_clear(self) -> bool | None:
        """Whether `compared_gain` is more than the chance of the seeds; None where they do not tell."""
        if self.compared_low is None or self.compared_high is None:
            return None
        return self.compared_low > 0 or self.compared_high < 0


@dataclass(frozen=True)
class _Runs:
    """The results by method and learning rate."""

    groups: dict[str, dict[float, list[Result]]]
    chosen: Mapping[str, float]  # the learning rate that was chosen for a method

    def rate(self, other: str, method: str, lr: float) -> float | None:
        """The learning rate of another method that a row is compared with; None where there is no such one.

        The rate chosen for the other, if the row is at the one chosen for it; else the row's; else the other's only.
        """
        rates = self.groups.get(other, {})
        if self.chosen.get(method) == lr and self.chosen.get(other) in rates:
            return self.chosen[other]
        return lr if lr in rates else next(iter(rates)) if len(rates) == 1 else None

    def beside(self, other: str, method: str, lr: float) -> list[Result]:
        """The results of another method that a row is compared with."""
        rate = self.rate(other, method, lr)
        return [] if rate is None else self.groups[other][rate]


GroupKey = tuple[str, str, float]  # method, plan, learning rate


def method_rows(
    results: Sequence[Result],
    measuring_cost: float = 0.0,
    against: str = COUNTERPART,
    chosen: Mapping[str, float] | None = None,
) -> list[MethodRow]:
    """In the order in which methods first appear; `measuring_cost` is that of the uncertainties some of them use.

    Rows are tested `against` their counterparts or one row, with the confidence corrected for the number of tests.
    `chosen` holds learning rates that were chosen for methods: rows at these are compared with each other.
    """
    groups: dict[GroupKey, list[Result]] = {}
    for result in results:  # a row that was redefined differs in its plan
        groups.setdefault((result.method, repr(sorted(result.plan.items())), result.lr), []).append(result)
    by_method: dict[str, dict[float, list[Result]]] = {}
    for (method, _, lr), group in groups.items():  # of a redefined row, what was stored last
        by_method.setdefault(method, {})[lr] = group
    runs = _Runs(by_method, chosen or {})
    pairs: dict[GroupKey, tuple[str, list[float]]] = {}
    gains: dict[GroupKey, _PairedGain] = {}
    for key, group in groups.items():
        method, _, lr = key
        other = _present(counterpart_of(method), by_method) if against == COUNTERPART else against
        beside = runs.beside(other, method, lr)
        sides = _group_errors(group), _group_errors(beside)
        if other != method and all(sides) and not all(map(is_constant, sides)):  # without chance, nothing to test
            pairs[key] = other, sides[1]
        if not sides[1] and against == COUNTERPART:
            other = "naive"
            beside = runs.beside(other, method, lr)
        if other != method and sides[0] and _group_errors(beside):
            gains[key] = _PairedGain.of(other, group, beside)
    confidence = corrected_confidence(len(pairs))
    gain_confidence = corrected_confidence(sum(tells_chance(gain.differences) for gain in gains.values()))
    rows = []
    for key, group in groups.items():
        row = _method_row(key, group, runs, pairs.get(key), confidence, measuring_cost)
        if key in gains:
            row = gains[key].added_to(row, gain_confidence)
        rows.append(row)
    return rows


@dataclass(frozen=True, eq=False)
class _PairedGain:
    """What a row gains over another one."""

    other: str
    gain: float  # over the seeds that both have or, where there are none, between the means
    differences: NDArray[np.float64]  # (n,) of the seeds that both have

    @classmethod
    def of(cls, other: str, group: Sequence[Result], beside: Sequence[Result]) -> "_PairedGain":
        differences = paired_differences(_errors_by_seed(group), _errors_by_seed(beside))
        if len(differences):
            gain = differences.mean()
        else:
            gain = np.mean(_group_errors(beside)) - np.mean(_group_errors(group))
        return cls(other, float(gain), differences)

    def added_to(self, row: MethodRow, confidence: float) -> MethodRow:
        """The row with the gain and, where the seeds tell chance, its interval."""
        row = replace(row, compared_with=self.other, compared_gain=self.gain)
        if not tells_chance(self.differences):
            return row
        low, high = gain_interval(self.differences, confidence)
        return replace(row, compared_low=low, compared_high=high)


def _present(counterpart: str, methods: Collection[str]) -> str:
    """The counterpart among the methods; where it is not there, the only one that differs in its constants alone."""
    if counterpart in methods:
        return counterpart
    plain = replace(parse_name(counterpart), constants=())
    alike = [name for name in methods if replace(parse_name(name), constants=()) == plain]
    return alike[0] if len(alike) == 1 else counterpart


def is_constant(errors: Sequence[float]) -> bool:
    """Whether every seed gave the same."""
    return len(errors) > 1 and len(set(errors)) == 1


def _group_errors(group: Sequence[Result]) -> list[float]:
    return [result.error for result in group if result.error is not None]


def _errors_by_seed(group: Sequence[Result]) -> dict[int, float]:
    return {result.seed: result.error for result in group if result.error is not None}


def _method_row(
    key: GroupKey,
    group: list[Result],
    runs: _Runs,
    pair: tuple[str, list[float]] | None,
    confidence: float,
    measuring_cost: float,
) -> MethodRow:
    method, _, lr = key
    scores = [result.scores for result in group if result.scores]
    group_errors = _group_errors(group)
    naive = _group_errors(runs.beside("naive", method, lr))
    order = aso(group_errors, pair[1], confidence) if pair else None

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
        collapsed=sum(result.collapsed for result in group),
        error_sd=float(np.std(group_errors, ddof=1)) if len(group_errors) > 1 else None,
        gain=float(np.mean(naive) - np.mean(group_errors)) if gains else None,
        naive_lr=runs.rate("naive", method, lr) if naive else None,
        **{name: mean(name) for name in means},
        counterpart=counterpart_of(method),
        aso=None if order is None else float(order),
        aso_against=pair[0] if pair else None,
        aso_warning=None if order is None else order.warning,
        cost=group[-1].cost + (measuring_cost if group[-1].uncertainty else 0.0),
        seedless=len(scores) > 1 and len({(score.error, score.nll) for score in scores}) == 1,
        has_rate=group[-1].recipe.has_rate,
        marks=result_marks(group),
        compared_with=None,  # _PairedGain adds it
    )


def result_marks(results: Sequence[Result]) -> tuple[str, ...]:
    """What sets the runs of a row apart, and how many they are where it is not all of them."""
    counts = {IMPORTED: sum(result.imported for result in results), OLDER: sum(result.is_older for result in results)}
    marks = []
    for mark, count in counts.items():
        if count == len(results) > 0:
            marks.append(mark)
        elif count:
            marks.append(f"{count} of {len(results)} runs {mark}")
    return tuple(marks)


def marked(name: str, marks: Sequence[str], shared: Collection[str] = ()) -> str:
    """The name of a row with its marks, but for those that all rows share."""
    own = [mark for mark in marks if mark not in shared]
    return f"{name} ({', '.join(own)})" if own else name


def shared_marks(marks: Sequence[Sequence[str]]) -> set[str]:
    """The marks that every row has."""
    return set.intersection(*map(set, marks)) if marks else set()


def counterpart_of(method: str) -> str:
    """The row without uncertainty that a row of METHODS is compared with, augmented alike; "" if there is none.

    For a row driven by a measure it is the row as it stands, unless that uses uncertainty itself. It keeps the
    constants that it takes.
    """
    name = parse_name(method)
    if name.row not in METHODS or name.networks is not None:
        return ""
    row = METHODS[name.row]
    counterpart = name.row if name.measure is not None and not row.uses_uncertainty else row.counterpart
    allowed = constants_of(counterpart, MAKERS)
    constants = tuple(constant for constant in name.constants if constant.partition("=")[0] in allowed)
    return str(replace(name, row=counterpart, measure=None, constants=constants)) if counterpart else ""
