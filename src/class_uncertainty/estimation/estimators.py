"""ESTIMATORS, how estimates are named, and estimate(), which turns what networks predict into class uncertainties."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.checks import check, check_distinct, check_fields, check_least
from class_uncertainty.data import Data, Dataset
from class_uncertainty.data.readers.npz import read_arrays
from class_uncertainty.data.spec import split_argument
from class_uncertainty.errors import InputError, unknown
from class_uncertainty.estimation.estimate import Diverged, Estimate, Estimator, EstimatorOutput, read_by
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
from class_uncertainty.io import scratch_array
from class_uncertainty.measures import SCORES
from class_uncertainty.measures.uncertainty import checked_blocks
from class_uncertainty.training import Lane, Recipe, default_recipe

if TYPE_CHECKING:
    from class_uncertainty.training.fit_result import Fit

MAX_MEMBERS = 1000
CHECKPOINTS: dict[str, Callable[[Recipe], Recipe]] = {"last": lambda recipe: recipe, "before-drop": Recipe.before_drop}
SAVED = "probabilities"  # the estimator whose probabilities another program has saved
FILES = f"give {SAVED}:FILE, a .npy or .npz file"


def saved_estimator(path: str) -> Estimator:
    """An estimator that trains nothing: its probabilities are in the file."""

    def read(fitted: None, train: Data, views: int) -> EstimatorOutput:
        return EstimatorOutput(saved_probabilities(path, train))

    about = f"what another program has saved: {SAVED}:FILE, a .npy or .npz file with a row for each training example"
    return Estimator(about, lambda members, seed: [], read, views=False)


def saved_probabilities(path: str, train: Data) -> NDArray[np.float32]:
    """(T, N, C) from a .npy or .npz file of (N, C) or (T, N, C), with a row for each training example in order."""
    array = read_arrays(path, lambda loaded: _array(path, loaded), FILES)
    p = array[None] if array.ndim == 2 else array
    if p.ndim != 3 or p.shape[1:] != (len(train), len(train.classes)):
        allowed = f"({len(train)}, {len(train.classes)}), or several members of that"
        raise InputError(f"{path} has the shape {array.shape}: it must have (training examples, classes) = {allowed}.")
    probabilities = scratch_array(p.shape)
    for rows, block in checked_blocks(p):
        probabilities[:, rows] = block
    return probabilities


def _array(path: str, loaded: Any) -> NDArray:
    """The array of a .npy file; of a .npz file the one called "probabilities", or its only one."""
    if isinstance(loaded, np.ndarray):
        return loaded
    name = SAVED if SAVED in loaded.files or len(loaded.files) != 1 else loaded.files[0]
    if name not in loaded.files:
        raise InputError(f"{path} has arrays {', '.join(loaded.files) or 'none'}: one must be called {SAVED}.")
    array = loaded[name]
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is no .npy or .npz file of numbers.")
    return array


ESTIMATORS: dict[str, Estimator] = {
    "ensemble": ensemble,
    "bootstrap": bootstrap,
    "out-of-fold": out_of_fold,
    "single": single,
    "online": online,
    "snapshot": snapshot,
    "mc-dropout": mc_dropout,
    "duq": duq,
    SAVED: saved_estimator(""),
}
MAKERS: dict[str, Callable[[str], Estimator]] = {"ensemble": ensemble_of, SAVED: saved_estimator}


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
        forms = [f"{SAVED}:FILE" if name == SAVED else name for name in ESTIMATORS]
        name, argument = split_argument("estimator", self.estimator, [*forms, "ensemble:METHOD"])
        return MAKERS[name](argument) if argument else ESTIMATORS[name]

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


def compared_estimators(
    names: Sequence[str], members: int, rates: Sequence[float | None]
) -> tuple[dict[tuple[str, float | None], EstimateRequest], list[tuple[str, str]]]:
    """The estimates to make, and (estimator, score) of each row; refuses what there is not before data are read.

    An ensemble is among them always. The others have other seeds, so that no network is compared with itself.
    """
    check_distinct("estimator", names)
    check_distinct("learning rate", rates)
    wanted = [_split_score(name) for name in names]
    others = dict.fromkeys(name for name, _ in wanted if name != "ensemble")
    requests = {(name, lr): EstimateRequest(name, members, members, lr) for lr in rates for name in others}
    requests |= {("ensemble", lr): EstimateRequest("ensemble", members, 0, lr) for lr in rates}
    scored = [(name, score or requests[name, rates[0]].row.natural) for name, score in wanted]
    if (reference := ("ensemble", requests["ensemble", rates[0]].row.natural)) not in scored:
        scored.insert(0, reference)
    if repeated := next((pair for i, pair in enumerate(scored) if pair in scored[:i]), None):
        raise InputError(f"estimator {repeated[0]} is given twice by {repeated[1]}: each must be there once.")
    for name, score in scored:
        requests[name, rates[0]].check_score(score)
    return requests, scored


def _split_score(name: str) -> tuple[str, str]:
    """(estimator, score) of 'online=predictive'; the score is "" where none is given.

    Names of files and constants of methods may have '=' too.
    """
    estimator, equals, score = name.rpartition("=")
    if equals and not score:
        raise InputError(f"{name!r} names no score after its equals sign: give one, as in online=predictive.")
    kind, _, argument = estimator.partition(":")
    *others, last = argument.split(":")
    is_complete = kind == "ensemble" and ("=" in last or not others)  # a constant of its method has a value, if any
    return (estimator, score) if equals and (is_complete or not argument or score in SCORES) else (name, "")


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
