"""ESTIMATORS, the table, and estimate(), which turns what networks say into class uncertainties."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from class_uncertainty.boundary import checked
from class_uncertainty.data import Data, Dataset
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation import saved
from class_uncertainty.estimation.along import online, snapshot
from class_uncertainty.estimation.core import Estimate, Estimator
from class_uncertainty.estimation.duq import duq
from class_uncertainty.estimation.ensemble import bootstrap, ensemble, single
from class_uncertainty.estimation.mc_dropout import mc_dropout
from class_uncertainty.estimation.out_of_fold import out_of_fold
from class_uncertainty.measures import SCORES
from class_uncertainty.training import Lane, Recipe, default_recipe
from class_uncertainty.training.recipe import is_whole

MOST = 1000  # members
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
    saved.NAME: saved.reading(""),
}


@dataclass(frozen=True)
class Asked:
    """An estimate that is wanted."""

    estimator: str = "ensemble"
    members: int = 5
    seed: int = 0
    lr: float | None = None  # None: the recipe's

    def __post_init__(self) -> None:
        fewest = self.row.fewest
        if not is_whole(self.members) or not fewest <= self.members <= MOST:
            raise InputError(f"members is {self.members}: for {self.estimator} it must be a whole number from {fewest} to {MOST:,}.")

    @property
    def row(self) -> Estimator:
        name, _, path = self.estimator.partition(":")
        if name not in ESTIMATORS or (path and name != saved.NAME):
            raise unknown("estimator", self.estimator, ESTIMATORS)
        return saved.reading(path) if path else ESTIMATORS[name]

    @property
    def lanes(self) -> list[Lane]:
        """What it trains."""
        lanes = self.row.lanes(int(self.members), self.seed)
        return lanes if self.lr is None else [replace(lane, lr=self.lr) for lane in lanes]

    def check_score(self, score: str | None) -> None:
        """Say before the training that there is no such score, or that it would be 0 for every example."""
        if score is None:
            return
        if score not in (known := dict.fromkeys([*SCORES, *self.row.scores])):
            raise unknown("score", score, known)
        if score.endswith("epistemic") and score not in self.row.scores and self.lanes and self.row.said(self.members) < 2:
            raise InputError(
                f"score {score!r} is how far members disagree, and {self.estimator!r} asks one about each example: choose another."
            )


@dataclass(frozen=True)
class Diverged:
    """What there is in the place of an estimate of which a member's loss was no longer finite."""

    estimator: str
    seed: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.estimator}: the member of seed {self.seed} diverged in epoch {self.epoch}"


def read_by(found: Estimate | Diverged, score: str | None) -> Estimate:
    """An estimate by that score, or by its own; what diverged is refused."""
    if isinstance(found, Diverged):
        raise InputError(f"{found}: lower the learning rate.")
    return found.using(score) if score else found


@checked(passes_on="class_uncertainty.training.loop.fit", without=("train", "lanes", "test"))
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
    """Train the estimator's lanes and ask them about the training examples.

    An example's uncertainty is its `score`, a key of SCORES, or the estimator's natural one. Examples are shown as they are, or by the
    mean over `views` random crops and flips; to members that trained to their `last` epoch, or to the one `before-drop`, the first drop of
    the learning rate. `fit_options` go to fit(): device, progress, done and so on. With a Dataset the members are judged on its test split.
    """
    asked = Asked(estimator, members, seed)
    asked.check_score(score)
    (found,) = estimates(data, [asked], recipe, checkpoint=checkpoint, views=views, **fit_options)
    return read_by(found, score)


def estimates(
    data: Data | Dataset,
    asked: Sequence[Asked],
    recipe: Recipe | None = None,
    *,
    checkpoint: str = "last",
    views: int = 0,
    **fit_options: Any,
) -> "list[Estimate | Diverged]":
    """Several estimates, whose lanes train together."""
    from class_uncertainty.training.loop import fit

    wanted = [each.lanes for each in asked]
    if checkpoint not in CHECKPOINTS:
        raise unknown("checkpoint", checkpoint, CHECKPOINTS)
    if not is_whole(views) or views < 0:
        raise InputError(f"views is {views!r}: it must be a whole number from 0.")
    for each in asked:
        if views and not each.row.views:
            raise InputError(f"views is {views}, and {each.estimator} does not ask about crops and flips: leave it out.")
    train, test = (data.train, data.test) if isinstance(data, Dataset) else (data, None)
    recipe = CHECKPOINTS[checkpoint](recipe or default_recipe(train))
    lanes = [lane for some in wanted for lane in some]
    fitted = fit(train, lanes, recipe=recipe, test=test, **fit_options) if lanes else None
    found: list[Estimate | Diverged] = []
    at = 0
    for each, some in zip(asked, wanted, strict=True):
        own = fitted.take(range(at, at + len(some))) if fitted else None
        results = tuple(own.results) if own else ()
        at += len(some)
        lost = next((result for result in results if result.diverged is not None), None)
        if lost:
            found.append(Diverged(each.estimator, lost.seed, lost.diverged or 0))
            continue
        said, cost = each.row.score(own, train, int(views)), each.row.effort * len(some)
        found.append(Estimate(each.estimator, said.probabilities, train.labels, results, each.row.natural, said.own, cost))
    return found
