"""The steps from a naive network to the one that is kept, and the rungs on which candidates were dropped."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from class_uncertainty.posthoc.evaluation import Evaluation

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
