"""ESTIMATORS, and estimate(), which turns what networks predict into class uncertainties."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from class_uncertainty.checks import check, check_fields, check_least
from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import from_file
from class_uncertainty.estimation.estimate import Diverged, Estimate, Estimator, read_by
from class_uncertainty.estimation.members import (
    bootstrap,
    duq,
    ensemble,
    ensemble_of,
    mc_dropout,
    online,
    out_of_fold,
    single,
    snapshot,
)
from class_uncertainty.measures import SCORES
from class_uncertainty.training import Lane, Recipe, default_recipe

if TYPE_CHECKING:
    from class_uncertainty.training.fit_result import Fit

MAX_MEMBERS = 1000
CHECKPOINTS: dict[str, Callable[[Recipe], Recipe]] = {"last": lambda recipe: recipe, "before-drop": Recipe.before_drop}

ESTIMATORS: dict[str, Estimator] = {
    "ensemble": ensemble,
    "bootstrap": bootstrap,
    "out-of-fold": out_of_fold,
    "single": single,
    "online": online,
    "snapshot": snapshot,
    "mc-dropout": mc_dropout,
    "duq": duq,
    from_file.NAME: from_file.file_estimator(""),
}
MAKERS: dict[str, Callable[[str], Estimator]] = {"ensemble": ensemble_of, from_file.NAME: from_file.file_estimator}


@dataclass(frozen=True)
class EstimateRequest:
    """Which estimate to make: an estimator, its members, a seed and a learning rate (the recipe's if None)."""

    estimator: str = "ensemble"
    members: int = 5
    seed: int = 0
    lr: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        fewest = self.row.fewest
        if not fewest <= self.members <= MAX_MEMBERS:
            allowed = f"for {self.estimator} it must be a whole number from {fewest} to {MAX_MEMBERS:,}"
            raise InputError(f"members is {self.members}: {allowed}.")

    @classmethod
    def usual(
        cls, estimator: str | None, members: int, lr: float | None = None, recipe: Recipe | None = None
    ) -> "EstimateRequest":
        """By that estimator or, where none is given, by the usual one of the recipe."""
        check(str | None, estimator=estimator)
        return cls(estimator or (recipe.measured_by if recipe else cls.estimator), members, lr=lr)

    @property
    def row(self) -> Estimator:
        """The row of ESTIMATORS; `ensemble:METHOD` and `probabilities:FILE` are rows of their own."""
        name, colon, argument = self.estimator.partition(":")
        if name not in ESTIMATORS or (colon and name not in MAKERS):
            raise unknown("estimator", self.estimator, ESTIMATORS)
        return MAKERS[name](argument) if colon else ESTIMATORS[name]

    @property
    def lanes(self) -> list[Lane]:
        """The lanes to train."""
        lanes = self.row.lanes(self.members, self.seed)
        return lanes if self.lr is None else [replace(lane, lr=self.lr) for lane in lanes]

    def counted(self, recipe: Recipe) -> int:
        """The members that its Estimate has: by this, two by one estimator are told apart."""
        row = self.row
        return row.counted(self.members, recipe) if row.counted else row.votes or self.members

    def check_score(self, score: str | None) -> None:
        """Refuse before training a score that does not exist, or that would be 0 for every example."""
        check(str | None, score=score)
        row = self.row
        if score is None or score in row.scores:
            return
        if score not in SCORES:
            raise unknown("score", score, dict.fromkeys([*SCORES, *row.scores]))
        if score.endswith("epistemic") and self.lanes and (row.votes or self.members) < 2:
            raise InputError(f"score {score!r} needs members that may disagree, and {self.estimator!r} asks only one.")


def estimate(
    data: Data | Dataset,
    estimator: str = "ensemble",
    members: int = 5,
    recipe: Recipe | None = None,
    seed: int = 0,
    *,
    score: str | None = None,
    checkpoint: str = "last",
    views: int = 0,
    **fit_options: Any,
) -> Estimate:
    """Estimate class uncertainty: train the networks of an estimator and let them predict the training examples.

    Parameters
    ----------
    data : Data or Dataset
        The training examples. The members are evaluated on the test split of a Dataset.
    estimator : str
        A key of ESTIMATORS, "ensemble:METHOD" for members that a method trains, or "probabilities:FILE" for what
        another program predicted.
    members : int
        Networks, folds or snapshots.
    recipe : Recipe, optional
        How to train; chosen by the data if not given.
    seed : int
        Of the first member.
    score : str, optional
        What counts as uncertain, a key of SCORES; the estimator's own score if not given.
    checkpoint : str
        "last" for the members at their last epoch, "before-drop" for those before the first drop of the learning rate.
    views : int
        Above 0, the probabilities of an example are means over so many random crops and flips.
    **fit_options
        Passed to `fit`: device, progress, done, checkpoints, every, budget, profile.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> data = cu.load("digits-lt:20")
    >>> estimate = cu.estimate(data.train, "single", recipe=cu.Recipe("small-conv", epochs=1, batch=32))
    >>> estimate.probabilities.shape, round(float(estimate.mu.sum()), 6)
    ((1, 405, 10), 1.0)
    """
    from class_uncertainty.training.fit import fit

    check(Data | Dataset, data=data)
    check(Recipe | None, recipe=recipe)
    check(str, checkpoint=checkpoint)
    request = EstimateRequest(estimator, members, seed)
    request.check_score(score)
    if checkpoint not in CHECKPOINTS:
        raise unknown("checkpoint", checkpoint, CHECKPOINTS)
    check_least("views", views, 0)
    if views and not request.row.views:
        raise InputError(f"views is {views}, and {estimator} takes no crops and flips: leave it out.")
    train, test = (data.train, data.test) if isinstance(data, Dataset) else (data, None)
    recipe = CHECKPOINTS[checkpoint](recipe or default_recipe(train))
    fitted = fit(train, request.lanes, recipe=recipe, test=test, **fit_options) if request.lanes else None
    return read_by(estimates_from(train, [request], fitted, views)[0], score)


def members_method(estimator: str) -> str:
    """The method that the members of an estimator are trained by."""
    name, _, argument = estimator.partition(":")
    return argument if argument and name == "ensemble" else "naive"


def estimates_from(
    train: Data, requests: Sequence[EstimateRequest], fitted: "Fit | None", views: int = 0
) -> list[Estimate | Diverged]:
    """The estimates of requests, from the fit of all their lanes together; None where they have no lanes."""
    estimates, first = list[Estimate | Diverged](), 0
    for request in requests:
        row, count = request.row, len(request.lanes)
        members = fitted.take(range(first, first + count)) if fitted else None
        results = tuple(members.results) if members else ()
        first += count
        if lost := next((result for result in results if result.diverged is not None), None):
            estimates.append(Diverged(request.estimator, lost.seed, lost.divergence))
            continue
        output = row.score(members, train, views)
        about = (results, row.natural, output.extra_scores, sum(result.cost for result in results))
        estimates.append(Estimate(request.estimator, output.probabilities, train.labels, *about))
    return estimates
