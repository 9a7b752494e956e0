"""Measurement: the class vectors of an estimate. They are all that methods need of it, and small enough to exchange."""

from dataclasses import dataclass, field, replace

import numpy as np

from class_uncertainty.errors import unknown
from class_uncertainty.estimation import Estimate
from class_uncertainty.estimation.estimate import share_of
from class_uncertainty.measures import SCORES, Stats, Vector, class_means, normalise
from class_uncertainty.training import Recipe


@dataclass(frozen=True)
class Measurement:
    """How uncertain the members of an estimate are about each class, by every score."""

    estimator: str
    members: int  # of the estimate: networks, folds, snapshots or passes
    lr: float
    recipe: Recipe
    device: str
    cost: float  # in trainings of one network
    score: str  # the estimator's own
    raw: dict[str, tuple[float, ...]]  # (C,) class means of each score (Eq. 9)
    class_errors: tuple[float, ...] | None  # (C,) mean errors of the members, in percent
    seed: int = 0  # of the first member
    imported: bool = field(default=False, compare=False)  # by 'cu results import'

    def __post_init__(self) -> None:
        if self.score not in self.raw:
            raise unknown("score", self.score, self.raw)

    @classmethod
    def of(cls, estimate: Estimate) -> "Measurement":
        """The class vectors of an estimate whose members were trained."""
        first, classes = estimate.results[0], estimate.probabilities.shape[-1]
        raw = {}
        for score in (*SCORES, *estimate.extra_scores):
            means = class_means(estimate.using(score).uncertainty, estimate.labels, classes)
            raw[score] = tuple(map(float, means))
        errors = estimate.class_errors
        return cls(
            estimator=estimate.estimator,
            members=estimate.members,
            lr=first.lr,
            recipe=first.recipe,
            device=first.device,
            cost=estimate.cost,
            score=estimate.score,
            raw=raw,
            class_errors=None if errors is None else tuple(map(float, errors)),
            seed=first.seed,
        )

    def using(self, score: str) -> "Measurement":
        """The same networks read by another score."""
        return replace(self, score=score)

    @property
    def vector(self) -> Vector:
        """(C,) class means by the score (Eq. 9)."""
        return np.array(self.raw[self.score])

    @property
    def mu(self) -> Vector:
        """(C,) the same, normalised to sum 1 (Eq. 10)."""
        return normalise(self.vector)

    @property
    def epistemic_share(self) -> Vector | None:
        """(C,) the members' disagreement as a share of the predictive uncertainty; None where nothing disagrees."""
        if not {"epistemic", "predictive"} <= self.raw.keys():
            return None
        return share_of(*(np.array(self.raw[score]) for score in ("epistemic", "predictive")))

    def stats(self, counts: tuple[int, ...], score: str | None = None) -> Stats:
        """What methods need: counts, and the class uncertainties by a score, or by the estimator's own."""
        return Stats(counts, self.raw[score or self.score])


def class_vector(measured: Estimate | Measurement) -> Vector:
    """(C,) class means by its score (Eq. 9); of a measurement, only class vectors are stored."""
    return measured.raw if isinstance(measured, Estimate) else measured.vector
