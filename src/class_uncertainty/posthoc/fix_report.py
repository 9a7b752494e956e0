"""FixReport: a data set's classifier before and after a fix, as one value that a store can keep."""

import base64
from collections.abc import Collection
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.metrics import Outcomes
from class_uncertainty.posthoc.diagnosis import BY_COST, WITHOUT_COSTS, Verdict
from class_uncertainty.posthoc.error_changes import ErrorChange, Price
from class_uncertainty.posthoc.evaluation import Evaluation
from class_uncertainty.posthoc.label_issues import LabelIssue

DEPLOYS = ("one", "ensemble")  # what may be kept: one network, or several together
NAIVE, ADJUSTED, SINGLE, ENSEMBLE, STUDENT = "naive", "adjusted", "best single", "ensemble", "student"  # the steps


@dataclass(frozen=True)
class Step:
    """One step of the ladder: what it is, how good it is, and what it costs to get there."""

    name: str  # one of those above
    candidate: str  # how its networks train
    networks: int  # that run for each prediction
    parameters: int  # of all of them
    trainings: float  # spent up to here, in naive trainings
    seconds: float  # the same, on this device
    unseen: float | None = None  # by the goal, on examples that its networks never saw; None where all were not judged
    unseen_error: float | None = None  # the standard error of that
    gain: float | None = None  # over the best single network, if that is a step, on the examples that both judge
    gain_error: float | None = None  # the paired standard error of that
    judged: Evaluation | None = None  # on the test split, or by folds; None where it was not trained
    values: tuple[float, ...] = ()  # by the goal, on the same examples, one a seed
    kept: bool = False


@dataclass(frozen=True)
class RungRow:
    """A candidate on a rung."""

    candidate: str
    trainings: float = 0.0
    seconds: float = 0.0
    value: float | None = None  # by the goal, on unseen examples
    standard_error: float | None = None
    behind: float | None = None  # the preferred one, and the paired standard error of that
    behind_error: float | None = None
    kept: bool = False
    reason: str = ""  # why it could not be judged


@dataclass(frozen=True)
class Rung:
    """Candidates that were judged alike, by networks that each left one of so many folds out."""

    folds: int
    examples: int  # that judge
    rows: tuple[RungRow, ...]

    @property
    def trainings(self) -> float:
        """Of all candidates, in naive ones."""
        return sum(row.trainings for row in self.rows)

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    def keeping(self, candidates: Collection[str]) -> "Rung":
        """The same where these candidates are kept as well, as those that are averaged in the end."""
        rows = (replace(row, kept=row.kept or row.candidate in candidates) for row in self.rows)
        return replace(self, rows=tuple(rows))


@dataclass(frozen=True)
class JudgedPredictions:
    """What one network says of each judged example, in the order of the data: arrays (N,) in base64."""

    guesses: str  # int32
    p_label: str  # float32
    p_guess: str

    def __post_init__(self) -> None:
        sizes = {len(base64.b64decode(text, validate=True)) for text in (self.guesses, self.p_label, self.p_guess)}
        if len(sizes) > 1 or sizes.pop() % 4:
            raise ValueError("there are not as many guesses as probabilities.")

    def __repr__(self) -> str:
        return f"JudgedPredictions({len(base64.b64decode(self.guesses)) // 4:,} examples)"

    @classmethod
    def of(cls, outcomes: Outcomes) -> "JudgedPredictions":
        values = ((outcomes.guesses, "<i4"), (outcomes.p_label, "<f4"), (outcomes.p_guess, "<f4"))
        return cls(*(base64.b64encode(array.astype(kind).tobytes()).decode() for array, kind in values))

    def outcomes(self, labels: NDArray[np.int64]) -> Outcomes:
        def array(text: str, kind: str) -> NDArray:
            return np.frombuffer(base64.b64decode(text), dtype=kind)

        p_label, p_guess = (array(text, "<f4").astype(np.float64) for text in (self.p_label, self.p_guess))
        return Outcomes(labels, array(self.guesses, "<i4").astype(np.int64), p_label, p_guess)


@dataclass(frozen=True)
class FixReport:
    """What was wrong, what was done and what has changed."""

    data: str
    goal: str  # as it was given
    aim: str  # what is to be low, in words
    unit: str  # of the goal's values
    method: str  # the candidate that was kept; of several kinds, the best
    step: str  # of the ladder that was kept
    why: str  # one sentence
    seeds: int  # trainings before, and after
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    tau: float  # of `method`
    temperature: float  # what the kept network's logits are divided by
    cost: float  # in trainings of one naive network
    allowed: float  # trainings
    before: Evaluation
    after: Evaluation
    price: Price
    ladder: tuple[Step, ...]
    rungs: tuple[Rung, ...] = ()
    findings: tuple[Verdict, ...] = ()  # on naive networks, one a class, from examples that they never saw
    folds: int = 0  # that judged before and after; 0 for a test split
    label_issues: tuple[LabelIssue, ...] = ()
    witnesses: int | None = None  # networks that judge labels; None where labels were not checked
    note: str = ""
    kind: str = ""  # of recipe and device
    lr: float | None = None  # of the naive networks
    predictions: JudgedPredictions | None = None  # of the first naive network, if kept
    taus: tuple[float, ...] = ()  # of all models that were kept, in the order of `candidate`
    keeps_naive: bool = False  # whether what was kept decides as the naive network

    def __repr__(self) -> str:
        return f"FixReport({self.data}: {self.in_short})"

    @property
    def in_short(self) -> str:
        """What the goal measures, before and after, and what is kept."""
        naive = next(step for step in self.ladder if step.name == NAIVE)
        if self.goal == "mean":
            before, after = (fmean(evaluation.errors) for evaluation in (self.before, self.after))
            changed = f"class-mean error {before:.1f} -> {after:.1f} %"
        else:
            digits, unit = (3, "") if self.by_cost else (1, " %")
            before, after = fmean(naive.values), fmean(self.kept_step.values)
            changed = f"{self.aim} {before:.{digits}f} -> {after:.{digits}f}{unit}"
        return f"{changed}, {self.candidate} ({self.step})"

    @property
    def kept_step(self) -> Step:
        """The step of the ladder that was kept."""
        return next(step for step in self.ladder if step.kept)

    @property
    def by_cost(self) -> bool:
        """Whether decisions are by costs, which have no unit."""
        return not self.unit

    @property
    def change(self) -> ErrorChange | None:
        """Of what the goal measures, with its interval; None for the worst classes."""
        return self.price.mean if self.goal == "mean" else self.price.goal

    @property
    def basis(self) -> str:
        """What errors and findings are of, where that is not the same; "" where it is."""
        return BY_COST if self.by_cost and self.findings else ""

    @property
    def without_costs(self) -> str:
        """What stands beside each finding then."""
        return WITHOUT_COSTS if self.basis else ""

    @property
    def candidate(self) -> str:
        """How the step that was kept trains; of several kinds, all of them."""
        return self.kept_step.candidate
